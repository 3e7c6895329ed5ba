"""Replay a recorded run of an engine in the simulator, and hold the latencies of the two side by side.

    python -m lib.replay REQUESTS.csv --kv-tokens 41408 --kernels FOLDER --layers 32 --save TABLE.csv

`REQUESTS.csv` has a line for each request. Times are s, lengths tokens.
"""

import argparse
import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from lib import arguments, engines
from lib.batching import ContinuousBatching
from lib.kernel_table import KernelTable, kernel_table_in, vllm_graph_sizes
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.trace import Trace

ENGINES = ("vllm", "tgi", "sglang")
PERCENTILES = (50, 90, 95, 99)
METRICS = ("TTFT", "TPOT", "latency")
HOST_TIMES = np.arange(0, 10.25e-3, 0.5e-3)
# what a column may be called, and whether a run can do without it
_NAMES = {
    "arrival_time": ("arrival_time", "arrival_s"),
    "prompt_length": ("prompt_length", "input_toks"),
    "output_length": ("output_length", "output_toks"),
    "first_token_time": ("first_token_time", "first_token_s"),
    "last_token_time": ("last_token_time", "last_token_s"),
    "cached_length": ("cached_length",),
}
_NEEDED = ("arrival_time", "prompt_length", "output_length")
_LEAST = {"prompt_length": 1, "output_length": 1}


class RecordedRun(NamedTuple):
    """What was asked of an engine and, where it was recorded, what became of it; in order of arrival.

    Attributes
    ----------
    requests : Trace
    cached_length : ndarray of int, shape (n,)
        Tokens of each prompt that the engine found in its cache, 0 where nobody recorded them.
    first_token_time, last_token_time : ndarray, shape (n,), or None
        When the engine gave them, s, on the clock of the arrivals.
    """

    requests: Trace
    cached_length: np.ndarray
    first_token_time: np.ndarray | None
    last_token_time: np.ndarray | None


class LatencyRow(NamedTuple):
    """One line of a latency table.

    Attributes
    ----------
    metric, statistic : str
        "TTFT", "TPOT", "latency" and "mean", "p50" and so on; or "makespan" and "whole".
    predicted : float
        Of the replay, s.
    recorded, low, high : float
        Of the record, s, and the ends of its 95 % interval; NaN where there is none.
    """

    metric: str
    statistic: str
    predicted: float
    recorded: float
    low: float
    high: float


def recorded_run(file):
    """Return the run in a CSV file.

    Parameters
    ----------
    file : Path
        Columns ``arrival_time``, ``prompt_length``, ``output_length`` and, where recorded, ``first_token_time``,
        ``last_token_time``, ``cached_length``. The names of LLMServingSim will do: ``arrival_s``, ``input_toks``,
        ``output_toks``, ``first_token_s``, ``last_token_s``. Other columns are ignored.

    Returns
    -------
    RecordedRun

    Raises
    ------
    ValueError
        If a column is missing, or a line is not what its columns hold; the message names file and line.
    """
    with open(file, newline="", encoding="utf-8") as opened:
        read = csv.DictReader(opened)
        header = read.fieldnames or []
        columns = {key: next((name for name in names if name in header), None) for key, names in _NAMES.items()}
        for key in _NEEDED:
            if columns[key] is None:
                raise ValueError(f"{file.name} must have the column {' or '.join(_NAMES[key])}, got {', '.join(header)}")
        columns = {key: name for key, name in columns.items() if name}
        rows = [
            [_cell(f"{file.name} line {line}", key, row[name]) for key, name in columns.items()]
            for line, row in enumerate(read, start=2)
        ]
    if not rows:
        raise ValueError(f"{file.name} must hold requests, got none")
    found = dict(zip(columns, np.array(rows).T, strict=True))
    order = np.argsort(found["arrival_time"], kind="stable")
    found = {key: values[order] for key, values in found.items()}
    lengths = [found[key].astype(int) for key in ("prompt_length", "output_length")]
    return RecordedRun(
        Trace(found["arrival_time"], *lengths),
        found.get("cached_length", np.zeros(len(order))).astype(int),
        found.get("first_token_time"),
        found.get("last_token_time"),
    )


def _cell(where, key, text):
    whole, least = key.endswith("length"), _LEAST.get(key, 0)
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = np.nan
    if not least <= value < np.inf or (whole and value != round(value)):
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{where}: {key} must be {kind} of at least {least}, got {text!r}")
    return value


def latencies(requests, first_token_time, last_token_time):
    """Return the latencies of a run.

    Parameters
    ----------
    requests : Trace
    first_token_time, last_token_time : array_like, shape (n,)
        Seconds.

    Returns
    -------
    dict of str to ndarray
        "TTFT": arrival to first token; "TPOT": from there to the last, over the tokens between, only for outputs of at
        least two; "latency": arrival to last token.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("requests", requests, Trace)
    arrival, output = np.asarray(requests.arrival_time), np.asarray(requests.output_length)
    first = arguments.array("first_token_time", first_token_time, infinite=True)
    last = arguments.array("last_token_time", last_token_time, infinite=True)
    for name, values in (("first_token_time", first), ("last_token_time", last)):
        if values.shape != arrival.shape:
            raise ValueError(f"{name} must have the shape of the requests, {arrival.shape}, got {values.shape}")
    served = np.isfinite(last)
    many = served & (output > 1)
    return {
        "TTFT": (first - arrival)[served],
        "TPOT": (last - first)[many] / (output[many] - 1),
        "latency": (last - arrival)[served],
    }


def replayed_run(run, policy, step_time, *, progress=False):
    """Return what the simulator makes of a recorded run.

    Parameters
    ----------
    run : RecordedRun
    policy : ContinuousBatching
    step_time : KernelTable, AffineStep or callable
        As in `lib.simulation.simulate`.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    lib.simulation.Run

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("run", run, RecordedRun)
    return simulate(run.requests, policy, step_time, cached_length=run.cached_length, progress=progress)


def latency_table(run, replayed):
    """Return the latencies of a replay beside those of the record.

    Parameters
    ----------
    run : RecordedRun
    replayed : lib.simulation.Run
        Of the same requests.

    Returns
    -------
    list of LatencyRow
        Makespan; then mean and percentiles of each metric.

    Raises
    ------
    ValueError
        If the two are not of the same requests.

    Notes
    -----
    The interval of a percentile lies between two order statistics, by the binomial law; that of a mean is two
    standard errors each way. Both take requests for independent. Requests that queue behind each other are not, so
    the true intervals are wider. A percentile that too few requests lie beyond has no upper end: infinity.
    """
    arguments.record("run", run, RecordedRun)
    if not np.array_equal(run.requests.arrival_time, replayed.arrival_time):
        raise ValueError(f"replayed must be of the same requests, got {len(replayed.arrival_time)} others")
    mine = latencies(run.requests, replayed.first_token_time, replayed.finish_time)
    known = run.first_token_time is not None and run.last_token_time is not None
    seen = latencies(run.requests, run.first_token_time, run.last_token_time) if known else {}
    start = run.requests.arrival_time[0]
    ended = replayed.finish_time[np.isfinite(replayed.finish_time)]
    whole = np.nan if run.last_token_time is None else run.last_token_time.max() - start
    rows = [LatencyRow("makespan", "whole", float(ended.max() - start), float(whole), np.nan, np.nan)]
    for metric in METRICS:
        rows += [
            LatencyRow(metric, statistic, value(mine[metric])[0], *(value(seen[metric]) if known else [np.nan] * 3))
            for statistic, value in _STATISTICS.items()
        ]
    return rows


def _mean(values):
    error = 2 * values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return float(values.mean()), float(values.mean() - error), float(values.mean() + error)


def _percentile(share):
    def found(values):
        ordered = np.sort(values)
        low, high = (int(rank) for rank in binom.ppf((0.025, 0.975), values.size, share))
        return (
            float(np.quantile(values, share)),
            float(ordered[low - 1]) if low else -np.inf,
            float(ordered[high]) if high < values.size else np.inf,
        )

    return found


_STATISTICS = {"mean": _mean} | {f"p{percent}": _percentile(percent / 100) for percent in PERCENTILES}


def fitted_host_time(run, policy, kernels, *, share=0.1, progress=False):
    """Return the time of the host in an iteration that reads prompts, as the beginning of a recorded run shows it.

    Parameters
    ----------
    run : RecordedRun
        With recorded times.
    policy : ContinuousBatching
    kernels : KernelTable
        Its own `prompt_host_time` does not count.
    share : float
        Of the makespan, above 0, at most 1: nothing that happened later is looked at.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    float
        Seconds: the one of `HOST_TIMES` whose replay has the least median distance to the first and last tokens that
        the record has in that time.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or nothing was recorded in that time.
    """
    arguments.record("run", run, RecordedRun)
    arguments.record("policy", policy, ContinuousBatching)
    arguments.record("kernels", kernels, KernelTable)
    share = arguments.number("share", share, above=0, most=1)
    if run.first_token_time is None or run.last_token_time is None:
        raise ValueError("run must have recorded times, got none")
    start = run.requests.arrival_time[0]
    end = start + share * (run.last_token_time.max() - start)
    here = run.requests.arrival_time <= end  # nobody who comes later changes what happened before
    begun = run._replace(
        requests=Trace(*(column[here] for column in run.requests)), cached_length=run.cached_length[here]
    )
    firsts, lasts = (times[here] <= end for times in (run.first_token_time, run.last_token_time))
    recorded = np.concatenate([run.first_token_time[here][firsts], run.last_token_time[here][lasts]])
    if not recorded.size:
        raise ValueError(f"share must reach a recorded token, got {share:g} of the run, which ends at {end:g} s")
    distances = []
    for host_time in _shown(HOST_TIMES, progress):
        made = replayed_run(begun, policy, replace(kernels, prompt_host_time=float(host_time)))
        simulated = np.concatenate([made.first_token_time[firsts], made.finish_time[lasts]])
        distances.append(np.median(np.abs(simulated - recorded)))
    return float(HOST_TIMES[np.argmin(distances)])


def _shown(values, progress):
    if not progress:
        return values
    from tqdm.auto import tqdm

    return tqdm(values, unit="replay")


def _printed(rows):
    """Return a latency table as text."""
    lines = [f"{'':18}{'predicted':>12}{'recorded':>12}{'error':>9}   95 % of the record"]
    for row in rows:
        scale, unit = (1e3, "ms") if row.metric == "TPOT" else (1.0, "s")
        cells = f"{row.metric + ' ' + row.statistic:18}{scale * row.predicted:9.4g} {unit:2}"
        if np.isfinite(row.recorded):
            cells += f"{scale * row.recorded:9.4g} {unit:2}{100 * (row.predicted / row.recorded - 1):+7.1f} %"
            if not np.isnan(row.low):
                cells += f"   {scale * row.low:.4g} to {scale * row.high:.4g} {unit}"
        lines.append(cells)
    return "\n".join(lines)


def save(rows, file):
    """Write a latency table as CSV: a line a row, s, empty where nothing is known.

    Parameters
    ----------
    rows : list of LatencyRow
    file : Path
    """
    with open(file, "w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([*LatencyRow._fields, "error"])
        for row in rows:
            numbers = [*row[2:], row.predicted / row.recorded - 1]
            writer.writerow([*row[:2], *(f"{value:.6g}" if np.isfinite(value) else "" for value in numbers)])


def _policy(chosen):
    if chosen.engine == "vllm":
        return engines.vllm(
            chosen.kv_tokens, max_num_seqs=chosen.max_num_seqs,
            max_num_batched_tokens=chosen.max_num_batched_tokens, block_size=chosen.block_size,
            async_scheduling=not chosen.no_async_scheduling,
        )  # fmt: skip
    if chosen.engine == "tgi":
        return engines.tgi(
            chosen.kv_tokens, max_batch_size=chosen.max_num_seqs,
            max_batch_prefill_tokens=chosen.max_num_batched_tokens,
        )  # fmt: skip
    return engines.sglang(
        chosen.kv_tokens, max_running_requests=chosen.max_num_seqs, chunked_prefill_size=chosen.max_num_batched_tokens
    )


def _step(chosen):
    if chosen.affine:
        names = ("fixed", "per_sequence", "per_context_token", "per_prompt_token", "per_prompt_pair")
        return AffineStep(**dict(zip(names, chosen.affine, strict=False)))
    sizes = vllm_graph_sizes(chosen.max_num_seqs) if chosen.engine == "vllm" else ()
    return kernel_table_in(chosen.kernels, chosen.layers, graph_sizes=sizes, prompt_host_time=chosen.host_time)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m lib.replay", description=__doc__.splitlines()[0],
        epilog="Columns of REQUESTS.csv: arrival_time, prompt_length, output_length; where recorded, first_token_time,"
        " last_token_time, cached_length. Times in s, lengths in tokens.",
    )  # fmt: skip
    parser.add_argument("requests", type=Path, metavar="REQUESTS.csv", help="a line for each request")
    parser.add_argument("--engine", choices=ENGINES, default="vllm", help="whose scheduling rules (default: vllm)")
    parser.add_argument("--kv-tokens", type=int, required=True, help="tokens of context that fit into memory")
    parser.add_argument("--max-num-seqs", type=int, default=256, help="most sequences at once (default: 256)")
    parser.add_argument(
        "--max-num-batched-tokens", type=int, default=2048, help="most tokens in an iteration (default: 2048)"
    )
    parser.add_argument("--block-size", type=int, default=16, help="tokens of a block, vllm only (default: 16)")
    parser.add_argument("--no-async-scheduling", action="store_true", help="vllm only: plan when an iteration has ended")
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--kernels", type=Path, metavar="FOLDER", help="attention, dense and per_sequence tables, CSV")
    step.add_argument(
        "--affine", type=float, nargs="+", metavar="S",
        help="seconds an iteration, and for each sequence, token of context, token of a prompt, pair of such tokens",
    )  # fmt: skip
    parser.add_argument("--layers", type=int, default=32, help="layers of the model, for --kernels (default: 32)")
    parser.add_argument(
        "--host-time", type=float, default=0.0, metavar="S", help="host time of an iteration with prompts, for --kernels"
    )
    parser.add_argument(
        "--fit-host-time", type=float, metavar="SHARE", help="estimate it from this share of the record instead"
    )
    parser.add_argument("--save", type=Path, metavar="TABLE.csv", help="write the latency table")
    return parser


def main(words=None):
    """Replay a run as the command line asks, print the latency table, and save it.

    Parameters
    ----------
    words : list of str, optional
        Arguments; those of the process if left out.

    Returns
    -------
    int
        0, or 2 if something was refused: the reason goes to the error stream.
    """
    chosen = _parser().parse_args(words)
    progress = sys.stderr.isatty()
    try:
        if chosen.affine and (len(chosen.affine) > 5 or chosen.fit_host_time is not None):
            raise ValueError("--affine must have at most 5 numbers and goes without --fit-host-time")
        run, policy, step = recorded_run(chosen.requests), _policy(chosen), _step(chosen)
        if chosen.fit_host_time is not None:
            host_time = fitted_host_time(run, policy, step, share=chosen.fit_host_time, progress=progress)
            step = replace(step, prompt_host_time=host_time)
            print(f"host time of an iteration with prompts: {1e3 * host_time:g} ms")
        replayed = replayed_run(run, policy, step, progress=progress)
        rows = latency_table(run, replayed)
    except (OSError, ValueError) as refused:
        print(f"replay: {refused}", file=sys.stderr)
        return 2
    refused = int(np.sum(replayed.tokens == 0))
    print(
        f"{len(replayed.tokens) - refused:,} requests, {replayed.iterations:,} iterations,"
        f" {int(replayed.preemptions.sum()):,} preemptions, {refused:,} refused"
    )
    print(_printed(rows))
    if chosen.save:
        save(rows, chosen.save)
        print(f"saved: {chosen.save}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
