"""Splitwise: 2023 vLLM on DGX A100 and H100, Llama-2-70B, medians of the repeats.

All requests of a batch start together. `token_time` is a decode step, `prompt_time`
the prefill of the whole batch. The batch was varied only at 512 tokens in, 128 out.
"""

import statistics
from collections import defaultdict

from scripts.derive.memory import fits
from scripts.derive.sources import USED
from scripts.derive.tables import spread

FILE, KEY = "splitwise_sim/perf_model_shared.csv", "splitwise-sim"
HARDWARE = {"a100-80gb": "A100 SXM 80GB", "h100-80gb": "H100 SXM"}
SELECTED = (("a100-80gb", 2), ("a100-80gb", 4), ("a100-80gb", 8), ("h100-80gb", 2), ("h100-80gb", 4))
QUANTITIES = (("decode_step", "token_time"), ("prefill_time", "prompt_time"))


def end_to_end(sources):
    """Return the rows of ``end_to_end.csv`` from this source."""
    read = sources.read(FILE)
    fates = [_fate(row) for row in read]
    groups = defaultdict(list)
    for row, fate in zip(read, fates, strict=True):
        if fate == USED:
            groups[_point(row)].append(row)
    sources.account(KEY, FILE, "patel2024splitwise", fates)
    return [_row(point, rows, *names) for point, rows in groups.items() for names in QUANTITIES]


def _point(row):
    columns = ("tensor_parallel", "batch_size", "prompt_size", "token_size")
    return row["hardware"], *(int(row[column]) for column in columns)


def _fate(row):
    hardware, tensor_parallel, batch_size, _, _ = _point(row)
    if hardware == "h100-80gb-pcap":
        return "times copied from h100-80gb, only power differs"
    if row["model"] != "llama2-70b" or (hardware, tensor_parallel) not in SELECTED:
        return "configuration not selected"
    if (tensor_parallel, batch_size) == (2, 64):
        return "prompt time below that of batch 8, so the batch did not run whole"
    return USED


def _row(point, rows, quantity, column):
    hardware, tensor_parallel, batch_size, input_tokens, output_tokens = point
    values = [1e-3 * float(row[column]) for row in rows]
    tokens = batch_size * (input_tokens + output_tokens)
    return {
        "accelerator": HARDWARE[hardware],
        "model": "Llama-2-70B",
        "engine": "vLLM",
        "version": "2023",
        "precision": "fp16",
        "tensor_parallel": tensor_parallel,
        "load": "batch",
        "concurrency": batch_size,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "quantity": quantity,
        "value": statistics.median(values),
        "spread": spread(values),
        "n": len(values),
        "fits": "yes" if fits(HARDWARE[hardware], "Llama-2-70B", tensor_parallel, tokens) else "no",
        "source": KEY,
    }
