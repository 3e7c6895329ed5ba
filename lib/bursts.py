"""The load that a replica can carry while few of its requests miss a target, however they arrive.

``scripts/simulate_first_token.py`` found the share of requests that wait too long, at loads around the one where it is
one in a hundred; here is where it crosses.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments, first_token, pause_record

LATE = 0.01  # one in a hundred: the 99th percentile is the target


class Crossing(NamedTuple):
    """Where a rising share crosses a level.

    Attributes
    ----------
    load, low, high : float
        Of the mean, and of the ends of its interval. 0 if the share is above the level at the least load, the
        largest load if it is below even there.
    """

    load: float
    low: float
    high: float


def crossing(load, share, half_width, level=LATE):
    """Return the load at which a share crosses a level.

    Parameters
    ----------
    load : array_like, shape (n,)
        Above 0, rising.
    share, half_width : array_like, shape (n,)
        Between 0 and 1: means, and half of their intervals.
    level : float
        Between 0 and 1.

    Returns
    -------
    Crossing

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the lengths differ.

    Notes
    -----
    Straight between the points. A share that falls again by chance is taken not to have risen: the last load with a
    share at or below the level decides.
    """
    load = arguments.array("load", load, above=0)
    share = arguments.array("share", share, least=0, most=1)
    half_width = arguments.array("half_width", half_width, least=0)
    level = arguments.number("level", level, least=0, most=1)
    if load.ndim != 1 or not load.shape == share.shape == half_width.shape or np.any(np.diff(load) <= 0):
        raise ValueError(f"load must rise along one axis, as long as share and half_width, got {load!r}")
    return Crossing(*(_crossed(load, share + sign * half_width, level) for sign in (0, 1, -1)))


def _crossed(load, share, level):
    rising = np.minimum.accumulate(share[::-1])[::-1]
    if rising[0] > level:
        return 0.0
    if rising[-1] <= level:
        return float(load[-1])
    after = int(np.argmax(rising > level))
    before = after - 1
    part = (level - rising[before]) / (rising[after] - rising[before])
    return float(load[before] + part * (load[after] - load[before]))


def bearable_load(variation, target):
    """Return the largest load at which at most one in a hundred waits longer than a target for the first token.

    Parameters
    ----------
    variation : float
        Of the gaps between arrivals: one of those in the record.
    target : float
        One of `lib.first_token.TARGETS`, s.

    Returns
    -------
    Crossing
        Shares of the capacity.

    Raises
    ------
    ValueError
        If the record has no such variation, or no such target.
    """
    late, table = first_token.later_than(target), pause_record.rows()
    variation = arguments.number("variation", variation, above=0)
    known = np.unique(table["setting"][table["experiment"] == "targets"])
    if variation not in known:
        raise ValueError(f"variation must be one of {', '.join(f'{cv:g}' for cv in known)}, got {variation:g}")
    return crossing(*pause_record.curve(late, "load", experiment="targets", setting=variation))
