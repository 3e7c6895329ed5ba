"""What a replica does when more requests board than its memory will hold: caches are lost and computed again.

Paging admits a request as soon as its prompt fits and bets that not all grow at once; reserving takes room for the
whole answer first. `pressed` runs one case and says what the bet costs: preemptions, tokens computed again, requests
finished in a second, and how long a reader waits in the middle of a text.
"""

from dataclasses import dataclass, replace

import numpy as np

from lib import arguments, engines, token_load
from lib.batching import KVMemory
from lib.replication import without_warm_up
from lib.simulation import Run, simulate
from lib.trace import Trace

ALLOCATIONS = ("paged", "paged, nothing found again", "reserved, length known", "reserved, longest answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """A replica, its memory and who may board.

    Attributes
    ----------
    kv_tokens : int
        Tokens of context that fit, at least 16.
    slots : int
        Most requests inside, at least 1.
    allocation : str
        One of `ALLOCATIONS`. The first is vLLM's; the second finds nothing of a lost cache again; the last two take
        room for the answer at once, as long as it will be or as long as it may be.
    longest : int
        Most tokens of prompt and answer together, at least 2, at most `kv_tokens`.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    kv_tokens: int
    slots: int
    allocation: str = "paged"
    longest: int = 16_384

    def __post_init__(self):
        arguments.number("kv_tokens", self.kv_tokens, least=16, whole=True)
        arguments.number("slots", self.slots, least=1, whole=True)
        arguments.choice("allocation", self.allocation, ALLOCATIONS)
        arguments.number("longest", self.longest, least=2, most=self.kv_tokens, whole=True)


def policy_of(pressure):
    """Return the policy: vLLM's rules, with the memory given out as the case says.

    Parameters
    ----------
    pressure : Pressure

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("pressure", pressure, Pressure)
    served = engines.vllm(
        pressure.kv_tokens, max_num_seqs=pressure.slots, max_num_batched_tokens=8192,
        enable_prefix_caching=pressure.allocation == ALLOCATIONS[0],
    )  # fmt: skip
    if pressure.allocation.startswith("reserved"):
        return replace(served, memory=KVMemory(tokens=pressure.kv_tokens, block_size=16, allocation="reserved"))
    return served


def that_fit(requests, longest):
    """Return the requests that are no longer than a limit, prompt and answer together, at their times.

    Parameters
    ----------
    requests : Trace
    longest : int
        Tokens, at least 2.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If an argument leaves its domain, or none fits.
    """
    arguments.record("requests", requests, Trace)
    longest = arguments.number("longest", longest, least=2, whole=True)
    keep = requests.prompt_length + requests.output_length <= longest
    if not keep.any():
        raise ValueError(f"longest must leave a request, got {longest:g}")
    return Trace(*(column[keep] for column in requests))


def pressed(requests, pressure, step_time):
    """Return what memory does to a run, after the warm-up.

    Parameters
    ----------
    requests : Trace
        Those longer than the limit are left out.
    pressure : Pressure
    step_time : callable
        As `lib.simulation.simulate` takes it.

    Returns
    -------
    dict of str to float
        ``finished`` (1/s, between the first and the last fifth of those that finish; `inf` if these finish at once);
        ``preempted`` (times a request lost its cache); ``computed_again`` (tokens a request); ``ttft``,
        ``ttft_p99``, ``latency`` (s);
        ``stalled_p99`` (s in which a request that had begun was outside: 99 in 100 wait no longer).

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    policy = policy_of(pressure)
    if not callable(step_time):
        raise ValueError(f"step_time must be a function of a StepLoad, got {step_time!r}")
    served = that_fit(requests, pressure.longest)
    read = [0]

    def watched(load):
        read[0] += load.prompt_tokens
        return step_time(load)

    limit = None
    if pressure.allocation == ALLOCATIONS[3]:
        limit = pressure.longest - served.prompt_length
    run = simulate(served, policy, watched, output_limit=limit, events=True)
    order = np.sort(run.finish_time)
    low, high = int(0.2 * len(order)), int(0.8 * len(order))
    took = order[high] - order[low]
    stalls = np.zeros(len(order))
    lost = run.events.interruptions
    np.add.at(stalls, lost.request, lost.resumed_time - lost.lost_time)
    ttft = without_warm_up(run.first_token_time - run.arrival_time)
    return {
        "finished": float((high - low) / took) if took else np.inf,
        "preempted": float(without_warm_up(run.preemptions.astype(float)).mean()),
        "computed_again": float((read[0] - run.prompt_length.sum()) / len(order)),
        "ttft": float(ttft.mean()),
        "ttft_p99": float(np.quantile(ttft, 0.99)),
        "latency": float(without_warm_up(run.finish_time - run.arrival_time).mean()),
        "stalled_p99": float(np.quantile(without_warm_up(stalls), 0.99)),
    }


def resident(run, share=0.2):
    """Return what the caches of a run hold, over the time of its arrivals: mean and standard deviation, tokens.

    Parameters
    ----------
    run : Run
        With events.
    share : float
        Of the requests, between 0 and 1: nothing counts before that many have come.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If it is no run, or has no events in that time.
    """
    arguments.record("run", run, Run)
    start = run.arrival_time[int(arguments.number("share", share, least=0, most=1) * (len(run.arrival_time) - 1))]
    if run.events is None:
        raise ValueError("run must have events, got none")
    seen = (run.events.time > start) & (run.events.time < run.arrival_time[-1])
    if not seen.any():
        raise ValueError(f"share must leave an event, got {share:g}")
    held, weight = run.events.resident_tokens[seen], run.events.duration[seen]
    mean = np.average(held, weights=weight)
    return float(mean), float(np.sqrt(np.average((held - mean) ** 2, weights=weight)))


def resident_by_campbell(run, arrival_rate):
    """Return what Campbell's theorem says of the same, if none were turned away: mean and standard deviation, tokens.

    Parameters
    ----------
    run : Run
        Its lengths, and its mean time per output token.
    arrival_rate : float
        1/s, above 0.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("run", run, Run)
    pace = float((run.finish_time - run.first_token_time).sum() / max((run.output_length - 1).sum(), 1))
    each = [
        token_load.resident_tokens(arrival_rate, pace, into, (out, out**2, out**3))
        for into, out in zip(run.prompt_length.astype(float), run.output_length.astype(float), strict=True)
    ]
    mean, variance = np.mean(each, axis=0)
    return float(mean), float(np.sqrt(variance))
