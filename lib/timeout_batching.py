"""Dynamic batching with a timeout: an idle server starts when the oldest request has waited long enough.

Rates are 1/s, times s. Arrivals are Poisson; a batch of b takes exactly ``fixed_time + b * marginal_time``
and holds all that wait. A timeout of 0 is the greedy server of `lib.dynamic_batching`.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import pdtr
from scipy.stats import poisson

from lib.domains import checked, single
from lib.queueing import when_stable


def timeout_batch_size(arrival_rate, fixed_time, marginal_time, timeout):
    r"""Return the mean batch.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    fixed_time : array_like
        Time of a batch that does not depend on its size, s, at least 0.
    marginal_time : array_like
        Time each request adds, s, at least 0.
    timeout : array_like
        Longest that the oldest request waits for company before an idle server, s, at least 0, at most
        the time of a batch of one.

    Returns
    -------
    ndarray
        Requests; `inf` unless ``arrival_rate * marginal_time`` is below 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    A batch of B that takes S leaves A arrivals, and the next takes them at once, unless all of them came
    in the last T of S. That has the probability :math:`\varepsilon = E[e^{-\lambda (S - T)}]`; the next
    batch then holds one request and those of a window of T. So

    .. math:: E[B] = \frac{\lambda \tau_0 + \varepsilon}{1 - \rho}, \quad \rho = \lambda \alpha < 1

    and its transform obeys :math:`P(z) = e^{-\lambda \tau_0 (1 - z)} P(g(z)) - \varepsilon (1 - z)
    e^{-\lambda T (1 - z)}`, :math:`g(z) = e^{-\rho (1 - z)}`. Iterating g from :math:`z_0 = 0` to 1,

    .. math:: \varepsilon = \frac{C_\infty}{e^{-\lambda T} + \sum_{k \ge 0} C_k (1 - z_{k+1})
        e^{-\lambda T (1 - z_{k+1})}}, \quad C_k = e^{-\lambda \tau_0 \sum_{j \le k} (1 - z_j)}

    For T = 0 this is (31) of inoue2021. Source: [derived]; within the intervals of its simulation.
    """
    rate, fixed, marginal, timeout = _arguments(arrival_rate, fixed_time, marginal_time, timeout)
    return when_stable(rate * marginal, lambda room: (rate * fixed + _late(rate, fixed, marginal, timeout)) / room)


def _arguments(arrival_rate, fixed_time, marginal_time, timeout):
    rate, fixed, marginal, timeout = checked(
        arrival_rate=arrival_rate, fixed_time=fixed_time, marginal_time=marginal_time, timeout=timeout)
    if np.any(fixed + marginal == 0):
        raise ValueError("fixed_time plus marginal_time must be above 0, got 0")
    long = timeout > (fixed + marginal) * (1 + 1e-12)
    if np.any(long):
        least = (fixed + marginal)[long].flat[0]
        raise ValueError(f"timeout must be at most the time of a batch of one ({least:g}), got {timeout[long].flat[0]:g}")
    return rate, fixed, marginal, timeout


def _late(rate, fixed, marginal, timeout):
    """Return the probability that nothing arrives in a batch before its last `timeout`."""
    load = rate * marginal
    load, fixed, window = np.where(load < 1, load, 0.5), rate * fixed, rate * timeout
    distance, weight, total = np.ones(fixed.shape), np.ones(fixed.shape), np.exp(-window)
    for _ in range(_MOST_TERMS):
        weight = weight * np.exp(-fixed * distance)
        distance = -np.expm1(-load * distance)
        total = total + weight * distance * np.exp(-window * distance)
        if np.all(distance * (fixed + 1) < 1e-17 * (1 - load)):
            break
    return weight / total


_MOST_TERMS = 30_000  # enough for 12 digits up to a load of .999


def timeout_sojourn_time(arrival_rate, fixed_time, marginal_time, timeout):
    r"""Return the exact mean time from arrival to the end of the batch.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : array_like
        As in `timeout_batch_size`.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    With m the mean batch and :math:`\varepsilon = m (1 - \rho) - \lambda \tau_0`,

    .. math:: E[B^2] = \frac{m (1 + 2 \rho \lambda \tau_0) + (\lambda \tau_0)^2 + 2 \lambda T \varepsilon}
        {1 - \rho^2}, \quad E[W] = \frac{\lambda E[S^2] / 2 + E[B S] + \varepsilon T}{m}

    by Little's law over a cycle: those who wait behind a busy server, those in service, and T
    request-seconds in an idle server's window. For T = 0 this is (36) of inoue2021. Source: [derived].
    """
    rate, fixed, marginal, timeout = _arguments(arrival_rate, fixed_time, marginal_time, timeout)
    size = timeout_batch_size(rate, fixed, marginal, timeout)
    return sojourn_time_of(size, rate, fixed, marginal, timeout)


def sojourn_time_of(mean_batch, arrival_rate, fixed_time, marginal_time, timeout):
    """Return the mean sojourn time, given the mean batch: the second formula of `timeout_sojourn_time`.

    Its arguments are checked already, or symbols: the page computes with this formula too.
    """
    load, fixed = arrival_rate * marginal_time, arrival_rate * fixed_time
    room = np.where(load < 1, 1 - load, 1.0)
    late = mean_batch * room - fixed
    window = arrival_rate * timeout
    squares = (mean_batch * (1 + 2 * load * fixed) + fixed * fixed + 2 * window * late) / (room * (1 + load))
    waiting = (load * marginal_time * squares + 2 * load * fixed_time * mean_batch + fixed * fixed_time) / 2
    served = marginal_time * squares + fixed_time * mean_batch
    return np.where(load < 1, (waiting + served + late * timeout) / mean_batch, np.inf)


def timeout_busy_fraction(arrival_rate, fixed_time, marginal_time, timeout):
    r"""Return the share of time with a batch in service.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : array_like
        As in `timeout_batch_size`.

    Returns
    -------
    ndarray
        Between 0 and 1; 1 unless load is below 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \lambda \alpha + \frac{\lambda \tau_0}{E[B]}

    What a price for busy time is paid for. Source: as (38) of inoue2021.
    """
    rate, fixed, marginal, timeout = _arguments(arrival_rate, fixed_time, marginal_time, timeout)
    return np.minimum(rate * marginal + rate * fixed / timeout_batch_size(rate, fixed, marginal, timeout), 1.0)
