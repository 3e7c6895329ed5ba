"""Textbook laws fitted to measured lengths, and what each says of the longest of a batch.

Lengths are tokens. A law is anything that `lib.lengths.length_quantile` takes; what it says is
computed from its quantiles at evenly spaced levels, so measured and textbook lengths are treated alike.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, digamma

from lib import arguments
from lib.domains import single
from lib.lengths import LengthLaw, length_quantile
from lib.order_statistics import empirical_max

_POINTS = 40_000
_LEVELS = (np.arange(_POINTS) + 0.5) / _POINTS
FITTED = ("exponential", "geometric", "lognormal", "gamma")


def fitted_laws(law):
    r"""Return each textbook law that is fitted to the lengths, by maximum likelihood.

    Parameters
    ----------
    law : LengthLaw or MeasuredLengths
        The lengths.

    Returns
    -------
    dict of str to LengthLaw
        By the names of `FITTED`.

    Raises
    ------
    ValueError
        If `law` is no law.

    Notes
    -----
    Exponential and geometric have the mean of the lengths; a lognormal law has the mean and the standard
    deviation of their logarithm; a gamma law of shape k their mean, and :math:`\ln k - \psi(k) = \ln E[L]
    - E[\ln L]`. That none of them fits well is the point: see `distance`.
    Source: maximum likelihood [derived].
    """
    lengths = length_quantile(law, _LEVELS)
    mean, logs = lengths.mean(), np.log(lengths)
    spread = logs.std()
    shape = brentq(lambda k: np.log(k) - digamma(k) - (np.log(mean) - logs.mean()), 1e-3, 1e6)
    return {
        "exponential": LengthLaw(law="exponential", mean=mean),
        "geometric": LengthLaw(law="geometric", mean=mean),
        "lognormal": LengthLaw(
            law="lognormal", mean=np.exp(logs.mean() + spread**2 / 2), cv=np.sqrt(np.expm1(spread**2))
        ),
        "gamma": LengthLaw(law="gamma", mean=mean, cv=shape**-0.5),
    }


def distance(law, other):
    r"""Return the largest gap between the shares of requests that two laws keep within any length.

    Parameters
    ----------
    law, other : LengthLaw or MeasuredLengths

    Returns
    -------
    float
        Between 0 and 1: the statistic of Kolmogorov and Smirnov, on whole tokens.

    Raises
    ------
    ValueError
        If one of them is no law.

    Notes
    -----
    .. math:: \max_k |P(L \le k) - P(L' \le k)|

    It weighs the middle of a law, not its tail. Source: Kolmogorov and Smirnov, as in textbooks.
    """
    arguments.choice("other", type(other).__name__, ("LengthLaw", "MeasuredLengths"))
    one, two = (length_quantile(each, _LEVELS) for each in (law, other))
    lengths = np.union1d(one, two)
    shares = [np.searchsorted(each, lengths, side="right") / _POINTS for each in (one, two)]
    return float(np.max(np.abs(shares[0] - shares[1])))


def max_ratio(law, batch_size):
    r"""Return the mean longest of n lengths over the mean length.

    Parameters
    ----------
    law : LengthLaw or MeasuredLengths
    batch_size : array_like
        Requests n, whole, at least 1.

    Returns
    -------
    ndarray
        At least 1.

    Raises
    ------
    ValueError
        If `law` is no law, or `batch_size` is not a whole number from 1.

    Notes
    -----
    .. math:: R_n = \frac{E[\max_n L]}{E[L]}

    Requests are independent. By `lib.order_statistics.empirical_max` over 40,000 levels, so batches
    above a few thousand see less of the tail than there is. Source: david2003.
    """
    lengths = length_quantile(law, _LEVELS)
    return empirical_max(lengths, batch_size) / lengths.mean()


def sorted_max_ratio(law, batch_size, batches):
    r"""Return the same ratio when requests are sorted by length before they are cut into batches.

    Parameters
    ----------
    law : LengthLaw or MeasuredLengths
    batch_size : int
        Requests n in a batch, at least 1.
    batches : int
        Batches k that are gathered and sorted together, at least 1.

    Returns
    -------
    float
        At least 1; `max_ratio` for one batch, near 1 for many.

    Raises
    ------
    ValueError
        If `law` is no law, or an argument leaves its domain.

    Notes
    -----
    .. math:: \frac{1}{k E[L]} \sum_{j=1}^{k} E[L_{(jn)}]

    with :math:`L_{(r)}` the r-th smallest of the :math:`kn` gathered. Lengths must be known before they
    are made: the best that a prediction can do. Source: guldogan2024 (setting; abstract read), [derived].
    """
    batch_size = int(single(batch_size=batch_size))
    batches = int(arguments.number("batches", batches, least=1, whole=True))
    lengths = length_quantile(law, _LEVELS)
    ranks = batch_size * np.arange(1, batches + 1)
    longest = [_ranked(lengths, int(rank), int(ranks[-1])) for rank in ranks]
    return float(np.mean(longest) / lengths.mean())


def _ranked(lengths, rank, among):
    """Return the mean of the length of that rank: its level has the law Beta(rank, among + 1 - rank)."""
    middle = rank / (among + 1)
    spread = np.sqrt(middle * (1 - middle) / (among + 2))
    first, last = (int(np.clip(_POINTS * (middle + far * spread), 0, _POINTS)) for far in (-20, 20))
    reached = betainc(rank, among + 1 - rank, np.arange(first, last + 1) / _POINTS)
    return np.diff(reached) @ lengths[first:last] / (reached[-1] - reached[0])
