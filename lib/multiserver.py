"""Several servers whose times are not exponential, and how many a load needs.

Rates are 1/s, times s. Arrivals are Poisson; requests wait in order of arrival.
"""

import numpy as np
from scipy.special import gammainc, lambertw, ndtr

from lib import arguments
from lib.domains import checked, single
from lib.erlang import mmc_wait
from lib.queueing import when_stable


def mdc_wait(arrival_rate, service_time, servers, *, method="exact"):
    r"""Return the mean wait before service in M/D/c.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0. Broadcasts with `service_time`.
    service_time : array_like
        The constant service time, s, above 0.
    servers : int
        At least 1.
    method : {"exact", "cosmetatos"}
        Crommelin's queue, or the approximation from `lib.erlang.mmc_wait`.

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
    Looked at every S seconds, the number present is a walk that loses up to c and gains a Poisson
    number. With :math:`m = \lambda S` and :math:`z_k` the roots of :math:`z^c = e^{-m(1 - z)}` in the disc,

    .. math:: \lambda W_q = \frac{m^2 - c(c - 1)}{2 (c - m)} + \sum_{k=1}^{c-1} \frac{1}{1 - z_k},
        \quad \rho = m / c < 1

    Where that difference would cancel (light load), Spitzer's sum for the equal queue E_c/D/1 is used.

    .. math:: W_q \approx \frac{W_q^{M/M/c}}{2}
        \left(1 + (1 - \rho)(c - 1) \frac{\sqrt{4 + 5c} - 2}{16 \rho c}\right)

    is "cosmetatos": within 0.2 % at load .8 and 4 servers, but it grows without bound in relative
    terms at light load. Source: crommelin1932; tijms2003; cosmetatos1975 as printed in arXiv:2102.05851, eq. 2.
    """
    arrival_rate, service_time = checked(arrival_rate=arrival_rate, service_time=service_time)
    servers = single(servers=servers)
    solve = {"exact": _mdc_wait_in_services, "cosmetatos": _cosmetatos}[
        arguments.choice("method", method, ["exact", "cosmetatos"])]
    load = arrival_rate * service_time / servers
    return when_stable(load, lambda room: service_time * solve(np.where(load < 1, load, 0.5), servers))


def _cosmetatos(load, servers):
    correction = (1 - load) * (servers - 1) * (np.sqrt(4 + 5 * servers) - 2) / (16 * load * servers)
    return mmc_wait(load * servers, 1.0, servers) / 2 * (1 + correction)


def _mdc_wait_in_services(load, servers):
    """Return the wait over the service time; whichever of two exact forms keeps its digits."""
    terms = 64
    decay = servers * (load - 1 - np.log(load))  # Chernoff: term k of the sum falls like exp(-k decay)
    light = decay * terms > 40
    wait = np.empty(load.shape)
    wait[light] = _spitzer_sum(load[light][:, None], servers, np.arange(1, terms + 1))
    wait[~light] = _crommelin_sum(load[~light][:, None], servers)
    return wait


def _spitzer_sum(load, servers, steps):
    """Return the sum over k of E[(k - G)^+] / k, with G the time of the k c-th arrival, in services."""
    shape = steps * servers
    mean = shape * load
    reached = gammainc(shape, mean)
    exactly = reached - gammainc(shape + 1, mean)
    return np.sum((exactly - (1 - load) * reached) / load, axis=-1)


def _crommelin_sum(load, servers):
    turns = np.exp(2j * np.pi * np.arange(1, servers) / servers)
    roots = -lambertw(-load * np.exp(-load) * turns) / load
    load = load[:, 0]
    mean = load * servers
    waiting = (mean**2 - servers * (servers - 1)) / (2 * servers * (1 - load)) + np.sum(1 / (1 - roots), axis=-1).real
    return waiting / mean


def mgc_wait(arrival_rate, service_time, servers, service_cv2, *, method="lee-longton"):
    r"""Return an approximation of the mean wait in M/G/c.

    Parameters
    ----------
    arrival_rate, service_time : array_like
        Poisson arrivals, 1/s, and mean service time, s, both above 0.
    servers : int
        At least 1.
    service_cv2 : array_like
        Variance over squared mean of the service time, at least 0, may be infinite.
    method : {"lee-longton", "page", "kimura"}
        Scale M/M/c; or mix M/M/c and M/D/c linearly, or harmonically.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1 and the variance finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \frac{1 + c_s^2}{2} W_M, \qquad c_s^2 W_M + (1 - c_s^2) W_D, \qquad
        \frac{1 + c_s^2}{(1 - c_s^2)/W_D + 2 c_s^2 / W_M}

    Exact for one server; the last two also for constant and exponential times. Two servers, load .8,
    hyperexponential with :math:`c_s^2 = 5.5`: exact 5.547 service times, these 5.778, 5.713, 5.391.
    Worse at light load (+34 % for the first at load .5 and 4 servers). Source: lee1959; page1972; kimura1986
    (forms recalled, checked against an exact chain).
    """
    arrival_rate, service_time, service_cv2 = checked(
        arrival_rate=arrival_rate, service_time=service_time, service_cv2=service_cv2)
    mix = _MIXES[arguments.choice("method", method, [*_MIXES])]
    exponential = mmc_wait(arrival_rate, service_time, servers)
    constant = mdc_wait(arrival_rate, service_time, servers)
    known = np.isfinite(service_cv2) & np.isfinite(exponential)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, mix(np.where(known, service_cv2, 1.0), exponential, constant), np.inf)


_MIXES = {
    "lee-longton": lambda cv2, exponential, constant: (1 + cv2) / 2 * exponential,
    "page": lambda cv2, exponential, constant: cv2 * exponential + (1 - cv2) * constant,
    "kimura": lambda cv2, exponential, constant: (1 + cv2) / ((1 - cv2) / constant + 2 * cv2 / exponential),
}


def halfin_whitt_servers(offered_load, slack):
    r"""Return the servers that square-root staffing assigns to a load.

    Parameters
    ----------
    offered_load : array_like
        Arrival rate times mean service time, above 0.
    slack : array_like
        Safety in standard deviations of the load, above 0.

    Returns
    -------
    ndarray
        Whole, at least 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: c = \lceil R + \beta \sqrt{R} \rceil

    More than R, so stable. Source: halfin1981.
    """
    offered_load, slack = checked(offered_load=offered_load, slack=slack)
    return np.ceil(offered_load + slack * np.sqrt(offered_load))


def halfin_whitt_wait_probability(slack):
    r"""Return the limit of the probability of waiting under square-root staffing.

    Parameters
    ----------
    slack : array_like
        As in `halfin_whitt_servers`.

    Returns
    -------
    ndarray
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `slack` is not above 0.

    Notes
    -----
    .. math:: P(W_q > 0) \to \left(1 + \frac{\beta \Phi(\beta)}{\varphi(\beta)}\right)^{-1}

    A limit for many exponential servers: with 100 of them and slack 1 a request waits with
    probability .2377, not .2234. Source: halfin1981.
    """
    (slack,) = checked(slack=slack)
    density = np.exp(-slack**2 / 2) / np.sqrt(2 * np.pi)
    return density / (density + slack * ndtr(slack))
