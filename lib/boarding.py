"""Who boards a bus with slots, and who leaves, step by step: one loop for the real run and for its replay.

A bus does the work and tells the time: `lib.bus.Bus` runs a model in torch, `Timetable`
looks its step times up. Times are s from the start of the run, lengths tokens.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.replica import StepLoad

POLICIES = ("padded", "early exit", "continuous")


class Ride(NamedTuple):
    """What became of each request, in order of arrival, and what each step did.

    Attributes
    ----------
    boarded, first_token, finish : ndarray, shape (n,)
        When the request got its slot, its first token and its last one, s.
    step_kind : ndarray of int, shape (m,)
        0 where prompts were read, 1 where each slot taken got a token.
    step_end, step_time : ndarray, shape (m,)
        Seconds. The time of a step holds what was done since the end of the one before, less waiting.
    step_size, step_least, step_most : ndarray of int, shape (m,)
        Prompts read or slots taken; fewest and most tokens that a slot had got before, 0 where prompts were read.
    """

    boarded: np.ndarray
    first_token: np.ndarray
    finish: np.ndarray
    step_kind: np.ndarray
    step_end: np.ndarray
    step_time: np.ndarray
    step_size: np.ndarray
    step_least: np.ndarray
    step_most: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """How long steps take, measured at some sizes. A step time for `lib.simulation` too.

    Attributes
    ----------
    prompt : int
        Tokens of each prompt, at least 1.
    sizes : ndarray of int, shape (s,)
        Slots taken, rising from 1.
    longest : ndarray of int, shape (c,)
        Tokens of the longest sequence, rising, at least two.
    steps : ndarray, shape (s, c)
        Time of a step, s, in states like those of the run: equally long sequences, or not.
    boarding : ndarray, shape (s,)
        Time in which `sizes` prompts are read at once, s.
    boards : ndarray of int, shape (b,), optional
        Prompts that board beside others, rising from 1.
    joining : ndarray, shape (s, b), optional
        Goes with `boards`: time of a step of `sizes` sequences of which `boards` board, s. Infinite where nobody rides.

    Raises
    ------
    ValueError
        If a value leaves its domain, or the shapes do not fit.
    """

    prompt: int
    sizes: np.ndarray
    longest: np.ndarray
    steps: np.ndarray
    boarding: np.ndarray
    boards: np.ndarray | None = None
    joining: np.ndarray | None = None

    def __post_init__(self):
        arguments.number("prompt", self.prompt, least=1, whole=True)
        sizes, longest = (_rising(name, getattr(self, name)) for name in ("sizes", "longest"))
        if sizes[0] != 1:
            raise ValueError(f"sizes must begin with 1, got {sizes[0]:g}")
        if longest.size < 2:
            raise ValueError(f"longest must hold at least 2, got {longest.size}")
        for name, shape in (("steps", (sizes.size, longest.size)), ("boarding", sizes.shape)):
            if arguments.array(name, getattr(self, name), above=0).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {np.shape(getattr(self, name))}")
        if self.boards is not None or self.joining is not None:
            boards = _rising("boards", self.boards)
            joining = arguments.array("joining", self.joining, above=0, infinite=True)
            if joining.shape != (sizes.size, boards.size):
                raise ValueError(f"joining must have shape {(sizes.size, boards.size)}, got {joining.shape}")
            arguments.array("joining", joining[sizes[:, None] > boards], above=0)

    def step_time(self, size, length):
        """Return the time of a step of `size` sequences of `length` tokens, s.

        Straight lines between the sizes and lengths of the table; beyond its ends the last goes on in length.
        """
        at = self.longest
        part = int(min(max(np.searchsorted(at, length), 1), len(at) - 1))
        low, high = (float(np.interp(size, self.sizes, np.asarray(self.steps)[:, end])) for end in (part - 1, part))
        return low + (high - low) * float((length - at[part - 1]) / (at[part] - at[part - 1]))

    def boarding_time(self, count):
        """Return the time in which `count` prompts are read, s."""
        return float(np.interp(count, self.sizes, self.boarding))

    def joining_time(self, boards, size):
        """Return what `boards` prompts add to a step of `size` sequences, themselves included, s.

        Where no step was timed in which prompts board beside others: what they cost alone, less a step of their own.
        Else straight lines between the counts timed, from none, which adds nothing, to all.
        """
        if self.boards is None:
            return self.boarding_time(boards) - self.step_time(boards, self.prompt)
        return float(np.interp(size, self.sizes, [self._added(boards, row) for row in range(len(self.sizes))]))

    def _added(self, boards, row):
        beside = np.asarray(self.boards) < self.sizes[row]
        times = [*np.asarray(self.joining)[row][beside], self.boarding[row]]
        added = np.array([0.0, *(time - self.steps[row][0] for time in times)])
        return float(np.interp(boards, [0, *np.asarray(self.boards)[beside], self.sizes[row]], added))

    def __call__(self, load):
        """Return the time of an iteration of `lib.simulation`, s; its prompts must be as long as those of the table."""
        arguments.record("load", load, StepLoad)
        boards, decodes = len(load.chunks), load.decoding
        if boards and not decodes:
            return self.boarding_time(boards)
        alone = self.step_time(decodes + boards, (load.context + load.prompt_tokens) / (decodes + boards))
        return alone + (self.joining_time(boards, decodes + boards) if boards else 0.0)


def _rising(name, values):
    values = arguments.array(name, values, least=1, whole=True)
    if values.ndim != 1 or np.any(np.diff(values) <= 0):
        raise ValueError(f"{name} must rise along one axis, got {values.tolist()}")
    return values


class Timetable:
    """A bus whose steps take the times of a table, for the longest sequence in it: the others are padded to that.

    Parameters
    ----------
    times : StepTimes
    """

    def __init__(self, times):
        self.times = arguments.record("times", times, StepTimes)
        self.now, self.filled = 0.0, []

    def wait(self, until):
        """Let time pass, and return it."""
        self.now = max(self.now, until)
        return self.now

    def board(self, count):
        """Read `count` prompts, and return the time."""
        self.filled += [int(self.times.prompt)] * count
        self.now += self.times.boarding_time(count)
        return self.now

    def step(self):
        """Give each slot taken a token, and return the time."""
        self.now += self.times.step_time(len(self.filled), max(self.filled) + 1)
        self.filled = [tokens + 1 for tokens in self.filled]
        return self.now

    def leave(self, slot):
        """Free a slot; the last one taken moves into it."""
        self.filled[slot] = self.filled[-1]
        self.filled.pop()


def ride(arrival_time, output_length, policy, slots, bus):
    """Return when each request is served, first come, first served.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds, must not fall.
    output_length : array_like, shape (n,)
        Whole tokens, at least 1. Reading the prompt gives the first.
    policy : {"padded", "early exit", "continuous"}
        A static batch boards when the bus is empty. A padded one then runs all its slots until the
        longest is done; with early exit the finished leave. A continuous bus steps when nobody can board.
    slots : int
        At least 1.
    bus : Timetable or lib.bus.Bus
        Fresh. Its methods return the time: ``wait(until)``, ``board(count)``, ``step()``; and ``leave(slot)``.

    Returns
    -------
    Ride

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arrival_time = _rising_or_equal("arrival_time", arrival_time)
    output_length = arguments.array("output_length", output_length, least=1, whole=True)
    if output_length.shape != arrival_time.shape:
        raise ValueError(f"output_length must have shape {arrival_time.shape}, got {output_length.shape}")
    arguments.choice("policy", policy, POLICIES)
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    for method in ("wait", "board", "step", "leave"):
        if not callable(getattr(bus, method, None)):
            raise ValueError(f"bus must have the method {method}, got {bus!r}")
    return _ride(arrival_time.tolist(), output_length.astype(int).tolist(), policy, slots, bus)


def _rising_or_equal(name, values):
    values = arguments.array(name, values, least=0)
    if values.ndim != 1 or np.any(np.diff(values) < 0):
        raise ValueError(f"{name} must not fall along one axis, got {values.tolist()!r:.60}")
    return values


def _ride(arrivals, lengths, policy, slots, bus):
    count, came, log = len(arrivals), 0, []
    seats = _Seats(lengths, policy, bus)
    boarded, first = [0.0] * count, [0.0] * count
    now = bus.wait(0.0)
    while came < count or seats.aboard:
        if not seats.aboard and arrivals[came] > now:
            now = bus.wait(arrivals[came])
        room = slots - len(seats.aboard) if policy == "continuous" or not seats.aboard else 0
        last = bisect_right(arrivals, now, came, min(came + room, count))
        if last > came:
            boarded[came:last] = [now] * (last - came)
            before, now = now, bus.board(last - came)
            log.append((0, now, now - before, last - came, 0, 0))
            first[came:last] = [now] * (last - came)
            seats.board(range(came, last), now)
            came = last
        else:
            state = len(seats.aboard), min(seats.given), max(seats.given)
            before, now = now, bus.step()
            log.append((1, now, now - before, *state))
            seats.advance(now)
    columns = (boarded, first, seats.finish, *zip(*log, strict=True))
    return Ride(*(np.array(column) for column in columns))


class _Seats:
    """Who sits where, and how many tokens each has got."""

    def __init__(self, lengths, policy, bus):
        self.lengths, self.padded, self.bus = lengths, policy == "padded", bus
        self.aboard, self.given, self.finish = [], [], [0.0] * len(lengths)

    def board(self, requests, now):
        self.aboard += requests
        self.given += [1] * len(requests)
        self._let_go(now)

    def advance(self, now):
        self.given = [tokens + 1 for tokens in self.given]
        self._let_go(now)

    def _let_go(self, now):
        """Note who has just finished; they leave at once, or all together if the batch is padded."""
        done = [given == self.lengths[one] for one, given in zip(self.aboard, self.given, strict=True)]
        for slot in np.flatnonzero(done):
            self.finish[self.aboard[slot]] = now
        if self.padded:
            ended = all(given >= self.lengths[one] for one, given in zip(self.aboard, self.given, strict=True))
            done = [ended] * len(done)
        for slot in range(len(done) - 1, -1, -1):  # from behind: who moves into the gap has been looked at
            if done[slot]:
                self.bus.leave(slot)
                for column in (self.aboard, self.given):
                    column[slot] = column[-1]
                    column.pop()


def seating(ride, policy, slots):
    """Return which slot each request has, and until when nobody else may have it.

    Parameters
    ----------
    ride : Ride
    policy : {"padded", "early exit", "continuous"}
    slots : int
        At least 1.

    Returns
    -------
    slot : ndarray of int, shape (n,)
        The lowest that is free.
    freed : ndarray, shape (n,)
        Seconds: the end of the request, or of its whole batch.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or more ride together than there are slots.
    """
    arguments.record("ride", ride, Ride)
    arguments.choice("policy", policy, POLICIES)
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    last = {}
    for boarded, finish in zip(ride.boarded.tolist(), ride.finish.tolist(), strict=True):
        last[boarded] = max(last.get(boarded, 0.0), finish)
    freed = ride.finish.copy() if policy == "continuous" else np.array([last[time] for time in ride.boarded.tolist()])
    until, slot = [-np.inf] * slots, []
    for boarded, end in zip(ride.boarded.tolist(), freed.tolist(), strict=True):
        free = [at for at, held in enumerate(until) if held <= boarded]
        if not free:
            raise ValueError(f"slots must be enough for those who ride together, got {slots}")
        slot.append(free[0])
        until[free[0]] = end
    return np.array(slot), freed
