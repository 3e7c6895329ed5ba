"""One workload under the documented rules of three engines, and what a full bus makes of its machine.

The step is the law of running engines, its prompts included; the policies are those of `lib.engines`.
"""

import functools
from typing import NamedTuple

import numpy as np

from lib import arguments, engines, footprint, memory, roofline
from lib.calibration import predict
from lib.cost import affine_step
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware, peak_flop_rate
from lib.latency import latencies
from lib.model import model
from lib.operating_point import full_rate, replica
from lib.replication import without_warm_up
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.workload import measured_workload, requests

MACHINE, MODEL, WORKLOAD = "H100 SXM", "Llama-3-8B", "azure-conversation"
ENGINES = ("vLLM", "TGI", "SGLang")
SLOTS, LOAD, BUSY, COUNT, SEED = 256, 0.4, 0.8, 1500, 9


class Served(NamedTuple):
    """What an engine's rules make of the workload.

    Attributes
    ----------
    first_token, first_token_p99 : float
        Mean and 99th percentile of the time to first token, s.
    time_per_token, time_per_token_p99 : float
        Mean and 99th percentile of the time per output token, s.
    held_back : float
        Iterations that a request waits on purpose beside a free slot, mean.
    preempted : float
        Share of the requests that lost their memory.
    """

    first_token: float
    first_token_p99: float
    time_per_token: float
    time_per_token_p99: float
    held_back: float
    preempted: float


def step():
    """Return the step of the machine and model of this module, as the law of engines has it.

    Returns
    -------
    AffineStep
        The cache of a sequence of mean length is in the time of each sequence.
    """
    made = _replica()
    fixed, marginal = affine_step(made.decode_time[:SLOTS])
    prompt = made.prompt_time / made.traffic.prompt_tokens
    return AffineStep(fixed=fixed, per_sequence=marginal, per_prompt_token=prompt)


@functools.cache
def _replica():
    return replica(Deployment(hardware=hardware(MACHINE), model=model(MODEL)), traffic_of(WORKLOAD), slots=SLOTS)


def policy(engine):
    """Return an engine's policy with its documented defaults, in the memory that the machine has left.

    Parameters
    ----------
    engine : {"vLLM", "TGI", "SGLang"}

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If there is no such engine.
    """
    arguments.choice("engine", engine, ENGINES)
    room = memory.cache_capacity(hardware(MACHINE), model(MODEL)) / footprint.kv_bytes_per_token(model(MODEL))
    made = {"vLLM": engines.vllm, "TGI": engines.tgi, "SGLang": engines.sglang}
    return made[engine](int(room))


def served(engine, load=LOAD):
    """Return what an engine's rules make of the workload, simulated.

    Parameters
    ----------
    engine : {"vLLM", "TGI", "SGLang"}
    load : float
        Arrivals over those that a full bus serves, above 0.

    Returns
    -------
    Served
        The first fifth of the requests found the bus emptier and is left out.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.choice("engine", engine, ENGINES)
    return _served(engine, arguments.number("load", load, above=0))


@functools.cache
def _served(engine, load):
    rate = load * full_rate(_replica())
    asked = requests(measured_workload(WORKLOAD, float(rate)), COUNT, np.random.default_rng(SEED))
    run = simulate(asked, policy(engine), step())
    found = latencies(run.arrival_time, run.admitted_time, run.first_token_time, run.finish_time, run.tokens)
    first = without_warm_up(found.ttft)
    token = found.tpot[-first.size :]
    token = token[np.isfinite(token)]
    held_back = without_warm_up(run.first_token_parts.held_back).mean() / (run.busy_time / run.iterations)
    lost = without_warm_up(run.preemptions) > 0
    return Served(
        float(first.mean()), float(np.quantile(first, 0.99)), float(token.mean()), float(np.quantile(token, 0.99)),
        float(held_back), float(lost.mean()),
    )  # fmt: skip


def arithmetic_used(batch_size, context):
    """Return the share of the dense peak that a full decode step uses, by the calibrated step.

    Parameters
    ----------
    batch_size, context : array_like
        Sequences and tokens, at least 1.

    Returns
    -------
    ndarray
        Between 0 and 1.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    batch_size = arguments.array("batch_size", batch_size, least=1)
    context = arguments.array("context", context, least=1)
    arguments.together(batch_size=batch_size, context=context)
    done = roofline.decode_step(hardware(MACHINE), model(MODEL), batch_size, context)
    made = predict(MACHINE, MODEL, batch_size, context)
    flop = roofline.flop_rate(done) * done.time
    return flop / (made.calibrated + made.output_head) / peak_flop_rate(hardware(MACHINE), "bf16")


def gains():
    """Return what continuous batching gains in tokens per second over one request at a time, prompts included.

    Returns
    -------
    float
        With `SLOTS` slots taken, or as many as fit.
    """
    times = _replica().step_time
    return float(len(times) * times[0] / times[-1])


def alone_first_token():
    """Return the time to first token of a lone request with a prompt of mean length, s.

    Returns
    -------
    float
    """
    made = _replica()
    return float(made.prompt_time + step().fixed)
