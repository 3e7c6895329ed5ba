"""A server shared equally by all it holds: continuous batching without a cap, and sharing by few.

Rates are 1/s, times s, lengths tokens. Arrivals are Poisson. Without a cap a step of n
residents takes ``fixed_time + n * marginal_time`` and nobody waits; with few slots and a
constant speed, those who find them taken wait in order of arrival.
"""

import numpy as np
from scipy.stats import nbinom, poisson

from lib.domains import checked
from lib.occupancy import Occupancy
from lib.queueing import when_stable


def uncapped_occupancy(arrival_rate, output_length, fixed_time, marginal_time):
    r"""Return the means of continuous batching without a slot cap.

    Parameters
    ----------
    arrival_rate, output_length : array_like
        Poisson arrivals, 1/s, and mean output length, tokens, both above 0; any length law.
    fixed_time, marginal_time : array_like
        Step time that does not depend on the residents, s, and what each adds, both at least 0.

    Returns
    -------
    Occupancy
        Nobody waits; `inf` times and residents unless stable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Processor sharing at total rate :math:`n / (t_w + n t_c)`: N is negative binomial, and

    .. math:: E[N] = \frac{\lambda E[L] (t_w + t_c)}{1 - x}, \quad \text{TPOT} = \frac{t_w + t_c}{1 - x},
        \quad x = \lambda E[L] t_c < 1

    A fluid model, :math:`t_w / (1 - x)`, is low by the factor :math:`1 + t_c / t_w`. Insensitive to the
    length law; lost when steps also depend on context. Source: kelly1979 for insensitivity (recalled,
    simulated), [derived].
    """
    arrival_rate, output_length, fixed_time, marginal_time = checked(
        arrival_rate=arrival_rate, output_length=output_length, fixed_time=fixed_time, marginal_time=marginal_time)
    load = arrival_rate * output_length * marginal_time
    time_per_token = when_stable(load, lambda room: (fixed_time + marginal_time) / room)
    resident = arrival_rate * output_length * time_per_token
    idle = uncapped_law(0, arrival_rate, output_length, fixed_time, marginal_time)
    residual = (fixed_time * (1 - idle) + marginal_time * resident) / 2
    none = np.zeros(load.shape)
    return Occupancy(none, none, output_length * time_per_token, resident, time_per_token, residual)


def uncapped_law(count, arrival_rate, output_length, fixed_time, marginal_time):
    r"""Return the probability of `count` residents in continuous batching without a slot cap.

    Parameters
    ----------
    count : array_like
        Residents, whole, at least 0. Broadcasts with the others.
    arrival_rate, output_length, fixed_time, marginal_time : array_like
        As in `uncapped_occupancy`.

    Returns
    -------
    ndarray
        Between 0 and 1; 0 when unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \pi_n = \binom{n + r - 1}{n} (1 - x)^r x^n, \quad r = 1 + \frac{t_w}{t_c}, \ x = \lambda E[L] t_c < 1

    Poisson with mean :math:`\lambda E[L] t_w` for a marginal time of 0. Its variance is
    :math:`r x / (1 - x)^2`. Source: as in `uncapped_occupancy`.
    """
    count, arrival_rate, output_length, fixed_time, marginal_time = checked(
        count=count, arrival_rate=arrival_rate, output_length=output_length,
        fixed_time=fixed_time, marginal_time=marginal_time)
    load = arrival_rate * output_length * marginal_time
    spread = (marginal_time > 0) & (load < 1)
    room = np.where(spread, 1 - load, 0.5)
    shape = 1 + fixed_time / np.where(spread, marginal_time, 1.0)
    alone = poisson.pmf(count, arrival_rate * output_length * fixed_time)
    return np.where(spread, nbinom.pmf(count, shape, room), np.where(load < 1, alone, 0.0))


def largest_arrival_rate(time_per_token, output_length, fixed_time, marginal_time):
    r"""Return the arrival rate at which the mean time per token reaches a limit, without a slot cap.

    Parameters
    ----------
    time_per_token : array_like
        The limit, s, above 0.
    output_length, fixed_time, marginal_time : array_like
        As in `uncapped_occupancy`.

    Returns
    -------
    ndarray
        1/s; 0 when one request alone is slower, `inf` when none slows another.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \lambda_{\max} = \frac{1 - (t_w + t_c) / \text{TPOT}}{E[L] t_c}

    Stable there. Source: `uncapped_occupancy`, solved for the rate.
    """
    time_per_token, output_length, fixed_time, marginal_time = checked(
        time_per_token=time_per_token, output_length=output_length, fixed_time=fixed_time,
        marginal_time=marginal_time)
    slack = 1 - (fixed_time + marginal_time) / time_per_token
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(slack > 0, slack / (output_length * marginal_time), 0.0)


def lps_wait(arrival_rate, service_time, slots):
    r"""Return the mean wait for a slot when a server of constant speed is shared by few at a time.

    Parameters
    ----------
    arrival_rate, service_time : array_like
        Poisson arrivals, 1/s, and mean of the exponential service time alone, s, both above 0.
    slots : array_like
        Requests K served at once, whole, at least 1; may be infinite.

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
    .. math:: W_q = \frac{\rho^K S}{1 - \rho}, \quad \rho = \lambda S < 1

    :math:`\rho^K` being the probability of a wait. Source: the number in M/M/1; kleinrock1975, 3.2.
    """
    arrival_rate, service_time, slots = checked(arrival_rate=arrival_rate, service_time=service_time, slots=slots)
    load = arrival_rate * service_time
    return when_stable(load, lambda room: np.minimum(load, 1) ** slots * service_time / room)


def lps_sojourn_time(arrival_rate, service_time, slots, service_cv2):
    r"""Return an approximation of the mean sojourn time when a server is shared by few at a time.

    Parameters
    ----------
    arrival_rate, service_time, slots : array_like
        As in `lps_wait`, for any law of the service time.
    service_cv2 : array_like
        Variance over squared mean of the service time, at least 0, may be infinite.

    Returns
    -------
    ndarray
        Seconds; `inf` unless load is below 1 and, with finitely many slots, the variance finite.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \frac{S}{1 - \rho} \Big[1 + \rho^K \frac{c^2 - 1}{2}\Big], \quad \rho = \lambda S < 1

    Exact for one slot (Pollaczek and Khinchine), infinitely many (sharing) and :math:`c^2 = 1`.
    Four slots, load .8, constant: 3.976, simulated 3.958 +- .011. Source: avi1988, zhang2008 (form recalled).
    """
    arrival_rate, service_time, slots, service_cv2 = checked(
        arrival_rate=arrival_rate, service_time=service_time, slots=slots, service_cv2=service_cv2)
    load = np.minimum(arrival_rate * service_time, 1)
    scaled = np.where(np.isfinite(service_cv2), service_cv2, 1) - 1
    extra = np.where(np.isinf(service_cv2) & np.isfinite(slots), np.inf, scaled * load**slots / 2)
    return when_stable(arrival_rate * service_time, lambda room: service_time / room * (1 + extra))
