"""Time the simulator and its peers, check the limits, and write a record: ``make bench``."""

import argparse
import json
import os
import platform
import resource
import select
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil

from benchmarks import cases, ciw_model, simpy_model
from lib.batching import one_by_one
from lib.machine import processor
from lib.simulation import simulate

RECORD = Path(__file__).resolve().parents[1] / "measurements" / "simulator" / "local.json"
OUTPUTS = 8 * (8 + 6)  # arrays of a run, the copies of its inputs included
AGREED_ON, AGREED_TO = 1_000, 1e-9
JUDGED = 1_000_000  # requests: what the limits are for


def timed(function):
    """Return what the function returns, its wall and CPU seconds, and the share of the machine that others used."""
    before, own = psutil.cpu_times(), time.process_time()
    began = time.perf_counter()
    found = function()
    wall, own = time.perf_counter() - began, time.process_time() - own
    after = psutil.cpu_times()
    busy = sum(getattr(after, part) - getattr(before, part) for part in ("user", "system", "nice", "irq", "softirq"))
    others = max(busy - own, 0.0) / (wall * os.cpu_count())
    return found, {"wall_s": round(wall, 4), "cpu_s": round(own, 4), "others": round(others, 3)}


def own_case(name, count, compiled, repeats):
    """Return the best of some timings of one case."""
    trace, policy = cases.requests(count, prefill=cases.CASES[name].prefill != "elsewhere"), cases.CASES[name]
    runs = [timed(lambda: simulate(trace, policy, cases.STEP, compiled=compiled)) for _ in range(repeats)]
    run, best = min(runs, key=lambda pair: pair[1]["cpu_s"])
    return best | {
        "case": name, "requests": count, "compiled": compiled, "requests_per_s": round(count / best["cpu_s"]),
        "iterations": run.iterations, "preempted_share": round(float((run.preemptions > 0).mean()), 4),
        "mean_output": round(float(run.tokens.mean()), 1),
    }  # fmt: skip


def memory_of(name, count):
    """Return the bytes a request beyond inputs and outputs: what a fresh process gains while it runs, at most."""
    code = (
        "import sys; from benchmarks import cases; from lib.simulation import simulate\n"
        f"policy = cases.CASES[{name!r}]\n"
        "simulate(cases.requests(1000), policy, cases.STEP, compiled=True)\n"
        f"trace = cases.requests({count}, prefill=policy.prefill != 'elsewhere')\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "run = simulate(trace, policy, cases.STEP, compiled=True)\n"
        "print('done', flush=True); sys.stdin.readline()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as run:
        seen = psutil.Process(run.pid)
        run.stdout.readline()
        before = most = seen.memory_info().rss
        run.stdin.write("go\n")
        run.stdin.flush()
        while not select.select([run.stdout], [], [], 0.002)[0]:
            most = max(most, seen.memory_info().rss)
        most = max(most, seen.memory_info().rss)
        run.communicate("end\n")
    return (most - before) / count - OUTPUTS


def agreement(one, other):
    """Return the largest relative difference."""
    return float(np.max(np.abs(one - other) / other))


def peers(count):
    """Return the timings of SimPy and Ciw, each after it has agreed with ours request by request."""
    policy, step = cases.CASES["slots and reserved memory"], cases.STEP
    systems = {
        ("SimPy, one process for the replica", "slots and reserved memory"): (
            lambda trace: simpy_model.finish_times(trace, policy, step),
            lambda trace: simulate(trace, policy, step), lambda n: cases.requests(n, prefill=False),
        ),
        ("SimPy, a process for each request", "slots and reserved memory"): (
            lambda trace: simpy_model.finish_times_by_process(trace, policy, step),
            lambda trace: simulate(trace, policy, step), lambda n: cases.requests(n, prefill=False),
        ),
        ("SimPy, a process for each request", "one by one"): (
            lambda trace: simpy_model.finish_times_alone(trace, step),
            lambda trace: simulate(trace, one_by_one(), step), cases.alone,
        ),
        ("Ciw", "one by one"): (
            lambda trace: ciw_model.finish_times_alone(trace, step),
            lambda trace: simulate(trace, one_by_one(), step), cases.alone,
        ),
    }  # fmt: skip
    found = []
    for (peer, system), (theirs, ours, draw) in systems.items():
        trace = draw(AGREED_ON)
        difference = agreement(theirs(trace), ours(trace).finish_time)
        row = {"peer": peer, "system": system, "largest_difference": difference, "agrees": difference < AGREED_TO}
        if row["agrees"]:
            trace = draw(count)
            _, time_of_theirs = timed(lambda theirs=theirs, trace=trace: theirs(trace))
            row |= time_of_theirs | {"requests": count, "requests_per_s": round(count / time_of_theirs["cpu_s"])}
            for compiled in (True, False):
                found_ours = own_time(ours, draw(10 * count), system, compiled)
                row["times_as_fast" + ("" if compiled else "_in_plain_python")] = round(
                    found_ours / row["requests_per_s"], 1
                )
        found.append(row)
    return found


def beside_vidur(count):
    """Return how many requests a second we simulate of the workload that a trial of Vidur was given, and the trial."""
    trace, policy = cases.as_vidur(count), cases.VIDURS_POLICY
    found = dict(cases.VIDURS_TRIAL)
    for compiled in (True, False):
        runs = [
            timed(lambda compiled=compiled: simulate(trace, policy, cases.STEP, compiled=compiled)) for _ in range(3)
        ]  # fmt: skip
        time = min((time for _, time in runs), key=lambda time: time["cpu_s"])
        ours = count / time["cpu_s"]
        found["ours" + ("" if compiled else "_in_plain_python")] = time | {
            "requests_per_s": round(ours), "times_as_fast": round(ours / cases.VIDURS_TRIAL["requests_per_s"], 1)
        }  # fmt: skip
    return found


def own_time(ours, trace, system, compiled):
    """Return our requests per second on the same system."""
    policy = one_by_one() if system == "one by one" else cases.CASES[system]
    best = min(timed(lambda: simulate(trace, policy, cases.STEP, compiled=compiled))[1]["cpu_s"] for _ in range(2))
    return len(trace.arrival_time) / best


def versions():
    return {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "numba", "simpy", "ciw")}


def verdicts(timings, memory):
    """Return every limit with what was measured and whether it holds."""
    found = []
    for name, limit in cases.LIMITS.items():
        rows = [row for row in timings if row["case"] == name and row["requests"] == JUDGED]
        if not rows:
            continue
        best = min(row["cpu_s"] for row in rows)
        found.append({"limit": f"{name}: a million requests", "at_most_s": limit, "cpu_s": best, "holds": best < limit})
        half = [row for row in timings if row["case"] == name and row["requests"] == JUDGED // 4 and row["compiled"]]
        whole = [row for row in rows if row["compiled"]]
        if half and whole:
            ratio = round(whole[0]["cpu_s"] / half[0]["cpu_s"], 2)
            found.append(
                {"limit": f"{name}: time of 4 times the requests", "at_most": 5, "ratio": ratio, "holds": ratio < 5}
            )
    for name, held in memory.items():
        found.append({
            "limit": f"{name}: bytes a request", "at_most": cases.BYTES_LIMIT, "bytes": round(held),
            "holds": held < cases.BYTES_LIMIT,
        })  # fmt: skip
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--requests", type=int, default=JUDGED, help="of the largest run; limits are for a million")
    parser.add_argument("--plain", type=int, default=200_000, help="requests of the run in plain Python; 0 for none")
    parser.add_argument("--peers", type=int, default=10_000, help="requests of the peers' runs; 0 for none")
    parser.add_argument("--repeats", type=int, default=3, help="of each timing; the best counts")
    parser.add_argument("--output", type=Path, default=RECORD, help="the record, as JSON")
    given = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    for policy in cases.CASES.values():  # compiles, and warms up
        simulate(cases.requests(1_000), policy, cases.STEP, compiled=True)
    timings = [
        own_case(name, count, True, given.repeats)
        for name in cases.CASES for count in (given.requests // 4, given.requests)
    ]  # fmt: skip
    if given.plain:
        timings += [own_case(name, given.plain, False, 1) for name in cases.CASES]
    memory = {name: memory_of(name, given.requests) for name in cases.CASES} if given.requests >= JUDGED else {}
    record = {
        "command": "python -m benchmarks " + " ".join(arguments if arguments is not None else sys.argv[1:]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": processor(), "cores": os.cpu_count(),
        "load_average_before": round(load, 2), "versions": versions(), "timings": timings,
        "limits": verdicts(timings, memory), "peers": peers(given.peers) if given.peers else [],
        "vidur": beside_vidur(given.peers) if given.peers else {},
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for part in ("limits", "peers"):
        for row in record[part]:
            print(", ".join(f"{key} {value}" for key, value in row.items()))
    return 0 if all(row["holds"] for row in record["limits"]) and all(row["agrees"] for row in record["peers"]) else 1


if __name__ == "__main__":
    sys.exit(main())
