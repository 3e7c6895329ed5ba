"""LLM-Inference-Bench: seconds for a whole batch, N tokens in and N tokens out each.

A batch that exceeds memory runs in waves (`fits` is "no"); the A100 is the 40 GB
part. Number format taken as 16 bit; the file does not record it. Only configurations
whose grid of batch sizes and lengths is complete are selected. The batch of one
output token is a prefill of the whole batch.
"""

import statistics
from collections import defaultdict

from scripts.derive.memory import fits
from scripts.derive.sources import USED
from scripts.derive.tables import spread

LATENCY = ("llm-inference-bench", "llm_inference_bench/all_results_shared.csv.gz")
PREFILL = ("llm-inference-bench-ttft", "llm_inference_bench/ttft_itl_shared.csv")
HARDWARE = {
    "Nvidia A100 GPU": "A100 SXM 40GB",
    "Nvidia H100 GPU": "H100 SXM",
    "AMD MI300X GPU": "MI300X",
}
MODELS = {
    "meta-llama/Llama-2-7b-hf": "Llama-2-7B",
    "meta-llama/Llama-2-70b-hf": "Llama-2-70B",
    "meta-llama/Meta-Llama-3-8B": "Llama-3-8B",
    "meta-llama/Meta-Llama-3-70B": "Llama-3-70B",
    "mistralai/Mixtral-8x7B-v0.1": "Mixtral-8x7B",
}
LENGTHS = (128, 256, 512, 1024, 2048)
BATCH_SIZES = (1, 16, 32, 64)
MORE_BATCH_SIZES = {"MI300X": (128, 256)}
# (accelerator, engine): {model: tensor parallelism}
SELECTED = {
    ("A100 SXM 40GB", "TensorRT-LLM"): {
        "Llama-2-7B": (1, 2, 4),
        "Llama-3-8B": (1, 2, 4),
        "Llama-2-70B": (4,),
        "Mixtral-8x7B": (4,),
    },
    ("A100 SXM 40GB", "vLLM"): {"Llama-2-7B": (1, 2, 4), "Llama-3-8B": (1, 2), "Mixtral-8x7B": (4,)},
    ("H100 SXM", "TensorRT-LLM"): {
        "Llama-2-7B": (1, 2, 4),
        "Llama-3-8B": (1, 2),
        "Llama-2-70B": (4,),
        "Llama-3-70B": (4,),
        "Mixtral-8x7B": (4,),
    },
    ("H100 SXM", "vLLM"): {
        "Llama-2-7B": (1, 2, 4),
        "Llama-3-8B": (1, 2, 4),
        "Llama-2-70B": (4,),
        "Llama-3-70B": (4,),
    },
    ("MI300X", "vLLM"): {"Llama-2-7B": (1,), "Llama-3-8B": (1,), "Llama-2-70B": (1,)},
}


def end_to_end(sources):
    """Return the rows of ``end_to_end.csv`` from this source."""
    rows = _gather(sources, *LATENCY, "batch_latency", _latency_point, "Latency")
    return rows + _gather(sources, *PREFILL, "prefill_time", _prefill_point, "TTFT Latency")


def _gather(sources, key, file, quantity, point, column):
    read = sources.read(file)
    fates = [_fate(row, *point(row)) for row in read]
    groups = defaultdict(list)
    for row, fate in zip(read, fates, strict=True):
        if fate == USED:
            groups[point(row)].append(float(row[column]))
    sources.account(key, file, "chitty2024inferencebench", fates)
    return [_row(key, quantity, *point, values) for point, values in groups.items()]


def _configuration(row):
    return (
        HARDWARE.get(row["Hardware"]),
        row["Framework"],
        MODELS.get(row["Model"]),
        int(row["Num of Hardware"]),
        int(row["Batch Size"]),
    )


def _latency_point(row):
    return *_configuration(row), int(row["Input Output Length"]), int(row["Input Output Length"])


def _prefill_point(row):
    return *_configuration(row), int(row["Input Length"]), int(row["Output Length"])


def _fate(row, accelerator, engine, model, tensor_parallel, batch_size, input_tokens, output_tokens):
    if engine == "llama.cpp" and batch_size > 1:
        return "llama.cpp batches break throughput x latency = tokens by the batch size"
    if (row["Hardware"], engine, row["Model"]) == ("Nvidia H100 GPU", "TensorRT-LLM", "Qwen/Qwen2-7B"):
        return "corrupt: some are faster than reading the weights"
    if tensor_parallel not in SELECTED.get((accelerator, engine), {}).get(model, ()):
        return "configuration not selected"
    if batch_size not in BATCH_SIZES + MORE_BATCH_SIZES.get(accelerator, ()) or input_tokens not in LENGTHS:
        return "batch size or length off the grid"
    if (accelerator, batch_size, input_tokens) == ("MI300X", 1, 128):
        return "first point of a run, with start-up in it: slower than a batch of 16, or than longer ones per token"
    return USED


def _row(key, quantity, accelerator, engine, model, tensor_parallel, *rest):
    batch_size, input_tokens, output_tokens, values = rest
    tokens = batch_size * (input_tokens + output_tokens)
    return {
        "accelerator": accelerator,
        "model": model,
        "engine": engine,
        "version": "",
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
        "fits": "yes" if fits(accelerator, model, tensor_parallel, tokens) else "no",
        "source": key,
    }
