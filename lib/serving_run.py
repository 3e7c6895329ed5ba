"""Serve one workload slot by slot on this machine: ``python -m lib.serving_run --help``.

The same requests ride a padded coach, a coach with early exit and a loop bus, at several slot
counts, and once more as they arrive one by one. In between, steps are probed: done once more, off
the clock. With the times of the probes, and nothing from the run itself, the run can be simulated.
Runs go in rounds, each in a new order. The record is written after every run.
"""

import argparse
import datetime
import os
import random
import shlex
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lib import arguments, footprint, measurement, record_file, serving_records
from lib.boarding import POLICIES, ride
from lib.footprint import Precision
from lib.lengths import LengthLaw, length_quantile
from lib.llama import cache_numbers, stand_in
from lib.model import Model, model, params
from lib.units import GB, quantity

TIMES_LAST_CACHE = 10
MEMORY_SHARE = 0.85
LEAST_CV = 0.8
REPEATS = 5
PROBE_ALL_FROM = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to serve, and where to put the record; `plan` makes it."""

    model: Model
    dtype: str
    linear: str
    threads: int | None
    policies: tuple
    slots: tuple
    loads: tuple
    requests: int
    mean: float
    longest: int
    prompt: int
    seed: int
    rounds: int
    seconds: float
    output: Path
    command: str


def plan(
    name="Llama-3-8B", *, divisor=4, dtype="fp32", policies=POLICIES, slots=(4, 8, 16, 32), loads=(0.6,), requests=64,
    mean=20.0, longest=120, prompt=8, seed=0, rounds=2, seconds=1800.0, threads=None, linear="auto", output=None,
):  # fmt: skip
    """Return a plan whose every part was checked.

    Parameters
    ----------
    name : str
        Of a catalogued model.
    divisor : int
        How much smaller the model is made: see `lib.llama.stand_in`.
    dtype : {"fp32", "bf16"}
    policies : sequence of str
        Of `lib.boarding.POLICIES`.
    slots : sequence of int
        Slot counts, each at least 1. Arrivals one by one use the second largest.
    loads : sequence of float
        Offered tokens over what all slots make, above 0. May be empty.
    requests : int
        At least 2.
    mean : float
        Of the geometric output length before it is clipped, tokens, at least 1.
    longest, prompt : int
        Where outputs are clipped, and length of every prompt, tokens; at least 2 and 1.
    seed : int
    rounds : int
        At least 1.
    seconds : float
        After this time no further run begins; the same command then goes on.
    threads : int, optional
        Default: as many as torch takes.
    linear : {"auto", "packed", "plain"}
        As `lib.decode.decoder` takes it.
    output : path, optional
        Where the record goes. Default: ``measurements/serving/local.json``.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a part breaks its rule.
    """
    from lib import bench

    shape = stand_in(model(name), divisor)
    dtype = arguments.choice("dtype", dtype, measurement.DTYPES)
    bench.refuse("cpu", dtype, linear)
    slots = tuple(sorted({*map(int, arguments.array("slots", slots, least=1, whole=True).ravel())}))
    policies = policies if isinstance(policies, (tuple, list)) else (policies,)
    policies = tuple(arguments.choice("policies", policy, POLICIES) for policy in policies)
    if not policies:
        raise ValueError("policies must hold at least one, got none")
    loads = tuple(map(float, arguments.array("loads", loads, above=0).ravel())) if np.size(loads) else ()
    whole = {
        key: int(arguments.number(key, value, least=least, whole=True))
        for key, value, least in (
            ("requests", requests, 2), ("longest", longest, 2), ("prompt", prompt, 1), ("seed", seed, 0),
            ("rounds", rounds, 1),
        )
    }  # fmt: skip
    mean = arguments.number("mean", mean, least=1, most=whole["longest"])
    seconds = arguments.number("seconds", seconds, above=0)
    threads = None if threads is None else int(arguments.number("threads", threads, least=1, whole=True))
    output = Path(serving_records.FOLDER / "local.json" if output is None else output)
    if output.suffix != ".json":
        raise ValueError(f"output must end in .json, got {output}")
    command = ["--model", name, "--divisor", divisor, "--dtype", dtype, "--policies", *policies, "--slots", *slots]
    command += ["--loads", *loads] if loads else ["--loads", "none"]
    command += [
        word for key in ("requests", "longest", "prompt", "seed", "rounds") for word in (f"--{key}", whole[key])
    ]
    command += ["--mean", f"{mean:g}", "--linear", linear]
    command += [] if threads is None else ["--threads", threads]
    return Plan(
        model=shape, dtype=dtype, linear=linear, threads=threads, policies=policies, slots=slots, loads=loads,
        mean=mean, seconds=seconds, output=output, **whole,
        command=shlex.join(["python", "-m", "lib.serving_run", *map(str, command)]),
    )  # fmt: skip


def cases(plan):
    """Return the runs of a round: (policy, slots, load); load 0 has all requests there at once.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    list of tuple
    """
    arguments.record("plan", plan, Plan)
    at_once = [(policy, slots, 0.0) for slots in plan.slots for policy in plan.policies]
    slots = plan.slots[max(len(plan.slots) - 2, 0)]
    return at_once + [(policy, slots, load) for load in plan.loads for policy in plan.policies]


def served(plan, *, quiet=False):
    """Return the record of the runs, after writing it: or go on with one that was cut off.

    Parameters
    ----------
    plan : Plan
    quiet : bool
        Show no progress.

    Returns
    -------
    dict
        As `lib.serving_records` reads it; "complete" once every round is whole.

    Raises
    ------
    ValueError
        Before the work starts, if memory does not suffice, the weights fit in a cache, the output
        cannot be written, or an unfinished run with other settings is in its place.
    OSError
        If the record can no longer be written; the last good one is kept.
    """
    arguments.record("plan", plan, Plan)
    content, part = _begun(plan)
    order = [
        (at, *case) for at in range(plan.rounds) for case in random.Random(at).sample(cases(plan), len(cases(plan)))
    ]
    left = order[len(content["runs"]) :]
    started, spent = time.monotonic(), content["seconds"]
    bar, bus = _bar(order, left, quiet), _bus(plan, content)
    try:
        for at, policy, slots, load in left:
            if time.monotonic() - started > plan.seconds:
                return content
            bar.set_postfix_str(f"round {at + 1}, {policy}, {slots} slots" + (f", load {load:g}" if load else ""))
            content["runs"].append({"round": at} | _run(plan, content, bus, policy, slots, load))
            content["seconds"] = round(spent + time.monotonic() - started, 1)
            serving_records.write(part, content)
            bar.update()
    finally:
        bar.close()
    content["complete"] = True
    serving_records.write(part, content)
    os.replace(part, plan.output)
    return content


def _bar(order, left, quiet):
    from tqdm import tqdm

    form = "{desc} {percentage:3.0f} % |{bar}| {n} of {total} runs{postfix}"
    done = len(order) - len(left)
    return tqdm(total=len(order), initial=done, disable=quiet, bar_format=form, desc="serving", mininterval=0.5)


def _bus(plan, content):
    from lib.bus import bus

    made = bus(
        plan.model, max(plan.slots), plan.prompt, plan.prompt + plan.longest, dtype=plan.dtype, linear=plan.linear,
        threads=content["settings"]["threads"],
    )  # fmt: skip
    content["settings"]["linear"] = made.decoder.linear
    return made


def _probe_share(slots):
    """Return which share of the steps is probed: few slots make many steps, so that fewer of them will do."""
    return min(1.0, slots / PROBE_ALL_FROM)


def _run(plan, content, bus, policy, slots, load):
    """Return one run with its probes."""
    lengths = content["requests"]["output_length"]
    arrivals = np.zeros(len(lengths))
    if load:
        if (known := content["settings"]["rates"].get(f"{load:g}")) is None:
            known = load * slots / (np.mean(lengths) * np.mean([bus.step_time(slots) for _ in range(REPEATS)]))
            content["settings"]["rates"][f"{load:g}"] = known
        arrivals = np.array(content["requests"]["unit_arrival_time"]) / known
    bus.start(_probe_share(slots), seed=len(content["runs"]))
    made = ride(arrivals, lengths, policy, slots, bus)
    steps = {
        "kind": made.step_kind.tolist(), "end": _rounded(made.step_end), "time": _rounded(made.step_time),
        "size": made.step_size.tolist(), "least": made.step_least.tolist(), "most": made.step_most.tolist(),
    }  # fmt: skip
    size, longest, seconds = zip(*bus.probes, strict=True)
    return {
        "policy": policy, "slots": slots, "load": load, "arrival_time": _rounded(arrivals),
        **{name: _rounded(getattr(made, name)) for name in ("boarded", "first_token", "finish")}, "steps": steps,
        "probes": {"size": size, "longest": longest, "time": _rounded(seconds)},
    }  # fmt: skip


def _rounded(seconds):
    return [round(float(value), 5) for value in seconds]


def _requests(plan):
    """Return output lengths and unit arrivals: by a seed, so that a second record has the same."""
    rng = np.random.default_rng(plan.seed)
    law = LengthLaw(law="geometric", mean=plan.mean, longest=plan.longest)
    levels = (np.arange(plan.requests) + rng.random(plan.requests)) / plan.requests  # each share of the law once
    lengths = length_quantile(law, rng.permutation(levels)).astype(int)
    cv = lengths.std() / lengths.mean()
    if cv < LEAST_CV:
        raise ValueError(f"output lengths must vary by {LEAST_CV} of their mean, got {cv:.2f}: clip them later")
    arrivals = np.round(np.cumsum(rng.exponential(1.0, plan.requests)), 6)
    return {"prompt": plan.prompt, "output_length": lengths.tolist(), "unit_arrival_time": arrivals.tolist()}


def _begun(plan):
    """Return the record to fill, the one that was cut off or a new one, and where it stands until it is complete."""
    from lib import bench

    here = bench.described("cpu", plan.threads)
    precision = Precision(weights=plan.dtype, kv=plan.dtype, arithmetic=plan.dtype)
    weights = float(footprint.streamed_weight_bytes(plan.model, 1, precision))
    if weights < TIMES_LAST_CACHE * here["last_cache"]:
        raise ValueError(
            f"weights must be at least {TIMES_LAST_CACHE} times the last cache of {quantity(here['last_cache'], 'B')}, "
            f"got {quantity(weights, 'B')}: a smaller divisor makes them larger"
        )
    _refuse_beyond_memory(plan, here["free_memory"])
    settings = {
        "device": "cpu", "dtype": plan.dtype, "linear": plan.linear, "threads": here["threads"],
        "slots": list(plan.slots), "loads": list(plan.loads), "rounds": plan.rounds, "rates": {},
        "streamed_weight_bytes": weights,
        "model": {key: value for key, value in asdict(plan.model).items() if key not in ("window", "biases")},
    }  # fmt: skip
    fresh = {
        **dict(serving_records.KIND.marks), "library": record_file.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "command": plan.command, "complete": False,
        "seconds": 0.0, "machine": here["machine"], "versions": here["versions"], "settings": settings,
        "requests": _requests(plan), "runs": [],
    }  # fmt: skip
    return record_file.begun(serving_records.KIND, plan.output, fresh, started=lambda old: bool(old["runs"]))


def _refuse_beyond_memory(plan, free):
    each = footprint.dtype_bytes(plan.dtype)
    needed = params(plan.model) * each
    needed += cache_numbers(plan.model, max(plan.slots), plan.prompt + plan.longest) * each
    if needed > MEMORY_SHARE * free:
        raise ValueError(
            f"free memory must be {needed / MEMORY_SHARE / GB:.1f} GB for {plan.model.name} in {plan.dtype}, "
            f"got {free / GB:.1f} GB; a larger divisor needs less"
        )


def report(content):
    """Return what a reader wants to see at once: each policy as it went, and as it was simulated.

    Parameters
    ----------
    content : dict
        A record with at least one run.

    Returns
    -------
    str
    """
    record = serving_records.summed_up("run", content)
    lines = ["", "policy       slots  load   makespan  simulated   miss    TPOT  simulated   miss"]
    groups = {}
    for run in record.runs:
        groups.setdefault((run.load, run.slots, run.policy), []).append(run)
    for (load, slots, policy), runs in sorted(groups.items()):
        rows = []
        for run in runs:
            simulated = serving_records.replayed(run)
            for one in (run.ride, simulated):
                rows.append(
                    (serving_records.makespan(one), serving_records.time_per_token(one, run.output_length).mean())
                )
        (made, tpot), (made_there, tpot_there) = np.mean(rows[::2], axis=0), np.mean(rows[1::2], axis=0)
        lines.append(
            f"{policy:12} {slots:5} {load:5.2f} {made:8.2f} s {made_there:8.2f} s {made_there / made - 1:6.1%} "
            f"{1e3 * tpot:5.1f} ms {1e3 * tpot_there:6.1f} ms {tpot_there / tpot - 1:6.1%}"
        )
    excess = [abs(run.excess) for run in record.runs]
    apart = f"{np.median(excess):.1%} apart in the median, {max(excess):.1%} at most"
    lines += ["", f"steps of a run against its probes: {apart}"]
    if content["complete"] and not serving_records.publishable(record):
        lines.append("This record is too noisy or too short to publish. Close other programs and run again.")
    return "\n".join(lines)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m lib.serving_run",
        description="Serve one workload slot by slot on this machine, static and continuous, and time every step. "
        "The record lands in measurements/serving/local.json; the next `make book` shows it beside the others. "
        "A run that was cut off, or ran out of --seconds, goes on where it was.",
    )
    parser.add_argument("--model", default="Llama-3-8B", help="a model of the catalogue (default: Llama-3-8B)")
    parser.add_argument("--divisor", type=int, default=4, help="make it smaller by this number (default: 4)")
    parser.add_argument("--dtype", default="fp32", help="fp32 or bf16 (default: fp32)")
    parser.add_argument("--policies", nargs="+", default=POLICIES, help=f"of {', '.join(POLICIES)} (default: all)")
    parser.add_argument("--slots", type=int, nargs="+", default=[4, 8, 16, 32], help="slot counts (default: 4 8 16 32)")
    parser.add_argument("--loads", nargs="+", default=["0.6"], help="for arrivals one by one, or none (default: 0.6)")
    parser.add_argument("--requests", type=int, default=64, help="default: 64")
    parser.add_argument("--mean", type=float, default=20, help="mean output, tokens (default: 20)")
    parser.add_argument("--longest", type=int, default=120, help="where outputs are clipped, tokens (default: 120)")
    parser.add_argument("--prompt", type=int, default=8, help="tokens of each prompt (default: 8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2, help="how often everything runs (default: 2)")
    parser.add_argument("--seconds", type=float, default=1800, help="no run begins after this time (default: 1800)")
    parser.add_argument("--threads", type=int, help="default: as many as torch takes")
    parser.add_argument("--linear", default="auto", help="auto, packed or plain (default: auto)")
    parser.add_argument("--output", type=Path, help="where the record goes")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def main(argv=None):
    """Run the command; return its exit status: 0, 2 for what was refused, 1 for a record that could not be written."""
    given = vars(_parser().parse_args(argv))
    quiet, name = given.pop("quiet"), given.pop("model")
    try:
        given["loads"] = [] if given["loads"] == ["none"] else [_load(word) for word in given["loads"]]
        chosen = plan(name, **given)
        print(f"{chosen.model.name}, {quantity(params(chosen.model), '')} parameters in {chosen.dtype}")
        content = served(chosen, quiet=quiet)
    except ValueError as error:
        print(f"serving: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"serving: the record cannot be written: {error}; the last good one is kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("serving: stopped; the finished runs are kept, the same command goes on", file=sys.stderr)
        return 130
    if content["runs"]:
        print(report(content))
    if not content["complete"]:
        print(f"{len(content['runs'])} of {chosen.rounds * len(cases(chosen))} runs are done; the same command goes on")
    else:
        print(f"written: {chosen.output}")
    return 0


def _load(word):
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"loads must be numbers or none, got {word!r}") from None


if __name__ == "__main__":
    sys.exit(main())
