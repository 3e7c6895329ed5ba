"""A recorded run of an engine: its requests, what became of them, and a replay held beside it.

Times are s, lengths tokens.
"""

import csv
from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.latency import latencies, percentile
from lib.simulation import Run
from lib.trace import Trace

PERCENTILES = (50, 90, 95, 99)
METRICS = {"TTFT": "ttft", "TPOT": "tpot", "latency": "latency"}
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
                raise ValueError(
                    f"{file.name} must have the column {' or '.join(_NAMES[key])}, got {', '.join(header)}"
                )
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
        Makespan, from the first arrival to the last token; then mean and percentiles of TTFT, TPOT and latency.

    Raises
    ------
    ValueError
        If the two are not of the same requests.

    Notes
    -----
    The interval of a percentile is that of `lib.latency.percentile`, that of a mean two standard errors each way. Both
    take requests for independent. Requests that queue behind each other are not, so the true intervals are wider.
    """
    arguments.record("run", run, RecordedRun)
    arguments.record("replayed", replayed, Run)
    arrival = run.requests.arrival_time
    if not np.array_equal(arrival, replayed.arrival_time):
        raise ValueError(f"replayed must be of the requests of run, got {len(replayed.arrival_time)} others")
    output = run.requests.output_length
    mine = latencies(arrival, arrival, replayed.first_token_time, replayed.finish_time, output)
    known = run.first_token_time is not None and run.last_token_time is not None
    seen = latencies(arrival, arrival, run.first_token_time, run.last_token_time, output) if known else None
    ended = replayed.finish_time[np.isfinite(replayed.finish_time)].max() - arrival[0]
    really = run.last_token_time.max() - arrival[0] if known else np.nan
    rows = [LatencyRow("makespan", "whole", float(ended), float(really), np.nan, np.nan)]
    for metric, name in METRICS.items():
        predicted = _statistics(getattr(mine, name))
        recorded = _statistics(getattr(seen, name)) if known else dict.fromkeys(predicted, (np.nan,) * 3)
        rows += [LatencyRow(metric, key, predicted[key][0], *recorded[key]) for key in predicted]
    return rows


def _statistics(values):
    """Return mean and percentiles of the requests that were served, each with the ends of its interval."""
    values = values[np.isfinite(values)]
    if not values.size:  # outputs of one token have no TPOT
        return dict.fromkeys(["mean", *(f"p{percent}" for percent in PERCENTILES)], (np.nan,) * 3)
    error = 2 * values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    found = {"mean": (float(values.mean()), float(values.mean() - error), float(values.mean() + error))}
    for percent in PERCENTILES:
        one = percentile(values, percent / 100)
        found[f"p{percent}"] = (one.value, one.low, one.high)
    return found


def save_table(rows, file):
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
