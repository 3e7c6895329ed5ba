"""Continuous batching with a slot cap: a queue whose servers slow each other down.

n resident requests each advance one token per step, and a step takes t(n). Rates are
1/s, times s, lengths tokens. Arrivals are Poisson. `step_time` lists t(1)..t(b), and those
who find all b slots taken wait in order of arrival, or leave.
"""

from typing import NamedTuple

import numpy as np

from lib.domains import checked, single
from lib.queueing import when_stable


class Occupancy(NamedTuple):
    """What the occupancy functions return: arrays in the shape of the arrival rate.

    Attributes
    ----------
    wait_probability : ndarray
        Probability that a request finds no free slot.
    wait : ndarray
        Mean time to admission, s.
    sojourn_time : ndarray
        Mean time to the last token, s, without prefill and without the step in progress.
    resident : ndarray
        Mean number of slots taken.
    time_per_token : ndarray
        Mean resident time over mean output length, s.
    residual_step : ndarray
        Mean time an arrival waits for the step in progress, s: half the mean step found.
    """

    wait_probability: np.ndarray
    wait: np.ndarray
    sojourn_time: np.ndarray
    resident: np.ndarray
    time_per_token: np.ndarray
    residual_step: np.ndarray


def capped_occupancy(arrival_rate, output_length, step_time, *, output_cv2=1.0):
    r"""Return the means of continuous batching with b slots and a queue.

    Parameters
    ----------
    arrival_rate, output_length : array_like, shape (...)
        Poisson arrivals, 1/s, and mean output length, tokens, both above 0.
    step_time : array_like, shape (b,)
        Time of a step with 1..b residents, s, above 0; its length is the number of slots.
    output_cv2 : float
        Variance over squared mean of the output length; may be infinite. Other than 1, approximate.

    Returns
    -------
    Occupancy
        `inf` wait and sojourn time unless stable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    For exponential lengths a birth-death chain, geometric beyond b,

    .. math:: \pi_n = \pi_0 \prod_{k \le n} \frac{\lambda E[L] t(\min(k, b))}{\min(k, b)}, \quad
        \rho = \frac{\lambda E[L] t(b)}{b} < 1, \quad W_q = \frac{\pi_b \rho}{\lambda (1 - \rho)^2}

    For other lengths the wait is scaled by :math:`(1 + c^2)/2`: right in order, off by -5 to +20 %
    (sojourn time within 3 %) for constant, lognormal and hyperexponential lengths at load .9.
    A geometric length is read as exponential. Source: kleinrock1975, 3.2; scaling is the
    limited-processor-sharing form of zhang2008 (recalled, compared with simulation).
    """
    output_cv2 = single(output_cv2=output_cv2)
    arrival_rate, output_length, step_time = _slot_arguments(arrival_rate, output_length, step_time)
    law, load = _slot_law(arrival_rate, output_length, step_time)
    taken = np.arange(step_time.size + 1)
    exponential = when_stable(load, lambda room: law[..., -1] * load / (room * arrival_rate))
    wait = exponential * (1 + output_cv2) / 2 if np.isfinite(output_cv2) else np.full(load.shape, np.inf)
    resident = law @ taken
    # An unstable queue still advances those it holds.
    time_per_token = resident / (arrival_rate * output_length) * np.maximum(load, 1)
    residual = law[..., 1:] @ step_time / 2
    return Occupancy(law[..., -1], wait, wait + time_per_token * output_length, resident, time_per_token, residual)


def _slot_arguments(arrival_rate, output_length, step_time):
    arrival_rate, output_length = checked(arrival_rate=arrival_rate, output_length=output_length)
    step_time = np.atleast_1d(*checked(step_time=step_time))
    if step_time.ndim != 1:
        raise ValueError(f"step_time must have one axis, got shape {step_time.shape}")
    return arrival_rate, output_length, step_time


def _slot_law(arrival_rate, output_length, step_time):
    """Return P(N = 0..b-1) with P(N >= b) as its last entry, and the load with all slots taken."""
    slots = np.arange(1, step_time.size + 1)
    ratios = (arrival_rate * output_length)[..., None] * step_time / slots
    load = ratios[..., -1]
    weights = np.concatenate([np.zeros((*load.shape, 1)), np.cumsum(np.log(ratios), axis=-1)], axis=-1)
    weights[..., -1] -= np.log(when_stable(load, lambda room: room))
    return _normalised(weights, load), load


def _normalised(weights, load):
    """Return the law with those logarithms; an unstable queue has every slot taken."""
    full = np.arange(weights.shape[-1]) == weights.shape[-1] - 1
    weights = np.where((load < 1)[..., None], weights, np.where(full, 0.0, -np.inf))
    law = np.exp(weights - weights.max(axis=-1, keepdims=True))
    return law / law.sum(axis=-1, keepdims=True)


def occupancy_law(arrival_rate, output_length, step_time):
    r"""Return the law of the slots taken in continuous batching with a queue.

    Parameters
    ----------
    arrival_rate, output_length, step_time : array_like
        As in `capped_occupancy`; exponential lengths.

    Returns
    -------
    ndarray, shape (..., b + 1)
        Probability of 0..b slots taken; the last is that of a wait.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    As in `capped_occupancy`; when unstable all slots are taken. Source: kleinrock1975, 3.2.
    """
    return _slot_law(*_slot_arguments(arrival_rate, output_length, step_time))[0]


def admission_wait_tail(time, arrival_rate, output_length, step_time):
    r"""Return the probability that admission takes longer than `time`.

    Parameters
    ----------
    time : array_like
        Seconds, at least 0; may be infinite. Broadcasts with the next two.
    arrival_rate, output_length, step_time : array_like
        As in `capped_occupancy`; exponential lengths.

    Returns
    -------
    ndarray
        Between 0 and 1; 1 when unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: P(W_q > t) = P(N \ge b) e^{-(\mu - \lambda) t}, \quad \mu = \frac{b}{t(b) E[L]} > \lambda

    The number ahead is geometric and each takes an exponential time: their sum is exponential
    again, so the tail needs no sum. First come, first served. Source: kleinrock1975, 3.2 [derived].
    """
    arrival_rate, output_length, step_time = _slot_arguments(arrival_rate, output_length, step_time)
    time, arrival_rate, output_length = checked(time=time, arrival_rate=arrival_rate, output_length=output_length)
    law, load = _slot_law(arrival_rate, output_length, step_time)
    stable = load < 1
    spare_rate = np.where(stable, arrival_rate * (1 - load) / load, 1.0)
    return np.where(stable, law[..., -1] * np.exp(-spare_rate * time), 1.0)


def loss_probability(arrival_rate, output_length, step_time):
    r"""Return the share of requests lost when those who find no free slot leave.

    Parameters
    ----------
    arrival_rate, output_length, step_time : array_like
        As in `capped_occupancy`; any length law, any load.

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
    .. math:: \pi_b, \quad \pi_n \propto \prod_{k \le n} \frac{\lambda E[L] t(k)}{k}, \ n \le b

    Finite, so always stable; depends on the length law through its mean alone. Source: kelly1979
    (product form recalled; compared with simulations of four length laws).
    """
    arrival_rate, output_length, step_time = _slot_arguments(arrival_rate, output_length, step_time)
    ratios = (arrival_rate * output_length)[..., None] * step_time / np.arange(1, step_time.size + 1)
    weights = np.concatenate([np.zeros((*arrival_rate.shape, 1)), np.cumsum(np.log(ratios), axis=-1)], axis=-1)
    return _normalised(weights, np.zeros(arrival_rate.shape))[..., -1]
