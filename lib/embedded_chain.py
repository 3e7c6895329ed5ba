"""The number of requests left when a batch departs, and its way back below the cap.

A server of full batches takes b requests while A arrive. Seen at departures, the
queue is a walk that loses b and gains A, so where it first falls below b follows
from the roots of z^b = E[z^A]: no cut-off, any load. Batch times have a gamma law,
constant for `service_cv2` 0 and exponential for 1.
"""

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.special import gammaln, lambertw, log1p


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
_NO_ODDS = -1e4  # the logarithm of less than any number


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
    chance = np.asarray(arrivals / (1 + service_cv2 * arrivals))
    odds = np.log(chance, out=np.full(chance.shape, _NO_ODDS), where=chance > 0)
    return np.exp(rising + count * odds - gammaln(count + 1) - _damping(arrivals, service_cv2))


def walk_memory(load, cap, service_cv2):
    """Return the largest modulus of the roots in the open disc: how fast the walk forgets its start, step by step."""
    return max(float(np.max(abs(roots), initial=0)) for roots in disc_roots(np.array(load), cap, service_cv2))


def starts_above(arrivals, service_cv2, cap, memory):
    """Return how many starts b, b + 1, ... differ in law or occur at all, to 1e-16.

    A start above b + i lands like b + i, up to `memory` to the power i.
    """
    starts, beyond = 8, 1.0
    while beyond * memory**starts > 1e-17:
        starts += 8 + starts // 5
        likely = arrivals_law(arrivals, service_cv2, cap + starts)
        beyond = (cap + starts) * likely if arrivals < cap + starts else 1.0
    return starts


def with_rest(law):
    """Return the rows with what they lack to 1 added to their last entry."""
    law[:, -1] += 1 - law.sum(axis=1)
    return law


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
    weights = beyond @ toeplitz(renewal, np.zeros(cap))
    return weights @ toeplitz(np.eye(1, cap)[0] * landing[0], landing)


def first_below(arrivals, service_cv2, landing, memory):
    """Return where the walk lands below b after the arrivals in a batch time, if it starts from 0.

    In a time of little variation the numbers of arrivals are few, and are summed one by one. Otherwise
    they have a long tail, and `_tail_returns` takes its transform instead, at as many points for any tail.

    Parameters
    ----------
    arrivals, service_cv2 : ndarray, shape (n,)
        Mean number of arrivals in the time, and the squared variation of the time.
    landing : ndarray, shape (b,)
        From `landing_law`.
    memory : float
        From `walk_memory`.

    Returns
    -------
    ndarray, shape (n, b)
        Row by row, the probability of landing on 0..b-1.
    """
    steps = np.empty((arrivals.size, landing.size))
    varied = service_cv2 > np.where(arrivals > landing.size, 0.25, 0.05)
    for rows, landed in ((varied, _landed_by_transform), (~varied, _landed_by_number)):
        if rows.any():
            # One variation for all rows needs one row of factors.
            spread = service_cv2[rows] if np.ptp(service_cv2[rows]) else service_cv2[rows][:1]
            steps[rows] = landed(arrivals[rows, None], spread[:, None], landing, memory)
    return steps


def _landed_by_number(arrivals, service_cv2, landing, memory):
    # No row has a longer tail than this.
    starts = starts_above(np.max(arrivals), np.max(service_cv2), landing.size, memory)
    terms = np.arange(landing.size + starts)
    law = with_rest(arrivals_law(arrivals, service_cv2, terms))
    return law[:, : landing.size] + returns_below(law[:, landing.size :], landing)


def _landed_by_transform(arrivals, service_cv2, landing, memory):
    law = arrivals_law(arrivals, service_cv2, np.arange(landing.size))
    return law + _tail_returns(arrivals, service_cv2, landing)


def _tail_returns(arrivals, service_cv2, landing):
    r"""Return where the walk lands below b if it starts above, from the transform of the arrivals.

    The sum of `returns_below` over all starts is, with :math:`\chi` the polynomial of `landing_law`,

    .. math:: \frac{1}{2 \pi i} \oint \frac{E[z^A]}{\chi(z)} \sum_{l \le i} z^{-l-1} y_{i-l} \, dz

    around the unit disc, clear of the cut from :math:`1 + 1 / \lambda S c^2` on. In
    :math:`s = \log((z + 1) / (z - 1))` the disc is all beyond :math:`|\Im s| = \pi / 2`, and the cut
    an interval from 0. Half-way between them lies an ellipse around that interval; equally spaced on it,
    points count alike, and their number needs to grow with the logarithm of the arrivals only.
    """
    cap = landing.size
    most = np.log1p(2 * np.max(arrivals * service_cv2 + np.sqrt(arrivals) + np.maximum(arrivals - cap, 0)))
    room = np.arcsinh(np.pi / most)
    # For 15 digits. A time of little variation has a transform that is large near the cut.
    count = int((32 + 7 / np.sqrt(service_cv2.min())) / room) + 1
    turn = room / 2 + 1j * np.pi * (np.arange(count) + 0.5) / count
    odds = np.exp(most / 2 * (1 + np.cosh(turn)))
    points = (odds + 1) / (odds - 1)
    pace = odds / (odds - 1) ** 2 * most * np.sinh(turn) / count
    powers = np.cumprod(np.broadcast_to(1 / points[:, None], (count, cap)), axis=1)
    weights = powers[:, -1] * pace / (1 - powers @ landing[::-1])
    # The power in real parts: numpy's complex logarithm and exponential take four times as long.
    real, imag = 1 + service_cv2 * arrivals * (1 - points.real), service_cv2 * arrivals * points.imag
    size = (real * real + imag * imag) ** (-0.5 / service_cv2)
    angle = np.arctan2(imag, real) / service_cv2
    step = toeplitz(np.eye(1, cap)[0] * landing[0], landing)
    powers = weights[:, None] * powers
    return (size * np.cos(angle)) @ (powers.real @ step) - (size * np.sin(angle)) @ (powers.imag @ step)
