"""How many requests to wait for before starting a batch, and when not to wait at all.

Rates are 1/s, times s. Arrivals are Poisson. A control limit of a starts a batch when
a requests wait; 1 is greedy. For a cost per batch and per waiting request no policy
beats the best control limit: deb1973 (abstract read).
"""

import numpy as np
from scipy.optimize import elementwise
from scipy.special import pdtr

from lib import arguments
from lib.bulk import bulk_queue
from lib.domains import checked, single


def constant_batch_sojourn_time(arrival_rate, batch_time, control_limit):
    r"""Return the mean sojourn time when any batch takes the same constant time, without a cap.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    batch_time : array_like
        Time of a batch of any size, s, above 0.
    control_limit : array_like
        Requests that start a batch, whole, at least 1.

    Returns
    -------
    ndarray
        Seconds; always finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    With :math:`n \sim \text{Poisson}(\theta)` left at a departure, :math:`\theta = \lambda \tau_0`,

    .. math:: \frac{W_a}{\tau_0} = 1 + \frac{E[\sum_{k=n}^{a-1} k] / \theta + \theta / 2}{\theta + E[(a - n)^+]}

    Without a cap the server takes all that wait, so every load is stable. Source: renewal reward [derived].
    """
    arrival_rate, batch_time, control_limit = checked(
        arrival_rate=arrival_rate, batch_time=batch_time, control_limit=control_limit)
    arrivals = arrival_rate * batch_time
    missing, forming = _shortfall(arrivals, control_limit)
    return batch_time * (1 + (forming / arrivals + arrivals / 2) / (arrivals + missing))


def _shortfall(arrivals, limit):
    """Return E[(a - n)^+] and E[sum of k from n to a - 1] for Poisson n."""
    below, once, twice = (np.where(limit > k, pdtr(np.maximum(limit - 1 - k, 0), arrivals), 0) for k in range(3))
    return limit * below - arrivals * once, (limit * (limit - 1) * below - arrivals**2 * twice) / 2


def waiting_threshold(control_limit):
    r"""Return the load from which waiting for one more request lowers the mean sojourn time.

    Parameters
    ----------
    control_limit : array_like
        Whole, at least 1: the limit a that is compared with a + 1.

    Returns
    -------
    ndarray
        Arrivals per batch time, above which a + 1 beats a.

    Raises
    ------
    ValueError
        If `control_limit` is not a whole number from 1.

    Notes
    -----
    The setting of `constant_batch_sojourn_time`. There a + 1 beats a iff :math:`a / \lambda < W_q(a)`:
    the wait for one more is shorter than the wait of those already there. For a = 1 that is
    :math:`\theta^2 / 2 > \theta + e^{-\theta}`, or 2.114207. The gain never exceeds .7 %. Source: [derived].
    """
    (control_limit,) = checked(control_limit=control_limit)

    def regret(arrivals, limit):
        missing, forming = _shortfall(arrivals, limit)
        return limit * (arrivals + missing) - forming - arrivals**2 / 2

    # Waiting does not pay at a arrivals per batch and does at 4 a, where n < a is rare.
    return elementwise.find_root(regret, (control_limit, 4 * control_limit), args=(control_limit,)).x


def best_control_limit(arrival_rate, batch_time, *, service_cv2=0.0, batch_cost=0.0, holding_cost=1.0):
    r"""Return the control limit of least average cost, by trying all up to the cap.

    Parameters
    ----------
    arrival_rate, batch_time, service_cv2
        As in `lib.bulk.bulk_queue`; one arrival rate.
    batch_cost : float
        Cost of starting a batch, at least 0.
    holding_cost : float
        Cost of a request in the system, 1/s, above 0. Without `batch_cost` the mean sojourn time decides.

    Returns
    -------
    tuple of int and float
        The limit, and its cost per second: 1 and `inf` when no limit is stable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \min_a \frac{K \lambda}{E[B]} + h \lambda W

    Waiting does not change the stability limit, :math:`\lambda S_b < b`. For batch times that do not vary
    the gain is under 1 %; for exponential ones 8 to 16 % at mid and high load. Source: deb1973 for the
    form (abstract read); cost by `bulk_queue`.
    """
    arrival_rate = single(arrival_rate=arrival_rate)
    batch_cost = arguments.number("batch_cost", batch_cost, least=0)
    holding_cost = single(holding_cost=holding_cost)
    (batch_time,) = checked(batch_time=batch_time)
    queues = [bulk_queue(arrival_rate, batch_time, control_limit=limit, service_cv2=service_cv2)
              for limit in range(1, np.size(batch_time) + 1)]
    costs = [batch_cost * arrival_rate / queue.batch_size + holding_cost * arrival_rate * queue.sojourn_time
             for queue in queues]
    best = int(np.argmin(costs))
    return best + 1, float(costs[best])


def clearing_cost(arrival_rate, batch_cost, holding_cost, control_limit):
    r"""Return the cost per second of clearing the queue whenever it reaches the limit.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    batch_cost : array_like
        Cost of a clearing, above 0.
    holding_cost : array_like
        Cost of a waiting request, 1/s, above 0.
    control_limit : array_like
        Requests that trigger a clearing, whole, at least 1.

    Returns
    -------
    ndarray
        Cost per second.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: g(M) = \frac{\lambda K}{M} + \frac{h (M - 1)}{2}

    Batches take no time, so every load is stable. Source: the economic order quantity; [derived].
    """
    arrival_rate, batch_cost, holding_cost, control_limit = checked(
        arrival_rate=arrival_rate, batch_cost=batch_cost, holding_cost=holding_cost, control_limit=control_limit)
    return arrival_rate * batch_cost / control_limit + holding_cost * (control_limit - 1) / 2


def clearing_limit(arrival_rate, batch_cost, holding_cost):
    r"""Return the limit of least cost when batches take no time.

    Parameters
    ----------
    arrival_rate, batch_cost, holding_cost : array_like
        As in `clearing_cost`.

    Returns
    -------
    ndarray
        Requests, whole, at least 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    The smallest M with :math:`M (M + 1) \ge 2 \lambda K / h`, near its square root. Stable at every load.
    Source: deb1973 for the form (abstract read); [derived].
    """
    arrival_rate, batch_cost, holding_cost = checked(
        arrival_rate=arrival_rate, batch_cost=batch_cost, holding_cost=holding_cost)
    wanted = 2 * arrival_rate * batch_cost / holding_cost
    # Rounding must not add 1 where M (M + 1) equals the wanted number.
    return np.maximum(np.ceil((np.sqrt(1 + 4 * wanted) - 1) / 2 - 1e-9), 1)


def clearing_timer(arrival_rate, batch_cost, holding_cost):
    r"""Return the period of least cost when a clock, not the queue, starts batches that take no time.

    Parameters
    ----------
    arrival_rate, batch_cost, holding_cost : array_like
        As in `clearing_cost`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: T = \sqrt{\frac{2 K}{\lambda h}}

    minimises :math:`K / T + h \lambda T / 2`. Stable at every load. Source: [derived].
    """
    arrival_rate, batch_cost, holding_cost = checked(
        arrival_rate=arrival_rate, batch_cost=batch_cost, holding_cost=holding_cost)
    return np.sqrt(2 * batch_cost / (arrival_rate * holding_cost))
