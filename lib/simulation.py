"""A replica of an engine, simulated exactly at the iteration level: requests in, what became of each out.

Times are s, lengths tokens. ``simulate(requests, policy, step_time)`` takes a trace, a policy of
`lib.batching` or `lib.engines`, and the time of an iteration: an `lib.step_time.AffineStep`, or
any function of a `lib.replica.StepLoad`. It draws nothing: the same arguments give the same run.
`lib.latency` says what a run means for its users.

An iteration starts when the one before it ends; it takes in who has arrived by then. Whoever
decodes in it gets a token at its end, and so does whoever has read the last of their prompt.
A prompt of no tokens counts as one: the model has to begin with something. Left out: network,
tokenisation, and the time in which the host plans an iteration, unless the step time holds it.
"""

from bisect import bisect_right
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from lib import arguments, compiled_replica, replica, whole_batches
from lib.batching import ContinuousBatching, DynamicBatching
from lib.step_time import AffineStep
from lib.trace import Trace

_READING = {
    "elsewhere": replica.ELSEWHERE, "whole": replica.ALONE, "chunked alone": replica.ALONE,
    "piggybacked": replica.BESIDE, "chunked": replica.BESIDE,
}  # fmt: skip
_ALLOCATION = {"reserved": replica.RESERVED, "paged": replica.PAGED, "estimated": replica.ESTIMATED}
_VICTIM = {"latest": replica.LATEST, "fewest tokens": replica.LEAST_DONE, "last in order": replica.LAST_IN_ORDER}
WORTH_COMPILING = 100_000


class FirstTokenParts(NamedTuple):
    """What a request waited for before its first token: s, shape (n,); the parts add up to the TTFT.

    Attributes
    ----------
    residual : ndarray
        For the iteration to end that was running when it arrived.
    slot : ndarray
        In the queue, because every slot was taken; or, in batches, because the batch before was not back.
    memory : ndarray
        In the queue, because its first had no room for its cache; after losing that memory, too.
    held_back : ndarray
        In the queue, on purpose: the policy let iterations pass, or the server idle, to gather more.
    own_prefill : ndarray
        In the iterations that read its prompt: its share of their tokens. Of prompts read elsewhere: its first step.
    others_prefill : ndarray
        While the prompts of others were read: the rest of those iterations, and those that had no budget left for it.
    """

    residual: np.ndarray
    slot: np.ndarray
    memory: np.ndarray
    held_back: np.ndarray
    own_prefill: np.ndarray
    others_prefill: np.ndarray


class Interruptions(NamedTuple):
    """When requests lost their memory, and when they were read again.

    Attributes
    ----------
    request : ndarray of int, shape (k,)
        Positions, in the order of the losses.
    lost_time, resumed_time : ndarray of float, shape (k,)
        Seconds. Where prompts are read by the replica, the next token comes at the resumption, else an iteration later.
    """

    request: np.ndarray
    lost_time: np.ndarray
    resumed_time: np.ndarray


class Events(NamedTuple):
    """The state of the replica, a row for each stretch of equal iterations (for each batch, if it takes batches).

    Attributes
    ----------
    time : ndarray of float, shape (m,)
        When the stretch begins, s.
    duration : ndarray of float, shape (m,)
        How long it lasts, s. If the next begins later than it ends, the replica idles in between.
    first_duration : ndarray of float, shape (m,)
        How long its first iteration lasts, s. The others add equal amounts. Batches: the duration.
    iterations, decoding : ndarray of int, shape (m,)
        Its iterations, and the sequences that get a token in each: none if it reads prompts alone. Batches: 0.
    running, waiting : ndarray of int, shape (m,)
        Requests inside, and in the queue, when it begins.
    resident_tokens, blocks : ndarray of int, shape (m,)
        Tokens in the cache, and blocks given out, at the end of the stretch, before anybody leaves. Batches: 0.
    interruptions : Interruptions
    """

    time: np.ndarray
    duration: np.ndarray
    first_duration: np.ndarray
    iterations: np.ndarray
    decoding: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    resident_tokens: np.ndarray
    blocks: np.ndarray
    interruptions: Interruptions


class Run(NamedTuple):
    """What became of each request, in the order given.

    Attributes
    ----------
    arrival_time : ndarray, shape (n,)
        Seconds. In a closed loop, when its user sent it.
    prompt_length, output_length : ndarray of int, shape (n,)
        Tokens, as asked for.
    admitted_time, first_token_time, finish_time : ndarray, shape (n,)
        Start of the iteration that took it in, ends of those that gave its first and its last token, s; `inf` for a
        request that was refused because it could never fit into memory.
    tokens : ndarray of int, shape (n,)
        Output tokens that it got: all, or none.
    preemptions : ndarray of int, shape (n,)
        How often it lost its memory.
    first_token_parts : FirstTokenParts
    iterations : int
    busy_time : float
        Seconds in which the replica worked.
    events : Events or None
    """

    arrival_time: np.ndarray
    prompt_length: np.ndarray
    output_length: np.ndarray
    admitted_time: np.ndarray
    first_token_time: np.ndarray
    finish_time: np.ndarray
    tokens: np.ndarray
    preemptions: np.ndarray
    first_token_parts: FirstTokenParts
    iterations: int
    busy_time: float
    events: Events | None


def simulate(requests, policy, step_time, *, output_limit=None, cached_length=0, priority=0,
             events=False, progress=False, compiled=None):  # fmt: skip
    """Return the run of requests that arrive whatever the replica does: an open loop.

    Parameters
    ----------
    requests : Trace
        Arrival times, which must not fall, prompt and output lengths: see `lib.trace` and `lib.workload`.
    policy : ContinuousBatching or DynamicBatching
    step_time : AffineStep or callable
        The time of an iteration, s, above 0, of a `StepLoad`.
    output_limit : array_like, shape (n,), optional
        Most tokens that each might have asked for, at least its output: what reserved memory must hold and estimated
        memory expects. The output itself if left out: an oracle.
    cached_length : array_like, shape (n,)
        Tokens of each prompt that need not be read: prefix hits, as data. They take memory all the same.
    priority : array_like, shape (n,)
        Lower goes first; only for the order "priority".
    events : bool
        Whether to record the state of the replica: as many rows as events.
    progress : bool
        Whether to show a bar; a compiled run is over too soon to show one.
    compiled : bool, optional
        Whether to run the loop compiled, which takes numba and an affine step. Left out: if both are there and the run
        is long. Results are equal.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("requests", requests, Trace)
    arrival = _times("requests", requests.arrival_time)
    options = _Options(output_limit, cached_length, priority, events, progress, compiled)
    if isinstance(policy, DynamicBatching):
        columns = _columns(arrival, requests.prompt_length, requests.output_length, options)
        return _batches(columns, policy, step_time, options)
    return _continuous(arrival, requests, policy, step_time, options)


def simulate_closed_loop(lengths, policy, step_time, *, users, think_time=0.0, output_limit=None, cached_length=0,
                         priority=0, events=False, progress=False, compiled=None):  # fmt: skip
    """Return the run of users who wait for their answer, think, and ask again: a closed loop.

    Parameters
    ----------
    lengths : tuple of array_like, each shape (n,)
        Prompt and output lengths, tokens, in the order in which they are asked for.
    policy : ContinuousBatching
    step_time : AffineStep or callable
        As in `simulate`.
    users : int
        Requests in flight or being thought about, at least 1. All ask at 0.
    think_time : array_like, shape (n,)
        Seconds from an answer to the request at this place of the order, at least 0.
    output_limit, cached_length, priority, events, progress, compiled
        As in `simulate`.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    users = int(arguments.number("users", users, least=1, whole=True))
    if not isinstance(lengths, (tuple, list)) or len(lengths) != 2:
        raise ValueError(f"lengths must be two arrays, of prompts and outputs, got {lengths!r}")
    arguments.record("policy", policy, ContinuousBatching)
    prompt = arguments.array("lengths", lengths[0], least=0, whole=True)
    if prompt.ndim != 1:
        raise ValueError(f"lengths must have one axis each, got {lengths!r}")
    requests = Trace(np.zeros(prompt.shape), prompt, lengths[1])
    options = _Options(output_limit, cached_length, priority, events, progress, compiled)
    return _continuous(requests.arrival_time, requests, policy, step_time, options, users=users, think_time=think_time)


class _Options(NamedTuple):
    output_limit: object
    cached_length: object
    priority: object
    events: bool
    progress: bool
    compiled: bool | None


def _continuous(arrival, requests, policy, step_time, options, *, users=0, think_time=0.0):
    arguments.record("policy", policy, ContinuousBatching)
    affine = step_time if isinstance(step_time, AffineStep) else None
    columns = _columns(arrival, requests.prompt_length, requests.output_length, options)
    compiled = _compiled(options.compiled, affine, arrival.size)
    columns.think[:] = _column("think_time", think_time, arrival.shape, least=0)
    if policy.order != "arrival":
        key = columns.output if policy.order == "shortest" else options.priority
        key = np.broadcast_to(key, arrival.shape)
        columns.in_order[:] = np.argsort(key, kind="stable")
        columns.rank[columns.in_order] = np.arange(arrival.size)
    limits, rates = _limits(policy, users, options), _rates(policy, affine)
    if compiled:
        found = compiled_replica.compiled_advance()(columns, limits, rates, None, None)
    else:
        # what is read most is fastest in lists; the rest is written where it stays
        read = {name: getattr(columns, name).tolist() for name in ("prompt", "output")}
        viewed = replica.Columns(*(memoryview(column) for column in columns))._replace(**read)
        asked = None if affine is not None else _asked(step_time)
        with _Bar(options.progress, arrival.size) as report:
            found = replica.advance(viewed, limits, rates, asked, report)
    return _run(columns, found, options)


def _batches(columns, policy, step_time, options):
    affine = step_time if isinstance(step_time, AffineStep) else None
    times_of = whole_batches.batch_times(columns, policy, _asked(step_time), affine)
    with _Bar(options.progress, len(columns.arrival)) as report:
        return _run(columns, whole_batches.advance(columns, policy, times_of, report), options)


def _run(columns, found, options):
    iterations, busy, *record = found
    events = None
    if options.events:
        events = Events(
            *(np.array(column, float) for column in record[:3]), *(np.array(column, int) for column in record[3:9]),
            _interruptions(*record[-4:]),
        )  # fmt: skip
    served = np.isfinite(columns.finish)
    parts = (columns.residual, columns.slot, columns.memory, columns.held, columns.own, columns.others)
    return Run(
        columns.arrival, columns.prompt, columns.output, columns.admitted, columns.first, columns.finish,
        np.where(served, columns.output, 0), columns.preempted, FirstTokenParts(*parts),
        int(iterations), float(busy), events,
    )  # fmt: skip


def _interruptions(lost, lost_at, back, back_at):
    """Return each loss with the next resumption of its request, which may lose its memory twice before one."""
    resumptions = {}
    for request, time in zip(back, back_at, strict=True):
        resumptions.setdefault(request, []).append(time)
    again = [
        resumptions[request][bisect_right(resumptions[request], time)]
        for request, time in zip(lost, lost_at, strict=True)
    ]
    return Interruptions(np.array(lost, int), np.array(lost_at, float), np.array(again, float))


def _columns(arrival, prompt, output, options):
    """Return the columns of a run, checked, with room for its results."""
    shape = arrival.shape
    prompt = np.maximum(_column("prompt_length", prompt, shape, least=0, whole=True), 1).astype(np.int64)
    output = _column("output_length", output, shape, least=1, whole=True).astype(np.int64)
    limit = output
    if options.output_limit is not None:
        limit = _column("output_limit", options.output_limit, shape, least=1, whole=True).astype(np.int64)
        if np.any(limit < output):
            short = np.flatnonzero(limit < output)[0]
            raise ValueError(f"output_limit must be at least the output, {output[short]}, got {limit[short]}")
    cached = _column("cached_length", options.cached_length, shape, least=0, whole=True)
    cached = np.minimum(cached, prompt - 1).astype(np.int64)
    arguments.array("priority", options.priority)
    if np.shape(options.priority) not in ((), shape):
        raise ValueError(f"priority must have the shape of the requests, {shape}, got {np.shape(options.priority)}")
    for name in ("events", "progress", *(["compiled"] if options.compiled is not None else [])):
        arguments.flag(name, getattr(options, name))
    place = np.arange(arrival.size)
    times = [np.full(shape, np.inf) for _ in range(3)]
    parts = [np.zeros(shape) for _ in range(6)]
    return replica.Columns(
        arrival.copy(), prompt, output, limit, cached, place, place.copy(), np.zeros(shape), *times,
        np.zeros(shape, np.int64), *parts, np.zeros(shape, np.int64), np.zeros(shape, np.int64),
        np.full(shape, -1), np.full(shape, -1), np.zeros(shape, np.int64),
    )  # fmt: skip


def _limits(policy, users, options):
    memory, holding = policy.memory, policy.holding_back
    block = int(memory.block_size)
    blocks = _whole(memory.tokens) // block
    return replica.Limits(
        slots=_whole(policy.slots), budget=_whole(policy.token_budget), blocks=blocks, block=block,
        spare=int(np.ceil(memory.spare_share * blocks)) if memory.spare_share else 0,
        reading=_READING[policy.prefill], split=int("chunked" in policy.prefill),
        ordered=int(policy.order != "arrival"),
        allocation=_ALLOCATION[memory.allocation], victim=_VICTIM[memory.victim],
        to_the_back=int(memory.back_of_the_queue), reuse=int(memory.reuse), alternate=int(holding is not None),
        patience=int(holding.patience) if holding else 0, ahead=int(policy.ahead), users=users,
        record=int(options.events),
    )  # fmt: skip


def _rates(policy, affine):
    costs = (1.0, 0.0, 0.0, 0.0, 0.0)
    if affine is not None:
        costs = (affine.fixed, affine.per_sequence, affine.per_context_token,
                 affine.per_prompt_token, affine.per_prompt_pair)  # fmt: skip
    estimate, holding = policy.estimate, policy.holding_back
    start, least, decay = 1.0, 1.0, 0.0
    if estimate is not None:
        start, least = float(estimate.start), float(estimate.least)
        decay = (start - least) / estimate.steps
    share = float(holding.waiting_share) if holding else 0.0
    return replica.Rates(*map(float, costs), share, start, least, decay)


def _whole(value):
    return replica.UNLIMITED if value == np.inf else int(value)


def _asked(step_time):
    """Return the step-time function, with its answers checked."""
    if not callable(step_time):
        raise ValueError(f"step_time must be a function or an AffineStep, got {step_time!r}")

    def asked(load):
        time = float(step_time(load))
        if not 0 < time < np.inf:
            raise ValueError(f"step_time must return a finite time above 0, got {time!r} for {load!r}")
        return time

    return asked


def _compiled(wanted, affine, count):
    possible = affine is not None and find_spec("numba") is not None
    if wanted and not possible:
        raise ValueError("compiled must be left out or false without numba or with a step that is not affine, got True")
    return possible and count >= WORTH_COMPILING if wanted is None else wanted


def _times(name, values):
    values = arguments.array(name, values, least=0)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {values.shape}")
    falls = np.flatnonzero(np.diff(values) < 0)
    if falls.size:
        before, after = values[falls[0]], values[falls[0] + 1]
        raise ValueError(f"{name} must arrive in order, got {before:g} then {after:g}")
    return values


def _column(name, values, shape, **rules):
    values = arguments.array(name, values, **rules)
    if values.shape not in ((), shape):
        raise ValueError(f"{name} must have the shape of the requests, {shape}, got {values.shape}")
    return np.broadcast_to(values, shape)


class _Bar:
    """A progress bar, or nothing."""

    def __init__(self, shown, count):
        self.shown, self.count, self.done = shown, count, 0

    def __enter__(self):
        if not self.shown:
            return None
        from tqdm.auto import tqdm

        self.bar = tqdm(total=self.count, unit="request", unit_scale=True)
        return self.report

    def report(self, done):
        if done - self.done >= 256 or done == self.count:
            self.bar.update(done - self.done)
            self.done = done

    def __exit__(self, *_):
        if self.shown:
            self.bar.close()
