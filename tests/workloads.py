"""Small random workloads that hold what breaks simulators, and a policy of every kind to run them under."""

import numpy as np

from lib.batching import ContinuousBatching, Estimate, HoldingBack, KVMemory
from lib.engines import sglang, tgi, vllm
from lib.trace import Trace

TOKENS = 120
PAGED = KVMemory(tokens=TOKENS, block_size=4)
POLICIES = {
    "one by one": ContinuousBatching(slots=1),
    "no limits": ContinuousBatching(prefill="elsewhere"),
    "elsewhere, reserved": ContinuousBatching(
        slots=4, prefill="elsewhere", memory=KVMemory(tokens=TOKENS, block_size=4, allocation="reserved")
    ),
    "elsewhere, paged": ContinuousBatching(slots=6, prefill="elsewhere", memory=KVMemory(tokens=TOKENS, block_size=1)),
    "whole": ContinuousBatching(slots=4, token_budget=50, memory=PAGED),
    "piggybacked": ContinuousBatching(slots=4, token_budget=50, prefill="piggybacked", memory=PAGED),
    "chunked alone": ContinuousBatching(slots=4, token_budget=16, prefill="chunked alone", memory=PAGED),
    "paged": ContinuousBatching(slots=8, token_budget=16, prefill="chunked", memory=PAGED),
    "reuse": ContinuousBatching(
        slots=8, token_budget=16, prefill="chunked", memory=KVMemory(tokens=TOKENS, block_size=4, reuse=True)
    ),
    "spare": ContinuousBatching(
        slots=8, token_budget=16, prefill="chunked", memory=KVMemory(tokens=TOKENS, block_size=4, spare_share=0.2)
    ),
    "shortest": ContinuousBatching(slots=3, order="shortest", token_budget=16, prefill="chunked", memory=PAGED),
    "priority": ContinuousBatching(
        slots=3, order="priority", token_budget=16, prefill="chunked",
        memory=KVMemory(tokens=TOKENS, block_size=4, victim="last in order"),
    ),
    "estimated": ContinuousBatching(
        slots=8, prefill="whole", estimate=Estimate(start=0.5, least=0.1, steps=50),
        memory=KVMemory(tokens=TOKENS, block_size=4, allocation="estimated", victim="fewest tokens"),
    ),
    "held back": ContinuousBatching(
        slots=6, memory=KVMemory(tokens=TOKENS, block_size=4, allocation="reserved"),
        holding_back=HoldingBack(waiting_share=0.6, patience=5),
    ),
    "vllm": vllm(TOKENS, max_num_seqs=6, max_num_batched_tokens=24, block_size=4),
    "tgi": tgi(TOKENS, max_batch_prefill_tokens=80),
    "sglang": sglang(TOKENS, chunked_prefill_size=32),
}  # fmt: skip


def small_workload(rng, count=None):
    """Return a trace with bursts, silences, prompts of nothing, outputs of one token and requests that never fit."""
    count = int(rng.integers(2, 30)) if count is None else count
    gaps = np.where(rng.random(count) < 0.4, 0.0, rng.exponential(rng.choice([0.02, 0.2, 2.0]), count))
    prompt = np.where(rng.random(count) < 0.2, 0, rng.geometric(1 / 25, count))
    output = np.where(rng.random(count) < 0.2, 1, rng.geometric(1 / 20, count))
    prompt = np.where(rng.random(count) < 0.05, 10 * TOKENS, prompt)
    options = {
        "output_limit": output + rng.integers(0, 20, count) * (rng.random() < 0.5),
        "cached_length": rng.integers(0, 20, count) * (rng.random() < 0.3),
        "priority": rng.integers(0, 4, count),
    }
    return Trace(np.cumsum(gaps), prompt, output), options
