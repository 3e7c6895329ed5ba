"""When to send a batch off: the timeout and the cap for a server, and what they gain and lose.

Rates are 1/s, times s. Arrivals are Poisson; a forward pass of b takes exactly ``fixed_time + b * marginal_time``.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.bulk import bulk_queue
from lib.capped_timeout import sojourn_law, sojourn_quantile
from lib.domains import single
from lib.rigid_batch import StepLaw
from lib.timeout_batching import (
    setting_of,
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
    greedy, best, harmless, own, capped : Dispatch
        No timeout; the timeout of the least mean; the longest that lengthens the mean by no more than the
        loss that was allowed; the operator's own, or again the best; and no timeout with `batch_cap`.
    batch_cap : int
        The smallest cap that lengthens the greedy mean by no more than that loss.
    cautions : tuple of str
        Where the rule stops being valid, as far as its numbers can tell.
    """

    greedy: Dispatch
    best: Dispatch
    harmless: Dispatch
    own: Dispatch
    capped: Dispatch
    batch_cap: int
    cautions: tuple


def dispatched(arrival_rate, fixed_time, marginal_time, timeout, *, batch_cap=np.inf):
    """Return what a timeout and a cap do to a server.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time : float
        As in `lib.timeout_batching.timeout_batch_size`; load below 1.
    timeout : float
        Seconds, at least 0; may be longer than a pass.
    batch_cap : int
        At least 1, and large enough for the arrivals; may be infinite.

    Returns
    -------
    Dispatch

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the server cannot keep up.

    Notes
    -----
    Without a cap, and up to a timeout of a pass of one, exact by `lib.timeout_batching`; otherwise
    solved on a grid by `lib.capped_timeout`. Source: [derived].
    """
    rate, fixed, marginal, _ = setting_of(arrival_rate, fixed_time, marginal_time, 0.0)
    timeout, cap = arguments.number("timeout", timeout, least=0), single(batch_cap=batch_cap)
    if np.isinf(cap) and timeout <= (fixed + marginal) * (1 + 1e-12):
        setting = (rate, fixed, marginal, timeout)
        p99 = timeout_sojourn_quantile(0.99, *setting)
        mean, size, busy = (float(each(*setting)) for each in (
            timeout_sojourn_time, timeout_batch_size, timeout_busy_fraction))  # fmt: skip
        return Dispatch(timeout, mean, p99, size, busy)
    if np.isinf(cap):  # more than come while the oldest waits and a batch runs, to nine deviations
        most = (rate * (fixed + timeout) + 1) / (1 - rate * marginal)
        cap = int(most + 9 * np.sqrt(most / (1 - rate * marginal)) + 12)
    times = fixed + marginal * np.arange(1, int(cap) + 1)[:, None]
    if rate * times[-1, 0] >= cap:
        raise ValueError(f"batch_cap must be large enough for arrival_rate ({rate:g}), got {int(cap)}")
    cells = max(10, int(300 * times[0, 0] / times[-1, 0]))
    law = sojourn_law(rate, times, np.ones_like(times), timeout, cells=cells)
    return Dispatch(timeout, law.mean, sojourn_quantile(law, 0.99), law.mean_batch, law.busy_fraction)


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


def advised(arrival_rate, fixed_time, marginal_time, *, timeout=None, batch_cap=np.inf, loss=0.01):
    """Return timeout and batch cap for a server, what they gain and lose, and where the rule ends.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time : float
        As in `dispatched`.
    timeout : float, optional
        The operator's own, s; may be longer than a pass.
    batch_cap : int
        The operator's own, as in `dispatched`.
    loss : float
        Share of the mean that the operator would give for larger batches or for a smaller cap, above 0.

    Returns
    -------
    Advice

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the server cannot keep up.

    Notes
    -----
    For mean latency. A started pass with a price of its own is the business of
    `lib.control_limit.best_control_limit`. Source: [derived].
    """
    server = rate, fixed, marginal = single(
        arrival_rate=arrival_rate, fixed_time=fixed_time, marginal_time=marginal_time
    )
    cap = smallest_cap(*server, loss)
    best = min(float(best_timeout(rate, fixed)), fixed + marginal)
    longest = harmless_timeout(*server, loss)
    greedy, best, harmless = (dispatched(*server, each) for each in (0.0, best, longest))
    own = best
    if timeout is not None or np.isfinite(batch_cap):
        own = dispatched(*server, best.timeout if timeout is None else timeout, batch_cap=batch_cap)
    capped, most = dispatched(*server, 0.0, batch_cap=cap), min(batch_cap, cap)
    cautions = _cautions(server, longest, rate * (fixed + marginal * most) / most)
    return Advice(greedy, best, harmless, own, capped, cap, cautions)


def _cautions(server, longest, load):
    """Return the conditions of the rule, with the numbers that this server gives them; `load` is that of the cap."""
    rate, fixed, marginal = server
    found = [
        "arrivals are Poisson: where they come in tight bursts a short wait may pay, and the cap must hold a burst",
        "a pass of the same size takes the same time, and its size adds to it in proportion",
    ]
    mean, slower = (float(timeout_sojourn_time(rate, part * fixed, part * marginal, 0.0)) for part in (1, 1.05))
    if slower > 1.5 * mean:
        found.append("near saturation: passes that are a twentieth longer lengthen the mean by half or more")
    if load > 0.8:
        found.append(f"the cap is {load:.0%} loaded: bursts, or passes that vary, need a larger one")
    if longest >= (fixed + marginal) * (1 - 1e-12):
        found.append("the harmless timeout ends at the time of a batch of one: longer ones were not searched")
    return tuple(found)
