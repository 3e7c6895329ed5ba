"""Replay recorded arrivals in the simulator, and the same gaps in another order, and write down how it went.

    python scripts/replay_traces.py           writes lib/data/replayed_traces.csv
    python scripts/replay_traces.py --check   compares, writes nothing; takes minutes

The traces lie outside the project (``../shared/data``, or ``--data``); means and percentiles of the simulated first
tokens only are written down. Llama-3-8B on one H100 under vLLM's rules serves each trace at several loads: its clock
is stretched, so gaps keep their variation and their order. Lengths are those of the trace, dealt anew among its
requests in each of 20 replications, the same under each order of the gaps: "recorded" is that of the trace,
"shuffled" a random one, so that gaps follow each other at random, and "Poisson" has as many arrivals at random times.
Intervals are those of Student's t, 95 %: of lengths alone for the recorded order, of which there is one.
"""

import argparse
import csv
import functools
import io
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib import first_token  # noqa: E402
from lib.calibrated_step import CalibratedStep  # noqa: E402
from lib.replication import mean_interval  # noqa: E402
from lib.trace import Trace, arrival_statistics, replayed, trace_in  # noqa: E402
from scripts.derive.sources import Sources  # noqa: E402

DATA, OUT = ROOT.parent / "shared" / "data", ROOT / "lib" / "data" / "replayed_traces.csv"
SEED, REPLICATIONS, FOR_CAPACITY = 20_261_130, 20, 4_000
STEP = CalibratedStep(accelerator="H100 SXM", model="Llama-3-8B")
TRACES = {
    "azure-code": ("traces/azure_llm_2023_code.csv.gz", "azure-llm-2023-code", (None, 0.3, 0.5, 0.8)),
    "azure-conversation": ("traces/azure_llm_2023_conv.csv.gz", "azure-llm-2023-conv", (0.95,)),
}
ORDERS = {"azure-code": ("recorded", "shuffled", "Poisson"), "azure-conversation": ("recorded", "shuffled")}
COLUMNS = (
    *("workload", "order", "share", "rate", "cv", "requests", "replications", "quantity", "mean", "half_width"),
    *("source", "where"),
)


@functools.cache
def recorded(data, workload):
    """Return a trace, and the most of its requests that the replica can serve, 1/s."""
    trace = trace_in(Path(data) / TRACES[workload][0])
    case = first_token.Case(workload=workload, step=STEP, policy="vllm")
    return trace, case, first_token.capacity(case, Trace(*(column[:FOR_CAPACITY] for column in trace)))


def arranged(trace, order, rate, replication):
    """Return the requests of a replication: lengths dealt anew, gaps in this order, the clock stretched to a rate."""
    rng = np.random.default_rng([SEED, replication])
    dealt, mixed = rng.permutation(len(trace.arrival_time)), rng.permutation(len(trace.arrival_time) - 1)
    times = trace.arrival_time
    if order == "shuffled":
        times = np.concatenate([[0.0], np.cumsum(np.diff(times)[mixed])])
    elif order == "Poisson":
        times = np.sort(rng.uniform(0, times[-1], len(times)))
    return replayed(Trace(times, trace.prompt_length[dealt], trace.output_length[dealt]), rate)


def waits(trace, case, order, rate, replication):
    """Return what a replication says of the first token: mean and percentiles, s."""
    run = first_token.simulated(case, arranged(trace, order, rate, replication))[0]
    found = run.first_token_time - run.arrival_time
    return {"ttft": found.mean(), "ttft_p50": np.median(found), "ttft_p99": np.quantile(found, 0.99)}


def rows(data, place):
    """Return the rows of one trace at one load."""
    workload, load = place
    trace, case, most = recorded(data, workload)
    said = arrival_statistics(trace.arrival_time)
    load = load or said.rate / most
    source = TRACES[workload][1]
    account = Sources(Path(data)).manifest[TRACES[workload][0]]
    common = {
        "workload": workload, "share": f"{load:.4g}", "rate": f"{load * most:.5g}", "cv": f"{said.cv:.4g}",
        "requests": said.count, "source": source,
        "where": f"{account['repo']} at {account['commit'][:10]} ({account['licence']}): {account['source_path']}",
    }  # fmt: skip
    made = []
    for order in ORDERS[workload]:
        runs = [waits(trace, case, order, load * most, one) for one in range(REPLICATIONS)]
        for quantity in runs[0]:
            mean, half = mean_interval([run[quantity] for run in runs], 0.95)
            made.append(common | {
                "order": order, "replications": REPLICATIONS, "quantity": quantity,
                "mean": f"{mean:.5g}", "half_width": f"{half:.3g}",
            })  # fmt: skip
    return made


def content(data, workers):
    """Return the table as text."""
    places = [(workload, load) for workload, (*_, loads) in TRACES.items() for load in loads]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    with ProcessPoolExecutor(workers) as pool:
        for made in pool.map(functools.partial(rows, str(data)), places):
            writer.writerows(made)
            print(made[0]["workload"], made[0]["share"], flush=True)
    return text.getvalue()


def main():
    """Write or compare the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public sources")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    if not (chosen.data / "traces").is_dir():
        print(f"no traces at {chosen.data}; the record in lib/data does not need them", file=sys.stderr)
        return 2
    made = content(chosen.data, chosen.workers)
    if chosen.check:
        differs = OUT.read_text(encoding="utf-8") != made
        print(f"{OUT.name} {'differs' if differs else 'is what the code gives'}")
        return int(differs)
    OUT.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
