"""The systems that are timed: a million requests of 200 output tokens, three ways to limit them."""

import numpy as np

from lib.batching import ContinuousBatching, KVMemory
from lib.step_time import AffineStep
from lib.trace import Trace

# About an 8B model on a large accelerator: 6 ms for the weights, .04 ms a sequence, .04 us a token of cache.
STEP = AffineStep(fixed=6e-3, per_sequence=4e-5, per_context_token=4e-8, per_prompt_token=2e-5)
MEAN_OUTPUT, MEAN_PROMPT, SLOTS = 200, 300, 64
LOAD = 0.8
ROOMY, TIGHT = 40_000, 13_000

CASES = {
    "slots and reserved memory": ContinuousBatching(
        slots=SLOTS, prefill="elsewhere", memory=KVMemory(tokens=ROOMY, allocation="reserved")
    ),
    "chunked prefill": ContinuousBatching(
        slots=SLOTS, prefill="chunked", token_budget=512, memory=KVMemory(tokens=ROOMY, allocation="reserved")
    ),
    "paged memory with preemption": ContinuousBatching(
        slots=SLOTS, prefill="chunked", token_budget=512, memory=KVMemory(tokens=TIGHT)
    ),
}
LIMITS = {"slots and reserved memory": 2.0, "chunked prefill": 5.0, "paged memory with preemption": 10.0}
BYTES_LIMIT = 200

# A trial of Vidur at commit 7d47513 on a machine like ours: its event loop alone, metrics off. Its package cannot run
# without profiles from a model hub; the trial had its matrix profiles and an invented one of attention, so that its
# speed is real and its latencies are not.
VIDURS_TRIAL = {
    "workload": "Llama-2-7B on an A100, 2 requests/s, prompts of 2,048 tokens, outputs of 512, chunked prefill",
    "requests": 10_000, "loop_s": 13.4, "requests_per_s": 749, "iterations_per_s": 7_908,
}  # fmt: skip
VIDURS_POLICY = ContinuousBatching(slots=128, prefill="chunked", token_budget=512)


def requests(count, *, seed=1, load=LOAD, prefill=True):
    """Return Poisson arrivals at a share of what the slots can serve, with geometric prompts and outputs."""
    rng = np.random.default_rng(seed)
    context = MEAN_PROMPT + MEAN_OUTPUT
    step = STEP.fixed + SLOTS * (STEP.per_sequence + STEP.per_context_token * context)
    time = MEAN_OUTPUT * step / SLOTS + (MEAN_PROMPT * STEP.per_prompt_token if prefill else 0.0)
    gaps = rng.exponential(time / load, count)
    return Trace(
        np.cumsum(gaps), rng.geometric(1 / MEAN_PROMPT, count).astype(float),
        rng.geometric(1 / MEAN_OUTPUT, count).astype(float),
    )  # fmt: skip


def alone(count, *, seed=1, load=LOAD):
    """Return requests for a server that takes them one by one."""
    trace = requests(count, seed=seed)
    time = MEAN_OUTPUT * (STEP.fixed + STEP.per_sequence) + MEAN_PROMPT * STEP.per_prompt_token
    return trace._replace(arrival_time=trace.arrival_time / trace.arrival_time[-1] * count * time / load)


def as_vidur(count, *, seed=1):
    """Return the workload of the trial of Vidur: Poisson arrivals, every prompt and every output of one length."""
    gaps = np.random.default_rng(seed).exponential(0.5, count)
    return Trace(np.cumsum(gaps), np.full(count, 2048.0), np.full(count, 512.0))
