"""What ``scripts/simulate_first_token.py`` found, from ``data/first_token.csv``: one row a case and quantity."""

import csv
import functools
from importlib.resources import files

import numpy as np

from lib import arguments

TEXTS = ("experiment", "workload", "accelerator", "model", "policy", "quantity")


@functools.cache
def rows():
    """Return the record of simulations, from ``data/first_token.csv``.

    Returns
    -------
    dict of str to ndarray
        ``experiment``, ``workload``, ``accelerator``, ``model``, ``devices``, ``policy``; ``setting`` (a chunk, a
        share of the memory, a variation of arrivals; 0 where none is set); ``load`` (share of the capacity, 0
        for a lone user); ``arrival_rate`` (1/s; 0 for a lone user); ``requests`` of each of ``replications``;
        ``quantity``; ``mean`` and ``half_width`` of its 95 % interval, SI.
    """
    with (files("lib") / "data" / "first_token.csv").open(encoding="utf-8", newline="") as opened:
        read = [*csv.DictReader(opened)]
    return {
        name: np.array([row[name] if name in TEXTS else float(row[name]) for row in read]) for name in read[0]
    }


def arrival_rate(**where):
    """Return the rate of arrivals in one case of the record.

    Parameters
    ----------
    **where
        Columns of `rows` and what they must be.

    Returns
    -------
    float
        1/s.

    Raises
    ------
    ValueError
        If not exactly one case is meant.
    """
    found = np.unique(rows()["arrival_rate"][_kept(where)])
    if found.size != 1:
        raise ValueError(f"where must name one case, got {found.size}")
    return float(found[0])


def value(quantity, **where):
    """Return one number of the record.

    Parameters
    ----------
    quantity : str
    **where
        Columns of `rows` and what they must be.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If not exactly one row is meant.
    """
    keep = _kept({"quantity": quantity} | where)
    if keep.sum() != 1:
        raise ValueError(f"where must name one row of {quantity}, got {int(keep.sum())}")
    return float(rows()["mean"][keep][0])


def curve(quantity, along, **where):
    """Return one quantity of the record along a column.

    Parameters
    ----------
    quantity : str
    along : {"setting", "load"}
    **where
        Other columns of `rows` and what they must be.

    Returns
    -------
    tuple of ndarray, each shape (n,)
        The column in order, the means, and the half-widths of their 95 % intervals.

    Raises
    ------
    ValueError
        If no row is meant, or two at one place.
    """
    table, keep = rows(), _kept({"quantity": quantity} | where)
    along = arguments.choice("along", along, ("setting", "load"))
    order = np.flatnonzero(keep)[np.argsort(table[along][keep], kind="stable")]
    if not order.size or np.any(np.diff(table[along][order]) == 0):
        raise ValueError(f"where must name one row of {quantity} at each {along}, got {order.size}")
    return table[along][order], table["mean"][order], table["half_width"][order]


def _kept(where):
    """Return which rows have what their columns must be."""
    table = rows()
    keep = np.ones(len(table["mean"]), bool)
    for column, wanted in where.items():
        keep &= table[arguments.choice("column", column, table)] == wanted
    return keep
