"""Replay a recorded run of an engine in the simulator, and print the latencies of the two side by side.

    python -m lib.replay REQUESTS.csv --kv-tokens 41392 --kernels FOLDER --layers 32 --save TABLE.csv

`REQUESTS.csv` has a line for each request. Times are s, lengths tokens.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib import arguments, engines
from lib.batching import ContinuousBatching
from lib.kernel_table import KernelTable, kernel_table_in, vllm_graph_sizes
from lib.recorded_run import RecordedRun, latency_table, recorded_run, save_table
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.trace import Trace

ENGINES = ("vllm", "tgi", "sglang")
HOST_TIMES = np.arange(0, 20.25e-3, 0.5e-3)


def fitted_host_time(run, policy, kernels, *, share=0.1, progress=False):
    """Return the time of the host in an iteration that reads prompts, as the beginning of a recorded run shows it.

    Parameters
    ----------
    run : RecordedRun
        With recorded times.
    policy : ContinuousBatching
    kernels : KernelTable
        Its own `prompt_host_time` does not count.
    share : float
        Of the makespan, above 0, at most 1: nothing that happened later is looked at.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    float
        Seconds: the one of `HOST_TIMES` whose replay has the least median distance to the first and last tokens that
        the record has in that time.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or nothing was recorded in that time.
    """
    arguments.record("run", run, RecordedRun)
    arguments.record("policy", policy, ContinuousBatching)
    arguments.record("kernels", kernels, KernelTable)
    share, progress = arguments.number("share", share, above=0, most=1), arguments.flag("progress", progress)
    if run.first_token_time is None or run.last_token_time is None:
        raise ValueError("run must have recorded times, got none")
    start = run.requests.arrival_time[0]
    end = start + share * (run.last_token_time.max() - start)
    here = run.requests.arrival_time <= end  # nobody who comes later changes what happened before
    begun = run._replace(
        requests=Trace(*(column[here] for column in run.requests)), cached_length=run.cached_length[here]
    )
    firsts, lasts = (times[here] <= end for times in (run.first_token_time, run.last_token_time))
    recorded = np.concatenate([run.first_token_time[here][firsts], run.last_token_time[here][lasts]])
    if not recorded.size:
        raise ValueError(f"share must reach a recorded token, got {share:g} of the run, which ends at {end:g} s")
    distances = []
    for host_time in _shown(HOST_TIMES, progress):
        step = replace(kernels, prompt_host_time=float(host_time))
        made = simulate(begun.requests, policy, step, cached_length=begun.cached_length)
        simulated = np.concatenate([made.first_token_time[firsts], made.finish_time[lasts]])
        distances.append(np.median(np.abs(simulated - recorded)))
    return float(HOST_TIMES[np.argmin(distances)])


def _shown(values, progress):
    if not progress:
        return values
    from tqdm.auto import tqdm

    return tqdm(values, unit="replay")


def _printed(rows):
    """Return a latency table as text."""
    lines = [f"{'':18}{'predicted':>12}{'recorded':>12}{'error':>9}   95 % of the record"]
    for row in rows:
        scale, unit = (1e3, "ms") if row.metric == "TPOT" else (1.0, "s")
        cells = f"{row.metric + ' ' + row.statistic:18}{scale * row.predicted:9.4g} {unit:2}"
        if np.isfinite(row.recorded):
            cells += f"{scale * row.recorded:9.4g} {unit:2}{100 * (row.predicted / row.recorded - 1):+7.1f} %"
            if not np.isnan(row.low):
                cells += f"   {scale * row.low:.4g} to {scale * row.high:.4g} {unit}"
        lines.append(cells)
    return "\n".join(lines)


def _policy(chosen):
    if chosen.engine == "vllm":
        return engines.vllm(
            chosen.kv_tokens, max_num_seqs=chosen.max_num_seqs,
            max_num_batched_tokens=chosen.max_num_batched_tokens, block_size=chosen.block_size,
            async_scheduling=not chosen.no_async_scheduling,
        )  # fmt: skip
    if chosen.engine == "tgi":
        return engines.tgi(
            chosen.kv_tokens, max_batch_size=chosen.max_num_seqs,
            max_batch_prefill_tokens=chosen.max_num_batched_tokens,
        )  # fmt: skip
    return engines.sglang(
        chosen.kv_tokens, max_running_requests=chosen.max_num_seqs, chunked_prefill_size=chosen.max_num_batched_tokens,
        disable_overlap_schedule=chosen.no_async_scheduling,
    )  # fmt: skip


def _step(chosen):
    if chosen.affine:
        names = ("fixed", "per_sequence", "per_context_token", "per_prompt_token", "per_prompt_pair")
        return AffineStep(**dict(zip(names, chosen.affine, strict=False)))
    sizes = vllm_graph_sizes(chosen.max_num_seqs) if chosen.engine == "vllm" else ()
    return kernel_table_in(chosen.kernels, chosen.layers, graph_sizes=sizes, prompt_host_time=chosen.host_time)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m lib.replay", description=__doc__.splitlines()[0],
        epilog="Columns of REQUESTS.csv: arrival_time, prompt_length, output_length; where recorded, first_token_time,"
        " last_token_time, cached_length. Times in s, lengths in tokens.",
    )  # fmt: skip
    parser.add_argument("requests", type=Path, metavar="REQUESTS.csv", help="a line for each request")
    parser.add_argument("--engine", choices=ENGINES, default="vllm", help="whose scheduling rules (default: vllm)")
    parser.add_argument("--kv-tokens", type=int, required=True, help="tokens of context that fit into memory")
    parser.add_argument("--max-num-seqs", type=int, default=256, help="most sequences at once (default: 256)")
    parser.add_argument(
        "--max-num-batched-tokens", type=int, default=2048, help="most tokens in an iteration (default: 2048)"
    )
    parser.add_argument("--block-size", type=int, default=16, help="tokens of a block, vllm only (default: 16)")
    parser.add_argument(
        "--no-async-scheduling", action="store_true", help="vllm and sglang: plan when an iteration has ended"
    )
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--kernels", type=Path, metavar="FOLDER", help="attention, dense and per_sequence tables, CSV")
    step.add_argument(
        "--affine", type=float, nargs="+", metavar="S",
        help="seconds an iteration, and for each sequence, token of context, token of a prompt, pair of such tokens",
    )  # fmt: skip
    parser.add_argument("--layers", type=int, default=32, help="layers of the model, for --kernels (default: 32)")
    parser.add_argument(
        "--host-time",
        type=float,
        default=0.0,
        metavar="S",
        help="host time of an iteration with prompts, for --kernels",
    )
    parser.add_argument(
        "--fit-host-time", type=float, metavar="SHARE", help="estimate it from this share of the record instead"
    )
    parser.add_argument("--save", type=Path, metavar="TABLE.csv", help="write the latency table")
    return parser


def main(words=None):
    """Replay a run as the command line asks, print the latency table, and save it.

    Parameters
    ----------
    words : list of str, optional
        Arguments; those of the process if left out.

    Returns
    -------
    int
        0, or 2 if something was refused: the reason goes to the error stream.
    """
    chosen = _parser().parse_args(words)
    progress = sys.stderr.isatty()
    try:
        if chosen.affine and (len(chosen.affine) > 5 or chosen.fit_host_time is not None):
            raise ValueError("--affine must have at most 5 numbers and goes without --fit-host-time")
        run, policy, step = recorded_run(chosen.requests), _policy(chosen), _step(chosen)
        if chosen.fit_host_time is not None:
            host_time = fitted_host_time(run, policy, step, share=chosen.fit_host_time, progress=progress)
            step = replace(step, prompt_host_time=host_time)
            print(f"host time of an iteration with prompts: {1e3 * host_time:g} ms")
        replayed = simulate(run.requests, policy, step, cached_length=run.cached_length, progress=progress)
        rows = latency_table(run, replayed)
    except (OSError, ValueError) as refused:
        print(f"replay: {refused}", file=sys.stderr)
        return 2
    refused = int(np.sum(replayed.tokens == 0))
    print(
        f"{len(replayed.tokens) - refused:,} requests, {replayed.iterations:,} iterations,"
        f" {int(replayed.preemptions.sum()):,} preemptions, {refused:,} refused"
    )
    print(_printed(rows))
    if chosen.save:
        save_table(rows, chosen.save)
        print(f"saved: {chosen.save}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
