"""Requests in order of arrival: recorded traces, read from the files that their owners publish, and what they say.

Times are s from the first arrival, lengths tokens.
"""

import csv
import gzip
import io
import json
from datetime import datetime
from typing import NamedTuple

import numpy as np

from lib import arguments


class Trace(NamedTuple):
    """Requests in order of arrival.

    Attributes
    ----------
    arrival_time : ndarray, shape (n,)
        Seconds; never falls.
    prompt_length, output_length : ndarray of int, shape (n,)
        Tokens. An output of 0 is a request that failed, where the source keeps those.
    """

    arrival_time: np.ndarray
    prompt_length: np.ndarray
    output_length: np.ndarray


class ArrivalStatistics(NamedTuple):
    """What `arrival_statistics` returns.

    Attributes
    ----------
    count : int
        Arrivals.
    duration : float
        Time from the first to the last, s.
    rate : float
        Gaps over duration, 1/s.
    cv : float
        Standard deviation over mean of the gaps: 1 for Poisson arrivals.
    longest_gap : float
        Seconds.
    """

    count: int
    duration: float
    rate: float
    cv: float
    longest_gap: float


def _azure_time(text):
    """Return seconds since 2020, which leaves room for the file's 7 decimals; `datetime` would cut them."""
    whole, _, rest = text.partition(".")
    digits = rest.partition("+")[0]
    return (datetime.fromisoformat(whole) - datetime(2020, 1, 1)).total_seconds() + float(f"0.{digits or 0}")


# columns of a format: arrival time and how it is read, prompt, output
_FORMATS = {
    "Azure": ("TIMESTAMP", _azure_time, "ContextTokens", "GeneratedTokens"),
    "BurstGPT": ("Timestamp", float, "Request tokens", "Response tokens"),
    "Mooncake": ("timestamp", lambda value: float(value) / 1000, "input_length", "output_length"),
}


def trace_in(file):
    """Return the requests of one original trace file.

    Parameters
    ----------
    file : Path
        As published, or packed with gzip: Azure (CSV; TIMESTAMP, ContextTokens, GeneratedTokens),
        BurstGPT (CSV; Timestamp, Request tokens, Response tokens) or Mooncake (JSON lines;
        timestamp in ms, input_length, output_length). The format is known by its columns.

    Returns
    -------
    Trace
        In order of arrival; the first at 0.

    Raises
    ------
    ValueError
        If the format is unknown, or a line is not what its columns hold; the message names file and line.
    """
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", newline="") as opened:
        text = opened.read()
    lines = [*(_json_rows(file.name, text) if text.lstrip().startswith("{") else _csv_rows(text))]
    if not lines:
        raise ValueError(f"{file.name} must hold requests, got none")
    names = [name for name, columns in _FORMATS.items() if {columns[0], *columns[2:]} <= {*lines[0][1]}]
    if not names:
        known = "; ".join(", ".join([columns[0], *columns[2:]]) for columns in _FORMATS.values())
        raise ValueError(f"{file.name} must have the columns of one of {known}, got {', '.join(lines[0][1])}")
    time_column, read_time, *length_columns = _FORMATS[names[0]]
    times, lengths = np.empty(len(lines)), np.empty((2, len(lines)), int)
    for index, (number, row) in enumerate(lines):
        where = f"{file.name} line {number}"
        times[index] = _cell(where, row, time_column, read_time)
        lengths[:, index] = [_cell(where, row, column, _whole) for column in length_columns]
    order = np.argsort(times, kind="stable")
    return Trace(times[order] - times[order[0]], *lengths[:, order])


def _csv_rows(text):
    """Yield the number of a line of the file, where empty lines count, and its columns."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    for row in rows:
        yield rows.line_num, row


def _json_rows(name, text):
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{name} line {number}: must be a JSON object, got {line[:40]!r}")
        yield number, row


def _cell(where, row, column, read):
    value = row.get(column)
    try:
        number = read(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {column} cannot be read, got {value!r}") from None
    if not 0 <= number < np.inf:
        raise ValueError(f"{where}: {column} must be finite and at least 0, got {value!r}")
    return number


def _whole(value):
    number = float(value)
    if number != np.floor(number):
        raise ValueError
    return number


def arrival_statistics(arrival_time):
    """Return count, duration, rate and variation of arrivals.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds; must not fall; at least 3, not all at once.

    Returns
    -------
    ArrivalStatistics

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    The variation of the gaps says nothing about slow drift: see `index_of_dispersion`.
    """
    arrival_time = _arrivals(arrival_time)
    gaps = np.diff(arrival_time)
    duration = float(arrival_time[-1] - arrival_time[0])
    rate, cv = (arrival_time.size - 1) / duration, float(gaps.std() / gaps.mean())
    return ArrivalStatistics(arrival_time.size, duration, rate, cv, float(gaps.max()))


def index_of_dispersion(arrival_time, window):
    """Return the variance of the arrivals per window over their mean: 1 for Poisson arrivals at any window.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        As in `arrival_statistics`.
    window : float
        Seconds, above 0, at most half the duration.

    Returns
    -------
    float
        What is left after the last whole window does not count.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arrival_time = _arrivals(arrival_time)
    duration = arrival_time[-1] - arrival_time[0]
    window = arguments.number("window", window, above=0, most=duration / 2)
    windows = int(duration / window)
    counts = np.bincount(((arrival_time - arrival_time[0]) / window).astype(int), minlength=windows)[:windows]
    return float(counts.var() / counts.mean())


def replayed(trace, arrival_rate):
    """Return a trace at another rate: every gap is scaled alike, so the variation is kept.

    Parameters
    ----------
    trace : Trace
    arrival_rate : float
        1/s, above 0.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If `trace` is no `Trace`, or an argument leaves its domain.
    """
    arguments.record("trace", trace, Trace)
    arrival_rate = arguments.number("arrival_rate", arrival_rate, above=0)
    return trace._replace(
        arrival_time=trace.arrival_time * arrival_statistics(trace.arrival_time).rate / arrival_rate
    )


def _arrivals(arrival_time):
    arrival_time = arguments.array("arrival_time", arrival_time, least=0)
    if arrival_time.ndim != 1 or arrival_time.size < 3:
        raise ValueError(f"arrival_time must have one axis of at least 3, got shape {arrival_time.shape}")
    falls = np.flatnonzero(np.diff(arrival_time) < 0)
    if falls.size:
        before, after = arrival_time[falls[0]], arrival_time[falls[0] + 1]
        raise ValueError(f"arrival_time must not fall, got {before:g} then {after:g}")
    if arrival_time[0] == arrival_time[-1]:
        raise ValueError(f"arrival_time must not be all the same, got {arrival_time[0]:g}")
    return arrival_time
