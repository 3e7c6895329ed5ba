"""One sequence alone: the decode step at batch 1 and the shortest context of each source.

For every accelerator and model only the fewest devices that were measured. Kinds:
``kernels`` is the sum of `decode_steps` (with `head_time` where it was measured);
``end to end`` is a decode step of a running engine; ``whole request`` is the time of a
request divided by its output tokens, so that its prefill is in it.
"""


def batch_one(decode_steps, end_to_end):
    """Return the rows of ``batch_one.csv``, chosen from the two larger tables."""
    rows = [_from_kernels(row) for row in decode_steps if row["batch_size"] == 1]
    rows += [_from_engine(row) for row in end_to_end if row["concurrency"] == 1 and _alone(row)]
    best = {}
    for row in rows:
        group = tuple(row[column] for column in ("accelerator", "model", "kind", "engine"))
        order = tuple(row[column] for column in ("tensor_parallel", "input_tokens", "output_tokens"))
        if group not in best or order < best[group][0]:
            best[group] = order, row
    return [row for _, row in best.values()]


def _alone(row):
    return row["quantity"] in ("decode_step", "batch_latency")


def _from_kernels(row):
    return {
        **{column: row[column] for column in ("accelerator", "model", "tensor_parallel", "source")},
        "kind": "kernels",
        "engine": row["attention"],
        "input_tokens": row["context"],
        "output_tokens": 1,
        "time": row["time"] + (row["head_time"] or 0.0),
    }


def _from_engine(row):
    whole = row["quantity"] == "batch_latency"
    columns = ("accelerator", "model", "tensor_parallel", "engine", "input_tokens", "output_tokens", "source")
    return {
        **{column: row[column] for column in columns},
        "kind": "whole request" if whole else "end to end",
        "time": row["value"] / row["output_tokens"] if whole else row["value"],
    }
