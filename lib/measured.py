"""What others measured: the derived tables of ``lib/data``, as columns.

The tables hold medians, sums and selected figures of public sources, with a source
key per row; ``measurement_sources.csv`` gives repository, commit, licence and what was
dropped. ``scripts/derive_measurements.py`` made all but ``published_results``, which is typed,
and the replays, which ``scripts/replay_runs.py``, ``predict_first_tokens.py`` and ``replay_traces.py`` made.
"""

import csv
import functools
import math
from importlib.resources import files
from types import MappingProxyType

import numpy as np

from lib import arguments

TABLES = (
    *("all_reduce", "batch_one", "decode_steps", "end_to_end"),
    *("measurement_sources", "published_results", "lengths", "workloads", "arrivals"),
    *("replayed_runs", "replayed_quantiles", "batch_limits", "served_first_tokens", "replayed_traces"),
)
NUMBERS = frozenset(
    {
        *("tensor_parallel", "batch_size", "context", "concurrency", "input_tokens", "output_tokens"),
        *("time", "attention_time", "linear_time", "head_time", "value", "spread", "n"),
        *("workers", "message_bytes", "rows_in_file", "rows_used", "rows_dropped"),
        *("level", "tokens", "left_out", "prompt_mean", "prompt_cv", "output_mean", "output_cv"),
        *("duration", "rate", "cv", "cv_low", "cv_high", "longest_gap"),
        *("dispersion_1s", "dispersion_10s", "dispersion_60s"),
        *("host_time", "predicted", "recorded", "low", "high", "share", "requests", "preemptions", "iterations"),
        *("at_home", "crowd", "held_back", "step_alone", "bound", "prompt_factor"),
        *("replications", "mean", "half_width"),
        *("devices", "time_per_token", "first_token_time", "seeds", "requests", "slots_derived", "slots_closed_form"),
        *("slots_low", "slots_searched", "slots_high", "rate_derived", "rate_low", "rate_searched", "rate_high"),
    }
)
SIGNED = frozenset({"rank_correlation", "error"})
UNKNOWN_ALLOWED = frozenset(
    {
        *("head_time", "spread", "rank_correlation", "duration", "rate", "cv_low", "cv_high", "longest_gap"),
        *("low", "high", "at_home", "crowd", "held_back", "step_alone", "bound", "prompt_factor"),
        *("dispersion_1s", "dispersion_10s", "dispersion_60s"),
    }
)


@functools.cache
def table(name):
    """Return one table of measurements.

    Parameters
    ----------
    name : str
        ``decode_steps``: one decode step as the sum of its kernels; without all-reduce,
        gaps and, in `time`, LM head. ``end_to_end``: running engines, by `quantity`.
        ``lengths``: quantiles of prompts and outputs; ``workloads``: their means; ``arrivals``: how
        bursty. ``replayed_runs``, ``replayed_quantiles``: recorded runs of vLLM and what the simulator makes of them.
        ``served_first_tokens``: first tokens of the closed loops, measured and predicted; ``replayed_traces``:
        arrivals as recorded against the same gaps in another order.
        ``all_reduce``, ``batch_one``, ``published_results``, ``measurement_sources``.

    Returns
    -------
    mapping of str to ndarray, each of shape (n,)
        Read-only columns: numbers as floats in s, B and tokens, all else as text.
        NaN (see `UNKNOWN_ALLOWED`) means that it was not measured.

    Raises
    ------
    ValueError
        If there is no such table, or a cell is not what its column holds; the
        message names file and column.

    Notes
    -----
    The models are named by their shape in ``models.csv``: Llama-3.1 is listed as Llama-3.
    """
    return table_in(files("lib") / "data" / f"{arguments.choice('name', name, TABLES)}.csv")


def table_in(file):
    """Return the columns of one CSV file laid out as in `table`, which see.

    Parameters
    ----------
    file : Path
        A CSV file with a header.

    Returns
    -------
    mapping of str to ndarray

    Raises
    ------
    ValueError
        If the file has no rows, a row is too short or too long, or a cell is not
        what its column holds.
    """
    with file.open(newline="", encoding="utf-8") as opened:
        header, *rows = csv.reader(opened)
    if not rows:
        raise ValueError(f"{file.name} must have rows, got none")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"{file.name} row {line}: must have {len(header)} cells, got {len(row)}")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return MappingProxyType({name: _column(f"{file.name} {name}", name, cells) for name, cells in columns.items()})


def _column(label, name, cells):
    if name in NUMBERS | SIGNED:
        known = [cell for cell in cells if cell or name not in UNKNOWN_ALLOWED]
        if known:
            arguments.array(label, [_number(label, cell) for cell in known], least=-1 if name in SIGNED else 0)
        column = np.array([float(cell) if cell else math.nan for cell in cells])
    else:
        column = np.array(cells)
    column.setflags(write=False)
    return column


def _number(label, cell):
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{label} must hold numbers, got {cell!r}") from None
