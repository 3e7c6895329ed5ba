"""Whether two runs of the same measurement agree: point by point, each step held against the ceilings beside it."""

from dataclasses import dataclass

import numpy as np

from lib import arguments, records
from lib.records import Run

LIMIT = 0.10
NORMAL_QUARTILES = 1.349  # distance of the quartiles of a normal law, in standard deviations
MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, for a normal law


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreement:
    """Two runs, compared.

    Attributes
    ----------
    batch_size, context : ndarray, shape (n,)
        Of the points that both hold.
    one, other : ndarray, shape (n,)
        Median of the step time over its bound, in each run.
    difference : ndarray, shape (n,)
        The other over the one, less 1.
    scatter : ndarray, shape (n,)
        How far apart two medians of visits that scatter so lie, at most, in 95 % of pairs of runs
        that differ in nothing else. A difference beyond it is one between the runs.
    within : ndarray of bool, shape (n,)
        Whether the difference is at most the limit.
    limit : float
    ceiling : str
    """

    batch_size: np.ndarray
    context: np.ndarray
    one: np.ndarray
    other: np.ndarray
    difference: np.ndarray
    scatter: np.ndarray
    within: np.ndarray
    limit: float
    ceiling: str


def agreement(one, other, *, ceiling="matrix_vector", limit=LIMIT):
    """Return two runs of the same measurement, compared point by point.

    Parameters
    ----------
    one, other : Run
        Of one shape, dtype, device and number of threads.
    ceiling : {"matrix_vector", "bandwidth", "read", "copy"}
        What each step is held against; arithmetic, always. The product of one row with packed
        matrices is what the step itself is made of. "bandwidth" is the largest, as in the bound:
        usually a plain read, which a busy neighbour slows by another share than the products.
    limit : float
        Largest difference that counts as agreement, above 0.

    Returns
    -------
    Agreement

    Raises
    ------
    ValueError
        If an argument breaks its rule, the runs measured different things, or have no point in common.
    """
    arguments.record("one", one, Run)
    arguments.record("other", other, Run)
    limit = arguments.number("limit", limit, above=0)
    for name, mine, its in (
        ("shape", one.model, other.model), ("dtype", one.dtype, other.dtype), ("device", one.device, other.device),
        *((key, *(run.content["settings"].get(key) for run in (one, other))) for key in ("threads", "linear")),
    ):  # fmt: skip
        if mine != its:
            raise ValueError(f"other must be a run of the same {name}, {_short(mine)}, got {_short(its)}")
    places = [
        {point: at for at, point in enumerate(zip(run.batch_size, run.context, strict=True))} for run in (one, other)
    ]
    shared = [point for point in places[0] if point in places[1]]
    if not shared:
        raise ValueError("other must share points with the one, got none")
    first, second = ([place[point] for point in shared] for place in places)
    batch_size, context = np.array(shared).T
    mine, its = (
        [column[at] for column in records.relative_to(run, ceiling)] for run, at in ((one, first), (other, second))
    )
    errors = _median_error(mine[1], one.visits[first]), _median_error(its[1], other.visits[second])
    difference = its[0] / mine[0] - 1
    return Agreement(
        batch_size=batch_size, context=context, one=mine[0], other=its[0], difference=difference,
        scatter=1.96 * np.hypot(*errors), within=np.abs(difference) <= limit, limit=limit, ceiling=ceiling,
    )  # fmt: skip


def _short(part):
    return getattr(part, "name", part)


def _median_error(spread, visits):
    """Return the standard error of each point's median, as a share of it."""
    return MEDIAN_ERROR * spread / NORMAL_QUARTILES / np.sqrt(visits)


def table(compared):
    """Return a comparison as lines to print, each point beyond the limit marked.

    Parameters
    ----------
    compared : Agreement

    Returns
    -------
    str
    """
    arguments.record("compared", compared, Agreement)
    lines = [f"against {compared.ceiling}:", "batch  context   step over bound   again   difference   scatter explains"]
    for size, tokens, one, other, difference, scatter, within in zip(
        compared.batch_size, compared.context, compared.one, compared.other, compared.difference, compared.scatter,
        compared.within, strict=True,
    ):  # fmt: skip
        mark = "" if within else f"   beyond {compared.limit:.0%}"
        lines.append(f"{size:5.0f} {tokens:8.0f} {one:17.3f} {other:7.3f} {difference:12.1%} {scatter:18.1%}{mark}")
    apart = np.abs(compared.difference)
    lines += [
        "",
        f"{compared.within.sum()} of {apart.size} points within {compared.limit:.0%}; "
        f"{np.median(apart):.1%} apart in the median, {apart.max():.1%} at most",
    ]
    return "\n".join(lines)
