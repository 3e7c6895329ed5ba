"""The affine law of a batch, t(b) = fixed_time + b * marginal_time, and what follows from it.

Times s, rates 1/s, prices USD/s. A token is made for each sequence of the batch.
"""

import numpy as np

from lib.domains import checked


def batch_time(batch_size, fixed_time, marginal_time):
    r"""Return the time of a batch.

    Parameters
    ----------
    batch_size : array_like
        Sequences b, whole, at least 1.
    fixed_time : array_like
        Time any batch takes, s, at least 0.
    marginal_time : array_like
        Time each sequence adds, s, at least 0; not 0 together with `fixed_time`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: t(b) = t_w + b t_1

    False once arithmetic binds (the roofline bends) or tiles show. Source: inoue2021, 3.3, fits two
    accelerators with :math:`R^2` above .999.
    """
    batch_size, fixed_time, marginal_time = checked(
        batch_size=batch_size, fixed_time=fixed_time, marginal_time=marginal_time)
    _refuse_no_time(fixed_time + marginal_time)
    return fixed_time + batch_size * marginal_time


def _refuse_no_time(time):
    if np.any(time == 0):
        raise ValueError("fixed_time plus marginal_time must be above 0, got 0")


def token_rate(batch_size, fixed_time, marginal_time):
    r"""Return the tokens per second of a batch.

    Parameters
    ----------
    batch_size, fixed_time, marginal_time : array_like
        As in `batch_time`.

    Returns
    -------
    ndarray
        1/s; tends to ``1 / marginal_time``.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: X(b) = \frac{b}{t_w + b t_1}

    Source: as in `batch_time`.
    """
    return batch_size / batch_time(batch_size, fixed_time, marginal_time)


def token_cost(price_rate, mean_batch, fixed_time, marginal_time):
    r"""Return the price of a token made in a batch.

    Parameters
    ----------
    price_rate : array_like
        Price of the machine, USD/s, at least 0.
    mean_batch : array_like
        Mean sequences in a batch, at least 1.
    fixed_time, marginal_time : array_like
        As in `batch_time`.

    Returns
    -------
    ndarray
        USD per token; tends to ``price_rate * marginal_time``.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: c = \pi \Big(t_1 + \frac{t_w}{E[B]}\Big)

    Prices busy time. Rented by the hour, a request costs :math:`\pi / \lambda` whatever the batch, until
    a machine can be dropped. Source: [derived].
    """
    price_rate, mean_batch, fixed_time, marginal_time = checked(
        price_rate=price_rate, mean_batch=mean_batch, fixed_time=fixed_time, marginal_time=marginal_time)
    _refuse_no_time(fixed_time + marginal_time)
    return price_rate * (marginal_time + fixed_time / mean_batch)


def half_saturation_batch(fixed_time, marginal_time):
    r"""Return the batch that reaches half of the peak throughput.

    Parameters
    ----------
    fixed_time : array_like
        Time any batch takes, s, at least 0.
    marginal_time : array_like
        Time each sequence adds, s, at least 0.

    Returns
    -------
    ndarray
        Sequences, not rounded; `inf` when sequences add no time.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: b_{1/2} = \frac{t_w}{t_1}

    There a token costs twice its floor, and latency times cost, :math:`t(b)^2 / b`, is least: Kleinrock's
    power is highest. Source: kleinrock1979 for power; [derived].
    """
    fixed_time, marginal_time = checked(fixed_time=fixed_time, marginal_time=marginal_time)
    _refuse_no_time(fixed_time + marginal_time)
    with np.errstate(divide="ignore"):
        return fixed_time / marginal_time


def largest_batch_within(step_limit, fixed_time, marginal_time):
    r"""Return the largest batch whose time stays within a limit.

    Parameters
    ----------
    step_limit : array_like
        Seconds, above 0; may be infinite.
    fixed_time, marginal_time : array_like
        As in `half_saturation_batch`.

    Returns
    -------
    ndarray
        Sequences, whole; 0 when none fits, `inf` when any does.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: b = \lfloor (\text{limit} - t_w) / t_1 \rfloor

    Memory may bind first. Source: [derived].
    """
    step_limit, fixed_time, marginal_time = checked(
        step_limit=step_limit, fixed_time=fixed_time, marginal_time=marginal_time)
    _refuse_no_time(fixed_time + marginal_time)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = (step_limit - fixed_time) / marginal_time
    # Rounding must not take away a batch that fits exactly.
    fits = np.floor(room * (1 + 1e-12))
    return np.where(step_limit >= fixed_time + marginal_time, np.maximum(fits, 1), 0.0)


def usl_token_rate(batch_size, single_rate, contention, coherency):
    r"""Return the throughput of the universal scalability law.

    Parameters
    ----------
    batch_size : array_like
        Sequences N, whole, at least 1.
    single_rate : array_like
        Throughput of one, 1/s, above 0.
    contention : array_like
        Share that does not parallelise, from 0 to 1.
    coherency : array_like
        Cost of every pair, at least 0.

    Returns
    -------
    ndarray
        1/s.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: X(N) = \frac{X_1 N}{1 + \sigma (N - 1) + \kappa N (N - 1)}

    The affine law is :math:`\kappa = 0`; see `usl_contention`. Source: gunther2007.
    """
    batch_size, single_rate, contention, coherency = checked(
        batch_size=batch_size, single_rate=single_rate, contention=contention, coherency=coherency)
    others = batch_size - 1
    return single_rate * batch_size / (1 + contention * others + coherency * batch_size * others)


def usl_contention(fixed_time, marginal_time):
    r"""Return the contention that makes the universal scalability law the affine law.

    Parameters
    ----------
    fixed_time, marginal_time : array_like
        As in `half_saturation_batch`.

    Returns
    -------
    ndarray
        From 0 to 1; its inverse is the greatest speed-up.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time.

    Notes
    -----
    .. math:: \sigma = \frac{t_1}{t_w + t_1}, \quad X_1 = \frac{1}{t_w + t_1}, \quad \kappa = 0

    Source: gunther2007, matched term by term [derived].
    """
    fixed_time, marginal_time = checked(fixed_time=fixed_time, marginal_time=marginal_time)
    _refuse_no_time(fixed_time + marginal_time)
    return marginal_time / (fixed_time + marginal_time)


def usl_peak(contention, coherency):
    r"""Return the batch of greatest throughput under the universal scalability law.

    Parameters
    ----------
    contention, coherency : array_like
        As in `usl_token_rate`.

    Returns
    -------
    ndarray
        Sequences, not rounded, at least 1; `inf` when pairs cost nothing and anything parallelises.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: N^* = \sqrt{(1 - \sigma) / \kappa}

    Source: gunther2007.
    """
    contention, coherency = checked(contention=contention, coherency=coherency)
    pairs = np.where(coherency > 0, coherency, 1.0)
    peak = np.where(coherency > 0, np.sqrt((1 - contention) / pairs), np.where(contention < 1, np.inf, 1.0))
    return np.maximum(peak, 1.0)
