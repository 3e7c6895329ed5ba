"""Decode steps of A100 and H100: Vidur's layer kernels plus a decode attention kernel.

A step is layers x (median time of every kernel of a layer outside attention, at
num_tokens = batch size) plus layers x decode attention at (batch size, context).
Both must have been measured at exactly that point; nothing is interpolated. Left
out: LM head, sampling, embedding, the gaps between kernels and all-reduce, so a
real step takes longer, the more so the more devices share it. `add`, the residual
sum, counts once per layer, as it was profiled.

Attention comes from the profile with the same heads per device: vLLM 0.14 for
grouped queries, TensorRT-LLM for one key head per query head, and, for the 70B
shape on two A100, Vidur's own profile as well. Hence two sources in most rows.
"""

import statistics
from collections import defaultdict

from lib.model import model as shape_of
from scripts.derive.memory import fits
from scripts.derive.sources import USED

KERNELS = (
    *("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm"),
    *("mlp_up_proj", "mlp_act", "mlp_down_proj", "add"),
)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
ACCELERATORS = {"a100": "A100 SXM 80GB", "h100": "H100 SXM"}

# (accelerator, folder in the source, model, tensor parallelism that fits and has an attention profile)
LAYERS = (
    ("a100", "Llama-2-7b-hf", "Llama-2-7B", (1, 2, 4, 8)),
    ("a100", "Meta-Llama-3-8B", "Llama-3-8B", (1, 2, 4, 8)),
    ("a100", "internlm-20b", "internlm-20b", (1,)),
    ("a100", "Llama-2-70b-hf", "Llama-2-70B", (2, 4, 8)),
    ("a100", "Meta-Llama-3-70B", "Llama-3-70B", (2, 4, 8)),
    ("a100", "Qwen-72B", "Qwen-72B", (4, 8)),
    ("a100", "phi-2", "phi-2", ()),
    ("h100", "Llama-2-7b-hf", "Llama-2-7B", (1, 2, 4, 8)),
    ("h100", "internlm-20b", "internlm-20b", (1,)),
    ("h100", "Llama-2-70b-hf", "Llama-2-70B", (2, 4, 8)),
    ("h100", "Qwen-72B", "Qwen-72B", (4, 8)),
    ("h100", "phi-2", "phi-2", ()),
)
# (accelerator, source key, file, name of the attention, which models it serves)
PROFILES = (
    ("a100", "aiconfigurator-a100-vllm", "vllm-0.14.0", "vLLM 0.14.0", "grouped"),
    ("a100", "aiconfigurator-a100-trtllm", "trtllm-1.0.0", "TensorRT-LLM 1.0.0", "one to one"),
    ("h100", "aiconfigurator-h100-vllm", "vllm-0.14.0", "vLLM 0.14.0", "grouped"),
    ("h100", "aiconfigurator-h100-trtllm", "trtllm-1.2.0rc5", "TensorRT-LLM 1.2.0rc5", "one to one"),
)
VIDUR_ATTENTION = (
    *("vidur-a100-attention", "vidur/attention_a100_gqa64-8_tp2.csv.gz"),
    *("FlashAttention (Vidur)", "agrawal2024vidur"),
)
VIDUR_MODELS = ("Llama-2-70B", "Llama-3-70B")


def decode_steps(sources):
    """Return the rows of ``decode_steps.csv`` for A100 and H100."""
    profiles = {}
    for chip, key, version, name, served in PROFILES:
        file = f"aiconfigurator/{chip}_sxm_{version}_decode_attention.csv.gz"
        read = (_aiconfigurator_point, _aiconfigurator_seconds)
        profiles[chip, served] = _Profile(sources, key, file, name, "aiconfigurator2026", *read)
    vidur = _Profile(sources, *VIDUR_ATTENTION, _vidur_point, _vidur_seconds)
    rows = []
    for chip, folder, model, parallel in LAYERS:
        layers = _Layers(sources, chip, folder, model)
        for tensor_parallel in parallel:
            rows += _steps(chip, model, tensor_parallel, layers, profiles[chip, _served(model)])
            if chip == "a100" and model in VIDUR_MODELS and tensor_parallel == 2:
                rows += _steps(chip, model, tensor_parallel, layers, vidur)
        layers.close(parallel)
    for profile in (*profiles.values(), vidur):
        profile.close()
    return rows


def _served(model):
    shape = shape_of(model)
    return "grouped" if shape.kv_heads < shape.query_heads else "one to one"


def _steps(chip, model, tensor_parallel, layers, profile):
    """Return one row per batch size and context that both profiles hold and memory allows."""
    shape, accelerator, rows = shape_of(model), ACCELERATORS[chip], []
    heads = (shape.query_heads // tensor_parallel, shape.kv_heads // tensor_parallel)
    for batch_size in BATCH_SIZES:
        for context in CONTEXTS:
            known = (tensor_parallel, batch_size) in layers.time
            known = known and (*heads, batch_size, context) in profile.time.keys() - profile.outliers
            if known and fits(accelerator, model, tensor_parallel, batch_size * context):
                linear = shape.layers * layers.take(tensor_parallel, batch_size)
                attention = shape.layers * profile.take(*heads, batch_size, context)
                rows.append(
                    {
                        "accelerator": accelerator,
                        "model": model,
                        "tensor_parallel": tensor_parallel,
                        "attention": profile.name,
                        "batch_size": batch_size,
                        "context": context,
                        "time": linear + attention,
                        "attention_time": attention,
                        "linear_time": linear,
                        "head_time": "",
                        "source": f"{layers.key} {profile.key}",
                    }
                )
    return rows


class _Layers:
    """Median seconds per layer outside attention, for one accelerator and model."""

    def __init__(self, sources, chip, folder, model):
        self.sources, self.key = sources, f"vidur-{chip}-{model.lower()}"
        self.file = f"vidur/compute/{chip}/{folder}/mlp.csv.gz"
        self.rows = sources.read(self.file)
        self.taken = set()
        times = defaultdict(list)
        for row in self.rows:
            medians = [float(row.get(f"time_stats.{kernel}.median") or 0.0) for kernel in KERNELS]
            times[self._point(row)].append(1e-3 * sum(medians))
        self.time = {point: statistics.median(values) for point, values in times.items()}

    @staticmethod
    def _point(row):
        return int(row["num_tensor_parallel_workers"]), int(row["num_tokens"])

    def take(self, *point):
        self.taken.add(point)
        return self.time[point]

    def close(self, parallel):
        fates = [self._fate(self._point(row), parallel) for row in self.rows]
        self.sources.account(self.key, self.file, "agrawal2024vidur", fates)

    def _fate(self, point, parallel):
        if point in self.taken:
            return USED
        if not parallel:
            return "no attention profile has this model's heads, which are not of size 128"
        if point[0] not in parallel:
            return "tensor parallelism does not fit in memory or has no attention profile"
        return "number of tokens is no batch size of the grid, or does not fit in memory"


class _Profile:
    """Seconds of decode attention per layer, by heads per device, batch size and context.

    `point` and `seconds` read one row; `point` is None for a row that is no decode attention.
    """

    def __init__(self, sources, key, file, name, citation, point, seconds):
        self.sources, self.key, self.file, self.name, self.citation = sources, key, file, name, citation
        self.rows, self.point, self.taken = sources.read(file), point, set()
        times = defaultdict(list)
        for row in self.rows:
            if point(row):
                times[point(row)].append(seconds(row))
        self.time = {point: statistics.median(values) for point, values in times.items()}
        self.outliers = {point for point in self.time if _outlier(point, self.time)}

    def take(self, *point):
        self.taken.add(point)
        return self.time[point]

    def close(self):
        heads = {point[:2] for point in self.taken}
        fates = [self._fate(self.point(row), heads) for row in self.rows]
        self.sources.account(self.key, self.file, self.citation, fates)

    def _fate(self, point, heads):
        if point in self.taken:
            return USED
        if point is None:
            return "prefill, not decode"
        if point[:2] not in heads:
            return "heads per device of no model here"
        if point in self.outliers and point[2] in BATCH_SIZES and point[3] in CONTEXTS:
            return "outlier: over twice the time at twice the batch size and at twice the context"
        return "batch size or context off the grid, or does not fit in memory"


def _outlier(point, times):
    """Return whether attention took over twice as long as with twice the cache, either way of doubling it."""
    *heads, batch_size, context = point
    doubled = ((*heads, 2 * batch_size, context), (*heads, batch_size, 2 * context))
    return all(more in times and times[point] > 2 * times[more] for more in doubled)


def _aiconfigurator_point(row):
    columns = ("num_heads", "num_key_value_heads", "batch_size", "kv_len")
    return tuple(int(row[column]) for column in columns)


def _aiconfigurator_seconds(row):
    return 1e-3 * float(row["latency_ms"])


def _vidur_point(row):
    if row["is_prefill"] == "True":
        return None
    parallel = int(row["num_tensor_parallel_workers"])
    heads = (int(row["n_q_head"]) // parallel, int(row["n_kv_head"]) // parallel)
    return (*heads, int(row["batch_size"]), int(row["kv_cache_size"]))


def _vidur_seconds(row):
    return 1e-3 * float(row["time_stats.attn_decode.median"])
