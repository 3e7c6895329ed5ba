"""Several servers of constant time, and how many servers a load needs.

Rates are 1/s, times s. Arrivals are Poisson; requests wait in order of arrival.
"""

import numpy as np
from scipy.special import gammainc, lambertw, ndtr

from lib.domains import checked, single
from lib.queueing import when_stable


def mdc_wait(arrival_rate, service_time, servers):
    r"""Return the mean wait before service in M/D/c.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0. Broadcasts with `service_time`.
    service_time : array_like
        The constant service time, s, above 0.
    servers : int
        At least 1.

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
    Source: crommelin1932; tijms2003 (re-derived).
    """
    arrival_rate, service_time = checked(arrival_rate=arrival_rate, service_time=service_time)
    servers = single(servers=servers)
    load = arrival_rate * service_time / servers
    return when_stable(load, lambda room: service_time * _mdc_wait_in_services(
        np.where(load < 1, load, 0.5), servers))


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
