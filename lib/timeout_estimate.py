"""What a page says of a batching server besides its mean: the 99th percentile, and a cap that is large enough.

Rates are 1/s, times s. Closed forms near the exact ones of `lib.timeout_batching` and `lib.dispatch`: simple
enough to be computed where a reader moves a slider.
"""

import numpy as np

from lib.domains import checked
from lib.timeout_batching import settings


def estimated_p99(arrival_rate, fixed_time, marginal_time, timeout, mean_batch, *, named=lambda name, value: value):
    r"""Return the 99th percentile of the time from arrival to the end of the batch, in closed form.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : array_like
        As in `lib.timeout_batching.timeout_batch_size`, load below 1; or symbols.
    mean_batch : array_like
        Requests, at least 1: exact or estimated.
    named : callable
        Takes a name and an intermediate value, and returns the value: a page keeps it by its name.

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
    A share U of requests, the busy fraction, comes behind a batch of S: it waits what is left of S, even on
    (0, S), and then rides with those who came in the whole of S. For a typical S, the second moment over the
    first, that is an even number plus a nearly normal one of spread :math:`\sigma`, with the moments of B from

    .. math:: \kappa_2 (1 - \rho^2) = m, \quad \kappa_3 (1 - \rho^3) = 3 \rho^2 \kappa_2 + m

    less what late starts add. The percentile is where a share .01 / U of it is above, by Newton's method. Or
    it is that of who opened a window of T: T and a batch of 1 and, at most, :math:`\lambda T + 3 \sqrt{\lambda T}`.
    Source: [derived]; its distance from the exact one is measured by a test.
    """
    if not callable(named):
        raise ValueError(f"named must be a function, got {named!r}")
    rate, fixed, marginal, timeout, size = _checked(arrival_rate, fixed_time, marginal_time, timeout, mean_batch)
    load, alone = named("p_load", np.minimum(rate * marginal, 0.999)), fixed + marginal
    spread = named("p_spread", _variance(size, load, rate * fixed, rate * timeout))
    third = named("p_third", (3 * load * load * spread + size) / (1 - load * load * load))
    time, varied = named("p_time", fixed + marginal * size), named("p_varied", marginal * marginal * spread)
    longer = named("p_longer", time + varied / time)
    cube = time * time * time + 3 * time * varied + marginal * marginal * marginal * third
    between = named("p_between", np.maximum(cube / time - longer * longer, 0.0))
    noise = marginal * marginal * rate * longer + (1 + load) * (1 + load) * between
    sigma = named("p_sigma", np.sqrt(noise + 1e-6 * alone * alone))
    above = named("p_above", np.minimum(0.01 * size / (rate * time), 0.99))
    left = longer / 2
    for turn in range(6):
        top, low = named(f"p_top_{turn}", left / sigma), named(f"p_low_{turn}", (left - longer) / sigma)
        inside = np.maximum(_below(top) - _below(low), 1e-6)
        excess = 1 - above - (top * _below(top) + _bell(top) - low * _below(low) - _bell(low)) * sigma / longer
        left = named(f"p_left_{turn}", left + excess * longer / inside)
    joined = rate * timeout
    opened = timeout + alone + marginal * (joined + 3 * np.sqrt(joined))
    return np.maximum(alone + load * longer + left, opened)


def _checked(arrival_rate, fixed_time, marginal_time, timeout, mean_batch):
    """Return the five as arrays that fit together, or refuse them; symbols pass."""
    setting = {"arrival_rate": arrival_rate, "fixed_time": fixed_time, "marginal_time": marginal_time,
               "timeout": timeout}  # fmt: skip
    *together, size = checked(**setting, mean_batch=mean_batch)
    return *settings(*together), size


def _variance(mean_batch, load, fixed_arrivals, window):
    """Return the variance of the batch, given its mean: see `lib.timeout_batching.timeout_sojourn_time`."""
    late = mean_batch * (1 - load) - fixed_arrivals
    squares = mean_batch * (1 + 2 * load * fixed_arrivals) + fixed_arrivals * fixed_arrivals + 2 * window * late
    return np.maximum(squares / ((1 - load) * (1 + load)) - mean_batch * mean_batch, 0.0)


def _below(z):
    """Return the normal law at z, within 2e-4."""
    z = np.minimum(np.maximum(z, -8.0), 8.0)
    return 1 / (1 + np.exp(-1.5976 * z - 0.07056 * z * z * z))


def _bell(z):
    """Return the density of the normal law at z."""
    return np.exp(-np.minimum(z * z, 200.0) / 2) * 0.3989422804


def ample_cap(arrival_rate, fixed_time, marginal_time, mean_batch):
    r"""Return a batch cap that lengthens the mean of the greedy server by no more than 1 %, in closed form.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, mean_batch : array_like
        As in `estimated_p99`, without a timeout.

    Returns
    -------
    ndarray
        Requests: the mean batch and two standard deviations, rounded up, and one more.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Seldom the smallest: that is `lib.dispatch.smallest_cap`. Never too small over the grid of its test.
    Source: [derived], a rule found by trying.
    """
    rate, fixed, marginal, _, size = _checked(arrival_rate, fixed_time, marginal_time, 0.0, mean_batch)
    load = np.minimum(rate * marginal, 0.999)
    return np.ceil(size + 2 * np.sqrt(_variance(size, load, rate * fixed, 0.0))) + 1
