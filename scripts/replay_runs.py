"""Replay the two recorded vLLM runs of LLMServingSim, and write down how it went.

    python scripts/replay_runs.py           writes lib/data/replayed_runs.csv and lib/data/replayed_quantiles.csv
    python scripts/replay_runs.py --check   compares, writes nothing

The runs lie outside the project (``../shared/data``, or ``--data``). Medians, percentiles and
errors only: no row of theirs is copied. Each run is replayed as its engine is documented, with
one constant, the host time of an iteration with prompts, estimated from its first tenth; and
again with one rule left out or changed, to see what each is worth.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib.engines import vllm  # noqa: E402
from lib.kernel_table import kernel_table_in, vllm_graph_sizes  # noqa: E402
from lib.latency import latencies  # noqa: E402
from lib.recorded_run import latency_table, recorded_run  # noqa: E402
from lib.replay import fitted_host_time  # noqa: E402
from lib.simulation import simulate  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "lib" / "data"
LAYERS = 32
# folder; blocks where the record does not give them: enough for all, since the run never filled its memory
RUNS = {"RTX 4090": ("RTX4090_Llama-3.1-8B", None), "RTX PRO 6000": ("RTXPRO6000_Llama-3.1-8B", 1 << 20)}
VARIANTS = (
    "as documented",
    "no host time",
    "no iteration ahead",
    "no blocks found again",
    "host time of the other run",
)
SOURCE = "casys-kaist/LLMServingSim at 5daddb21a5 (MIT): bench/examples/{0}/Llama-3.1-8B/vllm and profiler/perf/{0}"
SHARES = np.arange(0.02, 0.99, 0.04)
COLUMNS = (
    *("machine", "variant", "host_time", "metric", "statistic", "predicted", "recorded", "low", "high", "error"),
    *("requests", "preemptions", "iterations", "source", "where"),
)


def setting(folder, blocks):
    """Return a recorded run, its engine's limits and its kernels."""
    meta = json.loads((folder / "vllm_meta.json").read_text(encoding="utf-8"))
    limits, cache = meta["engine_kwargs"], meta.get("kv_cache", {})
    size = cache.get("block_size", 16)
    options = {
        "max_num_seqs": limits["max_num_seqs"], "max_num_batched_tokens": limits["max_num_batched_tokens"],
        "block_size": size, "enable_prefix_caching": cache.get("enable_prefix_caching", True),
    }  # fmt: skip
    # the engine keeps one block for itself
    tokens = size * (blocks or cache["num_gpu_blocks"] - 1)
    kernels = kernel_table_in(folder, LAYERS, graph_sizes=vllm_graph_sizes(limits["max_num_seqs"]))
    return recorded_run(folder / "vllm_requests.csv"), (tokens, options), kernels


def replays(data):
    """Yield machine, variant, host time, record and replay of every variant of both runs."""
    settings = {machine: setting(data / "llmservingsim" / folder, blocks) for machine, (folder, blocks) in RUNS.items()}
    hosts = {}
    for machine, (run, (tokens, options), kernels) in settings.items():
        hosts[machine] = fitted_host_time(run, vllm(tokens, **options), kernels, progress=sys.stderr.isatty())
    other = dict(zip(hosts, reversed(hosts.values()), strict=True))
    for machine, (run, (tokens, options), kernels) in settings.items():
        for variant in VARIANTS:
            changed = dict(options)
            host = hosts[machine]
            if variant == "no host time":
                host = 0.0
            elif variant == "host time of the other run":
                host = other[machine]
            elif variant == "no iteration ahead":
                changed["async_scheduling"] = False
            elif variant == "no blocks found again":
                changed["enable_prefix_caching"] = False
            step = replace(kernels, prompt_host_time=host)
            yield machine, variant, host, run, simulate(run.requests, vllm(tokens, **changed), step)


def tables(data):
    """Return both tables as lists of rows, header first."""
    outcomes, quantiles = [COLUMNS], [("machine", "metric", "share", "recorded", "predicted", "source", "where")]
    for machine, variant, host, run, made in replays(data):
        source = "llmservingsim2026", SOURCE.format(RUNS[machine][0].partition("_")[0])
        for row in latency_table(run, made):
            numbers = (row.predicted, row.recorded, row.low, row.high, row.predicted / row.recorded - 1)
            outcomes.append(
                (machine, variant, f"{host:g}", row.metric, row.statistic, *map(_short, numbers),
                 len(made.tokens), int(made.preemptions.sum()), made.iterations, *source)
            )  # fmt: skip
        if variant != VARIANTS[0]:
            continue
        arrival, output = run.requests.arrival_time, run.requests.output_length
        seen = latencies(arrival, arrival, run.first_token_time, run.last_token_time, output)
        mine = latencies(arrival, arrival, made.first_token_time, made.finish_time, output)
        for metric in ("ttft", "tpot", "latency"):
            one, two = (np.quantile(getattr(values, metric), SHARES) for values in (seen, mine))
            quantiles += [
                (machine, metric, f"{share:.2f}", _short(a), _short(b), *source)
                for share, a, b in zip(SHARES, one, two, strict=True)
            ]
    return {"replayed_runs": outcomes, "replayed_quantiles": quantiles}


def _short(value):
    return f"{value:.5g}" if np.isfinite(value) else ""


def text(rows):
    """Return a table as CSV."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def main():
    """Write or compare the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public sources")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    chosen = parser.parse_args()
    if not (chosen.data / "llmservingsim").is_dir():
        print(f"no recorded runs at {chosen.data}; the record in lib/data does not need them", file=sys.stderr)
        return 2
    same = True
    for name, rows in tables(chosen.data).items():
        file = OUT / f"{name}.csv"
        if chosen.check:
            same &= file.read_text(encoding="utf-8") == text(rows)
            continue
        file.write_text(text(rows), encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {len(rows) - 1} rows")
    if not same:
        print("the record differs", file=sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
