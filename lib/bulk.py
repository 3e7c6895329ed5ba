"""One server that takes requests in batches whose time depends on their size.

Rates are 1/s, times s. Arrivals are Poisson and single. A batch starts when enough
requests wait, or when the oldest has waited long enough, and never holds more than
the cap, which is the length of `batch_time`.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.domains import at_least, checked, single
from lib.embedded_chain import (
    arrivals_law,
    arrivals_transform,
    first_below,
    landing_law,
    returns_below,
    starts_above,
    walk_memory,
    with_rest,
)


class BulkQueue(NamedTuple):
    """What `bulk_queue` returns: arrays in the shape of the arrival rate.

    Attributes
    ----------
    wait, sojourn_time : ndarray
        Mean time to the start of service, and to its end, s.
    batch_size : ndarray
        Mean requests in a batch.
    busy_fraction : ndarray
        Share of time with a batch in service.
    left_behind : ndarray
        Mean number waiting just after a batch departs.
    size_law : ndarray, shape (..., b)
        Share of batches of size 1..b.
    """

    wait: np.ndarray
    sojourn_time: np.ndarray
    batch_size: np.ndarray
    busy_fraction: np.ndarray
    left_behind: np.ndarray
    size_law: np.ndarray


def bulk_queue(arrival_rate, batch_time, *, control_limit=1, service_cv2=0.0):
    r"""Return the exact means of M/G_r^(a,b)/1: batches whose time depends on their size.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    batch_time : array_like, shape (b,)
        Mean time of a batch of 1..b requests, s, above 0; its length is the cap.
    control_limit : int
        Fewest requests in a batch, at most b.
    service_cv2 : float or array_like, shape (b,)
        Variance over squared mean of the batch time, finite, for all sizes or for each; its law is gamma.

    Returns
    -------
    BulkQueue
        `inf` times and numbers unless ``arrival_rate * batch_time[b-1]`` is below b.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `control_limit` exceeds b.

    Notes
    -----
    With n left at a departure the next batch is :math:`r = \min(\max(n, a), b)`, and :math:`n' =
    (n - b)^+` plus the arrivals in its time. The chain is watched only while n is below b; where it
    returns there from above is known from the roots of :math:`z^b = A_b(z)` in the disc, with
    :math:`A_r` the transform of the arrivals. Scale and mean follow from the transform at z = 1,

    .. math:: \sum_{n<b} \pi_n (b - n + \lambda S_r - \lambda S_b) = b - \lambda S_b

    so nothing is cut off at any load. Over a cycle T, from departure to departure,

    .. math:: \lambda W_q T = E\Big[\sum_{k=n}^{a-1} \frac{k}{\lambda} + (n - b)^+ S_r +
        \frac{\lambda S_r^2}{2}\Big]

    Stable iff :math:`\lambda S_b < b`, for every a. Source: neuts1967; roots as in bailey1954 (derived).
    """
    (arrival_rate,) = checked(arrival_rate=arrival_rate)
    batch_time, limit, service_cv2 = _bulk_arguments(batch_time, control_limit, service_cv2)

    def means(rate):
        return _bulk_means(rate, batch_time, limit, service_cv2, _law_below_cap(rate, batch_time, limit, service_cv2))

    return _where_stable(arrival_rate, batch_time, means)


def _where_stable(arrival_rate, batch_time, means):
    """Return the queue of each rate; at an unstable one, what it grows to."""
    cap = batch_time.size
    grown = (np.inf, np.inf, float(cap), 1.0, np.inf, np.eye(cap)[-1])
    points = [means(rate) if rate * batch_time[-1] < cap else grown for rate in arrival_rate.flat]
    fields = [np.array(field) for field in zip(*points, strict=True)]
    return BulkQueue(*(field.reshape(arrival_rate.shape + field.shape[1:]) for field in fields))


def _bulk_arguments(batch_time, control_limit, service_cv2):
    batch_time = np.atleast_1d(*checked(batch_time=batch_time))
    if batch_time.ndim != 1:
        raise ValueError(f"batch_time must have one axis, got shape {batch_time.shape}")
    control_limit = int(single(control_limit=control_limit))
    service_cv2 = arguments.array("service_cv2", service_cv2, least=0)
    if service_cv2.shape not in ((), batch_time.shape):
        raise ValueError(f"service_cv2 must be one number or one for each batch_time, got shape {service_cv2.shape}")
    at_least("the length of batch_time", batch_time.size, "control_limit", control_limit)
    return batch_time, control_limit, np.broadcast_to(service_cv2, batch_time.shape)


def _law_below_cap(rate, batch_time, limit, service_cv2):
    """Return the probabilities that 0..b-1 requests are left at a departure."""
    cap = batch_time.size
    left, full = np.arange(cap), rate * batch_time[-1]
    gains, load, varied = rate * batch_time[limit - 1 :], full / cap, float(service_cv2[-1])
    landing, memory = landing_law(load, cap, varied), walk_memory(load, cap, varied)
    steps = first_below(gains, service_cv2[limit - 1 :], landing, memory)
    batch = np.maximum(left - limit, 0)  # the row of the batch that starts with so many left
    return _stationary(steps[batch], cap - left + gains[batch] - full, cap - full)


def _stationary(steps, weights, total):
    """Return the stationary law of the chain `steps`, scaled so that its sum over `weights` is `total`."""
    balance = steps.T - np.eye(len(steps))
    balance[-1] = weights
    return np.linalg.solve(balance, np.eye(len(steps))[-1] * total)


def _bulk_means(rate, batch_time, limit, service_cv2, law):
    """Return the fields of `BulkQueue` for one rate, given the law of the number left below b."""
    cap, left = batch_time.size, np.arange(batch_time.size)
    taken, spread = np.maximum(left, limit), 1 + service_cv2
    arrivals, full = rate * batch_time[taken - 1], rate * batch_time[-1]
    second = spread[taken - 1] * arrivals**2
    mean_left = _mean_number(arrivals, second, left, (full, spread[-1] * full**2), law)
    crowded = 1 - law.sum()
    size_law = law @ (taken[:, None] == np.arange(1, cap + 1))
    size_law[-1] += crowded
    short = np.maximum(limit - left, 0)
    idle = law @ short / rate
    forming = law @ (short * (limit + left - 1) / 2) / rate  # the sum of k from n to a - 1
    excess = mean_left - law @ left - cap * crowded
    return (*_cycle_means(rate, batch_time, size_law, (idle, forming, excess), spread), mean_left, size_law)


def _cycle_means(rate, batch_time, size_law, waiting, spread):
    """Return wait, sojourn time, batch size and busy fraction, by Little's law over a cycle.

    `waiting` holds, per cycle, the time without service, the requests times seconds waiting
    in it, and the mean number that a full batch leaves waiting behind it.
    """
    idle, forming, excess = waiting
    sizes = np.arange(1, batch_time.size + 1)
    service, squares = size_law @ batch_time, size_law @ (spread * batch_time**2)
    cycle = idle + service
    queued = (forming + excess * batch_time[-1] + rate * squares / 2) / cycle
    served = size_law @ (sizes * batch_time) / cycle
    return queued / rate, (queued + served) / rate, size_law @ sizes, service / cycle


def _mean_number(first, second, start, full, law):
    """Return the mean of a chain from the derivatives of its transform at z = 1.

    From `start` below the cap the next number has factorial moments `first` and `second`; from
    above it loses b and gains arrivals with factorial moments `full`. `law` is that of the starts.
    """
    cap, (gain, square) = law.size, full
    terms = cap * (cap - 1) - start * (start - 1) + 2 * cap * first - 2 * start * gain + second - square
    return (law @ terms - cap * (cap - 1) + square) / (2 * (cap - gain))


def left_behind_law(arrival_rate, batch_time, count, *, control_limit=1, service_cv2=0.0):
    r"""Return the joint law of the number left at a departure and the size of the batch that departs.

    Parameters
    ----------
    arrival_rate : float
        Poisson arrivals, 1/s, above 0.
    batch_time, control_limit, service_cv2
        As in `bulk_queue`.
    count : int
        The law is returned for 0..count-1 left.

    Returns
    -------
    ndarray, shape (count, b)
        Probability of n left, column r - 1 for a batch of r; all 0 when unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `control_limit` exceeds b.

    Notes
    -----
    A batch of r < b leaves exactly the arrivals in its time. The law of n is the Fourier inverse of

    .. math:: P(z) = \frac{\sum_{n<b} \pi_n (z^b A_r(z) - z^n A_b(z))}{z^b - A_b(z)}

    on a circle inside the disc, and the batch of b has the rest. Source: as in `bulk_queue`; abate1992.
    """
    arrival_rate = single(arrival_rate=arrival_rate)
    count = int(arguments.number("count", count, least=1, whole=True))
    batch_time, limit, service_cv2 = _bulk_arguments(batch_time, control_limit, service_cv2)
    cap = batch_time.size
    if arrival_rate * batch_time[-1] >= cap:
        return np.zeros((count, cap))
    law = _law_below_cap(arrival_rate, batch_time, limit, service_cv2)
    left, sizes = np.arange(count), np.maximum(np.arange(cap), limit)
    departing = law @ (sizes[:, None] == np.arange(1, cap + 1))
    joint = arrivals_law((arrival_rate * batch_time)[:, None], service_cv2[:, None], left).T * departing
    total = _invert(lambda z: _departure_transform(z, arrival_rate, batch_time, sizes, service_cv2, law), count)
    joint[:, -1] = total - joint[:, :-1].sum(axis=1)
    return joint


def _departure_transform(points, rate, batch_time, sizes, service_cv2, law):
    cap, points = batch_time.size, points[:, None]
    full = arrivals_transform(rate * batch_time[-1], service_cv2[-1], points)
    small = arrivals_transform(rate * batch_time[sizes - 1], service_cv2[sizes - 1], points)
    terms = points**cap * small - points ** np.arange(cap) * full
    return (terms @ law) / (points**cap - full)[:, 0]


def _invert(transform, count):
    """Return the first `count` coefficients of a power series."""
    size = 4 * max(count, 16)
    radius = 10 ** (-10 / size)  # coefficients alias with weight 1e-10 and lose 3 digits to rounding
    values = transform(radius * np.exp(2j * np.pi * np.arange(size) / size))
    return np.fft.fft(values).real[:count] / size / radius ** np.arange(count)


def timeout_queue(arrival_rate, batch_time, timeout):
    r"""Return the exact means of a server that waits for a full batch or a timeout.

    An idle server starts a batch when b requests wait or the oldest has waited `timeout`.

    Parameters
    ----------
    arrival_rate : array_like
        Poisson arrivals, 1/s, above 0.
    batch_time : array_like, shape (b,)
        Constant time of a batch of 1..b requests, s, above 0; its length is the cap.
    timeout : float
        Seconds, at least 0, at most the shortest batch time.

    Returns
    -------
    BulkQueue
        `inf` times and numbers unless ``arrival_rate * batch_time[b-1]`` is below b.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `timeout` exceeds the shortest batch time.

    Notes
    -----
    A request left over by a full batch has then waited a batch time, hence the timeout, and the
    queue is the walk of `bulk_queue`. Otherwise the batch of r left A arrivals, and the next
    starts with max(A, 1) of them, later joined by others. With p the Poisson law of mean
    :math:`\lambda T` and :math:`e_r = e^{-\lambda (S_r - T)}`, the number then present is

    .. math:: P(m) = P(A = m) + e_r (p(m-1) - p(m)), \ 1 \le m < b, \qquad
        P(b) = P(A = b) + e_r p(b-1)

    and before it the server stands idle for :math:`e_r P(N \le b-1)/\lambda` with
    :math:`e_r T P(N \le b-2)` request-seconds waiting, N ~ p. Timeout 0 serves what there is.
    Source: derived; within the simulated intervals of its test. For longer timeouts, simulate.
    """
    (arrival_rate,) = checked(arrival_rate=arrival_rate)
    timeout = arguments.number("timeout", timeout, least=0)
    batch_time, _, _ = _bulk_arguments(batch_time, 1, 0.0)
    at_least("the shortest batch_time", batch_time.min(), "timeout", timeout)
    return _where_stable(arrival_rate, batch_time, lambda rate: _timeout_means(rate, batch_time, timeout))


def _timeout_means(rate, batch_time, timeout):
    """Return the fields of `BulkQueue` for one rate."""
    cap, sizes = batch_time.size, np.arange(1, batch_time.size + 1)
    gains, full = rate * batch_time, rate * batch_time[-1]
    late = np.exp(-rate * (batch_time - timeout))  # no arrival until the last `timeout` of the batch
    window = arrivals_law(rate * timeout, 0, np.arange(cap))
    first, second = gains + late * window.sum(), gains**2 + 2 * late * rate * timeout * window[:-1].sum()
    starts = starts_above(gains.max(), 0.0, cap, walk_memory(full / cap, cap, 0.0))
    arrivals = with_rest(arrivals_law(gains[:, None], 0.0, np.arange(cap + 1 + starts)))[:, 1:]
    steps = arrivals[:, :cap] + late[:, None] * (window - np.append(window[1:], 0))
    steps = steps + returns_below(arrivals[:, cap:], landing_law(full / cap, cap, 0))
    law = _stationary(steps, cap - sizes + first - full, cap - full)
    crowded = 1 - law.sum()
    size_law = law + crowded * (sizes == cap)
    excess = _mean_number(first, second, sizes, (full, full**2), law) - law @ sizes - cap * crowded
    idle, forming = law @ late * window.sum() / rate, law @ late * timeout * window[:-1].sum()
    means = _cycle_means(rate, batch_time, size_law, (idle, forming, excess), 1.0)
    return (*means, excess + size_law @ gains, size_law)
