"""Who holds which slot when: requests in slots, step by step, all present from the start.

Lengths are tokens, times are steps: each step gives one token to every request that holds a
slot and is not finished. How long a step takes is another question, see `lib.batch_law`.
"""

from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np

from lib import arguments


class Schedule(NamedTuple):
    """When each request holds its slot, in the order given.

    Attributes
    ----------
    slot : ndarray of int, shape (n,)
        From 0.
    start : ndarray, shape (n,)
        Steps before its first.
    end : ndarray, shape (n,)
        Steps until its last token is made.
    freed : ndarray, shape (n,)
        Steps until another may have the slot.
    """

    slot: np.ndarray
    start: np.ndarray
    end: np.ndarray
    freed: np.ndarray


def static_schedule(output_length, slots):
    """Return the schedule of a coach: groups in the order given, each holds all slots until its longest ends.

    Parameters
    ----------
    output_length : array_like, shape (n,)
        Whole tokens, at least 1.
    slots : int
        At least 1.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `output_length` has more than one axis.
    """
    output_length, slots = _lengths(output_length, slots)
    group = np.arange(output_length.size) // slots
    lasts = np.zeros(group[-1] + 1)
    np.maximum.at(lasts, group, output_length)
    freed = np.cumsum(lasts)
    start = (freed - lasts)[group]
    return Schedule(np.arange(output_length.size) % slots, start, start + output_length, freed[group])


def continuous_schedule(output_length, slots):
    """Return the schedule of a loop bus: whoever is next in the order given takes the first slot that is free.

    Parameters
    ----------
    output_length, slots
        As in `static_schedule`.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If an argument leaves its domain, or `output_length` has more than one axis.
    """
    output_length, slots = _lengths(output_length, slots)
    free = [(0.0, slot) for slot in range(slots)]
    heapify(free)
    slot, start = np.empty(output_length.size, int), np.empty(output_length.size)
    for request, length in enumerate(output_length.tolist()):
        start[request], slot[request] = free[0]
        heapreplace(free, (start[request] + length, slot[request]))
    end = start + output_length
    return Schedule(slot, start, end, end)


def idle_share(schedule):
    """Return the share of the slot-steps that are held without making a token.

    Parameters
    ----------
    schedule : Schedule
        Slots that nobody has taken yet, or will take again, are not held.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `schedule` is no `Schedule`.
    """
    arguments.record("schedule", schedule, Schedule)
    held = np.sum(schedule.freed - schedule.start)
    return float(1 - np.sum(schedule.end - schedule.start) / held)


def _lengths(output_length, slots):
    output_length = arguments.array("output_length", output_length, least=1, whole=True)
    if output_length.ndim != 1:
        raise ValueError(f"output_length must have one axis, got shape {output_length.shape}")
    return output_length, int(arguments.number("slots", slots, least=1, whole=True))
