"""Runs of a bus that `lib.serving_run` recorded: written, read, summed up and replayed. No torch here.

Each run keeps what became of every request, how long every step took, and the step times that
were measured right before and after it: with those the same requests are simulated.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lib import arguments, boarding, records, simulation
from lib.batching import ContinuousBatching, DynamicBatching
from lib.boarding import Ride, StepTimes
from lib.trace import Trace

SCHEMA = 1
FOLDER = records.FOLDER / "serving"
FIELDS = ("schema", "kind", "library", "date", "command", "complete", "seconds", "machine", "versions", "settings",
          "requests", "runs")  # fmt: skip
KIND = "served"
STEADY = 0.15
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
        Medians of the visits before and after the run.
    drift : float
        How much longer the steps took in the visit after than in the one before, median, as a share.
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
    drift: float


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
    records.write_whole(path, _checked("content", content), '{"round"')


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
    path = Path(path)
    return _checked(path.name, records.json_of(path))


def _checked(name, content):
    known = isinstance(content, dict) and (content.get("schema"), content.get("kind")) == (SCHEMA, KIND)
    if not known:
        found = (content.get("schema"), content.get("kind")) if isinstance(content, dict) else content
        raise ValueError(f"{name} must be a record of schema {SCHEMA} and kind {KIND}, got {found!r:.60}")
    if missing := [part for part in FIELDS if part not in content]:
        raise ValueError(f"{name} must hold {', '.join(FIELDS)}; got no {missing[0]}")
    return content


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
    runs = tuple(_run(content, one) for one in _checked("content", content)["runs"])
    if not runs:
        raise ValueError("runs must hold at least one, got none")
    return Record(name=name, content=content, runs=runs)


def _run(content, one):
    requests, steps = content["requests"], one["steps"]
    columns = ("boarded", "first_token", "finish"), ("kind", "end", "time", "size", "least", "most")
    made = Ride(*(np.array(one[key]) for key in columns[0]), *(np.array(steps[key]) for key in columns[1]))
    before, after = one["visits"]
    return Run(
        policy=one["policy"], slots=one["slots"], load=one["load"], round=one["round"],
        arrival_time=np.array(one["arrival_time"]), prompt=requests["prompt"], ride=made,
        output_length=np.array(requests["output_length"]), times=step_times(requests["prompt"], one["visits"]),
        drift=float(np.median(np.divide(after["time"], before["time"])) - 1),
    )  # fmt: skip


def step_times(prompt, visits):
    """Return the step times that visits found, medians of all.

    Parameters
    ----------
    prompt : int
        Tokens of each prompt.
    visits : list of dict
        Each with ``sizes``, ``longest``, and ``time``: for each size the step at each length, then the boarding; s.

    Returns
    -------
    StepTimes

    Raises
    ------
    ValueError
        If there is no visit, or they differ in what they visited.
    """
    arguments.record("visits", visits, list)
    visits = [arguments.record("visits", visit, dict) for visit in visits]
    if len(states := {(tuple(visit["sizes"]), tuple(visit["longest"])) for visit in visits}) != 1:
        raise ValueError(f"visits must be of the same sizes and lengths, at least one, got {len(states)} kinds")
    sizes, longest = (np.array(visits[0][key]) for key in ("sizes", "longest"))
    found = np.median([visit["time"] for visit in visits], axis=0).reshape(sizes.size, longest.size + 1)
    return StepTimes(prompt=prompt, sizes=sizes, longest=longest, steps=found[:, :-1], boarding=found[:, -1])


def replayed(run):
    """Return the run simulated: the same requests and rules, step times from the visits around it.

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
    several = output_length > 1
    return (ride.finish - ride.first_token)[several] / (output_length[several] - 1)


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


def publishable(record):
    """Return whether a record is complete, has `LEAST_ROUNDS` rounds, and its machine drifted less than `STEADY`.

    Parameters
    ----------
    record : Record

    Returns
    -------
    bool
        The drift is the median over its runs.
    """
    arguments.record("record", record, Record)
    rounds = {run.round for run in record.runs}
    steady = float(np.median([abs(run.drift) for run in record.runs])) < STEADY
    return bool(record.content["complete"] and len(rounds) >= LEAST_ROUNDS and steady)


def committed(folder=FOLDER):
    """Return the records that came with the report and can be published, by name; none from this machine."""
    found = {path.stem: record(path) for path in sorted(Path(folder).glob("*.json")) if not _is_own(path)}
    return {name: one for name, one in found.items() if publishable(one)}


def own(folder=FOLDER):
    """Return the complete records made on the reader's machine, by name."""
    paths = [path for path in sorted(Path(folder).glob("local*.json")) if not path.name.endswith(".part.json")]
    return {path.stem: record(path) for path in paths}


def _is_own(path):
    return path.name.startswith("local") or path.name.endswith(".part.json")
