"""Runs of a bus that `lib.serving_run` recorded: written, read, summed up and replayed. No torch here.

Each run keeps what became of every request, how long every step took, and how long the probes took: steps
done once more, off the clock, in between. With the probes' times the same requests are simulated.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lib import arguments, boarding, record_file, records, simulation
from lib.batching import ContinuousBatching, DynamicBatching
from lib.boarding import Ride, StepTimes
from lib.latency import latencies
from lib.trace import Trace

FOLDER = records.FOLDER / "serving"
KIND = record_file.Kind(
    fields=(
        *("schema", "kind", "library", "date", "command", "complete", "seconds", "machine", "versions", "settings"),
        *("requests", "runs"),
    ),
    marks=(("schema", 1), ("kind", "served")), same=("machine", "versions", "command", "requests"),
)  # fmt: skip
STEADY = 0.1
LEAST_PROBES = 8
LEAST_ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One run: the same requests under one policy.

    Attributes
    ----------
    policy : {"padded", "early exit", "continuous"}
    slots : int
    load : float
        Offered tokens over what all slots together can make; 0 if all requests are there at once.
    round : int
    arrival_time : ndarray, shape (n,)
        Seconds.
    prompt : int
        Tokens of each prompt.
    output_length : ndarray of int, shape (n,)
        Tokens.
    ride : Ride
        As it went.
    times : StepTimes
        From the probes.
    excess : float
        How much longer all steps of the run took than its probes say, as a share.
    """

    policy: str
    slots: int
    load: float
    round: int
    arrival_time: np.ndarray
    prompt: int
    output_length: np.ndarray
    ride: Ride
    times: StepTimes
    excess: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """A recorded file.

    Attributes
    ----------
    name : str
    content : dict
        All that the file holds.
    runs : tuple of Run
    """

    name: str
    content: dict = field(repr=False)
    runs: tuple


def write(path, content):
    """Write a record whole or not at all.

    Parameters
    ----------
    path : path
    content : dict

    Raises
    ------
    ValueError
        If the content is no record of this kind.
    OSError
        If it cannot be written.
    """
    record_file.write(KIND, path, content)


def content_of(path):
    """Return what a record's file holds.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is no JSON, of another kind or schema, or lacks a part; names the file.
    """
    return record_file.content_of(KIND, path)


def record(path):
    """Return a recorded file.

    Parameters
    ----------
    path : path

    Returns
    -------
    Record

    Raises
    ------
    ValueError
        If the file is no record of this kind, or holds no run; names the file.
    """
    content = content_of(path)
    try:
        return summed_up(Path(path).stem, content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{Path(path).name} must hold runs of requests: {error}") from None


def summed_up(name, content):
    """Return the content of a record with its runs.

    Parameters
    ----------
    name : str
    content : dict

    Returns
    -------
    Record

    Raises
    ------
    ValueError
        If it is no record, or holds no run.
    """
    arguments.text("name", name)
    runs = tuple(_run(content, one) for one in record_file.checked(KIND, "content", content)["runs"])
    if not runs:
        raise ValueError("runs must hold at least one, got none")
    return Record(name=name, content=content, runs=runs)


def _run(content, one):
    requests, steps = content["requests"], one["steps"]
    columns = ("boarded", "first_token", "finish"), ("kind", "end", "time", "size", "least", "most")
    made = Ride(*(np.array(one[key]) for key in columns[0]), *(np.array(steps[key]) for key in columns[1]))
    times = step_times(requests["prompt"], one["probes"], one["slots"])
    told = [
        times.step_time(size, requests["prompt"] + most) if kind else times.boarding_time(size)
        for kind, size, most in zip(made.step_kind, made.step_size, made.step_most, strict=True)
    ]
    return Run(
        policy=one["policy"], slots=one["slots"], load=one["load"], round=one["round"],
        arrival_time=np.array(one["arrival_time"]), prompt=requests["prompt"], ride=made,
        output_length=np.array(requests["output_length"]), times=times,
        excess=float(made.step_time.sum() / np.sum(told) - 1),
    )  # fmt: skip


def step_times(prompt, probes, slots):
    """Return the step times that probes found, hiccups of the machine included.

    Parameters
    ----------
    prompt : int
        Tokens of each prompt.
    probes : dict
        Lists ``size``, ``longest`` (0 where prompts were read) and ``time``, s.
    slots : int
        Largest size of the table.

    Returns
    -------
    StepTimes

    Raises
    ------
    ValueError
        If an argument breaks its rule, or steps or boardings were not probed.

    Notes
    -----
    One slope in the tokens of the longest sequence, for each sequence; then means of neighbouring sizes,
    `LEAST_PROBES` or more together, with straight lines between them. Boarding: means by prompts.
    """
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    prompt = int(arguments.number("prompt", prompt, least=1, whole=True))
    if {*arguments.record("probes", probes, dict)} < {"size", "longest", "time"}:
        raise ValueError(f"probes must hold size, longest and time, got {', '.join(probes) or 'nothing'}")
    size, longest, time = (np.array(probes[name], float) for name in ("size", "longest", "time"))
    steps = longest > 0
    if not steps.any() or steps.all():
        raise ValueError(f"probes must be of steps and of boardings, got {steps.sum()} steps of {steps.size}")
    at = np.arange(1, slots + 1)
    slope = _slope(size[steps], longest[steps] - prompt, time[steps])
    fixed = _by_size(size[steps], time[steps] - slope * size[steps] * (longest[steps] - prompt), at, LEAST_PROBES)
    fastest = time[steps].min()  # a hiccup tilts the line: no step is faster than the fastest that was seen
    ends = np.array([prompt, max(prompt + 1, int(longest.max()))])
    table = fixed[:, None] + slope * at[:, None] * (ends - prompt)
    return StepTimes(
        prompt=prompt, sizes=at, longest=ends, steps=np.maximum(table, fastest),
        boarding=_by_size(size[~steps], time[~steps], at, 1),
    )  # fmt: skip


def _slope(size, beyond, time):
    """Return what a token of the longest sequence adds for each sequence, s: within sizes, and not below 0."""
    tokens, left = size * beyond, time.copy()
    for one in np.unique(size):
        same = size == one
        tokens[same] -= tokens[same].mean()
        left[same] -= left[same].mean()
    spread = float(tokens @ tokens)
    return max(float(tokens @ left) / spread, 0.0) if spread else 0.0


def _by_size(size, time, at, least):
    """Return the time at each size: means of neighbouring sizes, `least` together, straight lines between them."""
    order = np.argsort(size, kind="stable")
    size, time = size[order], time[order]
    ends = [*(np.flatnonzero(np.diff(size)) + 1), len(size)]
    groups, first = [], 0
    for end in ends:
        if end - first >= least or end == len(size):
            groups.append((size[first:end].mean(), time[first:end].mean()))
            first = end
    centres, means = np.array(groups).T
    return np.interp(at, centres, means)


def replayed(run):
    """Return the run simulated: the same requests and rules, step times from its probes.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Ride
    """
    arguments.record("run", run, Run)
    table = boarding.Timetable(run.times)
    return boarding.ride(run.arrival_time, run.output_length, run.policy, run.slots, table)


def simulated(run):
    """Return the run by `lib.simulation`, which knows nothing of this bus: only the times of its steps.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Ride
        Without steps.

    Notes
    -----
    It counts the mean length of those aboard, where the bus pads all to the longest: see `replayed`.
    """
    arguments.record("run", run, Run)
    rules = DynamicBatching(cap=run.slots, padded=run.policy == "padded")
    if run.policy == "continuous":
        rules = ContinuousBatching(slots=run.slots, prefill="whole")
    prompts = np.full(run.output_length.shape, run.prompt)
    made = simulation.simulate(Trace(run.arrival_time, prompts, run.output_length), rules, run.times)
    return Ride(made.admitted_time, made.first_token_time, made.finish_time, *[np.array([])] * 6)


def makespan(ride):
    """Return when the last request was done, s.

    Parameters
    ----------
    ride : Ride

    Returns
    -------
    float
    """
    return float(arguments.record("ride", ride, Ride).finish.max())


def time_per_token(ride, output_length):
    """Return the time per output token of each request that has more than one, the first token left out.

    Parameters
    ----------
    ride : Ride
    output_length : array_like, shape (n,)
        Tokens.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If the lengths are not those of the ride's requests.
    """
    arguments.record("ride", ride, Ride)
    output_length = arguments.array("output_length", output_length, least=1, whole=True)
    if output_length.shape != ride.finish.shape:
        raise ValueError(f"output_length must have shape {ride.finish.shape}, got {output_length.shape}")
    tpot = latencies(ride.boarded, ride.boarded, ride.first_token, ride.finish, output_length).tpot
    return tpot[np.isfinite(tpot)]


def first_token_time(run, ride):
    """Return the time to first token of each request, s, its wait for a slot included.

    Parameters
    ----------
    run : Run
    ride : Ride
        The run's own, or another of the same requests.

    Returns
    -------
    ndarray, shape (n,)
    """
    arguments.record("run", run, Run)
    return arguments.record("ride", ride, Ride).first_token - run.arrival_time


class Case(NamedTuple):
    """The runs of one policy at one slot count, round by round: seconds, shape (rounds,).

    Attributes
    ----------
    policy : str
    slots : int
    makespan, time_per_token : ndarray
        As it went; the latter a mean over requests.
    replayed_makespan, replayed_time_per_token : ndarray
        With the bus's own rules: all padded to the longest aboard.
    simulated_makespan, simulated_time_per_token : ndarray
        By `lib.simulation`.
    """

    policy: str
    slots: int
    makespan: np.ndarray
    time_per_token: np.ndarray
    replayed_makespan: np.ndarray
    replayed_time_per_token: np.ndarray
    simulated_makespan: np.ndarray
    simulated_time_per_token: np.ndarray


def cases(record):
    """Return what became of the requests that were all there at once, by policy and slots.

    Parameters
    ----------
    record : Record

    Returns
    -------
    list of Case
        In the order of `lib.boarding.POLICIES`, slots rising.
    """
    found = {}
    for run in arguments.record("record", record, Record).runs:
        if not run.load:
            rides = run.ride, replayed(run), simulated(run)
            row = [(makespan(one), float(time_per_token(one, run.output_length).mean())) for one in rides]
            found.setdefault((boarding.POLICIES.index(run.policy), run.slots), []).append(np.ravel(row))
    return [
        Case(boarding.POLICIES[policy], slots, *np.transpose(rows)) for (policy, slots), rows in sorted(found.items())
    ]


def line_of(record):
    """Return straight lines through the steps of a record, as the probes of its runs with most slots saw them.

    Parameters
    ----------
    record : Record

    Returns
    -------
    tuple of float
        Of a step: the time without riders, and what each rider adds at the mean length, s. Of boarding: the
        same, for those whose prompts are read together.
    """
    runs = arguments.record("record", record, Record).runs
    most = max(run.slots for run in runs)
    chosen = [run for run in runs if run.slots == most]
    sizes = np.arange(1, most + 1)
    curve = [[one.times.step_time(n, one.prompt + one.output_length.mean()) for n in sizes] for one in chosen]
    slope, base = np.polyfit(sizes, np.mean(curve, axis=0), 1)
    read = [[one.times.boarding_time(n) for n in (1, most)] for one in chosen]
    read = [ends for ends in read if ends[0] < ends[1]] or read  # a coach reads prompts all together only
    single, all_together = np.mean(read, axis=0)
    each = (all_together - single) / max(most - 1, 1)
    return float(base), float(slope), float(single - each), float(each)


def publishable(record):
    """Return whether a record is complete, has `LEAST_ROUNDS` rounds, and its steps took what its probes say.

    Parameters
    ----------
    record : Record

    Returns
    -------
    bool
        Within `STEADY`, in the median of its runs.
    """
    arguments.record("record", record, Record)
    rounds = {run.round for run in record.runs}
    steady = float(np.median([abs(run.excess) for run in record.runs])) < STEADY
    return bool(record.content["complete"] and len(rounds) >= LEAST_ROUNDS and steady)


def committed(folder=FOLDER):
    """Return the records that came with the report and can be published, by name; none from this machine."""
    found = {path.stem: record(path) for path in record_file.files_in(folder)}
    return {name: one for name, one in found.items() if publishable(one)}


def own(folder=FOLDER):
    """Return the complete records made on the reader's machine, by name."""
    return {path.stem: record(path) for path in record_file.files_in(folder, own=True)}
