"""How long a static batch of outputs of given lengths takes, on a machine whose steps are known.

Lengths are tokens, times s. A step takes ``fixed_time + n * marginal_time`` for the n sequences in it.
A rigid batch pays for all its slots until its longest output ends.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.batch_law import batch_time
from lib.calibration import predict
from lib.domains import checked


class StepLaw(NamedTuple):
    """The affine law of a decode step: `fixed_time`, and `marginal_time` that each sequence adds, s."""

    fixed_time: float
    marginal_time: float


def step_law(accelerator, model, context):
    """Return the affine law through the calibrated steps of one and of 32 sequences.

    Parameters
    ----------
    accelerator, model : str
        Names in the catalogues.
    context : float
        Tokens that each sequence attends to, at least 0.

    Returns
    -------
    StepLaw

    Raises
    ------
    ValueError
        If a catalogue does not know the name, or `context` is below 0.

    Notes
    -----
    Layers and output head; no gaps between kernels and no host work. Source: `lib.calibration.predict`,
    whose errors stand in the chapter on validation.
    """
    made = predict(accelerator, model, [1, 32], context)
    one, many = made.calibrated + made.output_head
    marginal = float(many - one) / 31
    return StepLaw(float(one) - marginal, marginal)


class RigidBatch(NamedTuple):
    """What `rigid_batch` returns, for batches of 1..b: mean time, s, and its squared variation."""

    mean_time: np.ndarray
    cv2: np.ndarray


def rigid_batch(lengths, law, batch_cap):
    r"""Return mean and variation of the time of a batch, for each size.

    Parameters
    ----------
    lengths : array_like, shape (m,)
        Equally likely output lengths, tokens, at least 0, not all 0.
    law : StepLaw
    batch_cap : int
        Requests b in the largest batch, at least 1.

    Returns
    -------
    RigidBatch
        As `lib.bulk.bulk_queue` takes them.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: S_r = (t_w + r t_c) \max_r L, \quad P(\max_r L \le x_{(i)}) = (i / m)^r

    Source: david2003; [derived].
    """
    sizes, values, shares = _longest(lengths, law, batch_cap)
    mean, square = shares @ values, shares @ values**2
    return RigidBatch(batch_time(sizes, *law) * mean, square / mean**2 - 1)


def rigid_batch_law(lengths, law, batch_cap):
    """Return the whole law of the time of a batch, for each size.

    Parameters
    ----------
    lengths, law, batch_cap
        As in `rigid_batch`.

    Returns
    -------
    tuple of ndarray, shapes (b, k)
        The times, s, and how often they occur, as `lib.capped_timeout.sojourn_law` takes them. A length of 0
        takes a thousandth of a step.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    The law of the longest as in `rigid_batch`. Source: david2003; [derived].
    """
    sizes, values, shares = _longest(lengths, law, batch_cap)
    return np.multiply.outer(batch_time(sizes, *law), np.maximum(values, 1e-3)), shares


def _longest(lengths, law, batch_cap):
    """Return the sizes 1..b, the lengths that occur, and how often each is the longest, shape (b, k)."""
    arguments.record("law", law, StepLaw)
    (lengths,) = checked(lengths=lengths)
    sizes = np.arange(1, int(arguments.number("batch_cap", batch_cap, least=1, whole=True)) + 1)
    if lengths.ndim != 1 or not lengths.any():
        raise ValueError(f"lengths must have one axis and not be all 0, got shape {lengths.shape}")
    values, counts = np.unique(lengths, return_counts=True)
    reached = np.append(0, np.cumsum(counts)) / lengths.size
    return sizes, values, np.diff(reached ** sizes[:, None], axis=-1)
