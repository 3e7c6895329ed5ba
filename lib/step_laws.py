"""The laws of a decode step, fitted to a run and judged by points that they have not seen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lib import arguments, fit, records
from lib.fit import Fit
from lib.records import Run

SHARPNESS = (4, 2, 1)
STRAIGHT = "straight line"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """One law, fitted to a run.

    Attributes
    ----------
    sharpness : int or None
        Of a smooth maximum: 1 is the sum of weights and arithmetic. None for the straight line.
    law : callable
        ``law(*inputs, time)`` fits it.
    inputs : tuple of ndarray, each shape (n,)
    fit : Fit
        To all points.
    left_out : dict of str to LeftOut
        "batch" and "context": all points of one batch, or of one context, predicted from the rest.
    """

    sharpness: int | None
    law: Callable = field(repr=False)
    inputs: tuple = field(repr=False)
    fit: Fit
    left_out: dict


def judged(run):
    """Return the laws of a decode step fitted to a run, by name.

    Parameters
    ----------
    run : Run
        Of two batch sizes and two contexts at least.

    Returns
    -------
    dict of str to Judged
        Three smooth maxima without overhead, which one model does not tell from slow weights,
        and the straight line; as `lib.fit` defines them.

    Raises
    ------
    ValueError
        If the points do not suffice for a fit, or for one without a batch or a context.

    Notes
    -----
    The cache of a point takes the longer of its reading and its arithmetic.
    """
    weights, cache, linear, attention = records.parts_of(arguments.record("run", run, Run))
    parts = weights, linear, np.maximum(cache, attention)
    laws = {
        f"efficiencies, $p = {power}$": (power, partial(fit.smooth_max, sharpness=power, overhead=False), parts)
        for power in SHARPNESS
    }
    laws[STRAIGHT] = None, fit.affine, (run.batch_size, run.context)
    groups = {"batch": run.batch_size, "context": run.context}
    return {
        name: Judged(
            sharpness=power, law=law, inputs=inputs, fit=law(*inputs, run.time),
            left_out={by: fit.leave_group_out(law, column, inputs, run.time) for by, column in groups.items()},
        )
        for name, (power, law, inputs) in laws.items()
    }  # fmt: skip


def best(laws):
    """Return the name of the law that predicts a batch it has not seen with the smallest median error.

    Parameters
    ----------
    laws : dict of str to Judged

    Raises
    ------
    ValueError
        If there are none.
    """
    if not arguments.record("laws", laws, dict):
        raise ValueError("laws must hold at least one, got none")
    return min(laws, key=lambda name: float(np.median(np.abs(laws[name].left_out["batch"].error))))
