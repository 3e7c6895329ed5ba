"""Several servers with exponential times, one request each: Erlang's formulas.

Rates are 1/s, times s. Arrivals are Poisson; requests wait in order of arrival.
"""

import numpy as np

from lib.domains import at_least, checked, single
from lib.queueing import when_stable


def erlang_b(offered_load, servers):
    r"""Return the share of requests lost by M/G/c/c, which has no waiting room.

    Parameters
    ----------
    offered_load : array_like
        Arrival rate times mean service time, above 0; may exceed `servers`.
    servers : array_like
        Whole, at least 1.

    Returns
    -------
    ndarray
        Between 0 and 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: B_0 = 1, \quad B_k = \frac{a B_{k-1}}{k + a B_{k-1}}

    Always stable; true for any service law. The recursion never overflows. Source: iversen2001.
    """
    offered_load, servers = checked(offered_load=offered_load, servers=servers)
    blocking = np.ones(offered_load.shape)
    for busy in range(1, int(servers.max()) + 1):
        reached = offered_load * blocking
        blocking = np.where(busy <= servers, reached / (busy + reached), blocking)
    return blocking


def mmc_wait_probability(arrival_rate, service_time, servers):
    r"""Return the probability that a request waits in M/M/c (Erlang C).

    Parameters
    ----------
    arrival_rate, service_time : array_like
        Poisson arrivals, 1/s, and mean of the exponential service time, s, both above 0.
    servers : array_like
        Whole, at least 1.

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
    .. math:: C = \frac{B_c}{1 - \rho (1 - B_c)}, \quad \rho = \lambda S / c < 1

    with :math:`B_c` from `erlang_b`. Source: adan2015, 5.2; printed values in its table 5.1.
    """
    arrival_rate, service_time, servers = checked(
        arrival_rate=arrival_rate, service_time=service_time, servers=servers)
    blocking = erlang_b(arrival_rate * service_time, servers)
    load = np.minimum(arrival_rate * service_time / servers, 1.0)
    return blocking / (1 - load * (1 - blocking))


def mmc_wait(arrival_rate, service_time, servers):
    r"""Return the mean wait before service in M/M/c.

    Parameters
    ----------
    arrival_rate, service_time, servers : array_like
        As in `mmc_wait_probability`.

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
    .. math:: W_q = \frac{C S}{c (1 - \rho)}

    False when service is not exponential; `lib.multiserver.mdc_wait` has constant times. Source: adan2015, 5.2.
    """
    wait_probability = mmc_wait_probability(arrival_rate, service_time, servers)
    load = np.multiply(arrival_rate, service_time) / servers
    return when_stable(load, lambda room: wait_probability * service_time / (np.asarray(servers) * room))


def mmc_wait_tail(time, arrival_rate, service_time, servers):
    r"""Return the probability that the wait in M/M/c exceeds `time`.

    Parameters
    ----------
    time : array_like
        Seconds, at least 0; may be infinite.
    arrival_rate, service_time, servers : array_like
        As in `mmc_wait_probability`.

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
    .. math:: P(W_q > t) = C e^{-(c / S - \lambda) t}

    First come, first served. Source: adan2015, 5.3.
    """
    time, arrival_rate, service_time, servers = checked(
        time=time, arrival_rate=arrival_rate, service_time=service_time, servers=servers)
    spare_rate = servers / service_time - arrival_rate
    stable = spare_rate > 0
    tail = np.exp(-np.where(stable, spare_rate, 1.0) * time)
    return np.where(stable, mmc_wait_probability(arrival_rate, service_time, servers) * tail, 1.0)


def birth_death_law(birth_rate, death_rate):
    r"""Return the stationary law of a birth-death chain on 0..K.

    Parameters
    ----------
    birth_rate : array_like, shape (..., K)
        Rate from k to k + 1 for k = 0..K-1, 1/s, at least 0.
    death_rate : array_like, shape (..., K)
        Rate from k + 1 to k, 1/s, above 0.

    Returns
    -------
    ndarray, shape (..., K + 1)
        Probabilities; sum 1 along the last axis.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \pi_n = \pi_0 \prod_{k=0}^{n-1} \frac{\lambda_k}{\mu_{k+1}}

    Finite, so always stable. Products are kept as logarithms: no overflow. Source: kleinrock1975, 3.1.
    """
    birth_rate, death_rate = np.atleast_1d(*checked(birth_rate=birth_rate, death_rate=death_rate))
    with np.errstate(divide="ignore"):
        steps = np.log(birth_rate) - np.log(death_rate)
    weights = np.concatenate([np.zeros((*steps.shape[:-1], 1)), np.cumsum(steps, axis=-1)], axis=-1)
    weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def mmck_law(arrival_rate, service_time, servers, capacity):
    r"""Return the law of the number of requests in M/M/c/K.

    Parameters
    ----------
    arrival_rate, service_time : array_like, shape (...)
        As in `mmc_wait_probability`; any load.
    servers, capacity : int
        Servers c, and room K for waiting and served together, at least c.

    Returns
    -------
    ndarray, shape (..., K + 1)
        Probability of 0..K requests; the last is the share of arrivals turned away.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `capacity` is below `servers`.

    Notes
    -----
    A birth-death chain with :math:`\lambda_k = \lambda`, :math:`\mu_k = \min(k, c)/S`.
    Finite, so always stable. Source: kleinrock1975, 3.8.
    """
    arrival_rate, service_time = checked(arrival_rate=arrival_rate, service_time=service_time)
    servers, capacity = single(servers=servers, capacity=capacity)
    at_least("capacity", capacity, "servers", servers)
    busy = np.minimum(np.arange(1, capacity + 1), servers)
    return birth_death_law(arrival_rate[..., None], busy / service_time[..., None])


def mmck_wait(arrival_rate, service_time, servers, capacity):
    r"""Return the mean wait of the requests that M/M/c/K admits.

    Parameters
    ----------
    arrival_rate, service_time, servers, capacity
        As in `mmck_law`.

    Returns
    -------
    ndarray
        Seconds; finite at any load.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `capacity` is below `servers`.

    Notes
    -----
    .. math:: W_q = \frac{\sum_{n > c} (n - c) \pi_n}{\lambda (1 - \pi_K)}

    Little's law for the admitted. Source: kleinrock1975, 3.8.
    """
    law = mmck_law(arrival_rate, service_time, servers, capacity)
    waiting = np.maximum(np.arange(law.shape[-1]) - servers, 0)
    # 1 - law[-1] would cancel under heavy overload.
    return law @ waiting / (arrival_rate * law[..., :-1].sum(axis=-1))
