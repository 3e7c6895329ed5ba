"""An engine that nobody here wrote: what its runs were predicted to take, and what they took.

``benchmarks/engine_serving.py`` times an engine's steps, has the prediction made here written down, and then
serves. The prediction is `lib.simulation`'s: prompts are read beside those who decode, a step reads what
each sequence holds, and nothing is fitted to the outcomes.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lib import arguments, record_file, records, simulation
from lib.batching import ContinuousBatching, DynamicBatching
from lib.boarding import POLICIES, StepTimes
from lib.latency import latencies
from lib.trace import Trace

FOLDER = records.FOLDER / "engines"
TOKEN_BUDGET = 2048
SITTING = 600.0  # seconds: the machine keeps its speed about so long
KEPT = ("date", "machine", "versions", "shape", "dtype", "prompt", "output_length")


class Cause(NamedTuple):
    """Where prediction and run part: the steps themselves, or what they took. One row a case, sorted as in `compared`.

    Attributes
    ----------
    policy : list of str
    slots, steps : ndarray of int, shape (n,)
        Slots, and the steps that were simulated.
    alike : ndarray of bool, shape (n,)
        Whether the engine ran as many steps in every round, each with as many aboard.
    boarding, decoding : ndarray, shape (n,)
        What steps that read prompts, and all others, were timed to take right before the runs, less what they took, as
        a share of the makespan measured. NaN where the steps were not alike.
    between : ndarray, shape (n,)
        The time outside all steps, as a share of the makespan; below 0, for no step was timed to take it.
    """

    policy: list
    slots: np.ndarray
    steps: np.ndarray
    alike: np.ndarray
    boarding: np.ndarray
    decoding: np.ndarray
    between: np.ndarray


class Comparison(NamedTuple):
    """Prediction and run of each case; one row a case, and its rounds where it ran several times.

    Attributes
    ----------
    policy : list of str
    slots : ndarray of int, shape (n,)
    quantity : list of str
        "makespan", "first token" or "time per token".
    predicted, retimed : ndarray, shape (n,)
        Seconds: as it was written down before the runs; and with steps that were timed again right before the runs,
        means over those with as many slots that began within `SITTING` of each. The machine may be faster in one
        hour than in another.
    measured, least, most : ndarray, shape (n,)
        Mean, least and most of the rounds, s.
    """

    policy: list
    slots: np.ndarray
    quantity: list
    predicted: np.ndarray
    retimed: np.ndarray
    measured: np.ndarray
    least: np.ndarray
    most: np.ndarray


def predicted(steps, slots):
    """Return the prediction of each policy at each slot count.

    Parameters
    ----------
    steps : dict
        What the script wrote of the engine's steps.
    slots : sequence of int
        At least 1.

    Returns
    -------
    dict
        ``cases``, each with policy, slots, ``makespan``, ``first_token`` and ``time_per_token`` (means), s; and the
        ``least`` and ``most`` makespan that one visit alone would have predicted.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    _with("steps", steps, ("prompt", "output_length", "visits"))
    slots = arguments.array("slots", slots, least=1, whole=True).ravel()
    times, lengths = _times(steps["prompt"], steps["visits"]), np.array(steps["output_length"])
    visits = [_times(steps["prompt"], [visit]) for visit in steps["visits"]]
    cases = []
    for count in slots.astype(int).tolist():
        for policy in POLICIES:
            ends = [_simulated(one, lengths, policy, count)["makespan"] for one in visits]
            found = _simulated(times, lengths, policy, count) | {"least": min(ends), "most": max(ends)}
            cases.append({"policy": policy, "slots": count} | found)
    return {"from": {key: steps[key] for key in KEPT if key in steps}, "cases": cases}


def _simulated(times, lengths, policy, slots):
    made = _run(times, times.prompt, lengths, policy, slots)
    return _means(made.first_token_time, made.finish_time, made.finish_time.max(), lengths)


def _run(step, prompt, lengths, policy, slots):
    requests = Trace(np.zeros(lengths.shape), np.full(lengths.shape, prompt), lengths)
    return simulation.simulate(requests, _rules(policy, slots), step)


def _steps(times, lengths, policy, slots):
    """Return of each step simulated: who boards, who is aboard, and its time."""
    seen = []

    def step(load):
        boards = len(load.chunks)
        seen.append((boards, boards + load.decoding, times(load)))
        return seen[-1][-1]

    _run(step, times.prompt, lengths, policy, slots)
    return map(np.array, zip(*seen, strict=True))


def _retimed(steps, runs, policy, slots):
    """Return step times for each round: near lengths as timed in its sitting, the rise with the length as before."""
    table = _times(steps["prompt"], steps["visits"])
    alike = [run for run in runs if run["slots"] == slots]
    found = []
    for one in (run for run in alike if run["policy"] == policy):
        close = [run for run in alike if _apart(one, run) <= SITTING]
        near, boarding = np.mean([np.reshape(run["before"]["time"], (-1, 2)) for run in close], axis=0).T
        known = np.array(table.steps)[: len(near)]
        sizes, joining = np.array(one["before"]["sizes"]), _joining([run["before"] for run in close])
        found.append(StepTimes(
            prompt=table.prompt, sizes=sizes, longest=table.longest,
            steps=near[:, None] * known / known[:, :1], boarding=boarding, **joining,
        ))  # fmt: skip
    return found


def _apart(one, other):
    """Return how long after another a run began, s; runs without a time of day were of one sitting."""
    if "at" not in one or "at" not in other:
        return 0.0
    return abs((datetime.fromisoformat(one["at"]) - datetime.fromisoformat(other["at"])).total_seconds())


def step_times(steps):
    """Return the step times of an engine, means of all visits of their timing.

    Parameters
    ----------
    steps : dict
        What the script wrote of the engine's steps.

    Returns
    -------
    lib.boarding.StepTimes

    Raises
    ------
    ValueError
        If it lacks a part.
    """
    _with("steps", steps, ("prompt", "visits"))
    return _times(steps["prompt"], steps["visits"])


def _times(prompt, visits):
    sizes, longest = (np.array(visits[0][key]) for key in ("sizes", "longest"))
    found = np.mean([visit["time"] for visit in visits], axis=0).reshape(sizes.size, longest.size + 1)
    return StepTimes(
        prompt=prompt, sizes=sizes, longest=longest, steps=found[:, :-1], boarding=found[:, -1], **_joining(visits)
    )


def _joining(visits):
    """Return the times of steps in which prompts board beside others, means of the visits that timed them."""
    timed = [visit for visit in visits if "joining" in visit]
    if not timed:
        return {}
    found = np.mean([np.array(visit["joining"], float) for visit in timed], axis=0)
    found = np.where(np.isnan(found), np.inf, found)  # where nobody rides
    return {"boards": np.array(timed[0]["boards"]), "joining": found.reshape(-1, len(timed[0]["boards"]))}


def _rules(policy, slots):
    """Return vLLM's rules: prompts beside decoding, or groups that it is given one after another."""
    if policy == "continuous":
        return ContinuousBatching(slots=slots, token_budget=TOKEN_BUDGET, prefill="chunked", source="vLLM 0.32")
    return DynamicBatching(cap=slots, padded=policy == "padded")


def _means(first_token, finish, makespan, output_length):
    at_once = np.zeros(first_token.shape)
    found = latencies(at_once, at_once, first_token, finish, output_length)
    return {
        "makespan": float(makespan),
        "first_token": float(found.ttft.mean()),
        "time_per_token": float(np.nanmean(found.tpot)),
    }


def _with(name, content, keys):
    if missing := [key for key in keys if key not in arguments.record(name, content, dict)]:
        raise ValueError(f"{name} must hold {', '.join(keys)}, got no {missing[0]}")


def _measured(run, output_length):
    columns = (np.array(run[name]) for name in ("first_token", "finish"))
    return _means(*columns, run["makespan"], np.array(output_length))


def compared(steps, prediction, runs):
    """Return prediction and run side by side.

    Parameters
    ----------
    steps, prediction, runs : dict
        As the script wrote them.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If they are of different workloads, or a run was not predicted.
    """
    _with("steps", steps, ("prompt", "output_length", "visits"))
    _with("prediction", prediction, ("from", "cases"))
    _with("runs", runs, ("output_length", "runs"))
    if prediction["from"]["output_length"] != runs["output_length"]:
        raise ValueError(f"runs must be of the requests in the prediction, got {len(runs['output_length'])} others")
    expected = {(case["policy"], case["slots"]): case for case in prediction["cases"]}
    found = {}
    for run in runs["runs"]:
        case = run["policy"], run["slots"]
        if case not in expected:
            raise ValueError(f"runs must have been predicted, got {case}")
        found.setdefault(case, []).append(_measured(run, runs["output_length"]))
    lengths = np.array(runs["output_length"])
    again = {}
    for case in found:
        rounds = [_simulated(times, lengths, *case) for times in _retimed(steps, runs["runs"], *case)]
        again[case] = {key: float(np.mean([one[key] for one in rounds])) for key in rounds[0]}
    words = {"makespan": "makespan", "first_token": "first token", "time_per_token": "time per token"}
    rows = [
        (*case, words[key], expected[case][key], again[case][key], [one[key] for one in rounds])
        for case, rounds in sorted(found.items()) for key in words
    ]  # fmt: skip
    policy, slots, quantity, wanted, later, got = zip(*rows, strict=True)
    ends = [np.array([take(one) for one in got]) for take in (np.mean, np.min, np.max)]
    return Comparison([*policy], np.array(slots), [*quantity], np.array(wanted), np.array(later), *ends)


def explained(steps, runs):
    """Return where the miss of each makespan comes from, with steps as timed right before the runs.

    Parameters
    ----------
    steps, runs : dict
        As the script wrote them.

    Returns
    -------
    Cause
        Where the steps were alike, its three shares add up to the miss.

    Raises
    ------
    ValueError
        If an argument lacks a part.
    """
    _with("steps", steps, ("prompt", "output_length", "visits"))
    _with("runs", runs, ("output_length", "runs"))
    lengths, rows = np.array(runs["output_length"]), []
    for policy, slots in sorted({(run["policy"], run["slots"]) for run in runs["runs"]}):
        rounds = [run for run in runs["runs"] if (run["policy"], run["slots"]) == (policy, slots)]
        made = [[*_steps(times, lengths, policy, slots)] for times in _retimed(steps, runs["runs"], policy, slots)]
        boards, aboard, _ = made[0]
        alike = all(aboard.tolist() == run["step_size"] for run in rounds)
        makespan = np.mean([run["makespan"] for run in rounds])
        excess = np.full(aboard.shape, np.nan)
        if alike:
            excess = np.mean([one[-1] - run["step_time"] for one, run in zip(made, rounds, strict=True)], axis=0)
        parts = [excess[which].sum() / makespan for which in (boards > 0, boards == 0)]
        between = sum(sum(run["step_time"]) for run in rounds) / len(rounds) / makespan - 1
        rows.append((policy, slots, aboard.size, alike, *parts, between))
    policy, *columns = zip(*rows, strict=True)
    return Cause([*policy], *map(np.array, columns))


def worst_misses(compared, prediction="retimed"):
    """Return by how much a makespan of the loop bus, and one of a coach, was missed at most.

    Parameters
    ----------
    compared : Comparison
        With both.
    prediction : {"retimed", "predicted"}
        With steps as timed right before the runs, or as it was written down before.

    Returns
    -------
    bus, coach : float
        Shares of what was measured.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("compared", compared, Comparison)
    arguments.choice("prediction", prediction, ("retimed", "predicted"))
    off = np.abs(getattr(compared, prediction) / compared.measured - 1)
    spans = np.array(compared.quantity) == "makespan"
    bus = np.array(compared.policy) == "continuous"
    for name, which in (("continuous", bus), ("static", ~bus)):
        if not np.any(spans & which):
            raise ValueError(f"compared must hold a {name} makespan, got none")
    return float(off[spans & bus].max()), float(off[spans & ~bus].max())


def committed(name, folder=FOLDER):
    """Return steps, prediction and runs of an engine, or none where they are not all there.

    Parameters
    ----------
    name : str
        Such as "vllm".
    folder : path

    Returns
    -------
    tuple of dict, or None

    Raises
    ------
    ValueError
        If a file is no JSON; names it.
    """
    arguments.text("name", name)
    paths = [Path(folder) / f"{name}-{what}.json" for what in ("steps", "prediction", "run")]
    return tuple(record_file.json_of(path) for path in paths) if all(path.exists() for path in paths) else None
