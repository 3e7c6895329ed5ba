r"""What the time to the first token is made of, on real accelerators under the rules of real engines.

``scripts/simulate_first_token.py`` ran the cases and wrote ``data/first_token.csv``, which `lib.pause_record` reads.
`simulated` runs one case again.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from lib import arguments, engines, serving
from lib.batching import ContinuousBatching, DynamicBatching
from lib.calibrated_step import CalibratedStep, kv_tokens
from lib.latency import latencies
from lib.lengths import WORKLOADS
from lib.queueing import mg1_wait
from lib.replica import StepLoad
from lib.replication import without_warm_up
from lib.simulation import FirstTokenParts, simulate
from lib.trace import Trace

POLICIES = ("vllm", "tgi", "sglang", "prompts elsewhere", "gather")
TARGETS = (1.0, 2.0)  # s: most that 99 in 100 are to wait
GATHERED, TIMEOUT = 32, 0.3  # the article's story: dozens of requests, a few tenths of a second
PARTS = FirstTokenParts._fields
LONE, HALF, NEAR = 0.0, 0.5, 0.9
APART = 100.0  # seconds between lone users, who ask for one token


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is simulated: whose requests, on what, under which rules.

    Attributes
    ----------
    workload : str
        One of `lib.lengths.WORKLOADS`.
    step : CalibratedStep
        The machine and the model.
    policy : str
        One of `POLICIES`, with the engine's documented defaults for this machine. "prompts elsewhere": the
        memory of one replica, prompts read by another machine at no cost. "gather": the article's story, batches of
        `GATHERED` requests or what came within `TIMEOUT`.
    chunk : int or None
        Another token budget for "vllm".
    memory_share : float
        Of the cache that fits beside the weights, above 0, at most 1.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    workload: str
    step: CalibratedStep
    policy: str
    chunk: int | None = None
    memory_share: float = 1.0

    def __post_init__(self):
        arguments.choice("workload", self.workload, WORKLOADS)
        arguments.record("step", self.step, CalibratedStep)
        arguments.choice("policy", self.policy, POLICIES)
        arguments.number("memory_share", self.memory_share, above=0, most=1)
        if self.chunk is not None:
            arguments.number("chunk", self.chunk, least=1, whole=True)
            if self.policy != "vllm":
                raise ValueError(f"chunk must be left out for {self.policy}, got {self.chunk}")


def policy_of(case):
    """Return the policy of a case.

    Parameters
    ----------
    case : Case

    Returns
    -------
    ContinuousBatching or DynamicBatching

    Raises
    ------
    ValueError
        If it is no case.

    Notes
    -----
    vLLM starts with 1,024 sequences and 8,192 tokens on a device of 70 GiB or more, the A100 apart, else with 256 and
    2,048 (`lib.engines.vllm`). A chunk that is set comes with 256 sequences, or as many as the chunk has tokens. vLLM
    and SGLang plan an iteration ahead, as they do by default; TGI is taken to plan when an iteration ends.
    """
    arguments.record("case", case, Case)
    step = case.step
    tokens = int(case.memory_share * kv_tokens(step.accelerator, step.model, step.devices))
    if case.policy == "gather":
        return DynamicBatching(cap=GATHERED, control_limit=GATHERED, timeout=TIMEOUT)
    if case.policy == "tgi":
        return engines.tgi(tokens)
    if case.policy == "sglang":
        return engines.sglang(tokens)
    slots, budget = (256, 2048) if step.accelerator.startswith("A100") else (1024, 8192)
    if case.chunk is not None:
        slots, budget = min(256, case.chunk), case.chunk
    served = engines.vllm(tokens, max_num_seqs=slots, max_num_batched_tokens=budget)
    if case.policy == "prompts elsewhere":
        return ContinuousBatching(slots=slots, prefill="elsewhere", memory=served.memory)
    return served


def simulated(case, requests, *, lone=False):
    """Return a run of the case, and how long its decoders waited for each token.

    Parameters
    ----------
    case : Case
    requests : Trace
    lone : bool
        Whether each request comes when the one before is done. Then only first tokens are simulated; the rest is
        that of `alone`.

    Returns
    -------
    tuple of (Run, ndarray, ndarray)
        The run; the times between tokens, s; how often there was each. Nothing of these for policies that stop
        decoding to read prompts.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    policy, took = policy_of(case), []
    arguments.record("requests", requests, Trace)
    arguments.flag("lone", lone)

    def step_time(load):
        time = case.step(load)
        took.append((time, load.decoding))
        return time

    if lone:
        count = len(requests.output_length)
        apart = requests._replace(arrival_time=APART * np.arange(count), output_length=np.ones(count, int))
        run = simulate(apart, policy, step_time)
        read, whole = alone(case.step, requests)
        more, tokens = whole - read, requests.output_length - 1
        run = run._replace(finish_time=run.finish_time + more, tokens=requests.output_length)
        return run, more[tokens > 0] / tokens[tokens > 0], tokens[tokens > 0]
    run = simulate(requests, policy, step_time)
    times, decoding = np.array(took).T
    beside = isinstance(policy, ContinuousBatching) and policy.prefill in ("chunked", "elsewhere")
    keep = (decoding > 0) & beside
    return run, times[keep], decoding[keep]


def summary(run, times=(), decoding=()):
    """Return what a run says about the first token: means and percentiles after the warm-up.

    Parameters
    ----------
    run : Run
        Of a policy that refuses nobody.
    times, decoding : array_like, each shape (m,)
        Times between tokens, s, and how often there was each, if known.

    Returns
    -------
    dict of str to float
        Means of the parts of the TTFT; TTFT: mean, p50, p99; TPOT: mean, p50; deliberate p99; share of requests that
        lost their memory; time between two tokens, p50 and p99. Seconds. Share that waited longer than each of
        `TARGETS`, as `later_than` names it.
    """
    found = latencies(run.arrival_time, run.admitted_time, run.first_token_time, run.finish_time, run.tokens)
    ttft, tpot = without_warm_up(found.ttft), without_warm_up(np.nan_to_num(found.tpot, nan=np.inf))
    tpot = tpot[np.isfinite(tpot)]
    said = {name: float(without_warm_up(part).mean()) for name, part in run.first_token_parts._asdict().items()}
    said |= {
        "ttft": float(ttft.mean()), "ttft_p50": float(np.median(ttft)), "ttft_p99": float(np.quantile(ttft, 0.99)),
        "tpot": float(tpot.mean()), "tpot_p50": float(np.median(tpot)),
        "held_back_p99": float(np.quantile(without_warm_up(run.first_token_parts.held_back), 0.99)),
        "preempted": float(np.mean(without_warm_up(run.preemptions.astype(float)) > 0)),
        "lost": float(without_warm_up(run.preemptions.astype(float)).mean()),
    } | {later_than(target): float(np.mean(ttft > target)) for target in TARGETS}  # fmt: skip
    if len(times):
        order = np.argsort(times)
        share = np.cumsum(np.asarray(decoding)[order]) / np.sum(decoding)
        for name, level in (("itl_p50", 0.5), ("itl_p99", 0.99)):
            said[name] = float(np.asarray(times)[order][np.searchsorted(share, level)])
    return said


def later_than(target):
    """Return the name of a quantity: the share of requests whose TTFT exceeds a target.

    Parameters
    ----------
    target : float
        One of `TARGETS`, s.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is none.
    """
    target = arguments.number("target", target, above=0)
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(map(str, TARGETS))}, got {target!r}")
    return f"later_than_{target:g}"


def capacity(case, requests):
    """Return the rate at which a replica finishes requests that all wait for it.

    Parameters
    ----------
    case : Case
    requests : Trace
        Their arrival times do not matter.

    Returns
    -------
    float
        1/s, between the first and the last fifth of those that finish.
    """
    arguments.record("case", case, Case)
    arguments.record("requests", requests, Trace)
    waiting = requests._replace(arrival_time=np.zeros(len(requests.arrival_time)))
    finish = np.sort(simulated(case, waiting)[0].finish_time)
    low, high = int(0.2 * len(finish)), int(0.8 * len(finish))
    return float((high - low) / (finish[high] - finish[low]))


def alone(step, requests):
    """Return what requests take that are served one by one: the time to read each prompt, and all of each.

    Parameters
    ----------
    step : CalibratedStep
    requests : Trace

    Returns
    -------
    tuple of ndarray, each shape (n,)
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    The decode steps of a request are taken at its mean context, times their number; a step alone is so nearly linear
    in its context that nothing is lost. Feed the second to `lib.queueing.mg1_wait`: one by one is an M/G/1 queue.
    """
    arguments.record("step", step, CalibratedStep)
    arguments.record("requests", requests, Trace)
    first, whole = [], []
    for prompt, output in zip(requests.prompt_length.tolist(), requests.output_length.tolist(), strict=True):
        prompt = max(prompt, 1)
        read = step(StepLoad(0, 0, prompt, prompt * (prompt + 1) / 2, ((prompt, 0),)))
        more = step(StepLoad(1, ceil(prompt + output / 2), 0, 0.0, ())) * (output - 1) if output > 1 else 0.0
        first.append(read)
        whole.append(read + more)
    return np.array(first), np.array(whole)


def one_by_one(step, requests, load):
    """Return what requests wait that are served one by one.

    Parameters
    ----------
    step : CalibratedStep
    requests : Trace
        Only their lengths matter: arrivals are Poisson.
    load : float
        Share of the time in which the machine is busy, 0 to 1; at 1 the wait has no end.

    Returns
    -------
    dict of str to float
        Mean TTFT (s), rate of arrivals and most that the machine can bear (1/s).

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    load = arguments.number("load", load, least=0, most=1)
    read, whole = alone(step, requests)
    most = 1 / whole.mean()
    wait = float(mg1_wait(load * most, whole.mean(), np.mean(whole**2))) if load else 0.0
    return {"ttft": wait + float(read.mean()), "rate": float(load * most), "capacity": float(most)}


def boarding_share(points):
    """Return the share of the time per output token that goes into reading prompts, by the law of `lib.serving`.

    Parameters
    ----------
    points : dict of ndarray
        As `lib.serving.terms` takes them, with ``engine`` and ``value``.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    ValueError
        If a column is missing.

    Notes
    -----
    One fit for each accelerator, model, engine and precision; the term is d B ISL / OSL and its part in attention.
    The fit has seen the points it is asked about: see `lib.serving.without_each_shape` for what it is worth elsewhere.
    """
    ideal = serving.terms(points)
    names = zip(*(points[name].tolist() for name in serving.CONFIGURATION), strict=True)
    owner = np.array(["|".join(row) for row in names])
    prompts = np.array([term.startswith("prefill") for term in serving.TERMS])
    share = np.empty(len(owner))
    for one in dict.fromkeys(owner.tolist()):
        mine = owner == one
        spent = ideal[mine] * serving.fitted(ideal[mine], points["value"][mine])
        share[mine] = spent[:, prompts].sum(axis=1) / spent.sum(axis=1)
    return share
