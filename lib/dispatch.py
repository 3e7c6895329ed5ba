"""When to send a batch off: the timeout and the cap for a server, and what they gain and lose.

Rates are 1/s, times s. Arrivals are Poisson; a forward pass of b takes exactly ``fixed_time + b * marginal_time``.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.bulk import bulk_queue
from lib.domains import single
from lib.rigid_batch import StepLaw
from lib.timeout_batching import (
    timeout_batch_size,
    timeout_busy_fraction,
    timeout_size_law,
    timeout_sojourn_quantile,
    timeout_sojourn_time,
)
from lib.timeout_choice import best_timeout, harmless_timeout

# Fits of ResNet50 in mixed precision on two accelerators: inoue2021, section 3.3.
INOUE = {"V100": StepLaw(1.8874e-3, 0.1438e-3), "P4": StepLaw(1.4284e-3, 0.5833e-3)}


class Dispatch(NamedTuple):
    """What a timeout does to a server.

    Attributes
    ----------
    timeout : float
        Longest that the oldest request waits for company, s.
    mean, p99 : float
        Time from arrival to the end of the batch, s: mean and 99th percentile.
    mean_batch : float
        Requests.
    busy : float
        Share of time with a batch in service.
    """

    timeout: float
    mean: float
    p99: float
    mean_batch: float
    busy: float


class Advice(NamedTuple):
    """What `advised` returns.

    Attributes
    ----------
    greedy, best, harmless, own : Dispatch
        No timeout; the timeout of the least mean; the longest that lengthens the mean by no more than the
        loss that was allowed; and the operator's own, or again the best.
    batch_cap : int
        The smallest cap that lengthens the greedy mean by no more than that loss.
    cautions : tuple of str
        Where the rule stops being valid, as far as its numbers can tell.
    """

    greedy: Dispatch
    best: Dispatch
    harmless: Dispatch
    own: Dispatch
    batch_cap: int
    cautions: tuple


def dispatched(arrival_rate, fixed_time, marginal_time, timeout):
    """Return what a timeout does to a server without a cap.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : float
        As in `lib.timeout_batching.timeout_batch_size`; load below 1.

    Returns
    -------
    Dispatch

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    All exact, by `lib.timeout_batching`. Source: [derived].
    """
    setting = (arrival_rate, fixed_time, marginal_time, timeout)
    p99 = timeout_sojourn_quantile(0.99, *setting)
    mean, size, busy = (float(each(*setting)) for each in (
        timeout_sojourn_time, timeout_batch_size, timeout_busy_fraction))  # fmt: skip
    return Dispatch(float(timeout), mean, p99, size, busy)


def smallest_cap(arrival_rate, fixed_time, marginal_time, loss):
    """Return the smallest batch cap that lengthens the mean of the greedy server by no more than a share.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time : float
        As in `dispatched`.
    loss : float
        Above 0.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    A smaller cap never helps the mean; it saves memory and bounds the longest pass. Found by halving, as
    the mean falls with the cap: each by `lib.bulk.bulk_queue`. Source: [derived].
    """
    loss = arguments.number("loss", loss, above=0)
    law = timeout_size_law(arrival_rate, fixed_time, marginal_time, 0.0)
    allowed = (1 + loss) * float(timeout_sojourn_time(arrival_rate, fixed_time, marginal_time, 0.0))
    low, high = 0, law.size
    while high - low > 1:
        middle = (low + high) // 2
        times = fixed_time + marginal_time * np.arange(1, middle + 1)
        short = float(bulk_queue(arrival_rate, times).sojourn_time) > allowed
        low, high = (middle, high) if short else (low, middle)
    return high


def advised(arrival_rate, fixed_time, marginal_time, *, timeout=None, loss=0.01):
    """Return timeout and batch cap for a server, what they gain and lose, and where the rule ends.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time : float
        As in `dispatched`.
    timeout : float, optional
        The operator's own, s, at most the time of a batch of one.
    loss : float
        Share of the mean that the operator would give for larger batches, above 0.

    Returns
    -------
    Advice

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    For mean latency. A started pass with a price of its own is the business of
    `lib.control_limit.best_control_limit`. Source: [derived].
    """
    rate, fixed, marginal = single(arrival_rate=arrival_rate, fixed_time=fixed_time, marginal_time=marginal_time)
    cap = smallest_cap(rate, fixed, marginal, loss)
    best = min(float(best_timeout(rate, fixed)), fixed + marginal)
    harmless = harmless_timeout(rate, fixed, marginal, loss)
    greedy, best, harmless = (dispatched(rate, fixed, marginal, each) for each in (0.0, best, harmless))
    own = best if timeout is None else dispatched(rate, fixed, marginal, timeout)
    return Advice(greedy, best, harmless, own, cap, _cautions(rate, fixed, marginal, harmless.timeout))


def _cautions(rate, fixed, marginal, longest):
    """Return the conditions of the rule, with the numbers that this server gives them."""
    found = [
        "arrivals are Poisson: bursts bring company by themselves, and lulls none",
        "a pass of the same size takes the same time, and its size adds to it in proportion",
    ]
    mean, slower = (float(timeout_sojourn_time(rate, part * fixed, part * marginal, 0.0)) for part in (1, 1.05))
    if slower > 1.5 * mean:
        found.append("near saturation: passes that are a twentieth longer lengthen the mean by half or more")
    if longest >= (fixed + marginal) * (1 - 1e-12):
        found.append("a timeout beyond the time of a batch of one is not covered: simulate it")
    return tuple(found)
