"""How far the law of `lib.layer_time` errs on models that its fit has not seen.

Nothing here looks at a left-out point: not for a coefficient, not for the choice between candidates.
"""

import numpy as np

from lib import arguments
from lib.layer_fit import COLUMNS, LAW, Candidate, checked, chosen, fitted, layers_time
from lib.model import model


def shape_of(name):
    """Return what two models share if their layers are the same, such as Llama-2-70B and Llama-3-70B.

    Parameters
    ----------
    name : str
        Of a catalogued model.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        If the catalogue does not know the model.
    """
    one = model(name)
    return one.hidden_size, one.query_heads, one.kv_heads, one.head_dim, one.ffn_size, one.ffn_matrices


def without(points, out):
    """Return the rows of `points` that know nothing of the rows `out`.

    Parameters
    ----------
    points : dict of ndarray
        Of one accelerator.
    out : ndarray of bool
        Rows to leave out.

    Returns
    -------
    ndarray of bool
        True where the model is none that is left out, and the attention was not timed for
        one that is: two models with as many heads per device share that measurement.
    """
    out = np.asarray(out)
    if out.dtype != bool or out.shape != checked(points, COLUMNS)["model"].shape:
        raise ValueError(f"out must be true or false for each point, got {out!r}")
    gone = {row for row, left in zip(_attention_keys(points), out, strict=True) if left}
    return np.array([not left and row not in gone for row, left in zip(_attention_keys(points), out, strict=True)])


def _attention_keys(points):
    for name, parallel, batch, context, kernel in zip(
        *(points[c].tolist() for c in ("model", "tensor_parallel", "batch_size", "context", "attention")), strict=True
    ):
        one = model(name)
        yield one.query_heads / parallel, one.kv_heads / parallel, batch, context, kernel


def left_out_times(points, candidates=(LAW,), *, strict=True):
    """Return the time of each step as predicted without its model, with the candidate chosen without it too.

    Parameters
    ----------
    points : dict of ndarray
        Of one accelerator, of several models.
    candidates : sequence of Candidate
    strict : bool
        Leave out, too, the attention that another model shares with the left-out one.

    Returns
    -------
    tuple of (ndarray, dict)
        Seconds, shape (n,); for each left-out group of models the name of the candidate.

    Raises
    ------
    ValueError
        If the points hold fewer than two layer shapes.

    Notes
    -----
    Models with the same layers go out together. Where more than one candidate is given, an
    inner round leaves each remaining shape out in turn and takes the smallest median error.
    """
    checked(points, COLUMNS)
    for one in candidates:
        arguments.record("candidates", one, Candidate)
    if not len(candidates) or not isinstance(strict, bool):
        raise ValueError(f"candidates must not be empty and strict true or false, got {candidates!r} and {strict!r}")
    shapes = np.array([str(shape_of(name)) for name in points["model"].tolist()])
    groups = [*dict.fromkeys(shapes.tolist())]
    if len(groups) < 2:
        raise ValueError(f"points must hold at least two layer shapes, got {len(groups)}")
    times, names = np.empty(len(shapes)), {}
    for group in groups:
        out = shapes == group
        rest = chosen(points, without(points, out) if strict else ~out)
        best = candidates[0] if len(candidates) == 1 else min(candidates, key=lambda one: _inner_error(rest, one))
        times[out] = layers_time(fitted(rest, best), chosen(points, out))
        names[" and ".join(dict.fromkeys(points["model"][out].tolist()))] = best.name
    return times, names


def _inner_error(points, candidate):
    times, _ = left_out_times(points, (candidate,))
    measured = points["linear_time"] + points["attention_time"]
    return float(np.median(np.abs(times / measured - 1)))
