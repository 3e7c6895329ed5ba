"""Static batches: requests start together, and the batch ends with its longest output.

Times s, rates 1/s, lengths tokens. The ratio of longest to mean length comes from
`lib.order_statistics`; a rigid batch, whose finished slots still cost, loses all of it.
"""

import numpy as np

from lib.batch_law import batch_time
from lib.domains import checked


def slot_utilisation(max_ratio):
    r"""Return the share of slots of a rigid static batch that make a token.

    Parameters
    ----------
    max_ratio : array_like
        Longest over mean length of the batch, at least 1.

    Returns
    -------
    ndarray
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `max_ratio` is below 1.

    Notes
    -----
    .. math:: \frac{1}{R_n}

    Its inverse is the throughput of continuous over rigid batching with equal steps. The server
    never idles. Source: yu2022 for the waste; [derived].
    """
    (max_ratio,) = checked(max_ratio=max_ratio)
    return 1 / max_ratio


def elastic_speedup(max_ratio, batch_size, fixed_time, marginal_time):
    r"""Return the throughput of continuous over static batching when finished slots stop costing.

    Parameters
    ----------
    max_ratio : array_like
        Longest over mean length of the batch, at least 1.
    batch_size : array_like
        Requests n, whole, at least 1.
    fixed_time, marginal_time : array_like
        Time of a step, and time each sequence adds to it, s, at least 0, not both 0.

    Returns
    -------
    ndarray
        Between 1 and `max_ratio`.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a step takes no time.

    Notes
    -----
    .. math:: \frac{t_w R_n + n t_c}{t_w + n t_c}

    Both run n slots; a rigid batch, whose finished slots still cost, loses the whole :math:`R_n`.
    Source: linearity of the mean [derived].
    """
    max_ratio, batch_size, fixed_time, marginal_time = checked(
        max_ratio=max_ratio, batch_size=batch_size, fixed_time=fixed_time, marginal_time=marginal_time)
    step_time = batch_time(batch_size, fixed_time, marginal_time)
    return 1 + fixed_time * (max_ratio - 1) / step_time


def sorted_bins_throughput(shortest, longest, batch_size, bins):
    r"""Return the throughput of static batches drawn from equal bins of sorted length.

    Parameters
    ----------
    shortest, longest : array_like
        Ends of the uniform law of a request's time, s; `shortest` at least 0 and not above `longest`.
    batch_size : array_like
        Requests B, whole, at least 1.
    bins : array_like
        Bins k, whole, at least 1.

    Returns
    -------
    ndarray
        Requests per second.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `shortest` exceeds `longest`.

    Notes
    -----
    .. math:: B \Big/ \Big[\frac{l + h}{2} + \frac{h - l}{k} \frac{B - 1}{2 (B + 1)}\Big]

    tends to :math:`B / E[L]`, the continuous one. The server never idles; lengths are known. Source:
    guldogan2024 (setting; abstract read), [derived].
    """
    shortest, longest, batch_size, bins = checked(
        shortest=shortest, longest=longest, batch_size=batch_size, bins=bins)
    if np.any(shortest > longest):
        raise ValueError(f"longest must be at least shortest, got {longest[shortest > longest].flat[0]:g}")
    spread = (longest - shortest) / bins * (batch_size - 1) / (2 * (batch_size + 1))
    return batch_size / ((shortest + longest) / 2 + spread)
