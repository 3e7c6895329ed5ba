"""Which timeout to choose for a server of dynamic batches, and a closed form that a page can compute.

Rates are 1/s, times s. Arrivals are Poisson; a batch of b takes exactly ``fixed_time + b * marginal_time``
and holds all that wait. The exact laws are in `lib.timeout_batching`.
"""

import numpy as np
from scipy.optimize import brentq

from lib import arguments
from lib.domains import checked
from lib.timeout_batching import setting_of, settings, timeout_sojourn_time


def best_timeout(arrival_rate, fixed_time):
    r"""Return the timeout of the least mean sojourn time, in closed form.

    Parameters
    ----------
    arrival_rate, fixed_time : array_like
        As in `lib.timeout_batching.timeout_batch_size`.

    Returns
    -------
    ndarray
        Seconds; 0 up to 2.114 arrivals in the fixed time, then below half of the fixed time.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    With :math:`\theta = \lambda \tau_0` and W Lambert's function,

    .. math:: T^* = \frac{\tau_0}{2} - \frac{1}{\lambda} - \frac{W(e^{-\theta/2 - 1} / \theta)}{\lambda}

    where it is positive: half the fixed time, less the mean gap between arrivals. Exact if a batch takes the
    same time whatever its size; with a slope it moves by less than 1 % of the fixed time, and the mean by
    nothing that shows, because the minimum is flat: it gains at most .06 %. Source: [derived].
    """
    arrival_rate, fixed_time = checked(arrival_rate=arrival_rate, fixed_time=fixed_time)
    arrivals = arrival_rate * fixed_time
    some = np.where(arrivals > 0, arrivals, 1.0)
    gaps = some / 2 - 1 - _lambert(np.exp(-some / 2 - 1) / some)
    return np.where(arrivals > 0, np.maximum(gaps, 0.0), 0.0) / arrival_rate


def _lambert(x, named=lambda name, value: value):
    """Return Lambert's W for x from 0: a start within 2 %, and two steps of Newton's; within 1e-9."""
    logarithm = named("logarithm", np.log(1 + x))
    value = named("start", logarithm * (1 - np.log(1 + logarithm) / (2 + logarithm)))
    for step in ("once", "twice"):
        grown = named(f"{step}_grown", np.exp(value))
        value = named(step, value - (value * grown - x) / (grown * (1 + value)))
    return value


def harmless_timeout(arrival_rate, fixed_time, marginal_time, loss):
    """Return the longest timeout that lengthens the mean sojourn time by no more than a share.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time : float
        As in `timeout_batch_size`; load below 1.
    loss : float
        Of the mean sojourn time without a timeout, at least 0.

    Returns
    -------
    float
        Seconds; at most the time of a batch of one, beyond which the law is not known.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the load is not below 1.

    Notes
    -----
    The root of the exact mean beyond `best_timeout`, where it rises. Source: [derived].
    """
    loss = arguments.number("loss", loss, least=0)
    rate, fixed, marginal, _ = setting_of(arrival_rate, fixed_time, marginal_time, 0.0)
    most = fixed + marginal
    allowed = (1 + loss) * float(timeout_sojourn_time(rate, fixed, marginal, 0.0))

    def excess(timeout):
        return float(timeout_sojourn_time(rate, fixed, marginal, timeout)) - allowed

    if excess(most) <= 0:
        return most
    start = min(float(best_timeout(rate, fixed)), most)
    return float(brentq(excess, start, most)) if excess(start) < 0 else start


def estimated_batch_size(arrival_rate, fixed_time, marginal_time, timeout, *, named=lambda name, value: value):
    r"""Return the mean batch in closed form: near the exact one, and simple enough for a page.

    Parameters
    ----------
    arrival_rate, fixed_time, marginal_time, timeout : array_like
        As in `lib.timeout_batching.timeout_batch_size`, load below 1; or symbols.
    named : callable
        Takes a name and an intermediate value, and returns the value: a page keeps it by its name.

    Returns
    -------
    ndarray
        Requests.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Instead of a series for :math:`\varepsilon`, two terms of :math:`E[e^{-\rho B}] \approx e^{-\rho m}
    (1 + \rho^2 \text{Var} B / 2)`, first without the variance and then with the one that follows. The mean
    sojourn time comes out within .3 % for slopes up to .41 of the fixed time, within 1 % up to 3. Source: [derived].
    """
    if not callable(named):
        raise ValueError(f"named must be a function, got {named!r}")
    rate, fixed_time, marginal_time, timeout = settings(arrival_rate, fixed_time, marginal_time, timeout)
    load = named("load", np.minimum(rate * marginal_time, 0.999))
    fixed, window, room = named("fixed_arrivals", rate * fixed_time), named("window", rate * timeout), 1 - load
    strength = named("strength", load / room)
    first = named("none", np.exp(window - fixed - strength * fixed))
    size = _size_from(first, strength, fixed, room, lambda name, value: named(f"first_{name}", value))
    late = size * room - fixed
    squares = (size * (1 + 2 * load * fixed) + fixed * fixed + 2 * window * late) / (room * (1 + load))
    spread = named("spread", np.maximum(squares - size * size, 0.0))
    second = named("some", first * (1 + load * load * spread / 2))
    return _size_from(second, strength, fixed, room, lambda name, value: named(f"second_{name}", value))


def _size_from(base, strength, fixed, room, named):
    """Return the mean batch where the late share u solves u = base exp(-strength u)."""
    root = _lambert(named("x", strength * base), named)
    late = np.where(strength > 1e-9, root / np.maximum(strength, 1e-9), base)
    return named("size", np.maximum((fixed + late) / room, 1.0))
