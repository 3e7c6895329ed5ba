"""End-to-end serving runs collected by AIConfigurator: dense Llama-3.1, precision known.

A closed loop: `concurrency` clients, each sending its next request when the last is
answered. Means over the run. TPOT contains the time during which decoding waited for
somebody's prefill. The Llama-3.1 models have the shapes of Llama-3.
"""

import statistics
from collections import defaultdict

from scripts.derive.sources import USED
from scripts.derive.tables import spread

FILE, KEY = "aiconfigurator/e2e_silicon_shared.csv.gz", "aiconfigurator-serving"
MODELS = {
    "meta-llama/Llama-3.1-70B": "Llama-3-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama-3-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "Llama-3-8B",
}
ACCELERATORS = {"b200_sxm": "B200 SXM", "h100_sxm": "H100 SXM", "h200_sxm": "H200 SXM"}
ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}
LLAMA_70B, LLAMA_8B, LLAMA_8B_FP8 = MODELS
# (accelerator, model, engine, version or date of the run, precision): tensor parallelism
SELECTED = {
    ("b200_sxm", LLAMA_70B, "trtllm", "2025-10-29", "fp4"): (1, 2, 4, 8),
    ("b200_sxm", LLAMA_70B, "trtllm", "2025-10-29", "fp8"): (1, 2, 4, 8),
    ("b200_sxm", LLAMA_70B, "vllm", "2025-10-29", "fp4"): (1, 2, 4, 8),
    ("b200_sxm", LLAMA_70B, "vllm", "2025-10-29", "fp8"): (1, 2, 4, 8),
    ("h100_sxm", LLAMA_70B, "vllm", "2025-10-29", "fp8"): (2, 4, 8),
    ("h200_sxm", LLAMA_70B, "trtllm", "2025-10-29", "fp8"): (1, 2, 4, 8),
    ("h200_sxm", LLAMA_70B, "vllm", "2025-10-29", "fp8"): (1, 2, 4, 8),
    ("h200_sxm", LLAMA_8B, "sglang", "0.5.6.post2", "fp8"): (1, 2, 4, 8),
    ("h200_sxm", LLAMA_8B_FP8, "vllm", "0.12.0", "fp8"): (1, 2, 4, 8),
}
QUANTITIES = (("tpot", "silicon_tpot_ms"), ("ttft", "silicon_ttft_ms"))


def end_to_end(sources):
    """Return the rows of ``end_to_end.csv`` from this source."""
    read = sources.read(FILE)
    fates = [_fate(row) for row in read]
    groups = defaultdict(list)
    for row, fate in zip(read, fates, strict=True):
        if fate == USED:
            groups[_point(row)].append(row)
    sources.account(KEY, FILE, "aiconfigurator2026", fates)
    return [_row(point, rows, *names) for point, rows in groups.items() for names in QUANTITIES]


def _configuration(row):
    version = row["backend_version"] or row["measured"]
    return row["system"], row["model_path"], row["backend"], version, row["precision"]


def _point(row):
    sizes = ("tp_size", "batch_size", "isl", "osl")
    return *_configuration(row), *(int(float(row[size])) for size in sizes)


def _fate(row):
    if row["mode"] != "agg":
        return "prefill and decode on separate devices"
    if row["model_path"] not in MODELS:
        return "not a dense model"
    if not row["precision"]:
        return "no precision given"
    if int(float(row["tp_size"])) not in SELECTED.get(_configuration(row), ()):
        return "configuration not selected"
    return USED


def _row(point, rows, quantity, column):
    system, path, backend, version, precision, tensor_parallel, *sizes = point
    values = [1e-3 * float(row[column]) for row in rows]
    concurrency, input_tokens, output_tokens = sizes
    return {
        "accelerator": ACCELERATORS[system],
        "model": MODELS[path],
        "engine": ENGINES[backend],
        "version": version,
        "precision": precision,
        "tensor_parallel": tensor_parallel,
        "load": "closed loop",
        "concurrency": concurrency,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "quantity": quantity,
        "value": statistics.median(values),
        "spread": spread(values),
        "n": len(values),
        "fits": "",
        "source": KEY,
    }
