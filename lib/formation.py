"""Forming a batch: the first request opens a window that closes when the batch is full or time is up.

Rates are 1/s, times s. Arrivals are Poisson and a server is always free, so this is
the wait that forming adds and nothing else; `lib.bulk.timeout_queue` adds a busy server.
"""

import numpy as np
from scipy.special import pdtr, pdtrc

from lib.domains import checked


def formation_batch_size(arrival_rate, batch_cap, timeout):
    r"""Return the mean batch that leaves the window.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    batch_cap : array_like
        Requests that close the window, whole, at least 1; may be infinite.
    timeout : array_like
        Time after the first request that closes it, s, at least 0; may be infinite.

    Returns
    -------
    ndarray
        Requests; `inf` when neither closes it.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: E[B] = 1 + E[\min(N, b - 1)], \quad N \sim \text{Poisson}(\lambda T)

    Limits: b for an infinite timeout, :math:`1 + \lambda T` for an infinite cap. Always stable: servers
    are taken as free. Source: horvath2025 (same policy, "N/T"; abstract read); renewal reward [derived].
    """
    window, others, _ = _window(arrival_rate, batch_cap, timeout)
    return 1 + _joined(window, others, 1)


def _window(arrival_rate, batch_cap, timeout):
    """Return the arrivals expected in the window, the most it admits, and the arrival rate."""
    arrival_rate, batch_cap, timeout = checked(arrival_rate=arrival_rate, batch_cap=batch_cap, timeout=timeout)
    return arrival_rate * timeout, batch_cap - 1, arrival_rate


def _joined(window, others, order):
    """Return E[M] (`order` 1) or E[M (M - 1)] (`order` 2) of M = min(N, `others`), N Poisson with mean `window`."""
    few = _at_most(others - 1 - order, window)
    full = _more_than(others - 1, window)
    # 0 times an infinite moment is 0: that side of the minimum does not occur.
    uncut = np.where(few > 0, window, 0) ** order * few
    cut = np.where(full > 0, others, 0)
    return uncut + (cut if order == 1 else cut * (cut - 1)) * full


def _at_most(count, mean):
    """Return P(N <= count), also for a count below 0 or infinite."""
    return np.where(count < 0, 0.0, np.where(np.isposinf(count), 1.0, pdtr(np.maximum(count, 0), mean)))


def _more_than(count, mean):
    """Return P(N > count), also for a count below 0 or infinite; no digits are lost where it is small."""
    return np.where(count < 0, 1.0, np.where(np.isposinf(count), 0.0, pdtrc(np.maximum(count, 0), mean)))


def formation_full_probability(arrival_rate, batch_cap, timeout):
    r"""Return the probability that the batch leaves full.

    Parameters
    ----------
    arrival_rate, batch_cap, timeout : array_like
        As in `formation_batch_size`.

    Returns
    -------
    ndarray
        Between 0 and 1; 0 for an infinite cap.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: P(N \ge b - 1), \quad N \sim \text{Poisson}(\lambda T)

    Source: horvath2025 (same policy; abstract read); renewal reward [derived].
    """
    window, others, _ = _window(arrival_rate, batch_cap, timeout)
    return _more_than(others - 1, window)


def formation_wait(arrival_rate, batch_cap, timeout):
    r"""Return the mean wait that forming a batch adds to a request.

    Parameters
    ----------
    arrival_rate, batch_cap, timeout : array_like
        As in `formation_batch_size`.

    Returns
    -------
    ndarray
        Seconds; `inf` when neither cap nor timeout closes the window.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \frac{\sum_{j=1}^{b-1} j P(N \ge j)}{\lambda E[B]} = \frac{E[M (M + 1)]}{2 \lambda E[B]},
        \quad M = \min(N, b - 1), \ N \sim \text{Poisson}(\lambda T)

    Limits: :math:`(b - 1)/(2 \lambda)` for an infinite timeout, :math:`T (1 + \lambda T / 2)/(1 + \lambda T)`
    for an infinite cap. Source: horvath2025 (same policy; abstract read); renewal reward [derived].
    """
    window, others, arrival_rate = _window(arrival_rate, batch_cap, timeout)
    joined, pairs = _joined(window, others, 1), _joined(window, others, 2)
    closes = np.isfinite(joined)
    batch_size = np.where(closes, 1 + joined, 1)
    return np.where(closes, (pairs / 2 + joined) / (arrival_rate * batch_size), np.inf)
