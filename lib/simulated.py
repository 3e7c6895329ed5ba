"""Simulated points: what ``scripts/simulate_batching.py`` found, with intervals.

A chapter that would take minutes to simulate reads its points here; seeds, replications and
requests stand in the file, and a test runs a small grid of it again.
"""

import csv
import functools
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from lib import arguments


class Points(NamedTuple):
    """Simulated points of one series, in order of x.

    Attributes
    ----------
    x : ndarray, shape (n,)
        What was varied.
    mean, low, high : ndarray, shape (n,)
        Mean of the replications and the ends of its 95 % interval, in the unit of the quantity.
    """

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@functools.cache
def _rows():
    text = (files("lib") / "data" / "simulated.csv").read_text(encoding="utf-8")
    return [*csv.DictReader(text.splitlines())]


def experiments():
    """Return the names of the experiments in the record, each with the series that it holds.

    Returns
    -------
    dict of str to list of str
    """
    found = {}
    for row in _rows():
        series = found.setdefault(row["experiment"], [])
        if row["series"] not in series:
            series.append(row["series"])
    return found


def points(experiment, *series, scale=1.0):
    """Return the simulated points of one series, or of several together.

    Parameters
    ----------
    experiment : str
        One of `experiments`.
    *series : str
        Of the experiment, at least one.
    scale : float
        What the values are multiplied with, above 0: 100 for per cent.

    Returns
    -------
    Points

    Raises
    ------
    ValueError
        If there is no such experiment or series.
    """
    known = experiments()
    arguments.choice("experiment", experiment, known)
    scale = arguments.number("scale", scale, above=0)
    found = [_one(experiment, arguments.choice("series", name, known[experiment])) for name in series or ("",)]
    x, mean, half = (np.concatenate(part) for part in zip(*found, strict=True))
    return Points(x, scale * mean, scale * (mean - half), scale * (mean + half))


def _one(experiment, series):
    rows = [row for row in _rows() if (row["experiment"], row["series"]) == (experiment, series)]
    rows.sort(key=lambda row: float(row["x"]))
    return [np.array([float(row[name]) for row in rows]) for name in ("x", "mean", "half_width")]


def effort(experiment):
    """Return replications and requests in each, of an experiment.

    Parameters
    ----------
    experiment : str

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        If there is no such experiment.
    """
    arguments.choice("experiment", experiment, experiments())
    row = next(row for row in _rows() if row["experiment"] == experiment)
    return int(row["replications"]), int(row["requests"])
