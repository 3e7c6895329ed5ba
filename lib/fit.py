r"""Calibration: the parameters of a law that lie nearest to measured points, and how far to trust them.

Flat arrays in, a record out. Every fit minimises the squares of relative errors, so a
step of 10 ms and one of 1 s count the same; no parameter may be negative. The intervals
come from the scatter of the points about the law. They hold for another point measured
on the same machine, in the same way and inside the range of the points; what the law
leaves out is covered as far as it looks like scatter, and no further.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, stats

from lib import arguments


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """A law with its parameters fitted to points.

    Attributes
    ----------
    names : tuple of str
    values, lower, upper : ndarray, shape (k,)
        Parameters as a reader wants them, and their intervals. An end may be 0, or
        infinite for an efficiency: the points do not tell.
    coverage : float
        Share of repetitions in which an interval should hold the truth.
    spread : float
        Standard deviation of the relative residuals, corrected for the parameters.
    degrees : int
        Points less parameters.
    residuals : ndarray, shape (n,)
        Measured over fitted, less 1: positive where the machine was slower.
    law : callable
        ``law(coefficients, *inputs)``, seconds.
    takes : int
        How many inputs.
    coefficients, covariance : ndarray, shapes (k,) and (k, k)
        What `law` takes; an efficiency enters as its inverse.
    """

    names: tuple
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    coverage: float
    spread: float
    degrees: int
    residuals: np.ndarray
    law: Callable = field(repr=False)
    takes: int
    coefficients: np.ndarray = field(repr=False)
    covariance: np.ndarray = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """Points as predicted by fits that had not seen them.

    Attributes
    ----------
    predicted, lower, upper : ndarray, shape (n,)
        Seconds; the interval is that of `prediction_interval`.
    error : ndarray, shape (n,)
        Predicted over measured, less 1.
    within : ndarray of bool, shape (n,)
        The measured time lies in the interval.
    """

    predicted: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray
    within: np.ndarray


def affine(batch_size, context, time, *, coverage=0.95):
    r"""Return the affine law of a decode step, fitted.

    Parameters
    ----------
    batch_size, context, time : array_like
        Sequences, tokens that each of them attends to, measured seconds; one shape.
    coverage : float
        Of the intervals, between 0 and 1.

    Returns
    -------
    Fit
        Parameters "step" (s), "sequence" (s) and "token" (s per cached token).

    Raises
    ------
    ValueError
        If an argument breaks its rule, there are fewer than four points, or they do
        not tell the parameters apart: one context only, say.

    Notes
    -----
    .. math:: t = a + b B + c B S

    False past the knee: below it b is what a sequence adds while weights are awaited,
    above it the arithmetic of a sequence, which is more. An affine fit on small
    batches must not be carried to large ones.
    """
    *inputs, time = _points(batch_size=(batch_size, 1), context=(context, 0), time=(time, None))
    start = time.mean() / np.array([1.0, inputs[0].mean(), max((inputs[0] * inputs[1]).mean(), 1.0)])
    return nearest(_affine_law, inputs, time, start, names=("step", "sequence", "token"), coverage=coverage)


def _affine_law(coefficients, batch_size, context):
    step, sequence, token = coefficients
    return step + sequence * batch_size + token * batch_size * context


def smooth_max(weight_time, arithmetic_time, cache_time, time, *, sharpness=4.0, overhead=True, coverage=0.95):
    r"""Return the smooth-maximum law of a decode step, fitted.

    Parameters
    ----------
    weight_time, arithmetic_time, cache_time : array_like
        Seconds that each part takes at the machine's ceilings, as `lib.roofline` gives
        them; each point may have ceilings of its own.
    time : array_like
        Measured seconds, in their shape.
    sharpness : float
        At least 1. Large: the longer of weights and arithmetic; 1: their sum.
    overhead : bool
        Fit a fixed time per step. Without, points of one model at small batches do
        not have to tell it from slow weights.
    coverage : float
        Of the intervals, between 0 and 1.

    Returns
    -------
    Fit
        Parameters "overhead" (s), if asked for, "weights", "arithmetic" and "cache":
        efficiencies, the share of its ceiling that each part reaches. Above 1 where a
        part beats its ceiling: a cache that stays on chip does.

    Raises
    ------
    ValueError
        If an argument breaks its rule, there are no more points than parameters, or
        they do not tell the parameters apart.

    Notes
    -----
    .. math:: t = o + \left( \left(\frac{W}{e_w}\right)^p + \left(\frac{A}{e_a}\right)^p \right)^{1/p}
              + \frac{K}{e_k}

    With one model on one machine W hardly varies, so o and :math:`e_w` are told apart
    only by batches past the knee; their intervals say so. False where an efficiency
    depends on the batch, as that of small matrix products does.
    """
    arguments.number("sharpness", sharpness, least=1)
    arguments.record("overhead", overhead, bool)
    *inputs, time = _points(
        weight_time=(weight_time, 0), arithmetic_time=(arithmetic_time, 0),
        cache_time=(cache_time, 0), time=(time, None),
    )  # fmt: skip

    def law(coefficients, weights, arithmetic, cache):
        fixed, *slowness = coefficients if overhead else (0.0, *coefficients)
        parts = np.stack(np.broadcast_arrays(slowness[0] * weights, slowness[1] * arithmetic))
        largest = np.maximum(parts.max(axis=0), np.finfo(float).tiny)
        smooth = largest * np.sum((parts / largest) ** sharpness, axis=0) ** (1 / sharpness)
        return fixed + smooth + slowness[2] * cache

    shares = ("weights", "arithmetic", "cache")
    names, start = (("overhead", *shares), [0.1 * time.min(), 1.5, 1.5, 1.5]) if overhead else (shares, [1.5, 1.5, 1.5])
    return nearest(law, inputs, time, start, names=names, inverted=shares, coverage=coverage)


def nearest(law, inputs, time, start, *, names, inverted=(), coverage=0.95):
    """Return any law fitted to points by relative least squares, no coefficient negative.

    Parameters
    ----------
    law : callable
        ``law(coefficients, *inputs)`` gives seconds in the shape of the points.
    inputs : sequence of ndarray, each of shape (n,)
    time : array_like, shape (n,)
        Measured seconds, above 0.
    start : array_like, shape (k,)
        A guess of each coefficient, above 0; it sets the scale too.
    names : sequence of str
    inverted : sequence of str
        Parameters that are shown as one over their coefficient: efficiencies.
    coverage : float
        Of the intervals, between 0 and 1.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        If there are no more points than parameters, or they do not tell them apart.

    Notes
    -----
    Minimises the squares of ``law / time - 1``. The covariance is that of the law made
    straight at the optimum, with Student's t for the intervals; where a coefficient
    rests on 0 its interval is cut there and errs on the wide side; where it does not
    move the law at all any more, the interval has no upper end.
    """
    arguments.record("law", law, Callable)
    arguments.number("coverage", coverage, above=0, most=1 - 1e-9)
    time, start = arguments.array("time", time, above=0), arguments.array("start", start, above=0)
    inputs = _columns("inputs", inputs, time.shape)
    if not isinstance(names, (tuple, list)) or len(names) != start.size:
        raise ValueError(f"names must be {start.size}, one for each coefficient, got {names!r}")
    for name in arguments.record("inverted", inverted, Sequence):
        arguments.choice("inverted", name, names)
    degrees = time.size - start.size
    if degrees < 1:
        raise ValueError(f"points must number more than {start.size} parameters, got {time.size}")
    found = optimize.least_squares(
        lambda scaled: law(scaled * start, *inputs) / time - 1, np.ones(start.size),
        bounds=(0, np.inf), method="dogbox", jac="3-point", xtol=1e-12, ftol=1e-14, gtol=1e-14, max_nfev=1000,
    )  # fmt: skip
    seen = np.linalg.norm(found.jac, axis=0) > 1e-10 * np.linalg.norm(found.jac)
    _, singular, rotation = np.linalg.svd(found.jac[:, seen], full_matrices=False)
    rank = int(np.sum(singular > 1e-8 * singular[0]))
    if rank < seen.sum():
        raise ValueError(f"points must tell {', '.join(names)} apart, got {rank} of {start.size} directions")
    spread = float(np.sqrt(2 * found.cost / degrees))
    covariance = np.zeros((start.size, start.size))
    covariance[np.ix_(seen, seen)] = (rotation.T * (spread / singular) ** 2) @ rotation
    covariance *= np.outer(start, start)
    coefficients = found.x * start
    half = stats.t.ppf((1 + coverage) / 2, degrees) * np.sqrt(np.diag(covariance))
    half[~seen] = np.inf
    ends = coefficients, np.maximum(coefficients - half, 0), coefficients + half
    flipped = np.isin(names, inverted)
    value, lower, upper = (np.where(flipped, _inverse(end), end) for end in ends)
    return Fit(
        names=tuple(names), values=value, lower=np.where(flipped, upper, lower), upper=np.where(flipped, lower, upper),
        coverage=float(coverage), spread=spread, degrees=degrees, residuals=time / law(coefficients, *inputs) - 1,
        law=law, takes=len(inputs), coefficients=coefficients, covariance=covariance,
    )  # fmt: skip


def _inverse(coefficients):
    """One over each coefficient: infinity for 0, and 0 for infinity."""
    return np.divide(1.0, coefficients, out=np.full(coefficients.shape, np.inf), where=coefficients > 0)


def _columns(name, columns, shape):
    """Return columns that the law takes together, each of that shape."""
    if not isinstance(columns, (tuple, list)) or not columns:
        raise ValueError(f"{name} must be a list of columns, got {columns!r}")
    checked = [arguments.array(name, column) for column in columns]
    for column in checked:
        if column.shape != shape:
            raise ValueError(f"{name} must have the shape {shape} of time, got {column.shape}")
    return checked


def _points(**columns):
    arrays = arguments.together(
        **{
            name: arguments.array(name, values, **({"above": 0} if least is None else {"least": least}))
            for name, (values, least) in columns.items()
        }
    )
    return [array.ravel() for array in arrays]


def parameters(fit):
    """Return the parameters of a fit by name.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    dict of str to tuple of float
        Value, lower and upper end of its interval.
    """
    arguments.record("fit", fit, Fit)
    columns = (fit.values.tolist(), fit.lower.tolist(), fit.upper.tolist())
    return dict(zip(fit.names, zip(*columns, strict=True), strict=True))


def predicted(fit, inputs):
    """Return the time that a fitted law gives.

    Parameters
    ----------
    fit : Fit
    inputs : sequence of array_like
        What the law was fitted on, in the same order: ``(batch_size, context)`` for
        `affine`. They broadcast together.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If the inputs are not as many as the law takes, or do not fit together.
    """
    inputs = _given(fit, inputs)
    return fit.law(fit.coefficients, *inputs)


def _given(fit, inputs):
    arguments.record("fit", fit, Fit)
    if not isinstance(inputs, (tuple, list)) or len(inputs) != fit.takes:
        raise ValueError(f"inputs must be {fit.takes}, as the law takes them, got {inputs!r}")
    return arguments.together(**{f"inputs[{i}]": arguments.array("inputs", one) for i, one in enumerate(inputs)})


def prediction_interval(fit, inputs, *, of="point"):
    """Return the interval of a prediction.

    Parameters
    ----------
    fit : Fit
    inputs : sequence of array_like
        As `predicted` takes them.
    of : {"point", "law"}
        "point": where one more measured point should fall. "law": where the law itself
        may lie, given that these points were scattered about it.

    Returns
    -------
    tuple of ndarray
        Lower and upper end, seconds, for the fit's coverage each and not for all at once.

    Raises
    ------
    ValueError
        If `of` is unknown.

    Notes
    -----
    Scatter is taken as relative: the same share of a short step and of a long one.
    """
    arguments.choice("of", of, ("point", "law"))
    inputs = _given(fit, inputs)
    centre = fit.law(fit.coefficients, *inputs)
    steps = 1e-6 * np.maximum(fit.coefficients, 1e-3 * np.sqrt(np.diag(fit.covariance)))
    slopes = np.stack(
        [(fit.law(fit.coefficients + move, *inputs) - centre) / move.sum() for move in np.diag(steps)], axis=-1
    )
    variance = np.einsum("...i,ij,...j->...", slopes, fit.covariance, slopes)
    if of == "point":
        variance = variance + (fit.spread * centre) ** 2
    half = stats.t.ppf((1 + fit.coverage) / 2, fit.degrees) * np.sqrt(variance)
    return np.maximum(centre - half, 0), centre + half


def leave_group_out(fit_function, groups, inputs, time):
    """Return each point as predicted by a fit of all points outside its group.

    Parameters
    ----------
    fit_function : callable
        ``fit_function(*inputs, time)`` returns a `Fit`: `affine`, `smooth_max`.
    groups : array_like, shape (n,)
        What is left out together: the batch of each point, its context, its model.
    inputs : sequence of array_like, each of shape (n,)
    time : array_like, shape (n,)
        Measured seconds.

    Returns
    -------
    LeftOut

    Raises
    ------
    ValueError
        If an argument breaks its rule, there is one group only, or the points outside a group do not suffice for a
        fit; names the group.

    Notes
    -----
    A group at the edge is extrapolated to, one in the middle interpolated. Leaving out
    single points would let their neighbours speak for them.
    """
    arguments.record("fit_function", fit_function, Callable)
    time = arguments.array("time", time, above=0)
    inputs = _columns("inputs", inputs, time.shape)
    groups = np.asarray(groups)
    if groups.dtype.kind != "U":
        groups = arguments.array("groups", groups)
    if time.ndim != 1 or groups.shape != time.shape:
        raise ValueError(f"groups must be one for each time, got shapes {groups.shape} and {time.shape}")
    if len(np.unique(groups)) < 2:
        raise ValueError(f"groups must be at least 2, got {len(np.unique(groups))}")
    columns = np.empty((3, len(time)))
    for group in np.unique(groups):
        out = groups == group
        try:
            fit = fit_function(*(column[~out] for column in inputs), time[~out])
        except ValueError as error:
            raise ValueError(f"without group {group}: {error}") from None
        held = [column[out] for column in inputs]
        columns[:, out] = predicted(fit, held), *prediction_interval(fit, held)
    guess, lower, upper = columns
    return LeftOut(
        predicted=guess, lower=lower, upper=upper, error=guess / time - 1, within=(lower <= time) & (time <= upper)
    )
