"""What users wait for: times to and between tokens, shares that meet a target, percentiles that say how sure they are.

Flat arrays, one value a request, in s; so the same functions judge a simulated run and a
recorded one. A request that was refused has waited for ever: its times are infinite.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from lib import arguments


class Latencies(NamedTuple):
    """What `latencies` returns: s, shape (n,).

    Attributes
    ----------
    ttft : ndarray
        From arrival to the first token: the queue, the prefill and the first step.
    ttft_without_queue : ndarray
        From admission to the first token: what a benchmark reports that sends one request at a time.
    tpot : ndarray
        From the first token to the last, over the tokens after the first; NaN for those with one token or refused.
    latency : ndarray
        From arrival to the last token.
    """

    ttft: np.ndarray
    ttft_without_queue: np.ndarray
    tpot: np.ndarray
    latency: np.ndarray


class Percentile(NamedTuple):
    """What `percentile` returns.

    Attributes
    ----------
    value : float
        The least value that at least this share does not exceed: an order statistic.
    low, high : float
        Ends of the interval, order statistics too; minus or plus infinity where the sample is too small for one.
    coverage : float
        Probability that the interval holds the percentile, at least what was asked for, if it has both ends.
    count : int
        Values.
    enough : bool
        Whether the interval has both ends.
    """

    value: float
    low: float
    high: float
    coverage: float
    count: int
    enough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """Targets that a request must meet all at once.

    Attributes
    ----------
    ttft, tpot, latency : float
        Most that a request may take, s, above 0; infinite for what does not matter.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    ttft: float = np.inf
    tpot: float = np.inf
    latency: float = np.inf

    def __post_init__(self):
        for name in ("ttft", "tpot", "latency"):
            arguments.number(name, getattr(self, name), above=0, infinite=True)


def latencies(arrival_time, admitted_time, first_token_time, finish_time, tokens):
    """Return what each request waited for.

    Parameters
    ----------
    arrival_time, admitted_time, first_token_time, finish_time : array_like, shape (n,)
        Seconds; the last three infinite for a request that was refused.
    tokens : array_like, shape (n,)
        Output tokens, at least 0.

    Returns
    -------
    Latencies

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a token comes before its request.

    Notes
    -----
    TPOT leaves the first token out: a request of 11 tokens with its first at .2 s and its last at 1.2 s has .1 s.
    """
    arrival = arguments.array("arrival_time", arrival_time)
    columns, before = [arrival], "arrival_time"
    for name, values in (
        ("admitted_time", admitted_time), ("first_token_time", first_token_time), ("finish_time", finish_time),
    ):  # fmt: skip
        column = arguments.array(name, values, infinite=True)
        if column.shape != arrival.shape:
            raise ValueError(f"{name} must have the shape of arrival_time, {arrival.shape}, got {column.shape}")
        early = np.flatnonzero(column < columns[-1])
        if early.size:
            one, other = column[early[0]], columns[-1][early[0]]
            raise ValueError(f"{name} must be at least {before}, got {one:g} and {other:g}")
        columns.append(column)
        before = name
    _, admitted, first, finish = columns
    tokens = arguments.array("tokens", tokens, least=0, whole=True)
    if tokens.shape != arrival.shape:
        raise ValueError(f"tokens must have the shape of arrival_time, {arrival.shape}, got {tokens.shape}")
    served = np.isfinite(finish)
    several = served & (tokens > 1)
    tpot, inside = np.full(arrival.shape, np.nan), np.full(arrival.shape, np.inf)
    tpot[several] = (finish[several] - first[several]) / (tokens[several] - 1)
    inside[served] = first[served] - admitted[served]
    return Latencies(first - arrival, inside, tpot, finish - arrival)


def inter_token_latency(token_time):
    """Return the gaps between the tokens of one request.

    Parameters
    ----------
    token_time : array_like, shape (n,)
        When each token came, s; must not fall.

    Returns
    -------
    ndarray, shape (n - 1,)
        Seconds. Their mean is the TPOT; their tail is what a reader sees as stutter.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    token_time = arguments.array("token_time", token_time)
    if token_time.ndim != 1:
        raise ValueError(f"token_time must have one axis, got shape {token_time.shape}")
    gaps = np.diff(token_time)
    if np.any(gaps < 0):
        raise ValueError(f"token_time must not fall, got a gap of {gaps.min():g}")
    return gaps


def meets(service_level, found):
    """Return which requests meet every target.

    Parameters
    ----------
    service_level : ServiceLevel
    found : Latencies

    Returns
    -------
    ndarray of bool, shape (n,)
        A request of one token has no TPOT, so it cannot miss that target; one that was refused misses all.

    Raises
    ------
    ValueError
        If an argument is no such record.
    """
    arguments.record("service_level", service_level, ServiceLevel)
    arguments.record("found", found, Latencies)
    in_time = np.isfinite(found.latency) & (found.latency <= service_level.latency)
    return in_time & (found.ttft <= service_level.ttft) & ~(found.tpot > service_level.tpot)


def goodput(met, duration):
    """Return the requests per second that meet every target.

    Parameters
    ----------
    met : array_like of bool, shape (n,)
        From `meets`, of the requests that arrived in that time, warm-up removed.
    duration : float
        Seconds, above 0.

    Returns
    -------
    float
        1/s.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    met = np.asarray(met)
    if met.dtype != bool or met.size == 0:
        raise ValueError(f"met must hold true and false, got {met!r}")
    return float(met.sum() / arguments.number("duration", duration, above=0))


def percentile(values, level, *, coverage=0.95, strict=False):
    r"""Return a percentile and the interval that holds that of the law, whatever the law is.

    Parameters
    ----------
    values : array_like, shape (n,)
        One axis; infinite where a request was refused.
    level : float
        Between 0 and 1, both excluded: .99 for the 99th percentile.
    coverage : float
        Of the interval, between 0 and 1, both excluded.
    strict : bool
        Refuse a sample that is too small for an interval with both ends, instead of marking it.

    Returns
    -------
    Percentile

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the sample is too small and `strict`.

    Notes
    -----
    The number of values below the percentile is binomial, so with X in order

    .. math:: P(X_{(l)} \le q < X_{(u)}) = P(l \le \mathrm{Bin}(n, p) < u)

    and l, u are the innermost ranks with at most half of the rest on each side. It needs
    :math:`n \ge \ln(\alpha / 2) / \ln p` values: 368 for the 99th percentile at 95 %. False for
    values that depend on each other, as those of one run do near saturation: the interval is
    then too narrow, and percentiles of independent replications belong in `lib.replication`.
    Source: hahn1991, chapter 5.
    """
    values = arguments.array("values", values, infinite=True)
    if values.ndim != 1:
        raise ValueError(f"values must have one axis, got shape {values.shape}")
    level, coverage = _open("level", level), _open("coverage", coverage)
    arguments.flag("strict", strict)
    ordered, count = np.sort(values), values.size
    half = (1 - coverage) / 2
    lower = int(binom.ppf(half, count, level))
    upper = int(binom.ppf(1 - half, count, level)) + 1
    enough = lower >= 1 and upper <= count
    if strict and not enough:
        raise ValueError(f"values must be at least {values_needed(level, coverage=coverage)}, got {count}")
    held = binom.cdf(upper - 1, count, level) - (binom.cdf(lower - 1, count, level) if lower >= 1 else 0.0)
    return Percentile(
        value=float(ordered[max(int(np.ceil(count * level - 1e-9)), 1) - 1]),
        low=float(ordered[lower - 1]) if lower >= 1 else -np.inf,
        high=float(ordered[upper - 1]) if upper <= count else np.inf,
        coverage=float(held),
        count=count,
        enough=bool(enough),
    )


def values_needed(level, *, coverage=0.95):
    """Return how many values an interval around a percentile needs to have both ends.

    Parameters
    ----------
    level : float
        Between 0 and 1, both excluded.
    coverage : float
        Between 0 and 1, both excluded.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    level, coverage = _open("level", level), _open("coverage", coverage)
    extreme = max(level, 1 - level)
    count = int(np.ceil(np.log((1 - coverage) / 2) / np.log(extreme)))
    while not _has_both_ends(count, level, (1 - coverage) / 2):
        count += 1
    return count


def warm_up(values, *, batch=5):
    r"""Return how many of the first requests belong to the warm-up, by the MSER rule.

    Parameters
    ----------
    values : array_like, shape (n,)
        One axis, finite, in order of arrival; at least 10 batches.
    batch : int
        Values averaged before the rule looks at them, at least 1: the five of MSER-5.

    Returns
    -------
    int
        Requests to leave out; a multiple of `batch`.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the rule would leave out half: the run never settled.

    Notes
    -----
    Leaves out the d batches, at most half, that minimise the squared standard error of the mean of the rest,

    .. math:: \frac{1}{(m - d)^2} \sum_{i > d} (y_i - \bar y_d)^2

    Source: white1997.
    """
    values = arguments.array("values", values)
    batch = int(arguments.number("batch", batch, least=1, whole=True))
    if values.ndim != 1 or values.size < 10 * batch:
        raise ValueError(f"values must have one axis of at least {10 * batch}, got shape {values.shape}")
    count = values.size // batch
    means = values[: count * batch].reshape(count, batch).mean(axis=1)
    means = means - means.mean()
    rest = np.arange(count, 0, -1)
    total, squares = (np.cumsum(column[::-1])[::-1] for column in (means, means**2))
    error = (squares - total**2 / rest) / rest**2
    left_out = int(np.argmin(error[: count // 2 + 1]))
    if left_out == count // 2:
        raise ValueError(f"values must settle in their first half, got the least error without {left_out * batch}")
    return left_out * batch


def _open(name, value):
    value = arguments.number(name, value, above=0)
    if value >= 1:
        raise ValueError(f"{name} must be below 1, got {value:g}")
    return value


def _has_both_ends(count, level, half):
    return binom.ppf(half, count, level) >= 1 and binom.ppf(1 - half, count, level) + 1 <= count
