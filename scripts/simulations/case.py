"""What a simulated point is: where it stands, what theory says of it, and how a replication is drawn."""

from typing import NamedTuple

import numpy as np

from lib.batching import DynamicBatching
from lib.lengths import MeasuredLengths, length_quantile
from lib.replication import without_warm_up

NO_CAP = 1_000_000
LEVELS = (np.arange(40_000) + 0.5) / 40_000
CAP = 32


class Case(NamedTuple):
    """One x of an experiment.

    Attributes
    ----------
    x : float
    count : int
        Requests in a replication.
    draw : callable
        Takes a count and a generator; returns values by series.
    expected : dict of str to float
        What theory says, by series; what it says nothing of is left out.
    """

    x: float
    count: int
    draw: object
    expected: dict


def outputs(workload):
    """Return the output lengths of a measured workload."""
    return MeasuredLengths(workload=workload, quantity="output")


def lengths_of(workload):
    """Return equally likely output lengths, tokens."""
    return length_quantile(outputs(workload), LEVELS)


def poisson(rate, count, rng):
    """Return the times of Poisson arrivals."""
    return rng.exponential(1 / rate, count).cumsum()


def mean_and_tail(arrivals, served):
    """Return mean and 99th percentile of the time from arrival to the end, warm-up left out."""
    latency = without_warm_up(served.end_time - arrivals)
    return latency.mean(), np.quantile(latency, 0.99)


def seen(arrivals, served):
    """Return mean and 99th percentile of the latency, the machine's time for each request, and the mean batch."""
    own = without_warm_up(1 / served.batch_size)
    busy = without_warm_up(served.end_time - served.start_time) * own
    return *mean_and_tail(arrivals, served), busy.mean(), 1 / own.mean()


def named(prefix, values):
    """Return the series of what `seen` returns."""
    return dict(zip((f"{prefix} {what}" for what in ("mean", "p99", "busy", "batch")), map(float, values), strict=True))


def waiting_for(timeout, cap=NO_CAP):
    """Return the policy that waits for a full batch or a timeout."""
    return DynamicBatching(cap=cap, control_limit=cap if timeout else 1, timeout=timeout)
