"""Write derived rows as text that is the same on every run."""

import csv
import io
import statistics

COLUMNS = {
    "decode_steps": (
        *("accelerator", "model", "tensor_parallel", "attention", "batch_size", "context"),
        *("time", "attention_time", "linear_time", "head_time", "source"),
    ),
    "end_to_end": (
        *("accelerator", "model", "engine", "version", "precision", "tensor_parallel"),
        *("load", "concurrency", "input_tokens", "output_tokens"),
        *("quantity", "value", "spread", "n", "fits", "source"),
    ),
    "all_reduce": ("node", "accelerator", "workers", "message_bytes", "time", "spread", "n", "source"),
    "batch_one": (
        *("accelerator", "model", "tensor_parallel", "kind", "engine"),
        *("input_tokens", "output_tokens", "time", "source"),
    ),
    "lengths": ("workload", "quantity", "level", "tokens", "source"),
    "workloads": (
        *("workload", "n", "left_out", "prompt_mean", "prompt_cv", "output_mean", "output_cv"),
        *("rank_correlation", "source"),
    ),
    "arrivals": (
        *("workload", "scope", "n", "duration", "rate", "cv", "cv_low", "cv_high", "longest_gap"),
        *("dispersion_1s", "dispersion_10s", "dispersion_60s", "source"),
    ),
    "measurement_sources": (
        *("source", "citation", "repository", "path", "commit", "licence", "file", "change"),
        *("rows_in_file", "rows_used", "rows_dropped", "why_dropped"),
    ),
}
MEASURED = {
    *("time", "attention_time", "linear_time", "head_time", "value", "spread", "source", "tokens"),
    *("left_out", "prompt_mean", "prompt_cv", "output_mean", "output_cv", "rank_correlation"),
    *("duration", "rate", "cv", "cv_low", "cv_high", "longest_gap"),
    *("dispersion_1s", "dispersion_10s", "dispersion_60s"),
}


def text(name, rows):
    """Return one table as CSV text: sorted by what was set, times to 4 significant digits."""
    columns = COLUMNS[name]
    keys = [column for column in columns if column not in MEASURED or column == "source"]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in sorted(rows, key=lambda row: [row[key] for key in keys]):
        writer.writerow({column: cell(row.get(column, "")) for column in columns})
    return out.getvalue()


def cell(value):
    """Return a value as text: whole numbers whole, others to 4 significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def spread(values):
    """Return the interquartile range of repeats, or an empty text for fewer than 3."""
    if len(values) < 3:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low
