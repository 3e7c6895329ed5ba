r"""The step of a running engine, one law for all: ideal times times eight coefficients.

`lib.serving` fits a law to each configuration that was measured. Here one set of
coefficients is fitted to all of them together, so it may be asked about a machine or a
model that nobody measured; how far it then errs is known from leaving whole models and
whole accelerators out. ``scripts/fit_engine_step.py`` made the table it reads.
"""

import csv
import functools
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.deployment import Scales, cached_bytes
from lib.serving import TERMS

NOT_COVERED = ("MI300X",)  # an early engine took two to five times what the law says: "never seen" in the table
ALONE = ("host and kernels, a layer", "the same, for each doubling of devices", "a sequence")


class Law(NamedTuple):
    """Coefficients, and how far the law errs on what it has not seen.

    Attributes
    ----------
    coefficients : tuple of float
        One for each of `lib.serving.TERMS`.
    low, high : float
        Between these lay nine tenths of measured over predicted, for models and for accelerators
        that were left out: the wider of the two.
    """

    coefficients: tuple
    low: float
    high: float


@functools.cache
def rows():
    """Return the table ``data/engine_step.csv``: by what was left out, the errors; and the coefficients.

    Returns
    -------
    tuple of dict
    """
    with (files("lib") / "data" / "engine_step.csv").open(encoding="utf-8", newline="") as opened:
        return tuple(csv.DictReader(opened))


@functools.cache
def held_against():
    """Return the accelerators on which somebody's engine was held against the law, those of its fit included.

    Returns
    -------
    tuple of str
    """
    kinds = ("one accelerator left out", "never seen")
    names = [row["name"].partition(",")[0] for row in rows() if row["kind"] in kinds and row["group"] == "one"]
    return tuple(dict.fromkeys(names))


class Errors(NamedTuple):
    """How far the law errs, as it is said beside what rests on it.

    Attributes
    ----------
    points : int
        Measurements that it was fitted to.
    left_out : dict of str to (int, float)
        By "model" and "accelerator": how many there are, and the median miss with one left out of the fit, as a share.
    worst_engine : tuple of (str, float)
        The engine that is missed most when it is left out, and by how much.
    dense, experts : tuple of float
        Least and greatest median miss over what no fit has seen: dense models, mixtures of experts.
    not_covered : tuple of float
        Least and greatest time on `NOT_COVERED` over the predicted one, medians.
    """

    points: int
    left_out: dict
    worst_engine: tuple
    dense: tuple
    experts: tuple
    not_covered: tuple


@functools.cache
def errors():
    """Return how far the law errs on what was left out, on what it never saw, and where it does not hold.

    Returns
    -------
    Errors
    """
    single = [row for row in rows() if row["group"] == "one"]
    parts = {part: [row for row in single if row["kind"] == f"one {part} left out"]
             for part in ("model", "accelerator", "engine")}  # fmt: skip
    whole = {row["name"]: row for row in rows() if row["kind"] == "left out"}
    unseen = [row for row in single if row["kind"] == "never seen"]
    outside = [1 / (1 + float(row["signed"])) for row in unseen if row["name"].startswith(NOT_COVERED)]
    inside = [row for row in unseen if not row["name"].startswith(NOT_COVERED)]
    misses = [[float(row["absolute"]) for row in inside if ("Mixtral" in row["name"]) == experts]
              for experts in (False, True)]  # fmt: skip
    worst = max(parts["engine"], key=lambda row: float(row["absolute"]))
    medians = {part: float(whole[part]["absolute"]) for part in ("model", "accelerator")}
    return Errors(
        int(whole["model"]["n"]), {part: (len(parts[part]), medians[part]) for part in medians},
        (worst["name"], float(worst["absolute"])), *((min(one), max(one)) for one in (*misses, outside)),
    )  # fmt: skip


@functools.cache
def law():
    """Return the fitted law.

    Returns
    -------
    Law
    """
    fitted = {row["name"]: float(row["value"]) for row in rows() if row["kind"] == "coefficient"}
    ends = {end: [float(row[end]) for row in rows() if row["kind"] == "left out" and row["group"] == "all"]
            for end in ("low", "high")}  # fmt: skip
    return Law(tuple(fitted[term] for term in TERMS), min(ends["low"]), max(ends["high"]))


def ideal_terms(scales, batch, context):
    """Return what the parts of a decode step would take on an ideal machine, without prompts.

    Parameters
    ----------
    scales : Scales
    batch : array_like
        Sequences, above 0; need not be whole.
    context : array_like
        Tokens cached for each, at least 0.

    Returns
    -------
    tuple
        Weights read (s), arithmetic with them (s), caches read (s), bytes to be reduced (s), each over
        the group.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("scales", scales, Scales)
    batch = arguments.array("batch", batch, above=0)
    context = arguments.array("context", context, least=0)
    arguments.together(batch=batch, context=context)
    picked = 1 - (1 - scales.picked) ** np.maximum(batch, 1)
    return (
        (scales.fixed_bytes + scales.expert_bytes * picked) / scales.bandwidth,
        batch * scales.linear_flop / scales.peak,
        batch * cached_bytes(scales, context) / scales.bandwidth,
        reduced_time(scales) * batch,
    )  # fmt: skip


def reduced_time(scales):
    """Return the ideal time of the all-reduces of one token: two a layer, each byte there and back.

    Parameters
    ----------
    scales : Scales

    Returns
    -------
    float
        Seconds; 0 on one device.

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("scales", scales, Scales)
    return 8 * scales.layers * scales.hidden * (scales.devices - 1) / scales.devices * scales.byte_time


def prompt_terms(scales, prompt_tokens):
    """Return the arithmetic time of one prompt on an ideal machine: with the weights, and in attention.

    Parameters
    ----------
    scales : Scales
    prompt_tokens : array_like
        At least 1.

    Returns
    -------
    tuple
        Seconds, seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("scales", scales, Scales)
    tokens = arguments.array("prompt_tokens", prompt_tokens, least=1)
    near = np.minimum(tokens, scales.window)
    pairs = scales.full_layers * (tokens * (tokens + 1)) / 2
    pairs = pairs + scales.windowed_layers * (near * (near + 1) / 2 + (tokens - near) * scales.window)
    linear = ((scales.linear_flop - scales.head_flop) * tokens + scales.head_flop) / scales.peak
    return linear, scales.pair_flop * pairs / scales.attention_peak


def decode_time(scales, batch, context, coefficients):
    """Return the time of a decode step without prompts in it.

    Parameters
    ----------
    scales, batch, context
        As `ideal_terms` takes them.
    coefficients : sequence of float
        As in `Law`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    The law of `lib.serving.terms`: weights and their arithmetic meet in a smooth maximum in which
    arithmetic runs at half of its peak.
    """
    layer, doubling, weights, cache, _, _, reduced, sequence = coefficients
    read, computed, caches, links = ideal_terms(scales, batch, context)
    together = (read**4 + (2 * computed) ** 4) ** 0.25
    host = layer * scales.layers + doubling * scales.layers * np.log(scales.devices) / np.log(2.0)
    return host + weights * together + cache * caches + reduced * links + sequence * batch


def prompt_time(scales, prompt_tokens, coefficients):
    """Return the time that one prompt adds to the steps that carry it.

    Parameters
    ----------
    scales : Scales
    prompt_tokens : array_like
        At least 1.
    coefficients : sequence of float
        As in `Law`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    linear, attention = prompt_terms(scales, prompt_tokens)
    *_, of_linear, of_attention, reduced, _ = coefficients
    tokens = arguments.array("prompt_tokens", prompt_tokens, least=1)
    return of_linear * linear + of_attention * attention + reduced * reduced_time(scales) * tokens


def step_time(scales, batch, traffic, coefficients):
    r"""Return the mean time of a step when requests come and go: decoding, and the prompts of newcomers.

    Parameters
    ----------
    scales : Scales
    batch : array_like
        Residents, above 0.
    traffic : sequence of float
        Prompt tokens, output tokens, resident context (`lib.deployment.resident_context`).
    coefficients : sequence of float
        As in `Law`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: t(n) = d(n) + \frac{n}{L} \tau(P)

    In balance n / L requests leave and board in each step, and each brings its prompt.
    """
    prompt, output, context = traffic
    batch = arguments.array("batch", batch, above=0)
    output = arguments.number("output_tokens", output, least=1)
    boarding = batch / output * prompt_time(scales, prompt, coefficients)
    return decode_time(scales, batch, context, coefficients) + boarding


def bound_time(scales, batch, traffic):
    """Return the roofline bound on the same step: peaks, no host, no communication.

    Parameters
    ----------
    scales, batch, traffic
        As `step_time` takes them.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    prompt, output, context = traffic
    batch = arguments.array("batch", batch, above=0)
    read, computed, caches, _ = ideal_terms(scales, batch, context)
    linear, attention = prompt_terms(scales, prompt)
    # One pass reads the weights for decodes and prompts together: their arithmetic adds up.
    boarding = batch / arguments.number("output_tokens", output, least=1)
    return np.maximum(read, computed + boarding * linear) + caches + boarding * attention
