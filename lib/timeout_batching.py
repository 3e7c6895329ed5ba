"""Dynamic batching with a timeout: an idle server starts when the oldest request has waited long enough.

Rates are 1/s, times s. Arrivals are Poisson; a batch of b takes exactly ``fixed_time + b * marginal_time``
and holds all that wait. A timeout of 0 is the greedy server of `lib.dynamic_batching`.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import poisson

from lib import arguments
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
    rate, fixed, marginal, timeout = settings(arrival_rate, fixed_time, marginal_time, timeout)
    return when_stable(rate * marginal, lambda room: (rate * fixed + _late(rate, fixed, marginal, timeout)) / room)


def settings(arrival_rate, fixed_time, marginal_time, timeout):
    """Return the four as arrays that fit together, or refuse them; symbols pass."""
    values = checked(arrival_rate=arrival_rate, fixed_time=fixed_time, marginal_time=marginal_time, timeout=timeout)
    if any(isinstance(value, arguments.Symbol) for value in values):
        return values
    rate, fixed, marginal, timeout = values
    if np.any(fixed + marginal == 0):
        raise ValueError("fixed_time plus marginal_time must be above 0, got 0")
    long = timeout > (fixed + marginal) * (1 + 1e-12)
    if np.any(long):
        rule = f"timeout must be at most fixed_time plus marginal_time ({(fixed + marginal)[long].flat[0]:g})"
        raise ValueError(f"{rule}, got {timeout[long].flat[0]:g}")
    return rate, fixed, marginal, timeout


def _late(rate, fixed, marginal, timeout):
    """Return the probability that nothing arrives in a batch before its last `timeout`."""
    load = rate * marginal
    load, fixed, window = np.where(load < 1, load, 0.5), rate * fixed, rate * timeout
    distance, weight, total = np.ones(fixed.shape), np.ones(fixed.shape), np.exp(-window)
    most_arrivals = (fixed + 1) / (1 - load)
    for _ in range(_MOST_TERMS):
        weight = weight * np.exp(-fixed * distance)
        distance = -np.expm1(-load * distance)
        total = total + weight * distance * np.exp(-window * distance)
        if np.all(weight * np.minimum(most_arrivals * distance, 1) < 1e-17):
            break
    return weight / total


# Enough for 15 digits up to load .9999 at any fixed time, and up to any load once the fixed time is not
# negligible. At load .99999 and a fixed time of .001 marginal ones the batch comes out .5 % high; the
# sojourn time, which hardly depends on it there, by less than 1e-8.
_MOST_TERMS = 300_000


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
    rate, fixed, marginal, timeout = settings(arrival_rate, fixed_time, marginal_time, timeout)
    size = timeout_batch_size(rate, fixed, marginal, timeout)
    stable = rate * marginal < 1
    return np.where(stable, sojourn_time_of(np.where(stable, size, 1.0), rate, fixed, marginal, timeout), np.inf)


def sojourn_time_of(mean_batch, arrival_rate, fixed_time, marginal_time, timeout):
    """Return the mean sojourn time of a stable server, given the mean batch: see `timeout_sojourn_time`.

    Its arguments are checked already, or symbols: the page computes with this formula too.
    """
    load, fixed = arrival_rate * marginal_time, arrival_rate * fixed_time
    room = np.where(load < 1, 1 - load, 1.0)
    late = mean_batch * room - fixed
    window = arrival_rate * timeout
    squares = (mean_batch * (1 + 2 * load * fixed) + fixed * fixed + 2 * window * late) / (room * (1 + load))
    waiting = (load * marginal_time * squares + 2 * load * fixed_time * mean_batch + fixed * fixed_time) / 2
    served = marginal_time * squares + fixed_time * mean_batch
    return (waiting + served + late * timeout) / mean_batch


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
    rate, fixed, marginal, timeout = settings(arrival_rate, fixed_time, marginal_time, timeout)
    return np.minimum(rate * marginal + rate * fixed / timeout_batch_size(rate, fixed, marginal, timeout), 1.0)


def timeout_size_law(arrival_rate, fixed_time, marginal_time, timeout):
    r"""Return the law of the size of a batch.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : float
        As in `timeout_batch_size`; load below 1.

    Returns
    -------
    ndarray, shape (n,)
        Share of batches of 1..n; what is larger has a share below 1e-9.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    With p the Poisson law of mean :math:`\lambda T` and :math:`e_r = e^{-\lambda (S_r - T)}`, a batch of r
    is followed by one of k with probability :math:`P(A = k) + e_r (p(k-1) - p(k))`. Source: [derived].
    """
    rate, fixed, marginal, timeout = setting_of(arrival_rate, fixed_time, marginal_time, timeout)
    mean = float(timeout_batch_size(rate, fixed, marginal, timeout))
    # The law has the tail of a Poisson number whose mean follows the last batch: at most this spread.
    spread = np.sqrt(mean / (1 - rate * marginal) + 1)
    sizes = np.arange(1, int(mean + 9 * spread + 12) + 1)
    times = fixed + marginal * sizes
    late = np.exp(-rate * (times - timeout))[:, None]
    window = poisson.pmf(sizes - 1, rate * timeout) - poisson.pmf(sizes, rate * timeout)
    steps = poisson.pmf(sizes, rate * times[:, None]) + late * window
    steps[:, -1] += 1 - steps.sum(axis=1)
    balance = steps.T - np.eye(sizes.size)
    balance[-1] = 1
    return np.linalg.solve(balance, np.eye(sizes.size)[-1])


def setting_of(arrival_rate, fixed_time, marginal_time, timeout):
    """Return the four as numbers, or refuse them; an unstable setting too."""
    values = single(arrival_rate=arrival_rate, fixed_time=fixed_time, marginal_time=marginal_time, timeout=timeout)
    settings(*values)
    if values[0] * values[2] >= 1:
        raise ValueError(f"arrival_rate times marginal_time must be below 1, got {values[0] * values[2]:g}")
    return values


def timeout_sojourn_quantile(level, arrival_rate, fixed_time, marginal_time, timeout):
    r"""Return the time from arrival to the end of the batch that a share of requests does not exceed.

    Parameters
    ----------
    level : float
        Share of requests, below 1.
    arrival_rate, fixed_time, marginal_time, timeout : float
        As in `timeout_batch_size`; load below 1.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    A request that comes while S of a batch are left waits S, and its own batch holds one and as many
    more as come in the whole of that batch: they do not depend on when it came. One that comes in a
    window of T waits what is left of it. The share of late requests, batch by batch, over the mean batch.
    Source: [derived]; within the intervals of its simulation.
    """
    level = single(level=level)
    rate, fixed, marginal, timeout = setting_of(arrival_rate, fixed_time, marginal_time, timeout)
    if level >= 1:
        raise ValueError(f"level must be below 1, got {level:g}")
    law = timeout_size_law(rate, fixed, marginal, timeout)
    tail = _Tail(law, rate, fixed, marginal, timeout)
    most = 4 * (fixed + marginal * law.size) + timeout
    return float(brentq(lambda time: tail.share_above(time) - (1 - level), 0, most, xtol=1e-12 * most))


class _Tail:
    """The share of requests whose sojourn exceeds a time."""

    def __init__(self, law, rate, fixed, marginal, timeout):
        sizes = np.arange(1, law.size + 1)
        self.times = fixed + marginal * sizes
        self.law, self.rate, self.timeout = law, rate, timeout
        self.mean = law @ sizes
        self.others = poisson.pmf(sizes - 1, rate * self.times[:, None])  # who else comes in a batch: 0, 1, ...
        self.window = poisson.pmf(sizes - 1, rate * timeout)
        self.late = law @ np.exp(-rate * (self.times - timeout))

    def share_above(self, time):
        left = np.clip(self.times[:, None] - (time - self.times), 0, self.times[:, None])
        behind = self.rate * self.law @ np.sum(self.others * left, axis=1)
        opened = self.window @ (self.timeout + self.times > time)
        joined = self._joined(time, np.append(self.times[1:], self.times[-1])) - self._joined(time, self.times)
        return (behind + self.late * (opened + joined)) / self.mean

    def _joined(self, time, own):
        """Return the expected number in a window that is served in `own` and late."""
        return self.rate * self.window @ np.clip(self.timeout - (time - own), 0, self.timeout)
