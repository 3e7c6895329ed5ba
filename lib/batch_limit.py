r"""The answer to "what should ``max_num_seqs`` be?", derived from targets instead of searched.

A target on the time per output token caps the residents: with more than b of them a step
lasts longer than the target, whatever the load. A target on the first token then caps the
load, and a target on single gaps caps the prompt tokens in a step.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments, batch_law
from lib.cost import affine_step
from lib.operating_point import Replica, at_load, capped, full_rate
from lib.processor_sharing import largest_arrival_rate

BINDS = ("time per token", "memory", "nothing fits")
STEPS = 36


class BatchLimit(NamedTuple):
    """The largest batch within a target, and what binds.

    Attributes
    ----------
    slots : int
        Residents; 0 if even one is too slow.
    binds : str
        One of `BINDS`.
    closed_form : float
        The same from the affine law, floor((target - t_w) / t_1), memory left aside; may be infinite.
    """

    slots: int
    binds: str
    closed_form: float


def batch_limit(replica, time_per_token):
    r"""Return the most residents with which no mean step exceeds the target.

    Parameters
    ----------
    replica : Replica
    time_per_token : float
        Target, s, above 0; may be infinite.

    Returns
    -------
    BatchLimit

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: b^* = \min\Big( \Big\lfloor \frac{T - t_w}{t_1} \Big\rfloor, b_{memory} \Big)

    when the step is a line, and the largest b with t(b) <= T when it is not. t includes the prompts
    that board: without them the limit would be too large by their share of the step.
    """
    arguments.record("replica", replica, Replica)
    time_per_token = arguments.number("time_per_token", time_per_token, above=0, infinite=True)
    fixed, marginal = affine_step(np.maximum.accumulate(replica.step_time))
    line = float(batch_law.largest_batch_within(time_per_token, max(fixed, 0.0), marginal))
    slots = int(slots_within(replica, time_per_token))
    binds = BINDS[2] if not slots else BINDS[1] if slots == replica.step_time.size else BINDS[0]
    return BatchLimit(slots, binds, line)


def slots_within(replica, time_per_token):
    """Return the most residents with which no mean step exceeds each of several targets.

    Parameters
    ----------
    replica : Replica
    time_per_token : array_like
        Targets, s, above 0; may be infinite.

    Returns
    -------
    ndarray of int
        In the shape of the targets; 0 where even one resident is too slow.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("replica", replica, Replica)
    targets = arguments.array("time_per_token", time_per_token, above=0, infinite=True)
    # Longest step of this many residents or more: it never falls, so the target's place in it can be searched.
    at_least = np.minimum.accumulate(replica.step_time[::-1])[::-1]
    return np.searchsorted(at_least, targets, side="right")


def token_budget(replica, slots, gap):
    r"""Return the most tokens in a step, so that no gap between tokens exceeds a target.

    Parameters
    ----------
    replica : Replica
    slots : int
        Residents, at least 1, no more than fit.
    gap : float
        Target for a single step, s, above 0.

    Returns
    -------
    tuple of float
        Tokens of the budget (residents and prompt tokens together, whole; 0 if the residents alone take
        longer), and the prompt tokens that a step must carry on average to keep up.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: n + \frac{T - d(n)}{\tau(P) / P}, \qquad \frac{n P}{L}

    The first is ``max_num_batched_tokens``. If it leaves less room than the second, the queue of
    prompts grows and the slots do not fill. Prompt time in proportion to its tokens: attention to a
    long prompt makes its end dearer.
    """
    arguments.record("replica", replica, Replica)
    slots = int(arguments.number("slots", slots, least=1, most=replica.decode_time.size, whole=True))
    gap = arguments.number("gap", gap, above=0)
    each = replica.prompt_time / replica.traffic.prompt_tokens
    room = (gap - replica.decode_time[slots - 1]) / each
    needed = slots * replica.traffic.prompt_tokens / replica.traffic.output_tokens
    return (float(np.floor(slots + room)) if room >= 0 else 0.0), needed


def load_limit(replica, time_per_token, first_token_time):
    """Return the largest arrival rate at which both means stay within their targets.

    Parameters
    ----------
    replica : Replica
    time_per_token, first_token_time : float
        Targets, s, above 0; may be infinite.

    Returns
    -------
    float
        1/s; 0 if an empty replica is already too slow.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Bisection: both means rise with the load, up to the rate that fills every slot.
    """
    arguments.record("replica", replica, Replica)
    time_per_token = arguments.number("time_per_token", time_per_token, above=0, infinite=True)
    first_token_time = arguments.number("first_token_time", first_token_time, above=0, infinite=True)
    low, high = 0.0, full_rate(replica)
    for _ in range(STEPS):
        middle = (low + high) / 2
        point = at_load(replica, middle)
        if point.time_per_token <= time_per_token and point.first_token_time <= first_token_time:
            low = middle
        else:
            high = middle
    return low if low > full_rate(replica) * 1e-9 else 0.0


def closed_load_limit(replica, time_per_token):
    r"""Return the arrival rate at which the mean time per token meets its target, from the affine law without a cap.

    Parameters
    ----------
    replica : Replica
    time_per_token : float
        Target, s, above 0.

    Returns
    -------
    float
        1/s; 0 if an empty replica is already too slow.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    `lib.processor_sharing.largest_arrival_rate` of the chord, for any law of output lengths.
    """
    arguments.record("replica", replica, Replica)
    time_per_token = arguments.number("time_per_token", time_per_token, above=0)
    fixed, marginal = affine_step(np.maximum.accumulate(replica.step_time))
    return float(largest_arrival_rate(time_per_token, replica.traffic.output_tokens, max(fixed, 0.0), marginal))


def within_targets(replica, time_per_token, first_token_time):
    """Return the replica with its slots at the batch limit and the largest load that keeps both targets.

    Parameters
    ----------
    replica, time_per_token, first_token_time
        As `load_limit` takes them.

    Returns
    -------
    tuple of (Replica or None, float)
        None and 0 if even one resident is too slow.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    limit = batch_limit(replica, time_per_token)
    if not limit.slots:
        return None, 0.0
    allowed = capped(replica, limit.slots)
    return allowed, load_limit(allowed, time_per_token, first_token_time)
