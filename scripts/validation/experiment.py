"""What an experiment is: a setting, what the formulas say of it, and how a replication is drawn."""

from typing import NamedTuple

import numpy as np

WARM_UP = 0.2  # the share of a replication that is left out


class Check(NamedTuple):
    """One number to hold against a simulation: exact, lower, upper or approximate."""

    kind: str
    expected: float


class Experiment(NamedTuple):
    """A setting, what the formulas say of it, and how a replication is drawn.

    Attributes
    ----------
    setting : str
    checks : dict of str to Check
        By the function that the number comes from.
    draw : callable
        Takes requests and a generator, returns a number for each check.
    """

    setting: str
    checks: dict
    draw: object


def exact(**values):
    return {name.replace("__", "."): Check("exact", float(value)) for name, value in values.items()}


def later(values):
    """Return the mean of per-request values, warm-up left out; of those not finite, nothing."""
    kept = values[int(WARM_UP * len(values)) :]
    return kept[np.isfinite(kept)].mean()


def poisson(rate, count, rng):
    return rng.exponential(1 / rate, count).cumsum()
