"""Refuse bad arguments, in one voice: name, rule, value.

Every public function of `lib` passes its arguments through here, so a reader
who mistypes a number reads ``batch_size must be at least 1, got 0`` and not a
traceback from the middle of a formula.
"""

import difflib
import math
from numbers import Real

import numpy as np


class Symbol:
    """A stand-in for a number that was checked elsewhere: see `lib.expressions`.

    Checks let it through, so that a formula can be traced with the same call that computes it.
    """

    __slots__ = ()


def number(name, value, *, least=None, above=None, most=None, whole=False, infinite=False):
    """Return `value` as a float, or refuse it.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : float
        A real number; booleans, strings and NaN are refused.
    least, above, most : float, optional
        The value must be at least, above, at most this.
    whole : bool
        Refuse a fraction.
    infinite : bool
        Accept plus infinity: only where it is a documented limit.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Names argument, rule and value.
    """
    if isinstance(value, Symbol):
        return value
    if isinstance(value, float) and _passes(value, least, above, most, whole, infinite):
        return float(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, np.ndarray)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if np.ndim(value) != 0:
        raise ValueError(f"{name} must be a single number, got shape {np.shape(value)}")
    return float(array(name, value, least=least, above=above, most=most, whole=whole, infinite=infinite))


def array(name, values, *, least=None, above=None, most=None, whole=False, infinite=False):
    """Return `values` as an array of floats, or refuse the first bad one.

    Takes what `number` takes, in any shape but an empty one.

    Returns
    -------
    ndarray of float

    Raises
    ------
    ValueError
        Names argument, rule and the first value that breaks it.
    """
    if isinstance(values, Symbol):
        return values
    try:
        raw = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a rectangular array of numbers, got {values!r}") from None
    if raw.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold numbers, got {values!r}")
    if raw.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {raw.shape}")
    checked = raw.astype(float)
    if checked.size == 1 and _passes(checked.item(), least, above, most, whole, infinite):
        return checked
    _refuse(name, checked, np.isnan(checked), "a number")
    _refuse(name, checked, checked == -np.inf if infinite else np.isinf(checked), "finite")
    if least is not None:
        _refuse(name, checked, checked < least, f"at least {least:g}")
    if above is not None:
        _refuse(name, checked, checked <= above, f"above {above:g}")
    if most is not None:
        _refuse(name, checked, checked > most, f"at most {most:g}")
    if whole:
        _refuse(name, checked, np.isfinite(checked) & (checked != np.round(checked)), "a whole number")
    return checked


def _passes(value, least, above, most, whole, infinite):
    """Tell whether one float keeps the rules, without the arrays that a refusal needs: most calls end here."""
    finite = -math.inf < value < math.inf
    return (
        (finite or (infinite and value == math.inf))
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and not (whole and finite and value != round(value))
    )


def _refuse(name, values, bad, rule):
    if np.any(bad):
        raise ValueError(f"{name} must be {rule}, got {float(values[bad].flat[0]):g}")


def together(**arrays):
    """Return the arrays broadcast against each other.

    Raises
    ------
    ValueError
        Names the arguments and their shapes when they do not fit.
    """
    if any(isinstance(values, Symbol) for values in arrays.values()):
        return [*arrays.values()]
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in arrays.items())
        raise ValueError(f"arguments must broadcast together, got {shapes}") from None


def choice(name, value, options):
    """Return `value` if it is one of `options`; else refuse it and suggest the nearest.

    Raises
    ------
    ValueError
        Names argument, options (or the close ones, when there are many) and value.
    """
    options = [*options]
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=5, cutoff=0.5)
    shown = near if len(options) > 8 and near else options
    raise ValueError(f"{name} must be one of {', '.join(shown)}, got {value!r}")


def record(name, value, kind):
    """Return `value` if it is an instance of the record class `kind`.

    Raises
    ------
    ValueError
        Names argument, class and what came instead.
    """
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}")
    return value


def text(name, value):
    """Return `value` if it is a string with something in it.

    Raises
    ------
    ValueError
        Names argument and value.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty, got {value!r}")
    return value


def flag(name, value):
    """Return `value` if it is true or false.

    Raises
    ------
    ValueError
        Names argument and value.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value
