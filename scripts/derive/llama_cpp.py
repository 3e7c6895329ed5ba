"""llama.cpp on DGX Spark: decode steps of one dense model and two with experts.

A step is the time of 32 generated tokens per sequence, divided by 32.
"""

from scripts.derive.sources import USED

FILE, KEY = "llama_cpp/batched_bench_dgx_spark.csv", "llama-cpp-dgx-spark"
# repository of the weights: (model, number format of the weights)
SELECTED = {
    "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF": ("Qwen2.5-7B", "q8_0"),
    "ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF": ("Qwen3-30B-A3B", "q8_0"),
    "ggml-org/gpt-oss-20b-GGUF": ("gpt-oss-20b", "mxfp4"),
}


def end_to_end(sources):
    """Return the rows of ``end_to_end.csv`` from this source."""
    read = sources.read(FILE)
    fates = [USED if row["model"] in SELECTED else "configuration not selected" for row in read]
    sources.account(KEY, FILE, "gerganov2025spark", fates)
    return [_row(row) for row, fate in zip(read, fates, strict=True) if fate == USED]


def _row(row):
    model, precision = SELECTED[row["model"]]
    return {
        "accelerator": "DGX Spark",
        "model": model,
        "engine": "llama.cpp",
        "version": "",
        "precision": precision,
        "tensor_parallel": 1,
        "load": "batch",
        "concurrency": int(row["batch"]),
        "input_tokens": int(row["pp"]),
        "output_tokens": int(row["tg"]),
        "quantity": "decode_step",
        "value": float(row["t_tg_s"]) / int(row["tg"]),
        "spread": "",
        "n": 1,
        "fits": "",
        "source": KEY,
    }
