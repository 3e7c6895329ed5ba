"""One server that takes one request at a time: the yardstick for every batch.

Rates are 1/s, times s. Requests wait in order of arrival. An unstable queue
waits `inf`, and so does one whose variance is infinite.
"""

import numpy as np
from scipy.optimize import elementwise

from lib.domains import at_least, checked


def mm1_sojourn_time(arrival_rate, service_time):
    r"""Return the mean time from arrival to completion in M/M/1.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0. Broadcasts with `service_time`.
    service_time : array_like
        Mean of the exponential service time, s, above 0.

    Returns
    -------
    ndarray
        Seconds, in the broadcast shape; `inf` unless load is below 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: W = \frac{S}{1 - \rho}, \quad \rho = \lambda S < 1

    False when service is not exponential; use `mg1_wait`. Source: kleinrock1975, 3.2.
    """
    arrival_rate, service_time = checked(arrival_rate=arrival_rate, service_time=service_time)
    load = arrival_rate * service_time
    return when_stable(load, lambda room: service_time / room)


def mm1_sojourn_quantile(level, arrival_rate, service_time):
    r"""Return a quantile of the sojourn time in M/M/1.

    Parameters
    ----------
    level : array_like
        Between 0 and 1; at 1 the quantile is `inf`.
    arrival_rate, service_time : array_like
        As in `mm1_sojourn_time`.

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
    The sojourn time is exponential: :math:`-W \ln(1 - q)`. Source: kleinrock1975, 5.6.
    """
    level, arrival_rate, service_time = checked(level=level, arrival_rate=arrival_rate, service_time=service_time)
    with np.errstate(divide="ignore"):
        spread = -np.log1p(-level)
    return when_stable(arrival_rate * service_time, lambda room: spread * service_time / room)


def mg1_wait(arrival_rate, service_time, second_moment):
    r"""Return the mean wait before service in M/G/1.

    Parameters
    ----------
    arrival_rate, service_time : array_like
        Poisson arrivals, 1/s, and mean service time, s, both above 0.
    second_moment : array_like
        Of the service time, s^2; at least ``service_time**2``, may be infinite.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1 and the second moment finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or no law has such moments.

    Notes
    -----
    .. math:: W_q = \frac{\lambda E[S^2]}{2 (1 - \rho)}, \quad \rho = \lambda E[S] < 1

    False when service times depend on each other or on the queue (batching does
    both). Source: Pollaczek and Khinchine, in kleinrock1975, 5.7.
    """
    arrival_rate, service_time, second_moment = checked(
        arrival_rate=arrival_rate, service_time=service_time, second_moment=second_moment)
    at_least("second_moment", second_moment, "service_time squared", service_time**2)
    return when_stable(arrival_rate * service_time, lambda room: arrival_rate * second_moment / (2 * room))


def mg1_wait_second_moment(arrival_rate, service_time, second_moment, third_moment):
    r"""Return the second moment of the wait before service in M/G/1.

    Parameters
    ----------
    arrival_rate, service_time, second_moment : array_like
        As in `mg1_wait`.
    third_moment : array_like
        Of the service time, s^3; at least ``second_moment**2 / service_time``, may be infinite.

    Returns
    -------
    ndarray
        s^2; `inf` unless load is below 1 and the third moment finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or no law has such moments.

    Notes
    -----
    .. math:: E[W_q^2] = 2 W_q^2 + \frac{\lambda E[S^3]}{3 (1 - \rho)}

    Stable iff :math:`\rho < 1`. First come, first served. Source: kleinrock1975, 5.7.
    """
    wait = mg1_wait(arrival_rate, service_time, second_moment)
    arrival_rate, service_time, second_moment, third_moment = checked(
        arrival_rate=arrival_rate, service_time=service_time, second_moment=second_moment, third_moment=third_moment)
    at_least("third_moment", third_moment, "second_moment squared over service_time", second_moment**2 / service_time)
    load = arrival_rate * service_time
    return when_stable(load, lambda room: 2 * wait**2 + arrival_rate * third_moment / (3 * room))


def ekm1_wait(arrival_rate, service_time, stages):
    r"""Return the mean wait before service in E_k/M/1.

    A server that takes only full batches of k sees these arrivals.

    Parameters
    ----------
    arrival_rate : array_like
        Arrivals, 1/s, above 0; the gap between two is a sum of `stages` exponentials.
    service_time : array_like
        Mean of the exponential service time, s, above 0.
    stages : array_like
        Whole, at least 1; 1 is M/M/1.

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
    .. math:: W_q = \frac{\sigma S}{1 - \sigma}, \quad
        \sigma = \left(1 + \frac{1 - \sigma}{k \lambda S}\right)^{-k}, \quad \rho = \lambda S < 1

    Solved for :math:`1 - \sigma`, which stays accurate near saturation. Source: kleinrock1975, ch. 6.
    """
    arrival_rate, service_time, stages = checked(
        arrival_rate=arrival_rate, service_time=service_time, stages=stages)
    load = arrival_rate * service_time
    stable_load = np.where(load < 1, load, 0.5)

    # The root is at least 1 - load, its value for one stage.
    bracket = (1 - stable_load) / 2, np.ones_like(load)
    gap = elementwise.find_root(_ekm1_excess, bracket, args=(stable_load, stages)).x
    # Written with 1 - gap, a light load would lose every digit.
    waiting = (1 + gap / (stages * stable_load)) ** -stages
    return when_stable(load, lambda room: waiting * service_time / gap)


def _ekm1_excess(gap, load, stages):
    """Return how far ``1 - gap`` is from its image, per unit of `gap`, which removes the root at 0."""
    return 1 + np.expm1(-stages * np.log1p(gap / (stages * load))) / gap


def kingman_bound(arrival_rate, service_time, arrival_cv2, service_cv2):
    r"""Return Kingman's upper bound on the mean wait in G/G/1.

    Parameters
    ----------
    arrival_rate, service_time : array_like
        Arrivals, 1/s, and mean service time, s, both above 0.
    arrival_cv2, service_cv2 : array_like
        Variance over squared mean of gaps and of service times, at least 0, may be infinite.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1 and both variances finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: W_q \le \frac{\lambda (\sigma_a^2 + \sigma_s^2)}{2 (1 - \rho)}, \quad \rho = \lambda S < 1

    Gaps and service times must each be independent and alike. Source: kingman1962.
    """
    arrival_rate, service_time, arrival_cv2, service_cv2 = checked(
        arrival_rate=arrival_rate, service_time=service_time, arrival_cv2=arrival_cv2, service_cv2=service_cv2)
    variance = arrival_cv2 / arrival_rate**2 + service_cv2 * service_time**2
    return when_stable(arrival_rate * service_time, lambda room: arrival_rate * variance / (2 * room))


def gg1_wait(arrival_rate, service_time, arrival_cv2, service_cv2):
    r"""Return an approximation of the mean wait in G/G/1.

    Parameters
    ----------
    arrival_rate, service_time, arrival_cv2, service_cv2 : array_like
        As in `kingman_bound`.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1 and both variances finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: W_q \approx \frac{\rho}{1 - \rho} \frac{c_a^2 + c_s^2}{2} S, \quad \rho = \lambda S < 1

    Variability, utilisation, time: exact for Poisson arrivals, right in heavy traffic, not a bound.
    False when gaps depend on each other, as in a trace with slow drift. Source: kingman1961.
    """
    arrival_rate, service_time, arrival_cv2, service_cv2 = checked(
        arrival_rate=arrival_rate, service_time=service_time, arrival_cv2=arrival_cv2, service_cv2=service_cv2)
    load = arrival_rate * service_time
    return when_stable(load, lambda room: load / room * (arrival_cv2 + service_cv2) / 2 * service_time)


def when_stable(load, value):
    """Return ``value(1 - load)`` where `load` is below 1, and `inf` elsewhere.

    Parameters
    ----------
    load : array_like
        Work offered over work possible.
    value : callable
        Takes the spare share of capacity, ``1 - load``, and returns what stands where it is above 0.

    Returns
    -------
    ndarray
    """
    stable = np.asarray(load) < 1
    return np.where(stable, value(np.where(stable, 1 - load, 1.0)), np.inf)
