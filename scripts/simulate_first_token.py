"""Simulate what the first token waits for, and write down how it went.

    python scripts/simulate_first_token.py                  writes lib/data/first_token.csv
    python scripts/simulate_first_token.py --only chunk      runs some experiments again, and keeps the rest

Each case is 20 independent replications, the first fifth of the requests of each left out; the intervals are those of
Student's t over replications, 95 %. Requests of a replication are the same under every policy and at every load: the
seed is that of the workload and the replication. Arrivals are Poisson where the experiment does not say otherwise.
"""

import argparse
import csv
import functools
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib import first_token as first  # noqa: E402
from lib import memory_pressure  # noqa: E402
from lib import workload as workloads  # noqa: E402
from lib.arrivals import ArrivalLaw  # noqa: E402
from lib.calibrated_step import CalibratedStep, kv_tokens  # noqa: E402
from lib.replication import mean_interval  # noqa: E402

OUT = ROOT / "lib" / "data" / "first_token.csv"
SEED, REPLICATIONS, REQUESTS, SHORT, SWEPT = 20_261_130, 20, 800, 250, 400
COLUMNS = (
    *("experiment", "workload", "accelerator", "model", "devices", "policy", "setting", "load"),
    *("arrival_rate", "requests", "replications", "quantity", "mean", "half_width"),
)
A100, H100 = (
    CalibratedStep(accelerator="A100 SXM 80GB", model="Llama-3-8B"),
    CalibratedStep(accelerator="H100 SXM", model="Llama-3-8B"),
)
CHAT, CODE, REASONING = "azure-conversation", "azure-code", "servegen-reasoning"
PLACES = ((CHAT, H100), (CODE, H100), (REASONING, H100), (CHAT, A100))
CHUNKS = (256, 512, 1024, 2048, 4096, 8192)
SHARES, LOADS = (0.0625, 0.125, 1.0), (0.3, 0.5, 0.7, 0.9)
VARIATIONS = (1.0, 2.0, 4.0, 8.0, 13.0)
# a quarter of the memory, and vLLM's slots
QUARTER, MANY = 0.25, 1024
# where the 99th percentile crosses the targets, by variation: found by a coarser search
TARGETED, NEAR_TARGET = 1500, {
    1.0: (0.85, 0.92, 0.96, 1.0), 2.0: (0.75, 0.85, 0.92, 0.96, 1.0), 4.0: (0.2, 0.4, 0.6, 0.75, 0.85, 0.95),
    8.0: (0.02, 0.05, 0.1, 0.2, 0.4, 0.6), 13.0: (0.01, 0.02, 0.05, 0.1, 0.2),
}  # fmt: skip


def drawn(workload, rate, count, replication, *, cv=1.0):
    """Return the requests of a replication at a rate."""
    law = workloads.measured_workload(workload, rate)
    if cv != 1.0:
        law = workloads.Workload(
            arrivals=ArrivalLaw(law="gamma", rate=rate, cv=cv), prompt=law.prompt, output=law.output,
            rank_correlation=law.rank_correlation,
        )  # fmt: skip
    words = first.WORKLOADS.index(workload)
    return workloads.requests(law, count, np.random.default_rng([SEED, words, replication]))


@functools.cache
def capacity(case):
    """Return what the case can serve, 1/s: from 2,000 requests that no replication has seen."""
    return first.capacity(case, drawn(case.workload, 1.0, 2_000, 1_000))


def found(case, rate, *, count, cv=1.0, replications=REPLICATIONS):
    """Return mean and half width of each quantity; rate 0 is a lone user."""
    runs = []
    for replication in range(replications):
        requests = drawn(case.workload, rate or 1.0, count, replication, cv=cv)
        runs.append(first.summary(*first.simulated(case, requests, lone=rate == 0)))
    return {name: mean_interval([run[name] for run in runs], 0.95) for name in runs[0]}


def lines(experiment, names, place, count, means, *, replications=REPLICATIONS):
    """Return the rows of the record for means and half widths by quantity."""
    workload, step, policy = names
    load, rate, setting = place
    for quantity, (mean, half_width) in means.items():
        yield {
            "experiment": experiment, "workload": workload, "accelerator": step.accelerator, "model": step.model,
            "devices": step.devices, "policy": policy, "setting": f"{setting:g}", "load": f"{load:.4g}",
            "arrival_rate": f"{rate:.6g}", "requests": count, "replications": replications, "quantity": quantity,
            "mean": f"{mean:.6g}", "half_width": f"{half_width:.3g}",
        }  # fmt: skip


def rows(experiment, case, load, rate, *, setting=0.0, cv=1.0, count=None):
    """Return the rows of the record for one case."""
    count = count or (SHORT if case.workload == REASONING else REQUESTS)
    means = found(case, rate, count=count, cv=cv)
    return lines(experiment, (case.workload, case.step, case.policy), (load, rate, setting), count, means)


def parts(workload, step, policy):
    """A lone user, half load, near saturation, each of the policy's own capacity."""
    case = first.Case(workload=workload, step=step, policy=policy)
    most = capacity(case)
    made = [*rows("parts", case, first.LONE, 0.0)]
    for load in (first.HALF, first.NEAR):
        made += rows("parts", case, load, load * most)
    return made


def boarding(workload, step):
    """The same requests with their prompts read elsewhere, at the rates of vLLM."""
    most = capacity(first.Case(workload=workload, step=step, policy="vllm"))
    case = first.Case(workload=workload, step=step, policy="prompts elsewhere")
    return [row for load in (first.HALF, first.NEAR) for row in rows("boarding", case, load, load * most)]


def singly(workload, step):
    """One by one, in closed form, for a lone user and at half of what that can bear; and vLLM at that same rate."""
    made, rates = [], []
    for load in (first.LONE, first.HALF):
        runs = [first.one_by_one(step, drawn(workload, 1.0, REQUESTS, one), load) for one in range(REPLICATIONS)]
        means = {name: mean_interval([run[name] for run in runs], 0.95) for name in runs[0]}
        rates.append(means["rate"][0])
        made += lines("singly", (workload, step, "one by one"), (load, rates[-1], 0.0), REQUESTS, means)
    case = first.Case(workload=workload, step=step, policy="vllm")
    return [*made, *rows("singly", case, rates[-1] / capacity(case), rates[-1], count=100)]


def chunk(size, load):
    """Another token budget, at shares of the default's capacity."""
    most = capacity(first.Case(workload=CHAT, step=H100, policy="vllm"))
    case = first.Case(workload=CHAT, step=H100, policy="vllm", chunk=size)
    return [*rows("chunk", case, load, load * most, setting=size, count=SWEPT)]


def memory(share, load):
    """Less memory for caches, at shares of the capacity with all of it."""
    most = capacity(first.Case(workload=CHAT, step=H100, policy="vllm"))
    case = first.Case(workload=CHAT, step=H100, policy="vllm", memory_share=share)
    return [*rows("memory", case, load, load * most, setting=share, count=SWEPT)]


def bursts(cv, load):
    """Gaps of another variation, at shares of the capacity."""
    case = first.Case(workload=CHAT, step=H100, policy="vllm")
    return [*rows("bursts", case, load, load * capacity(case), setting=cv, cv=cv, count=SWEPT)]


def targets(cv, load):
    """Gaps of a variation, near the load at which one request in a hundred misses the target."""
    case = first.Case(workload=CHAT, step=H100, policy="vllm")
    return [*rows("targets", case, load, load * capacity(case), setting=cv, cv=cv, count=TARGETED)]


def pressure(allocation, slots, load):
    """A quarter of the memory for long answers; load 0: all requests wait at the door from the start."""
    room = int(QUARTER * kv_tokens(H100.accelerator, H100.model))
    case = memory_pressure.Pressure(kv_tokens=room, slots=slots, allocation=allocation)
    rate = load * finished(room)
    runs = []
    for replication in range(REPLICATIONS):
        requests = drawn(REASONING, rate or 1.0, SWEPT, replication)
        if not rate:
            requests = requests._replace(arrival_time=np.zeros(SWEPT))
        runs.append(memory_pressure.pressed(requests, case, H100))
    means = {name: mean_interval([run[name] for run in runs], 0.95) for name in runs[0]}
    return [*lines("pressure", (REASONING, H100, allocation), (load, rate, slots), SWEPT, means)]


@functools.cache
def finished(room):
    """Return what vLLM's rules finish with that memory, 1/s: from requests that no replication has seen."""
    waiting = drawn(REASONING, 1.0, 1_000, 1_000)._replace(arrival_time=np.zeros(1_000))
    case = memory_pressure.Pressure(kv_tokens=room, slots=MANY)
    return memory_pressure.pressed(waiting, case, H100)["finished"]


EXPERIMENTS = {
    "parts": (parts, [(*place, policy) for place in PLACES for policy in ("vllm", "tgi", "sglang")]
              + [(CHAT, H100, "gather")]),
    "singly": (singly, [(CHAT, H100)]),
    "boarding": (boarding, [*PLACES[:2]]),
    "chunk": (chunk, [(size, load) for size in CHUNKS for load in (0.8,)]),
    "memory": (memory, [(share, load) for share in SHARES for load in LOADS]),
    "bursts": (bursts, [(cv, load) for cv in VARIATIONS for load in (0.5, 0.8)]),
    "pressure": (pressure, [("paged", slots, 0.0) for slots in (24, 40, 56, 80, MANY)]
                 + [(allocation, MANY, 0.0) for allocation in memory_pressure.ALLOCATIONS[1:]]
                 + [(allocation, MANY, load) for allocation in ("paged", "reserved, length known")
                    for load in (0.5, 0.7, 0.9)]),
    "targets": (targets, [(cv, load) for cv, loads in NEAR_TARGET.items() for load in loads]),
}  # fmt: skip


def main():
    """Run the experiments that were asked for and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=[*EXPERIMENTS])
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    kept = []
    if OUT.exists():
        with OUT.open(encoding="utf-8", newline="") as opened:
            kept = [row for row in csv.DictReader(opened) if row["experiment"] not in given.only]
    with ProcessPoolExecutor(given.workers) as pool:
        waiting = [
            (name, pool.submit(EXPERIMENTS[name][0], *place)) for name in given.only for place in EXPERIMENTS[name][1]
        ]
        made = []
        for name, one in waiting:
            made += one.result()
            print(name, made[-1]["workload"], made[-1]["policy"], made[-1]["setting"], flush=True)
    order = [*EXPERIMENTS]
    with OUT.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept + made, key=lambda row: order.index(row["experiment"])))


if __name__ == "__main__":
    main()
