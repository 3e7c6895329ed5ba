"""The scheduling rules of three engines, as their documents and sources state them, as policies.

Each function takes the engine's own options under the engine's own names and returns a
`ContinuousBatching`. Defaults are the engines' own, read in the versions that ``source`` names.
Left out of all three: speculative decoding, LoRA, several replicas, and the host's own time.
"""

import numpy as np

from lib import arguments
from lib.batching import ContinuousBatching, Estimate, HoldingBack, KVMemory

# SGLang: environment variables SGLANG_INIT_NEW_TOKEN_RATIO and the two beside it
_FIRST_RATIO, _LEAST_OF_FIRST, _DECAY_STEPS = 0.7, 0.14, 600


def vllm(kv_tokens, *, max_num_seqs=256, max_num_batched_tokens=2048, block_size=16, enable_prefix_caching=True,
         async_scheduling=True):  # fmt: skip
    """Return the policy of vLLM's V1 scheduler.

    Parameters
    ----------
    kv_tokens : int
        Tokens of context that fit into memory, at least `block_size`: the log's "GPU KV cache size".
    max_num_seqs, max_num_batched_tokens : int
        At least 1. The defaults are those of most devices; a server on one of 70 GiB or more (the A100 apart) starts
        with 1,024 and 8,192.
    block_size : int
        Tokens, at least 1.
    enable_prefix_caching : bool
        Here it matters only to a request that lost its memory: it finds again what nobody has overwritten. Hits between
        requests are data: the simulator's `cached_length`.
    async_scheduling : bool
        Whether an iteration is planned while the one before it runs, which hides the host's work and lets a newcomer
        wait up to an iteration longer. On by default since version 0.14.

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Every iteration serves who is inside first, one token each, then fills the token budget with prompts in order of
    arrival, cut where it ends. A request is admitted when its whole prompt fits into memory. Memory grows block by
    block; when it is out, who was admitted last loses all of it, goes back to the head of the queue and is computed
    again, and nobody is admitted in that iteration. Here the memory of a prompt is taken at once; the engine
    checks for all of it and takes it chunk by chunk. Source: vLLM, ``vllm/v1/core/sched/scheduler.py``.
    """
    memory = KVMemory(
        tokens=arguments.number("kv_tokens", kv_tokens, least=1, whole=True),
        block_size=arguments.number("block_size", block_size, least=1, whole=True),
        reuse=arguments.flag("enable_prefix_caching", enable_prefix_caching),
    )
    return ContinuousBatching(
        slots=arguments.number("max_num_seqs", max_num_seqs, least=1, whole=True),
        token_budget=arguments.number("max_num_batched_tokens", max_num_batched_tokens, least=1, whole=True),
        prefill="chunked",
        memory=memory,
        ahead=arguments.flag("async_scheduling", async_scheduling),
        source="vLLM 0.19, V1: vllm/v1/core/sched/scheduler.py at 00024d3145; vllm/engine/arg_utils.py",
    )


def tgi(max_batch_total_tokens, *, waiting_served_ratio=0.3, max_batch_prefill_tokens=4096, max_waiting_tokens=20,
        max_batch_size=np.inf):  # fmt: skip
    """Return the policy of Text Generation Inference, version 3, without chunking.

    Parameters
    ----------
    max_batch_total_tokens : int
        Tokens of context that fit into memory, at least 1; the engine infers it from what is free.
    waiting_served_ratio : float
        At least 0.
    max_batch_prefill_tokens, max_waiting_tokens : int
        At least 1.
    max_batch_size : int
        At least 1; may be infinite.

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Prompts are read whole, in iterations of their own, up to a number of tokens. They interrupt those who
    decode only if enough of them wait: the number inside times the ratio, rounded down; or, whatever their number,
    after that many iterations without them. After every such iteration at least one decodes. The memory for prompt
    and all tokens that were asked for is taken at once, so nobody ever loses it. The launcher takes the longest prompt
    that it admits and 50 more for `max_batch_prefill_tokens`; its router alone, 4,096, which is the default here.
    Source: TGI, ``backends/v3/src/backend.rs`` and ``queue.rs``; ``docs/source/reference/launcher.md``.
    """
    return ContinuousBatching(
        slots=arguments.number("max_batch_size", max_batch_size, least=1, whole=True, infinite=True),
        token_budget=arguments.number("max_batch_prefill_tokens", max_batch_prefill_tokens, least=1, whole=True),
        prefill="whole",
        memory=KVMemory(
            tokens=arguments.number("max_batch_total_tokens", max_batch_total_tokens, least=1, whole=True),
            block_size=1,
            allocation="reserved",
        ),
        holding_back=HoldingBack(
            waiting_share=arguments.number("waiting_served_ratio", waiting_served_ratio, least=0),
            patience=int(arguments.number("max_waiting_tokens", max_waiting_tokens, least=1, whole=True)),
        ),
        source="TGI 3: backends/v3/src/backend.rs at 1d0847a90e, queue.rs at 120d5773e8",
    )


def sglang(max_total_num_tokens, *, max_running_requests=np.inf, chunked_prefill_size=8192,
           schedule_conservativeness=1.0, page_size=1, disable_overlap_schedule=False):  # fmt: skip
    """Return the policy of SGLang's default scheduler.

    Parameters
    ----------
    max_total_num_tokens : int
        Tokens of context that fit into memory, at least `page_size`; the engine infers it from what is free.
    max_running_requests : int
        At least 1; may be infinite.
    chunked_prefill_size : int
        At least 1. The engine chooses by the memory of the device: 8,192 is for one of 80 GB.
    schedule_conservativeness : float
        Above 0: multiplies what it expects those inside still to generate.
    page_size : int
        Tokens, at least 1.
    disable_overlap_schedule : bool
        Whether an iteration is planned only when the one before it has ended. By default it is planned while that one
        runs, as by `vllm`: newcomers may wait up to an iteration longer, and a slot is given on an iteration later.

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Prompts go first, in iterations of their own, cut to a number of tokens together; those who decode stand still as
    long as there is a prompt that fits. A request is admitted if its prompt and all that it may generate fit beside a
    share of what those inside may still generate. That share begins at 0.7 times the conservativeness and falls, an
    iteration at a time, to 0.14 of that in 600. When memory is out, who has generated least gives it up, waits behind
    all others, and the share rises to what has been generated of what was asked for. Prefix hits are data: the
    simulator's `cached_length`. Left out: the clip of a request's limit at 4,096 tokens, the order by longest
    prefix match, and the batches for which overlap is given up. Source: SGLang,
    ``python/sglang/srt/managers/schedule_policy.py``, ``schedule_batch.py``, and ``scheduler.py``
    (``event_loop_overlap`` plans, launches, and only then reads the results of the iteration before).
    """
    conservativeness = arguments.number("schedule_conservativeness", schedule_conservativeness, above=0)
    start = min(_FIRST_RATIO * conservativeness, 1.0)
    return ContinuousBatching(
        slots=arguments.number("max_running_requests", max_running_requests, least=1, whole=True, infinite=True),
        token_budget=arguments.number("chunked_prefill_size", chunked_prefill_size, least=1, whole=True),
        prefill="chunked alone",
        memory=KVMemory(
            tokens=arguments.number("max_total_num_tokens", max_total_num_tokens, least=1, whole=True),
            block_size=arguments.number("page_size", page_size, least=1, whole=True),
            allocation="estimated",
            victim="fewest tokens",
            back_of_the_queue=True,
        ),
        estimate=Estimate(start=start, least=start * _LEAST_OF_FIRST, steps=_DECAY_STEPS),
        ahead=not arguments.flag("disable_overlap_schedule", disable_overlap_schedule),
        source="SGLang: python/sglang/srt/managers/schedule_policy.py at 00550cd11b",
    )
