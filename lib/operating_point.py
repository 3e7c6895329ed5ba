"""One replica under load: how many ride, how fast they go, how long the first token takes.

A `Replica` is a list of step times, so it is the same whether they come from a bound, a
law or a measurement. The queue is `lib.occupancy`: Poisson arrivals, a cap on residents.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lib import arguments, engine_step
from lib.deployment import Deployment, Traffic, memory_limit, resident_context, scales
from lib.occupancy import admission_wait_tail, capped_occupancy

MOST_RESIDENTS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What a deployment does with a kind of traffic.

    Attributes
    ----------
    traffic : Traffic
    step_time : ndarray, shape (b,)
        Mean step with 1..b residents, the prompts of newcomers in it, s. b is what fits in memory.
    decode_time : ndarray, shape (b,)
        The same without prompts, s.
    prompt_time : float
        What one prompt adds, s.
    """

    traffic: Traffic
    step_time: np.ndarray
    decode_time: np.ndarray
    prompt_time: float

    def __post_init__(self):
        arguments.record("traffic", self.traffic, Traffic)
        for name in ("step_time", "decode_time"):
            times = arguments.array(name, getattr(self, name), above=0)
            if times.ndim != 1:
                raise ValueError(f"{name} must have one axis, got shape {times.shape}")
            times.setflags(write=False)
            object.__setattr__(self, name, times)
        arguments.together(step_time=self.step_time, decode_time=self.decode_time)
        arguments.number("prompt_time", self.prompt_time, above=0)


class Point(NamedTuple):
    """A replica at a load; arrays in the shape of the arrival rate.

    Attributes
    ----------
    arrival_rate : ndarray
        1/s.
    resident : ndarray
        Mean number of requests that ride.
    time_per_token, first_token_time : ndarray
        Means, s; the latter `inf` where the queue has no end.
    wait : ndarray
        Mean time to admission, s.
    """

    arrival_rate: np.ndarray
    resident: np.ndarray
    time_per_token: np.ndarray
    first_token_time: np.ndarray
    wait: np.ndarray


def replica(deployment, traffic, *, slower=1.0, slots=MOST_RESIDENTS):
    """Return the replica that the law of engines predicts, or None if no request fits in memory.

    Parameters
    ----------
    deployment : Deployment
    traffic : Traffic
    slower : float
        Factor on every time, above 0: one end of `lib.engine_step.Law` for an interval.
    slots : int
        Most residents, at least 1; memory may bind first.

    Returns
    -------
    Replica or None

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    No time is below the roofline bound.
    """
    arguments.record("deployment", deployment, Deployment)
    arguments.record("traffic", traffic, Traffic)
    slower = arguments.number("slower", slower, above=0)
    slots = arguments.number("slots", slots, least=1, whole=True)
    numbers, context = scales(deployment), resident_context(traffic)
    most = int(min(slots, memory_limit(numbers, context)))
    if most < 1:
        return None
    coefficients = np.multiply(engine_step.law().coefficients, slower)
    batch = np.arange(1.0, most + 1)
    asked = (traffic.prompt_tokens, traffic.output_tokens, context)
    step = engine_step.step_time(numbers, batch, asked, coefficients)
    return Replica(
        traffic=traffic, step_time=np.maximum(step, engine_step.bound_time(numbers, batch, asked)),
        decode_time=engine_step.decode_time(numbers, batch, context, coefficients),
        prompt_time=float(engine_step.prompt_time(numbers, traffic.prompt_tokens, coefficients)),
    )  # fmt: skip


def replicas(deployment, traffic):
    """Return the replica by the fast end of the law of engines, by the law, and by the slow end.

    Parameters
    ----------
    deployment, traffic
        As `replica` takes them.

    Returns
    -------
    tuple of Replica, or of None

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    law = engine_step.law()
    return tuple(replica(deployment, traffic, slower=slower) for slower in (law.low, 1.0, law.high))


def bound_replica(deployment, traffic, *, slots=MOST_RESIDENTS):
    """Return the replica of the roofline bound, or None if no request fits in memory.

    Parameters
    ----------
    deployment, traffic, slots
        As `replica` takes them.

    Returns
    -------
    Replica or None

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("deployment", deployment, Deployment)
    arguments.record("traffic", traffic, Traffic)
    slots = arguments.number("slots", slots, least=1, whole=True)
    numbers, context = scales(deployment), resident_context(traffic)
    most = int(min(slots, memory_limit(numbers, context)))
    if most < 1:
        return None
    batch = np.arange(1.0, most + 1)
    read, computed, caches, _ = engine_step.ideal_terms(numbers, batch, context)
    asked = (traffic.prompt_tokens, traffic.output_tokens, context)
    return Replica(
        traffic=traffic, step_time=engine_step.bound_time(numbers, batch, asked),
        decode_time=np.maximum(read, computed) + caches,
        prompt_time=float(sum(engine_step.prompt_terms(numbers, traffic.prompt_tokens))),
    )  # fmt: skip


def capped(replica, slots):
    """Return the replica with fewer slots.

    Parameters
    ----------
    replica : Replica
    slots : int
        At least 1; more than it has changes nothing.

    Returns
    -------
    Replica

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("replica", replica, Replica)
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    return Replica(
        traffic=replica.traffic, step_time=replica.step_time[:slots], decode_time=replica.decode_time[:slots],
        prompt_time=replica.prompt_time,
    )  # fmt: skip


def output_time(replica, residents):
    """Return the machine time that the output of a request takes: its share of the steps it rides in.

    Parameters
    ----------
    replica : Replica
    residents : array_like
        Who ride together, whole, at least 1, no more than fit.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("replica", replica, Replica)
    residents = arguments.array("residents", residents, least=1, most=replica.decode_time.size, whole=True)
    return replica.traffic.output_tokens * replica.decode_time[residents.astype(int) - 1] / residents


def full_rate(replica):
    """Return the requests that a replica completes with every slot taken: no queue is stable above.

    Parameters
    ----------
    replica : Replica

    Returns
    -------
    float
        1/s.

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("replica", replica, Replica)
    slots = replica.step_time.size
    return float(slots / (replica.step_time[-1] * replica.traffic.output_tokens))


def at_load(replica, arrival_rate):
    r"""Return a replica at a load.

    Parameters
    ----------
    replica : Replica
    arrival_rate : array_like
        Poisson, 1/s, above 0.

    Returns
    -------
    Point

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: \text{TTFT} = W_q + \tfrac{1}{2} E[t; N \ge 1] + \tau(P) + d(E[N])

    Wait for a slot, the step in progress, and the step that carries the prompt whole, with the others
    in it. A prompt in chunks takes more steps. Outputs other than exponential: approximate, see
    `lib.occupancy.capped_occupancy`.
    """
    arguments.record("replica", replica, Replica)
    arrival_rate = arguments.array("arrival_rate", arrival_rate, above=0)
    traffic = replica.traffic
    found = capped_occupancy(
        arrival_rate, traffic.output_tokens, replica.step_time, output_cv2=traffic.output_cv2
    )
    slots = np.arange(1, replica.decode_time.size + 1)
    riding = np.interp(np.maximum(found.resident, 1), slots, replica.decode_time)
    first = found.wait + found.residual_step + replica.prompt_time + riding
    return Point(arrival_rate, found.resident, found.time_per_token, first, found.wait)


def good_share(replica, arrival_rate, first_token_time):
    r"""Return the share of requests whose first token comes in time, if every step is short enough.

    Parameters
    ----------
    replica : Replica
        With its slots at the batch limit, so that the time per token keeps its target at any load.
    arrival_rate : array_like
        Poisson, 1/s, above 0.
    first_token_time : float
        Target, s, above 0.

    Returns
    -------
    ndarray
        From 0 to 1; 0 where the queue has no end.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: P(W_q \le T - \tfrac{1}{2} E[t] - \tau(P) - d(E[N]))

    Only the wait for a slot is random here; the tail is that of exponential outputs.
    """
    arguments.record("replica", replica, Replica)
    first_token_time = arguments.number("first_token_time", first_token_time, above=0)
    point = at_load(replica, arrival_rate)
    stable = np.isfinite(point.wait)
    slack = first_token_time - np.where(stable, point.first_token_time - np.where(stable, point.wait, 0), np.inf)
    late = admission_wait_tail(
        np.where(slack >= 0, slack, 0), point.arrival_rate, replica.traffic.output_tokens, replica.step_time
    )
    return np.where(slack >= 0, 1 - late, 0.0)
