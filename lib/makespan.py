"""How long a bus takes until all of a fixed number of requests are done, in closed form. All are there at once.

Output lengths are geometric and steps take what a straight line says. `lib.boarding` runs the same policies step
by step; `lib.serving_records` simulates them with steps as they were probed.
"""

import numpy as np

from lib import arguments
from lib.boarding import POLICIES
from lib.order_statistics import geometric_max


def makespan(policy, slots, step_line, *, requests, mean_length):
    r"""Return the mean time until the last of many requests is done.

    Parameters
    ----------
    policy : {"padded", "early exit", "continuous"}
        As of `lib.boarding.ride`.
    slots : array_like
        At least 1; the longest of so many lengths is taken at the nearest whole number.
    step_line : tuple of float
        As of `lib.serving_records.line_of`, s: of a step, the time without riders and what each rider adds; of reading
        prompts, the same.
    requests : int
        At least as many as slots.
    mean_length : float
        Of the output, tokens, at least 1. Reading the prompt gives the first.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    A padded coach runs as many steps as its longest has tokens, all slots taken; with early exit each rider pays for
    the own steps only, and the coach for the longest. On a loop bus all slots are taken until the last request has
    boarded; then what is left empties like a coach. Prompts whose riders board together share a reading: as many as
    get off in a step in which somebody does, :math:`n p / (1 - (1 - p)^n)` in the mean with :math:`p = 1/E[L]`.
    Groups are taken as whole though the last may be smaller, and of each length the mean.
    """
    arguments.choice("policy", policy, POLICIES)
    slots = arguments.array("slots", slots, least=1)
    if len(arguments.record("step_line", step_line, tuple)) != 4:
        raise ValueError(f"step_line must hold 4 times, got {len(step_line)}")
    fixed, marginal, reading, each = arguments.array("step_line", step_line)
    requests = arguments.number("requests", requests, least=float(slots.max()), whole=True)
    steps = arguments.number("mean_length", mean_length, least=1) - 1
    last = geometric_max(steps + 1, np.rint(slots)) - 1
    full, together = fixed + slots * marginal, reading + slots * each
    drain = fixed * last + slots * marginal * steps
    if policy == "padded":
        return requests / slots * (last * full + together)
    if policy == "early exit":
        return requests / slots * (drain + together)
    leave = 1 / (steps + 1)
    shared = slots * leave / (1 - (1 - leave) ** slots)
    return (requests - slots) * (steps * full / slots + reading / shared + each) + drain + together
