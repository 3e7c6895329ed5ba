"""One server whose batches take an exponential time of any size: M/M^(a,b)/1.

Rates are 1/s, times s. Arrivals are Poisson and single. The server starts a batch
once `control_limit` requests wait and takes at most `batch_cap`.
"""

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expit, log_expit

from lib.domains import at_least, checked
from lib.queueing import when_stable


def mmab_wait(arrival_rate, service_time, control_limit, batch_cap):
    r"""Return the mean wait before service in M/M^(a,b)/1.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    service_time : array_like
        Mean of the exponential time of a batch of any size, s, above 0.
    control_limit : array_like
        Fewest requests in a batch, whole, at least 1, at most `batch_cap`.
    batch_cap : array_like
        Most requests in a batch, whole; may be infinite.

    Returns
    -------
    ndarray
        Seconds; `inf` unless ``arrival_rate * service_time`` is below `batch_cap`.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `control_limit` exceeds `batch_cap`.

    Notes
    -----
    With r in (0, 1) the root of :math:`r + r^2 + \dots + r^b = \lambda S`, n waiting behind a busy
    server has probability :math:`C r^n`, and q waiting before an idle one
    :math:`C (1 - r^{q+1}) / (\lambda S (1 - r))`, q < a. Then

    .. math:: \lambda W_q = \sum_{q<a} q P(\text{idle}, q) + \frac{C r}{(1 - r)^2}

    False when larger batches take longer; use `bulk_queue`. Source: neuts1967; medhi2003 (re-derived).
    """
    arrival_rate, offered, control_limit, batch_cap = _mmab_arguments(
        arrival_rate, service_time, control_limit, batch_cap)

    def wait(room):
        gap, root, scale = _mmab_root(offered, control_limit, batch_cap)
        steps = control_limit
        # sum over q < a of q (1 - r^(q+1)); the second part is a geometric sum, differentiated once.
        forming = steps * (steps - 1) / 2 - root**2 * _weighted_geometric(root, gap, steps)
        return scale * (forming / (offered * gap) + root / gap**2) / arrival_rate

    return when_stable(offered / batch_cap, wait)


def mmab_idle_probability(arrival_rate, service_time, control_limit, batch_cap):
    r"""Return the share of time without a batch in service in M/M^(a,b)/1.

    Parameters
    ----------
    arrival_rate, service_time, control_limit, batch_cap : array_like
        As in `mmab_wait`.

    Returns
    -------
    ndarray
        Between 0 and 1; 0 when unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `control_limit` exceeds `batch_cap`.

    Notes
    -----
    .. math:: P_\text{idle} = 1 - \frac{C}{1 - r}

    with C and r as in `mmab_wait`, and its stability. Source: neuts1967; medhi2003 (re-derived).
    """
    _, offered, control_limit, batch_cap = _mmab_arguments(arrival_rate, service_time, control_limit, batch_cap)
    gap, _, scale = _mmab_root(offered, control_limit, batch_cap)
    return np.where(offered < batch_cap, 1 - scale / gap, 0.0)


def mmab_batch_size(arrival_rate, service_time, control_limit, batch_cap):
    r"""Return the mean batch in M/M^(a,b)/1.

    Parameters
    ----------
    arrival_rate, service_time, control_limit, batch_cap : array_like
        As in `mmab_wait`.

    Returns
    -------
    ndarray
        Requests; `batch_cap` when unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `control_limit` exceeds `batch_cap`.

    Notes
    -----
    .. math:: E[B] = \frac{\lambda S}{1 - P_\text{idle}}

    what arrives in the time of a batch and the idle time before it. Source: neuts1967.
    """
    _, offered, _, batch_cap = _mmab_arguments(arrival_rate, service_time, control_limit, batch_cap)
    idle = mmab_idle_probability(arrival_rate, service_time, control_limit, batch_cap)
    return np.where(offered < batch_cap, offered / (1 - idle), batch_cap)


def _mmab_arguments(arrival_rate, service_time, control_limit, batch_cap):
    arrival_rate, service_time, control_limit, batch_cap = checked(
        arrival_rate=arrival_rate, service_time=service_time, control_limit=control_limit, batch_cap=batch_cap)
    at_least("batch_cap", batch_cap, "control_limit", control_limit)
    return arrival_rate, arrival_rate * service_time, control_limit, batch_cap


def _mmab_root(offered, control_limit, batch_cap):
    """Return 1 - r, r and the constant C; at an unstable point, those of half the limit."""
    stable = np.where(offered < batch_cap, offered, batch_cap / 2)

    # In the logarithm of r / (1 - r), both r and 1 - r keep their digits.
    bracket = np.log(stable) - 1, np.full_like(stable, 40.0)
    odds = elementwise.find_root(_mmab_surplus, bracket, args=(stable, batch_cap)).x
    gap, root = expit(-odds), expit(odds)
    idle = (control_limit - root * (1 - root**control_limit) / gap) / stable
    return gap, root, gap / (1 + idle)


def _mmab_surplus(odds, offered, batch_cap):
    """Return r + ... + r^b less its wanted value."""
    return -np.exp(odds) * np.expm1(batch_cap * log_expit(odds)) - offered


def _weighted_geometric(root, gap, count):
    """Return the sum of q r^(q-1) over q below `count`."""
    return (1 - root**count) / gap**2 - count * root ** (count - 1) / gap
