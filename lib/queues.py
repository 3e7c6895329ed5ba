"""Queues simulated event by event: one request at a time, in batches, shared equally, and step by step.

Times are s, lengths tokens. Each function takes arrivals and how long work takes, and returns
what became of each request; nothing is averaged and no warm-up is cut: see `lib.replication`.
Randomness is the caller's: it comes in with the arguments.
"""

from bisect import bisect_right
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.batching import DynamicBatching


class Served(NamedTuple):
    """What became of each request, in order of arrival.

    Attributes
    ----------
    start_time : ndarray, shape (n,)
        When service began, s; `inf` for a request that was turned away.
    end_time : ndarray, shape (n,)
        When it ended, s; `inf` for a request that was turned away.
    batch_size : ndarray, shape (n,)
        Requests served together with it, itself included, when its service began.
    """

    start_time: np.ndarray
    end_time: np.ndarray
    batch_size: np.ndarray


def served_one_by_one(arrival_time, service_time, *, servers=1, capacity=np.inf):
    """Return when each request is served by servers that take one at a time, first come, first served.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds, must not fall.
    service_time : array_like, shape (n,)
        Seconds, at least 0.
    servers : int
        At least 1.
    capacity : int
        Most requests present, those in service included, at least `servers`; may be infinite. Who
        finds that many is turned away.

    Returns
    -------
    Served

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arrival_time, service_time = _arrivals(arrival_time, service_time=service_time)
    servers = int(arguments.number("servers", servers, least=1, whole=True))
    capacity = arguments.number("capacity", capacity, least=servers, whole=True, infinite=True)
    free, leaving = [0.0] * servers, []
    starts = np.full(arrival_time.size, np.inf)
    for request, (arrival, service) in enumerate(zip(arrival_time.tolist(), service_time.tolist(), strict=True)):
        if capacity < np.inf:
            while leaving and leaving[0] <= arrival:
                heappop(leaving)
            if len(leaving) >= capacity:
                continue
        start = max(arrival, free[0])
        heapreplace(free, start + service)
        starts[request] = start
        if capacity < np.inf:
            heappush(leaving, start + service)
    return Served(starts, starts + service_time, np.ones(arrival_time.size))


def served_in_batches(arrival_time, batch_time, policy):
    """Return when each request is served by a server that takes batches and ends them whole.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds, must not fall.
    batch_time : callable
        Takes the positions of the requests of a batch, first and one past the last, and returns its time, s.
    policy : DynamicBatching
        Takes requests in order of arrival. The last batch starts when nothing more can come.

    Returns
    -------
    Served

    Raises
    ------
    ValueError
        If an argument leaves its domain, or a batch takes no time at all.
    """
    (arrival_time,) = _arrivals(arrival_time)
    _callable("batch_time", batch_time)
    arguments.record("policy", policy, DynamicBatching)
    count, limit, timeout = arrival_time.size, int(policy.control_limit), policy.timeout
    cap = int(min(policy.cap, count))
    times = arrival_time.tolist()
    starts, ends, sizes = (np.empty(count) for _ in range(3))
    first, free = 0, 0.0
    while first < count:
        enough = times[min(first + limit, count) - 1]  # when the limit is reached, or the last request comes
        start = max(free, min(enough, times[first] + timeout))
        last = bisect_right(times, start, first + 1, min(first + cap, count))
        took = batch_time(first, last)
        if not took > 0:
            raise ValueError(f"batch_time must return more than 0, got {took!r}")
        free = start + took
        starts[first:last], ends[first:last], sizes[first:last] = start, free, last - first
        first = last
    return Served(starts, ends, sizes)


def served_sharing(arrival_time, output_length, step_time, *, slots=np.inf, waiting=True):
    """Return when each request is served by a server that all residents share equally.

    A fluid of tokens: n residents gain tokens at rate ``1 / step_time(n)`` each, without steps.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds, must not fall.
    output_length : array_like, shape (n,)
        Tokens, above 0; need not be whole.
    step_time : callable
        Takes the residents and returns the time of a token, s, above 0.
    slots : int
        Most residents, at least 1; may be infinite.
    waiting : bool
        Whether those who find no slot wait in order of arrival, or are turned away.

    Returns
    -------
    Served
        `start_time` is the admission.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    On a clock that counts the tokens of one resident, a request ends a fixed time after its
    admission: one heap of those ends is all the state there is.
    """
    arrival_time, output_length = _arrivals(arrival_time, output_length=output_length)
    _callable("step_time", step_time)
    slots = arguments.number("slots", slots, least=1, whole=True, infinite=True)
    if waiting not in (True, False):
        raise ValueError(f"waiting must be true or false, got {waiting!r}")
    times, lengths, count = arrival_time.tolist(), output_length.tolist(), arrival_time.size
    starts, ends, sizes = (np.full(count, np.inf) for _ in range(3))
    resident, queue, head, came = [], [], 0, 0
    now = tokens = 0.0
    pace = {}
    while came < count or resident:
        size = len(resident)
        if size not in pace:
            pace[size] = step_time(size) if size else np.inf
        end = now + (resident[0][0] - tokens) * pace[size] if size else np.inf
        if came < count and times[came] <= end:
            tokens += (times[came] - now) / pace[size]
            now = times[came]
            if waiting or size < slots:
                queue.append(came)
            came += 1
        else:
            tokens, ended = heappop(resident)
            now = ends[ended] = end
        while head < len(queue) and len(resident) < slots:
            admitted = queue[head]
            head += 1
            heappush(resident, (tokens + lengths[admitted], admitted))
            starts[admitted], sizes[admitted] = now, len(resident)
    return Served(starts, ends, sizes)


def served_by_steps(arrival_time, output_length, step_time, *, prompt_length=0, slots=np.inf):
    """Return when each request is served by continuous batching: requests join and leave between steps.

    Parameters
    ----------
    arrival_time : array_like, shape (n,)
        Seconds, must not fall.
    output_length : array_like, shape (n,)
        Whole tokens, at least 1; each step gives one to every resident.
    step_time : callable
        Takes the residents and the tokens of context that they hold, and returns the time of a step, s, above 0.
    prompt_length : array_like, shape (n,)
        Tokens, at least 0. They are context; reading them takes no time here.
    slots : int
        Most residents, at least 1; may be infinite.

    Returns
    -------
    Served
        `start_time` is the start of the request's first step.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arrival_time, output_length = _arrivals(arrival_time, output_length=output_length)
    output_length = arguments.array("output_length", output_length, least=1, whole=True)
    prompt_length = np.broadcast_to(arguments.array("prompt_length", prompt_length, least=0), arrival_time.shape)
    _callable("step_time", step_time)
    slots = arguments.number("slots", slots, least=1, whole=True, infinite=True)
    times, lengths, prompts = arrival_time.tolist(), output_length.tolist(), prompt_length.tolist()
    count = arrival_time.size
    starts, ends, sizes = (np.full(count, np.inf) for _ in range(3))
    resident, came, steps, now, context = [], 0, 0, 0.0, 0.0
    while came < count or resident:
        if not resident:
            now = max(now, times[came])
        first = came
        while came < count and times[came] <= now and len(resident) < slots:
            heappush(resident, (steps + lengths[came], came))
            context += prompts[came]
            came += 1
        starts[first:came], sizes[first:came] = now, len(resident)
        now += step_time(len(resident), context)
        steps += 1
        context += len(resident)
        while resident and resident[0][0] <= steps:
            _, ended = heappop(resident)
            ends[ended] = now
            context -= prompts[ended] + lengths[ended]
    return Served(starts, ends, sizes)


def _arrivals(arrival_time, **columns):
    """Return the arrays, checked: arrivals that do not fall, and columns of the same length, not below 0."""
    arrival_time = arguments.array("arrival_time", arrival_time, least=0)
    if arrival_time.ndim != 1:
        raise ValueError(f"arrival_time must have one axis, got shape {arrival_time.shape}")
    falls = np.flatnonzero(np.diff(arrival_time) < 0)
    if falls.size:
        before, after = arrival_time[falls[0]], arrival_time[falls[0] + 1]
        raise ValueError(f"arrival_time must not fall, got {before:g} then {after:g}")
    checked = [arrival_time]
    for name, values in columns.items():
        rule = {"above": 0} if name == "output_length" else {"least": 0}
        column = arguments.array(name, values, **rule)
        if column.shape != arrival_time.shape:
            raise ValueError(f"{name} must have the shape of arrival_time, {arrival_time.shape}, got {column.shape}")
        checked.append(column)
    return checked


def _callable(name, value):
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {value!r}")
