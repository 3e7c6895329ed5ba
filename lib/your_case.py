"""The whole argument for one case, in formulas that Python computes and that the page computes too.

Everything here is closed form or bisection of fixed depth, so that `lib.expressions` can trace
it. Where the report has something sharper (the queue with its cap, the simulator), a test
says how far apart the two are.
"""

from typing import NamedTuple

import numpy as np

from lib import engine_step
from lib.deployment import memory_limit
from lib.units import HOUR, MILLION, grouped

SPREAD = 1.0  # variance over squared mean of the outputs: exponential
KEPT_FREE = 0.9  # of the rate that fills every slot
POWERS = tuple(2**power for power in range(10, -1, -1))
PARTS = (*POWERS, 0.5, 0.25, 0.125)  # of a resident: how finely the pace is found
MOST_SLOTS = sum(POWERS)
ENDS = ("low", "middle", "high")


class Case(NamedTuple):
    """What the reader sets: numbers, or symbols for the page.

    Attributes
    ----------
    prompt, output : float
        Mean tokens, at least 1.
    rate : float
        Requests per second that the service gets, above 0.
    target : float
        Seconds for a token, above 0.
    rent_low, rent_middle, rent_high : float
        USD an hour for one device.
    """

    prompt: float
    output: float
    rate: float
    target: float
    rent_low: float
    rent_middle: float
    rent_high: float


def keep(_, value):
    """Return the value: in Python an intermediate result needs no name."""
    return value


def step(scales, batch, case, slower, *, coefficients=None):
    """Return the mean time of a step with so many residents, no faster than its bound.

    Parameters
    ----------
    scales : Scales
    batch : array_like
        Above 0.
    case : Case
    slower : float
        Factor on the law, above 0.
    coefficients : sequence of float, optional
        Those of `lib.engine_step.law` if left out.

    Returns
    -------
    ndarray
        Seconds.
    """
    coefficients = engine_step.law().coefficients if coefficients is None else coefficients
    asked = (case.prompt, case.output, resident(case))
    timed = engine_step.step_time(scales, batch, asked, [float(slower * one) for one in coefficients])
    return np.maximum(timed, engine_step.bound_time(scales, batch, asked))


def resident(case):
    """Return the mean tokens of a resident request in the cache: its prompt, and its output at its mean age.

    Parameters
    ----------
    case : Case

    Returns
    -------
    float
    """
    return case.prompt + case.output * ((1 + SPREAD) / 2)


def estimate(scales, case, *, let=keep, wanted=ENDS):
    r"""Return what a deployment does for a case, each result at the low, middle and high end.

    Parameters
    ----------
    scales : Scales
    case : Case
    let : callable
        Gives an intermediate result a name: ``let(name, value)`` returns what stands for it.
    wanted : tuple of str
        Those of `ENDS` that are needed.

    Returns
    -------
    dict of str to float
        ``memory`` and, for each of `ENDS` as in ``middle_slots``: ``slots``, sequences; ``bound`` and ``step``, s,
        with every slot taken; ``replicas``; ``token``, ``first``, s; ``resident``; ``input``, ``output``,
        ``blended``, USD per million tokens. 0 slots: too slow for the target, or memory is too small; the other
        results are then those of a single slot and mean nothing.

    Notes
    -----
    The low end joins the low end of the law with the lowest rent, the high end both high ends. Replicas
    are so many that each gets at most nine tenths of the rate that fills its slots. Time per token: with
    n others aboard on average a step takes t(n + 1),

    .. math:: T = t(\lambda L T + 1) \le t(b)

    which is the negative binomial of `lib.processor_sharing` where t is a line.

    First token: half a step, the prompt, the step that carries it, and the wait for a slot, see `_wait`.
    """
    law = engine_step.law()
    context = let("context_held", resident(case))
    memory = let("memory", np.minimum(np.maximum(memory_limit(scales, context), 0.0), float(MOST_SLOTS)))
    found = {"memory": memory}
    ends = zip(ENDS, (law.low, 1.0, law.high), (case.rent_low, case.rent_middle, case.rent_high), strict=True)
    for end, slower, rent in (one for one in ends if one[0] in wanted):
        for name, value in _one_end(scales, case, (slower, rent, memory), lambda name, value: let(
            f"{end}_{name}", value  # noqa: B023 (called at once)
        )).items():  # fmt: skip
            found[f"{end}_{name}"] = value
    return found


def _one_end(scales, case, given, let):
    slower, rent, memory = given
    coefficients = [float(slower * one) for one in engine_step.law().coefficients]
    slots = 0.0
    for power in POWERS:
        trial = let(f"trial{power}", slots + power)
        taken = let(f"time{power}", step(scales, trial, case, slower))
        slots = let(f"slots{power}", np.where(trial <= memory, np.where(taken <= case.target, trial, slots), slots))
    slots = let("slots", slots)
    most = let("most", np.maximum(slots, 1.0))
    full = let("step", step(scales, most, case, slower))
    alone = let("alone", step(scales, 1.0, case, slower))
    bound = let("bound", engine_step.bound_time(scales, most, (case.prompt, case.output, resident(case))))
    served = let("served", most / (full * case.output))
    replicas = let("replicas", np.ceil(case.rate / (KEPT_FREE * served)))
    each = let("each", case.rate / replicas)
    load, others = let("load", each * case.output), 0.0
    for turn, part in enumerate(PARTS):
        more = let(f"more{turn}", others + part)
        paced = let(f"paced{turn}", step(scales, np.minimum(more + 1, most), case, slower))
        others = let(f"others{turn}", np.where(more <= load * paced, more, others))
    token = let("token", step(scales, np.minimum(others + 1, most), case, slower))
    riding = let("resident", load * token)
    prompt = let("prompt_time", engine_step.prompt_time(scales, case.prompt, coefficients))
    decode = let("decode", engine_step.decode_time(scales, np.maximum(riding, 1.0), resident(case), coefficients))
    wait = let("wait", _wait((alone, full, most), load, (each, served), let))
    first = let("first", wait + token / 2 + prompt + decode)
    request = let("request", replicas * scales.devices * (rent / HOUR) / case.rate)
    all_taken = let("all_taken", engine_step.decode_time(scales, most, resident(case), coefficients))
    share = let("share", prompt / (prompt + case.output * all_taken / most))
    return {
        "slots": slots, "step": full, "bound": bound, "replicas": replicas, "token": token, "first": first,
        "resident": riding, "wait": wait,
        "input": let("input", MILLION * request * share / case.prompt),
        "output": let("output", MILLION * request * (1 - share) / case.output),
        "blended": let("blended", MILLION * request / (case.prompt + case.output)),
    }  # fmt: skip


def _wait(steps, load, rates, let):
    r"""Mean wait for a slot: the chance that all b are taken over the rate that is left.

    The birth-death chain of `lib.occupancy` on the chord t_w + n t_1: negative binomial below b, geometric
    beyond. Its weight at b needs :math:`\ln \Gamma`, by Stirling; with one slot the chain is M/M/1.
    """
    (alone, full, most), (each, served) = steps, rates
    busy = let("busy", each / served)
    slope = let("slope", np.maximum((full - alone) / np.maximum(most - 1.0, 1.0), 1e-6 * alone))
    x = let("x", np.minimum(load * slope, 0.999))
    r = let("r", np.maximum(alone / slope, 1.0))  # 1 + t_w / t_1
    weight = let("weight", np.exp(
        most * np.log(x) + r * np.log(1 - x) + _log_gamma(most + r) - _log_gamma(r) - _log_gamma(most + 1)
    ))  # fmt: skip
    beyond = let("beyond", np.minimum(x * (most + r) / (most + 1), busy))
    full_house = let("full_house", weight / (1 - busy) / (1 + weight * (1 / (1 - busy) - 1 / (1 - beyond))))
    return np.where(most < 2, busy, np.minimum(full_house, 1.0)) / (served - each)


def _log_gamma(z):
    return (z - 0.5) * np.log(z) - z + 0.9189385332046727 + 1 / (12 * z)


TEMPLATE = (
    ("text", "model"), " in ", ("text", "dtype"), " on ", ("whole", "devices"), " x ", ("text", "accelerator"), ", ",
    ("whole", "prompt"), " tokens in and ", ("whole", "output"), " out, ", ("three", "rate"), " requests/s, ",
    ("three", "target_ms"), " ms for a token.\n",
    "Memory holds ", ("whole", "memory"), " sequences. Each line is a plan of its own.\n",
    "Middle: max_num_seqs ", ("whole", "middle_slots"), ", step with all aboard ", ("ms", "middle_step"),
    " ms (roofline bound ", ("ms", "middle_bound"), " ms), replicas ", ("whole", "middle_replicas"), " with ",
    ("three", "middle_resident"), " aboard each, ", ("ms", "middle_token"), " ms a token, ", ("ms", "middle_first"),
    " ms to the first, USD ", ("three", "middle_blended"), " per million tokens (input ", ("three", "middle_input"),
    ", output ", ("three", "middle_output"), ").\n",
    "Fast engine, low rent: max_num_seqs ", ("whole", "low_slots"), ", replicas ", ("whole", "low_replicas"), ", ",
    ("ms", "low_token"), " ms a token, ", ("ms", "low_first"), " ms to the first, USD ", ("three", "low_blended"),
    ".\n",
    "Slow engine, high rent: max_num_seqs ", ("whole", "high_slots"), ", replicas ", ("whole", "high_replicas"), ", ",
    ("ms", "high_token"), " ms a token, ", ("ms", "high_first"), " ms to the first, USD ", ("three", "high_blended"),
    ".\n",
    "Rent of a device: ", ("three", "rent_middle"), " USD/h (", ("three", "rent_low"), " to ", ("three", "rent_high"),
    ").\n",
)  # fmt: skip
DOES_NOT_FIT = "Not one request fits in the memory of this group.\n"
TOO_SLOW = "Even one request alone is slower than the target.\n"


def in_words(values):
    """Return the results of a case as text.

    Parameters
    ----------
    values : mapping
        What `estimate` returned, the fields of `Case`, ``model``, ``accelerator``, ``dtype``, ``devices`` and
        ``target_ms``.

    Returns
    -------
    str
    """
    first = "".join(_said(piece, values) for piece in TEMPLATE[: TEMPLATE.index("Memory holds ")])
    if values["memory"] < 1:
        return first + DOES_NOT_FIT
    if values["middle_slots"] < 1:
        return first + TOO_SLOW
    return "".join(_said(piece, values) for piece in TEMPLATE)


def _said(piece, values):
    if isinstance(piece, str):
        return piece
    kind, name = piece
    value = values[name]
    if kind == "text":
        return value
    if kind == "whole":
        return f"{float(value):,.0f}"
    return grouped(1e3 * float(value) if kind == "ms" else float(value), 3)
