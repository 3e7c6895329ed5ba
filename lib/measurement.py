"""Measure the decode step and its ceilings on this machine: ``python -m lib.measurement --help``.

One process, one dtype. Every visit of a point (batch, context) times the step and, right
beside it, what the machine can read, copy and multiply at that moment. Points are visited
in rounds, each in a new order, so that drift hits them all alike. The first step of a
visit is dropped. Nothing is written but the record, and that after every round.
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

from lib import agreement, arguments, footprint, record_file, records
from lib.llama import cache_numbers, stand_in
from lib.model import Model, model, params
from lib.units import GB, quantity

DTYPES = ("fp32", "bf16")
DEFAULTS = {
    "cpu": {"divisor": 4, "dtype": "fp32", "seconds": 150.0,
            "batch_sizes": (1, 2, 4, 8, 16, 32, 64), "contexts": (128, 1024, 4096)},
    "cuda": {"divisor": 1, "dtype": "bf16", "seconds": 420.0,
             "batch_sizes": (1, 2, 4, 8, 16, 32, 64, 128, 256), "contexts": (128, 512, 2048, 8192, 32_768)},
}  # fmt: skip
TIMES_LAST_CACHE = 10
LEAST_WORKING_SET = 256 * 2**20
MEMORY_SHARE = 0.85
MOST_ROUNDS = 100
MOST_OF_THE_TIME = 0.015
LEAST_POINTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure, and where to put it; `plan` makes it."""

    model: Model
    dtype: str
    device: str
    batch_sizes: tuple
    contexts: tuple
    seconds: float
    threads: int | None
    linear: str
    output: Path
    command: str


def plan(
    name="Llama-3-8B", *, device="cpu", divisor=None, dtype=None, batch_sizes=None, contexts=None, seconds=None,
    threads=None, linear="auto", output=None,
):  # fmt: skip
    """Return a plan whose every part was checked.

    Parameters
    ----------
    name : str
        Of a catalogued model.
    device : {"cpu", "cuda"}
    divisor : int, optional
        How much smaller the model is made: see `lib.llama.stand_in`.
    dtype : {"fp32", "bf16"}, optional
    batch_sizes, contexts : sequence of int, optional
        Sequences in a batch; tokens that each attends to.
    seconds : float, optional
        For the rounds; setting up comes on top. Each point gets its least number of
        visits even if that takes longer.
    threads : int, optional
        Default: as many as torch takes.
    linear : {"auto", "packed", "plain"}
        As `lib.decode.decoder` takes it.
    output : path, optional
        Where the record goes. Default: ``measurements/local.json``, with the device or
        the dtype in its name where they are not the usual ones.

    Returns
    -------
    Plan
        With `DEFAULTS` of the device for what was left out.

    Raises
    ------
    ValueError
        If a part breaks its rule or the machine has no such device.
    """
    from lib import bench

    usual = DEFAULTS[arguments.choice("device", device, DEFAULTS)]
    given = {"divisor": divisor, "dtype": dtype, "batch_sizes": batch_sizes, "contexts": contexts, "seconds": seconds}
    chosen = usual | {key: value for key, value in given.items() if value is not None}
    divisor = int(arguments.number("divisor", chosen["divisor"], least=1, whole=True))
    dtype = arguments.choice("dtype", chosen["dtype"], DTYPES)
    sizes, contexts = (
        tuple(map(int, arguments.array(key, chosen[key], least=1, whole=True).ravel()))
        for key in ("batch_sizes", "contexts")
    )
    seconds = arguments.number("seconds", chosen["seconds"], above=0)
    threads = None if threads is None else int(arguments.number("threads", threads, least=1, whole=True))
    shape = stand_in(model(name), divisor)
    bench.refuse(device, dtype, linear)
    command = ["--model", name, "--divisor", divisor, "--device", device, "--dtype", dtype, "--batch", *sizes]
    command += ["--context", *contexts, "--seconds", f"{seconds:g}", "--linear", linear]
    command += [] if threads is None else ["--threads", threads]
    if output is None:
        unusual = [word for word, other in ((device, "cpu"), (dtype, usual["dtype"])) if word != other]
        output = records.FOLDER / f"{'-'.join(['local', *unusual])}.json"
    if Path(output).suffix != ".json":
        raise ValueError(f"output must end in .json, got {output}")
    return Plan(
        model=shape, dtype=dtype, device=device, batch_sizes=sizes, contexts=contexts, seconds=seconds, threads=threads,
        linear=linear, output=Path(output), command=shlex.join(["python", "-m", "lib.measurement", *map(str, command)]),
    )  # fmt: skip


def measure(plan, *, quiet=False):
    """Return the record of a run, after writing it: or go on with one that was cut off.

    Parameters
    ----------
    plan : Plan
    quiet : bool
        Show no progress.

    Returns
    -------
    dict
        As `lib.records` reads it.

    Raises
    ------
    ValueError
        Before the work starts, if memory or disk do not suffice, the output cannot be
        written, or an unfinished run with other settings is in its place.
    OSError
        If the record can no longer be written; the last good one is kept.
    """
    from lib import bench

    arguments.record("plan", plan, Plan)
    content, part = _begun(plan, bench.described(plan.device, plan.threads))
    points = [(point["batch_size"], point["context"]) for point in content["points"]]
    made = bench.Bench(plan.model, content["settings"], points, product_flop=content["ceilings"].get("matrix_multiply"))
    content["settings"]["linear"], content["ceilings"] = made.linear, made.amounts
    content["points"], content["left_out"] = _warmed(made, plan, content)
    started, spent = time.monotonic(), content["seconds"]
    bar = _Bar(plan.seconds, spent, quiet)
    rounds = 1 + max((visit["round"] for point in content["points"] for visit in point["visits"]), default=-1)
    try:
        while rounds < MOST_ROUNDS and not _enough(rounds, spent, plan.seconds):
            order = random.Random(rounds).sample(content["points"], len(content["points"]))
            visits = []
            for point in order:
                visits.append({"round": rounds} | made.visit(point["batch_size"], point["context"]))
                bar.tell(rounds, point)
            for point, visit in zip(order, visits, strict=True):  # whole rounds: every point has as many visits
                point["visits"].append(visit)
            rounds += 1
            spent = content["seconds"] + time.monotonic() - started
            records.write(part, content | {"seconds": spent})
    finally:
        bar.close()
    content |= {"seconds": spent, "complete": True}
    records.write(part, content)
    os.replace(part, plan.output)
    return content


def _enough(rounds, spent, seconds):
    """Return whether to stop: after the time is spent, but not before every point has its visits."""
    return rounds >= records.LEAST_VISITS and spent + spent / rounds > seconds


def _fitting(plan, working_set, memory):
    """Return the points whose cache fits in the free memory, and those left out with the reason."""
    each = footprint.dtype_bytes(plan.dtype)
    fixed = params(plan.model) * each + 3 * working_set + max(plan.batch_sizes) * plan.model.vocab_size * 8
    room = MEMORY_SHARE * memory - fixed
    points, left_out = [], []
    for context in plan.contexts:
        for size in plan.batch_sizes:
            needed = cache_numbers(plan.model, size, context) * each
            if needed <= room:
                points.append((size, context))
            else:
                reason = f"its cache needs {quantity(needed, 'B')}, {quantity(max(room, 0), 'B')} are free for it"
                left_out.append({"batch_size": size, "context": context, "because": reason})
    if not points:
        raise ValueError(
            f"free memory must be {(fixed + each * cache_numbers(plan.model, 1, 1)) / MEMORY_SHARE / GB:.1f} GB "
            f"for {plan.model.name} in {plan.dtype}, got {memory / GB:.1f} GB; a larger divisor needs less"
        )
    return points, left_out


def _begun(plan, here):
    """Return the record to fill, the one that was cut off or a new one, and where it stands."""
    working_set = max(TIMES_LAST_CACHE * here["last_cache"], LEAST_WORKING_SET)
    points, left_out = _fitting(plan, working_set, here["free_memory"])
    settings = {"device": plan.device, "dtype": plan.dtype, "linear": plan.linear, "threads": here["threads"]}
    settings |= {
        "working_set": working_set, "batch_sizes": list(plan.batch_sizes), "contexts": list(plan.contexts),
        "model": {key: value for key, value in asdict(plan.model).items() if key not in ("window", "biases")},
    }  # fmt: skip
    fresh = {
        **dict(records.KIND.marks), "library": record_file.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "command": plan.command,
        "complete": False, "seconds": 0.0, "machine": here["machine"],
        "versions": here["versions"], "settings": settings, "ceilings": {}, "left_out": left_out,
        "points": [{"batch_size": size, "context": context, "visits": []} for size, context in points],
    }  # fmt: skip
    return record_file.begun(
        records.KIND, plan.output, fresh, started=lambda old: any(point["visits"] for point in old["points"])
    )


def _warmed(bench, plan, content):
    """Run every point once. Return those whose step is short enough for the time, and those left out."""
    kept, left_out, slow = [], list(content["left_out"]), []
    resumed = any(point["visits"] for point in content["points"])
    most = plan.seconds * MOST_OF_THE_TIME
    for point in sorted(content["points"], key=lambda one: one["batch_size"] * one["context"]):
        size, context = point["batch_size"], point["context"]
        beyond = any(size >= other[0] and context >= other[1] for other in slow)
        seconds = 0.0 if beyond else bench.step_time(size, context)
        if resumed or len(kept) < LEAST_POINTS or not (beyond or seconds > most):
            kept.append(point)
            continue
        slow.append((size, context))
        reason = "a smaller point was too slow" if beyond else f"a step takes {quantity(seconds, 's')}"
        left_out.append(
            {"batch_size": size, "context": context, "because": f"{reason}; the limit is {quantity(most, 's')}"}
        )
    return [point for point in content["points"] if point in kept], left_out


class _Bar:
    """Progress in seconds of the plan."""

    def __init__(self, seconds, spent, quiet):
        from tqdm import tqdm

        form = "{desc} {percentage:3.0f} % |{bar}| {n:.0f} of {total:.0f} s{postfix}"
        self.bar = tqdm(total=seconds, initial=spent, disable=quiet, bar_format=form, desc="measuring", mininterval=0.5)
        self.last = time.monotonic()

    def tell(self, number, point):
        now = time.monotonic()
        self.bar.set_postfix_str(
            f"round {number + 1}, batch {point['batch_size']}, context {point['context']}", refresh=False
        )
        self.bar.update(min(now - self.last, max(self.bar.total - self.bar.n, 0)))
        self.last = now

    def close(self):
        self.bar.close()


def _report(run):
    """Return what a reader wants to see at once."""
    quiet = records.quietness(run)
    lines = ["", "batch  context   step (median)   bound   step over bound"]
    for row in zip(run.batch_size, run.context, run.time, records.bound_of(run), run.relative, strict=True):
        size, context, seconds, bound, relative = row
        lines.append(f"{size:5.0f} {context:8.0f} {1e3 * seconds:12.2f} ms {1e3 * bound:8.2f} ms {relative:10.2f}")
    lines += [
        "",
        f"linear layers: {run.content['settings']['linear']}",
        f"bandwidth: {quantity(float(run.bandwidth[0].mean()), 'B/s')}",
        f"arithmetic: {quantity(float(run.flop_rate[0].mean()), 'FLOP/s')}",
        f"state: {quiet.state} (quartiles apart: bandwidth {quiet.bandwidth_spread:.1%}, arithmetic "
        f"{quiet.arithmetic_spread:.1%}, steps over their ceilings {quiet.step_spread:.1%})",
    ]
    if quiet.state == "noisy":
        lines.append("This record is too noisy to publish. Close other programs and measure again.")
    return "\n".join(lines)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m lib.measurement",
        description="Time the decode step of a small Llama, and what memory and arithmetic allow, on this machine. "
        "The record lands in measurements/local.json; the next `make book` shows it beside the others. "
        "A run that was cut off goes on where it was.",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--dtype", help="fp32 or bf16 (default: fp32 on cpu, bf16 on cuda)")
    parser.add_argument("--model", default="Llama-3-8B", help="a model of the catalogue (default: Llama-3-8B)")
    parser.add_argument("--divisor", type=int, help="make it smaller by this number (default: 4 on cpu, 1 on cuda)")
    parser.add_argument("--batch", type=int, nargs="+", metavar="N", help="batch sizes")
    parser.add_argument("--context", type=int, nargs="+", metavar="N", help="tokens that each sequence attends to")
    parser.add_argument("--seconds", type=float, help="time for the rounds (default: 150 on cpu, 420 on cuda)")
    parser.add_argument("--threads", type=int, help="default: as many as torch takes")
    parser.add_argument("--linear", default="auto", help="auto, packed or plain (default: auto)")
    parser.add_argument("--output", type=Path, help="where the record goes (default: measurements/local.json)")
    parser.add_argument(
        "--compare", type=Path, nargs=2, metavar="RECORD", help="measure nothing: say how far two records lie apart"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def main(argv=None):
    """Run the command; return its exit status.

    Returns
    -------
    int
        0; 2 for what was refused; 1 for a record that could not be written, or two that do not agree.
    """
    given = _parser().parse_args(argv)
    try:
        if given.compare:
            runs = [records.run(path) for path in given.compare]
            compared = [agreement.agreement(*runs, ceiling=ceiling) for ceiling in ("bandwidth", "matrix_vector")]
            print("\n\n".join(map(agreement.table, compared)))
            return 0 if compared[-1].within.all() else 1
        chosen = plan(
            given.model, device=given.device, output=given.output, divisor=given.divisor, dtype=given.dtype,
            batch_sizes=given.batch, contexts=given.context, seconds=given.seconds, threads=given.threads,
            linear=given.linear,
        )  # fmt: skip
        print(
            f"{chosen.model.name}, {quantity(params(chosen.model), '')} parameters, {chosen.dtype} on {chosen.device}"
        )
        content = measure(chosen, quiet=given.quiet)
    except ValueError as error:
        print(f"measurement: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"measurement: the record cannot be written: {error}; the last good one is kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("measurement: stopped; the finished rounds are kept, the same command goes on", file=sys.stderr)
        return 130
    for point in content["left_out"]:
        print(f"left out: batch {point['batch_size']}, context {point['context']}: {point['because']}")
    print(_report(records.summed_up(chosen.output.stem, content)))
    print(f"written: {chosen.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
