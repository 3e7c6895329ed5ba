"""Decode steps of RTX 4090 and RTX PRO 6000: the kernel tables of LLMServingSim, vLLM 0.19.

Summed like `scripts.derive.kernels`, for Llama-3.1-8B, which has the shape of
Llama-3-8B. A layer norm occurs twice per layer. Here the parts outside the layers
were measured too: `head_time` is embedding, final norm, LM head and sampler, once a
step, and is not in `time`. Left out: the gaps between kernels.
"""

from lib.model import model as shape_of
from scripts.derive.kernels import BATCH_SIZES, CONTEXTS
from scripts.derive.memory import fits
from scripts.derive.sources import USED

MODEL = "Llama-3-8B"
MACHINES = (
    ("rtx4090", "RTX4090_Llama-3.1-8B", "RTX 4090"),
    ("rtxpro6000", "RTXPRO6000_Llama-3.1-8B", "RTX PRO 6000 Blackwell Server"),
)
PER_LAYER = {
    "layernorm": 2,
    "qkv_proj": 1,
    "rotary_emb": 1,
    "o_proj": 1,
    "gate_up_proj": 1,
    "act_fn": 1,
    "down_proj": 1,
}
PER_STEP = ("embedding", "final_layernorm")


def decode_steps(sources):
    """Return the rows of ``decode_steps.csv`` for the two workstation accelerators."""
    rows = []
    for chip, folder, accelerator in MACHINES:
        rows += _machine(sources, f"llmservingsim-{chip}", f"llmservingsim/{folder}", accelerator)
    return rows


def _machine(sources, key, folder, accelerator):
    files = {part: f"{folder}/kernels_{part}.csv" for part in ("dense", "per_sequence")}
    files["attention"] = f"{folder}/kernels_attention.csv.gz"
    read = {part: sources.read(file) for part, file in files.items()}
    dense = {(row["layer"], int(row["tokens"])): row for row in read["dense"]}
    head = {(row["layer"], int(row["sequences"])): row for row in read["per_sequence"]}
    attention = {_decode_point(row): row for row in read["attention"] if _decode_point(row)}
    layers, rows, taken = shape_of(MODEL).layers, [], set()
    for batch_size in BATCH_SIZES:
        for context in CONTEXTS:
            known = (batch_size, context) in attention and ("lm_head", batch_size) in head
            if not known or not fits(accelerator, MODEL, 1, batch_size * context):
                continue
            taken.add((batch_size, context))
            per_layer = sum(n * _seconds(dense[name, batch_size]) for name, n in PER_LAYER.items())
            once = [_seconds(dense[name, batch_size]) for name in PER_STEP]
            once += [_seconds(head[name, batch_size]) for name in ("lm_head", "sampler")]
            attending = layers * _seconds(attention[batch_size, context])
            rows.append(
                {
                    "accelerator": accelerator,
                    "model": MODEL,
                    "tensor_parallel": 1,
                    "attention": "vLLM 0.19.0",
                    "batch_size": batch_size,
                    "context": context,
                    "time": layers * per_layer + attending,
                    "attention_time": attending,
                    "linear_time": layers * per_layer,
                    "head_time": sum(once),
                    "source": " ".join(f"{key}-{part.replace('_', '-')}" for part in sorted(files)),
                }
            )
    _account(sources, key, files, read, taken)
    return rows


def _seconds(row):
    return 1e-6 * float(row["time_us"])


def _decode_point(row):
    """Return batch size and context of a pure decode row, else None."""
    if row["prefill_chunk"] != "0" or row["kv_prefill"] != "0":
        return None
    return int(row["n_decode"]), int(row["kv_decode"])


def _account(sources, key, files, read, taken):
    sizes = {batch_size for batch_size, _ in taken}
    off_grid = "number of tokens or sequences is no batch size of the grid"
    fates = {
        "attention": [_attention_fate(_decode_point(row), taken) for row in read["attention"]],
        "dense": [USED if int(row["tokens"]) in sizes else off_grid for row in read["dense"]],
        "per_sequence": [USED if int(row["sequences"]) in sizes else off_grid for row in read["per_sequence"]],
    }
    for part, file in files.items():
        name = f"{key}-{part.replace('_', '-')}"
        sources.account(name, file, "llmservingsim2026", fates[part])


def _attention_fate(point, taken):
    if point is None:
        return "prefill, or prefill and decode mixed"
    if point in taken:
        return USED
    return "context off the grid, or does not fit in memory"
