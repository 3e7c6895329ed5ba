"""The longest of n outputs: how long a static batch runs, and what its idle slots cost.

Lengths are tokens. The n requests of a batch are independent and alike. A ratio is
E[longest] / E[length]; its inverse is the share of slots a rigid static batch uses.
"""

import numpy as np
from scipy.special import beta, comb, digamma, ndtr

from lib.domains import checked, single


def exponential_max_ratio(batch_size):
    r"""Return the mean longest of n exponential lengths over the mean length.

    Parameters
    ----------
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        At least 1.

    Raises
    ------
    ValueError
        If `batch_size` is not a whole number from 1.

    Notes
    -----
    .. math:: R_n = H_n = \sum_{k=1}^{n} \frac{1}{k}

    Source: david2003.
    """
    (batch_size,) = checked(batch_size=batch_size)
    return digamma(batch_size + 1) + np.euler_gamma


def lognormal_max_ratio(log_sd, batch_size):
    r"""Return the mean longest of n lognormal lengths over the mean length.

    Parameters
    ----------
    log_sd : array_like
        Standard deviation of the logarithm, at least 0.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        At least 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: R_n = \int n \varphi(z) \Phi(z + \sigma)^{n-1} dz, \quad
        R_2 = 2 \Phi(\sigma / \sqrt 2)

    by the trapezoid rule, which is exact to rounding here. The leading term
    :math:`\exp(\sigma \sqrt{2 \ln n} - \sigma^2/2)` is poor at practical n. Source: david2003.
    """
    log_sd, batch_size = checked(log_sd=log_sd, batch_size=batch_size)
    z = np.arange(-12, 12, 1 / 16)
    weight = np.exp(-z**2 / 2) / np.sqrt(2 * np.pi) / 16
    return batch_size * (ndtr(z + log_sd[..., None]) ** (batch_size[..., None] - 1) @ weight)


def pareto_max_ratio(shape, batch_size):
    r"""Return the mean longest of n Pareto lengths over the mean length.

    Parameters
    ----------
    shape : array_like
        Tail index a, above 1: at 1 or below the mean length itself is infinite.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        At least 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: R_n = \frac{a - 1}{a} \frac{\Gamma(n + 1) \Gamma(1 - 1/a)}{\Gamma(n + 1 - 1/a)}

    grows like :math:`n^{1/a}`. Source: david2003.
    """
    shape, batch_size = checked(shape=shape, batch_size=batch_size)
    return (shape - 1) / shape * batch_size * beta(batch_size, 1 - 1 / shape)


def geometric_max(mean_length, batch_size):
    r"""Return the mean longest of n geometric lengths on 1, 2, ...

    Parameters
    ----------
    mean_length : array_like
        Mean length, tokens, at least 1.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        Tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \sum_{k \ge 0} (1 - (1 - q^k)^n) = \sum_{j=1}^{n} \binom{n}{j} \frac{(-1)^{j+1}}{1 - q^j},
        \quad q = 1 - 1 / E[L]

    The second form serves n up to 16 and loses all digits near 60; the first serves larger n; for
    long outputs it equals :math:`1/2 + H_n / d`, :math:`d = -\ln q`, to rounding. Source: eisenberg2008
    (abstract read; the three forms agree).
    """
    mean_length, batch_size = checked(mean_length=mean_length, batch_size=batch_size)
    with np.errstate(divide="ignore"):
        decay = -np.log1p(-1 / mean_length)
    small, long = batch_size <= 16, decay < 0.05
    longest = np.empty(mean_length.shape)
    for where, rule in ((small, _alternating), (~small & long, _eisenberg), (~small & ~long, _summed)):
        longest[where] = rule(decay[where][:, None], batch_size[where][:, None])
    return longest


def _alternating(decay, batch_size):
    terms = np.arange(1, 17)
    signs = np.where(terms % 2, 1, -1)
    return np.sum(comb(batch_size, terms) * signs / -np.expm1(-decay * terms), axis=-1)


def _eisenberg(decay, batch_size):
    return (0.5 + (digamma(batch_size + 1) + np.euler_gamma) / decay)[:, 0]


def _summed(decay, batch_size):
    """Return the sum over k; at a decay of .05 the terms past 1200 are below 1e-17 for any n below 1e9."""
    survival = np.exp(-decay * np.arange(1, 1200))
    return 1 + np.sum(-np.expm1(batch_size * np.log1p(-survival)), axis=-1)


def uniform_max(largest, batch_size):
    r"""Return the mean longest of n lengths uniform on 1..m.

    Parameters
    ----------
    largest : int
        Largest length m, tokens.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        Tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: m - \sum_{k<m} (k / m)^n

    Source: david2003.
    """
    largest = single(largest=largest)
    return survival_max(1 - np.arange(largest) / largest, batch_size)


def empirical_max(lengths, batch_size):
    r"""Return the mean longest of n lengths drawn from a sample, with replacement.

    Parameters
    ----------
    lengths : array_like, shape (m,)
        Observed lengths, tokens, at least 0.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        Tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `lengths` has more than one axis.

    Notes
    -----
    .. math:: \sum_{i=1}^{m} x_{(i)} \Big[\Big(\frac{i}{m}\Big)^n - \Big(\frac{i - 1}{m}\Big)^n\Big]

    Says nothing about lengths beyond the longest seen. Source: david2003.
    """
    lengths = np.sort(_one_axis("lengths", *checked(lengths=lengths)))
    (batch_size,) = checked(batch_size=batch_size)
    reached = (np.arange(lengths.size + 1) / lengths.size) ** batch_size[..., None]
    return np.diff(reached, axis=-1) @ lengths


def _one_axis(name, values):
    if values.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {values.shape}")
    return values


def survival_max(survival, batch_size):
    r"""Return the mean longest of n whole lengths of any law, clipped at a token limit.

    Parameters
    ----------
    survival : array_like, shape (m,)
        Probability that a length exceeds 0, 1, ..., m - 1 tokens; m is the limit.
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        Tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `survival` rises anywhere.

    Notes
    -----
    .. math:: E[\max_n \min(L, m)] = \sum_{k<m} (1 - (1 - P(L > k))^n)

    Source: david2003.
    """
    survival = _survival(survival)
    (batch_size,) = checked(batch_size=batch_size)
    with np.errstate(divide="ignore"):
        all_short = batch_size[..., None] * np.log1p(-survival)
    return -np.expm1(all_short).sum(axis=-1)


def _survival(survival):
    survival = _one_axis("survival", *checked(survival=survival))
    rises = np.diff(survival) > 0
    if rises.any():
        first = int(np.argmax(rises))
        raise ValueError(f"survival must not rise, got {survival[first]:g} then {survival[first + 1]:g}")
    return survival


def clipped_moments(survival):
    r"""Return the first three moments of a whole length clipped at a token limit.

    Parameters
    ----------
    survival : array_like, shape (m,)
        As in `survival_max`.

    Returns
    -------
    ndarray, shape (3,)
        Tokens, tokens^2, tokens^3.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `survival` rises anywhere.

    Notes
    -----
    .. math:: E[\min(L, m)^j] = \sum_{k<m} ((k + 1)^j - k^j) P(L > k)

    Finite for every law: the limit is what tames a heavy tail. Source: summation by parts.
    """
    survival = _survival(survival)
    steps = np.arange(survival.size + 1.0)
    return np.array([np.diff(steps**power) @ survival for power in (1, 2, 3)])
