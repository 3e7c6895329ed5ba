"""Search the batch limit and the load limit on the simulator, beside what `lib.batch_limit` derives.

The simulator runs vLLM's scheduler with chunked prompts and paged memory; prompts and outputs are drawn
from the measured conversation workload, and every iteration is timed from what is in it. The derivation
knows means only. Writes ``lib/data/batch_limits.csv``; numbers of a row are over the seeds.

    python scripts/search_batch_limit.py            writes the table, two to three minutes
    python scripts/search_batch_limit.py --check    searches the first row again and compares it
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib import engine_step  # noqa: E402
from lib.batch_limit import batch_limit, load_limit  # noqa: E402
from lib.deployment import Deployment, kv_tokens, traffic_of  # noqa: E402
from lib.engine_iteration import EngineIteration  # noqa: E402
from lib.engines import vllm  # noqa: E402
from lib.hardware import hardware  # noqa: E402
from lib.lengths import length_quantile, paired_levels  # noqa: E402
from lib.model import model  # noqa: E402
from lib.operating_point import capped, replica  # noqa: E402
from lib.simulation import simulate, simulate_closed_loop  # noqa: E402
from lib.trace import Trace  # noqa: E402
from lib.workload import measured_workload  # noqa: E402

OUT = ROOT / "lib" / "data" / "batch_limits.csv"
WORKLOAD, SEEDS, REQUESTS = "azure-conversation", (1, 2, 3), 4000
TARGETS = (0.015, 0.02, 0.03, 0.05, 0.08)
FIRST = 1.0
CASES = (("H100 SXM", "Llama-3-8B", "fp8", 1), ("H100 SXM", "Llama-3-70B", "fp8", 4))
BUDGET = 8192
COLUMNS = (
    "accelerator", "model", "dtype", "devices", "workload", "time_per_token", "first_token_time", "seeds", "requests",
    "slots_derived", "slots_closed_form", "slots_low", "slots_searched", "slots_high",
    "rate_derived", "rate_low", "rate_searched", "rate_high",
)  # fmt: skip


def step_of(deployment):
    """Return the time of an iteration by the law of running engines."""
    return EngineIteration(deployment=deployment, coefficients=engine_step.law().coefficients)


def lengths(seed):
    """Return prompts and outputs of the workload, drawn together."""
    rng = np.random.default_rng(seed)
    law = measured_workload(WORKLOAD, 1.0)
    levels = paired_levels(law.rank_correlation, REQUESTS, rng)
    sides = zip((law.prompt, law.output), levels, strict=True)
    return tuple(np.maximum(1, length_quantile(side, level)) for side, level in sides)


def policy(deployment, slots):
    """Return vLLM's scheduler on this deployment; planning in turn, as the law that it is held against does."""
    room = kv_tokens(deployment)
    return vllm(room, max_num_seqs=int(slots), max_num_batched_tokens=BUDGET, async_scheduling=False)


def pace(run):
    """Return the time per token after the first, over all tokens, without the first fifth of the requests."""
    late = slice(len(run.tokens) // 5, None)
    gaps = np.maximum(run.output_length[late] - 1, 0)
    return (run.finish_time[late] - run.first_token_time[late]).sum() / gaps.sum()


def saturated_pace(deployment, slots, seed):
    """Return the time per token with every slot taken: there is always somebody in the queue."""
    users = int(slots) + 8
    return pace(simulate_closed_loop(lengths(seed), policy(deployment, slots), step_of(deployment), users=users))


def searched_slots(deployment, target, most, seed):
    """Return the most slots whose saturated pace keeps the target, by bisection."""
    low, high = 0, most + 1
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if saturated_pace(deployment, middle, seed) <= target else (low, middle)
    return low


def searched_rate(deployment, slots, targets, most, seed):
    """Return the largest arrival rate at which both means keep their targets, by bisection."""
    prompt, output = lengths(seed)
    gaps = np.random.default_rng(1000 + seed).exponential(size=REQUESTS)
    low, high = 0.0, most
    while high - low > 0.01 * most:
        middle = (low + high) / 2
        run = simulate(Trace(np.cumsum(gaps) / middle, prompt, output), policy(deployment, slots), step_of(deployment))
        late = slice(REQUESTS // 5, None)
        first = (run.first_token_time - run.arrival_time)[late].mean()
        low, high = (middle, high) if pace(run) <= targets[0] and first <= targets[1] else (low, middle)
    return low


def row(case, target):
    """Return one row of the table."""
    accelerator, name, dtype, devices = case
    one = Deployment(hardware=hardware(accelerator), model=model(name), dtype=dtype, devices=devices)
    traffic = traffic_of(WORKLOAD)
    found = replica(one, traffic)
    limit = batch_limit(found, target)
    rate = load_limit(capped(found, limit.slots), target, FIRST) if limit.slots else 0.0
    cells = {
        "accelerator": accelerator, "model": name, "dtype": dtype, "devices": devices, "workload": WORKLOAD,
        "time_per_token": target, "first_token_time": FIRST, "seeds": len(SEEDS), "requests": REQUESTS,
        "slots_derived": limit.slots, "slots_closed_form": int(limit.closed_form), "rate_derived": f"{rate:.4g}",
    }  # fmt: skip
    most = min(2 * limit.slots, found.step_time.size)
    slots = [searched_slots(one, target, most, seed) for seed in SEEDS]
    rates = [searched_rate(one, limit.slots, (target, FIRST), 1.3 * rate, seed) for seed in SEEDS]
    for key, values in (("slots", slots), ("rate", rates)):
        ends = {"low": min(values), "searched": np.median(values), "high": max(values)}
        cells |= {f"{key}_{end}": f"{value:.4g}" for end, value in ends.items()}
    return {column: str(cells[column]) for column in COLUMNS}


def main(words=None):
    """Write the table, or check its first row; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args(words).check:
        with OUT.open(encoding="utf-8", newline="") as opened:
            first = next(csv.DictReader(opened))
        return int(row(CASES[0], TARGETS[0]) != first)
    with OUT.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        for case in CASES:
            for target in TARGETS:
                if batch_limit(replica(Deployment(
                    hardware=hardware(case[0]), model=model(case[1]), dtype=case[2], devices=case[3]
                ), traffic_of(WORKLOAD)), target).slots:  # fmt: skip
                    writer.writerow(row(case, target))
                    opened.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
