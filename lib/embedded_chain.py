"""The number of requests left when a batch departs, and its way back below the cap.

A server of full batches takes b requests while A arrive. Seen at departures, the
queue is a walk that loses b and gains A, so where it first falls below b follows
from the roots of z^b = E[z^A]: no cut-off, any load. Batch times have a gamma law,
constant for `service_cv2` 0 and exponential for 1.
"""

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.special import gammaln, lambertw, log1p, xlogy


def disc_roots(load, cap, service_cv2):
    """Return the roots of z^b = E[z^A] in the open disc: those of positive imaginary part, and the real one.

    Each solves z = w E[z^A]^(1/b) for one b-th root w of 1 and the analytic b-th root of E[z^A];
    the principal power of E[z^A] would repeat roots.

    Parameters
    ----------
    load : ndarray, shape (...)
        E[A] / b, below 1.
    cap : int
    service_cv2 : float

    Returns
    -------
    tuple of ndarray, shapes (..., (b - 1) // 2) and (..., 0 or 1)
    """
    turns = np.exp(2j * np.pi * np.arange(1, cap // 2 + 1) / cap)
    load = load[..., None]
    if service_cv2 < _STEADY:
        roots = -lambertw(-load * np.exp(-load) * turns) / load
    else:
        roots = _gamma_roots(load, service_cv2 * cap, turns)
    pairs = (cap - 1) // 2
    return roots[..., :pairs], roots[..., pairs:].real


def _gamma_roots(load, spread, turns):
    """Return the roots by Newton's method from those at light load; 8 steps reach rounding at any load and spread."""
    roots = turns * np.exp(-load)
    for _ in range(15):
        image = turns * np.exp(-_damping(load * (1 - roots), spread))
        roots = roots - (roots - image) / (1 - load * image / (1 + spread * load * (1 - roots)))
    return roots


# A gamma time of less spread than this is constant to double precision.
_STEADY = 1e-12


def _damping(strength, spread):
    """Return -log E[exp(-strength S)] for a gamma S of mean 1 and squared variation `spread`."""
    # numpy's log1p loses the digits of a small complex number; scipy's does not.
    steady = np.asarray(spread) < _STEADY
    if steady.all():
        return strength
    return np.where(steady, strength, log1p(spread * strength) / np.where(steady, 1.0, spread))


def arrivals_transform(arrivals, service_cv2, points):
    """Return E[z^A] at z = `points` for Poisson arrivals, mean `arrivals`, in a gamma time."""
    return np.exp(-_damping(arrivals * (1 - points), service_cv2))


def arrivals_law(arrivals, service_cv2, count):
    """Return the probability of `count` (whole numbers) Poisson arrivals, mean `arrivals`, in a gamma time.

    Negative binomial, in a form that turns Poisson without losing digits. For a `service_cv2` of each
    row, shape (n, 1), `count` has one axis.
    """
    service_cv2 = np.asarray(service_cv2)
    factors = np.log1p(service_cv2 * np.arange(np.max(count)))
    rising = np.concatenate([np.zeros((*factors.shape[:-1], 1)), np.cumsum(factors, axis=-1)], axis=-1)[..., count]
    odds = xlogy(count, arrivals) - count * np.log1p(service_cv2 * arrivals)
    return np.exp(rising + odds - gammaln(count + 1) - _damping(arrivals, service_cv2))


def starts_above(arrivals, cap, service_cv2):
    """Return how many starts b, b + 1, ... a full batch can leave that differ in law or occur at all, to 1e-16.

    A start above b + i lands like b + i, up to the largest root to the power i.
    """
    pairs, alone = disc_roots(np.array(arrivals / cap), cap, service_cv2)
    memory = np.max(abs(np.concatenate([pairs, alone, [0]])))
    starts = 8
    while (cap + starts) * arrivals_law(arrivals, service_cv2, cap + starts) * memory**starts > 1e-17:
        starts += 8 + starts // 5
    return starts


def landing_law(load, cap, service_cv2):
    """Return the law of the first number below b that the walk reaches from b, shape (b,).

    z^(number left) keeps its mean at every root in the closed disc, so the law's generating
    function is z^b minus the monic polynomial with those b roots. That polynomial is at most 2
    on the unit circle, where a Fourier inverse reads its coefficients without cancellation.
    """
    pairs, alone = disc_roots(np.array(load), cap, service_cv2)
    circle = np.exp(2j * np.pi * np.arange(cap + 1) / (cap + 1))[:, None]
    product = (circle[:, 0] - 1) * np.prod(circle - alone, axis=1)
    product = product * np.prod((circle - pairs) * (circle - pairs.conj()), axis=1)
    landing = np.maximum(-np.fft.fft(product).real[:cap], 0)
    return landing / landing.sum()


def returns_below(beyond, landing):
    """Return where the walk lands below b, given where above it started.

    From b + i it lands as z^(b + i) reduced by the polynomial of `landing_law`; a renewal
    sequence does the reduction.

    Parameters
    ----------
    beyond : ndarray, shape (n, terms)
        Row by row, the probability of a start at b + i, i = 0, 1, ...; the last also of any above.
    landing : ndarray, shape (b,)

    Returns
    -------
    ndarray, shape (n, b)
        Row by row, the probability of landing on 0..b-1.
    """
    cap, terms = landing.size, beyond.shape[1]
    renewal = lfilter([1.0], np.concatenate([[1.0], -landing[::-1]]), np.eye(1, terms)[0])
    lag = np.arange(terms)[:, None] - np.arange(cap)
    weights = beyond @ np.where(lag >= 0, renewal[np.maximum(lag, 0)], 0)
    return weights @ toeplitz(np.eye(1, cap)[0] * landing[0], landing)


def erlang_stages(service_cv2):
    """Return of how many equal exponential stages a gamma time consists, or 0 if it is no such time.

    Only up to 16: beyond, the law of the arrivals is short and a sum over it is as fast.
    """
    stages = round(1 / service_cv2) if service_cv2 > 1 / 16.5 else 0
    return stages if stages and abs(stages * service_cv2 - 1) < 1e-12 else 0


def erlang_landing(arrivals, stages, landing):
    """Return where the walk lands below b after the arrivals in an Erlang time, if it starts from 0.

    One arrival is a step up, which from b - 1 lands as `landing` says. The arrivals in a stage are
    geometric, so a stage solves x = (1 - p) start + p x * step: a recursion from 0 up, and one
    more for what came back from b - 1. Only positive terms are added, however many the arrivals.

    Parameters
    ----------
    arrivals : ndarray, shape (n,)
        Mean number in the whole time.
    stages : int
    landing : ndarray, shape (b,)
        From `landing_law`.

    Returns
    -------
    ndarray, shape (n, b)
        Row by row, the probability of landing on 0..b-1.
    """
    more = arrivals / (stages + arrivals)
    law = np.zeros((landing.size, arrivals.size))
    law[0] = 1
    back = _carried_up(np.repeat(landing[:, None], arrivals.size, axis=1), more)
    for _ in range(stages):
        law = _carried_up((1 - more) * law, more)
        law += more * law[-1] / (1 - more * back[-1]) * back
    return law.T


def _carried_up(start, more):
    """Return the sums over j up to k of `start` at j times `more` to the power k - j, for each k and column."""
    for below in range(len(start) - 1):
        start[below + 1] += more * start[below]
    return start
