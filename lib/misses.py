"""The points of a run that a law misses by much, each with its likely cause."""

from dataclasses import dataclass

import numpy as np

from lib import arguments, footprint, records
from lib.fit import LeftOut
from lib.records import Run
from lib.units import quantity

LIMIT = 0.15
WIDE = 0.10
UNEXPLAINED = "not explained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One point that a law misses.

    Attributes
    ----------
    batch_size, context : int
    error : float
        Predicted over measured, less 1.
    cause : str
        In words; `UNEXPLAINED` if none of the known ones applies.
    """

    batch_size: int
    context: int
    error: float
    cause: str


def misses(run, left_out, by, *, limit=LIMIT):
    """Return the points that a law misses by more than a limit, having not seen them.

    Parameters
    ----------
    run : Run
    left_out : LeftOut
        Of the points of the run, in their order.
    by : {"batch", "context"}
        What was left out together.
    limit : float
        Above 0.

    Returns
    -------
    tuple of Miss

    Raises
    ------
    ValueError
        If an argument breaks its rule, or there is not one error for each point.

    Notes
    -----
    A cause is looked for in this order: the visits of the point spread by more than `WIDE` of their
    median between the quartiles; the point lies at an end of the range, so that the law was carried
    beyond what it had seen; its cache fits in half the last cache of the processor, so that memory
    does not bound it.
    """
    arguments.record("run", run, Run)
    arguments.record("left_out", left_out, LeftOut)
    arguments.choice("by", by, ("batch", "context"))
    limit = arguments.number("limit", limit, above=0)
    if left_out.error.shape != run.time.shape:
        raise ValueError(f"left_out must hold {run.time.size} errors, got {left_out.error.size}")
    spread = (run.upper - run.lower) / run.time
    along = run.batch_size if by == "batch" else run.context
    cached = run.batch_size * run.context * footprint.kv_bytes_per_token(run.model, records.precision_of(run))
    last_cache = run.content["machine"].get("last_cache", 0)
    causes = (
        (spread > WIDE, "its own visits spread that much"),
        ((along == along.min()) | (along == along.max()), "extrapolated, because the end of the range was left out"),
        (cached < last_cache / 2, "its cache stays on chip"),
        (np.full(spread.shape, True), UNEXPLAINED),
    )
    return tuple(
        Miss(
            batch_size=int(run.batch_size[at]), context=int(run.context[at]), error=float(left_out.error[at]),
            cause=next(words for applies, words in causes if applies[at]),
        )
        for at in np.flatnonzero(np.abs(left_out.error) > limit)
    )  # fmt: skip


def in_words(found, by, *, limit=LIMIT):
    """Return a sentence that names every miss and its cause.

    Parameters
    ----------
    found : sequence of Miss
    by : {"batch", "context"}
        What was left out together.
    limit : float
        Above 0.

    Returns
    -------
    str
    """
    arguments.choice("by", by, ("batch", "context"))
    limit = arguments.number("limit", limit, above=0)
    most = quantity(limit, "%", digits=2)
    named = "; ".join(
        f"batch {miss.batch_size} at {miss.context:,} tokens by {quantity(miss.error, '%', digits=2)} ({miss.cause})"
        for miss in (arguments.record("found", one, Miss) for one in found)
    )
    return f"With one {by} left out, " + (
        f"missed by more than {most}: {named}." if named else f"no point is missed by more than {most}."
    )
