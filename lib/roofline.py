r"""The roofline of one step: how fast a machine could run it if nothing but bytes and FLOP took time.

A roofline is a bound, not a prediction: launch times, host work, communication and
kernels below their peak are left out, and they only add time.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from lib import arguments, footprint
from lib.footprint import BF16, Precision
from lib.hardware import Hardware, peak_flop_rate
from lib.model import Model

OVERLAPS = ("kernels", "full", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one pass over the model moves and computes, and the bound on its time.

    Attributes
    ----------
    weight_bytes, cache_bytes : ndarray
        Weights read; keys and values read (decode) or written (prefill). Bytes.
    linear_flop, attention_flop : ndarray
        Arithmetic with the weights; arithmetic with the cache. FLOP.
    weight_time, cache_time, linear_time, attention_time : ndarray
        Each of the four alone at the machine's peak. Seconds.
    time : ndarray
        The bound. Seconds.
    """

    weight_bytes: np.ndarray
    cache_bytes: np.ndarray
    linear_flop: np.ndarray
    attention_flop: np.ndarray
    weight_time: np.ndarray
    cache_time: np.ndarray
    linear_time: np.ndarray
    attention_time: np.ndarray
    time: np.ndarray


def decode_step(hardware, model, batch_size, context, *, precision=BF16, overlap="kernels"):
    r"""Return the roofline bound on one decode step: every sequence of the batch gains a token.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    batch_size : array_like
        Sequences decoded together, at least 1. Broadcasts with `context`.
    context : array_like
        Tokens that each sequence attends to, at least 0.
    precision : Precision
    overlap : {"kernels", "full", "none"}
        What may run at the same time: see Notes.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        If an argument breaks its rule, or the accelerator has no documented peak for
        the precision's arithmetic.

    Notes
    -----
    With W the weight bytes, K the cache bytes, F and A the linear and attention FLOP:

    .. math:: t_{kernels} = \max(W/\beta, F/\pi) + \max(K/\beta, A/\pi), \quad
              t_{full} = \max((W + K)/\beta, (F + A)/\pi), \quad
              t_{none} = (W + K)/\beta + (F + A)/\pi

    "kernels" holds for engines that run one kernel after another, each hiding its
    arithmetic behind its own transfers; an engine that overlaps attention with matrix
    products can beat it, but not "full". Activations are left out: below 1 % of the
    bytes at batch 1. Source: williams2009roofline; austin2025scaling, part 7.
    """
    batch_size, context = arguments.together(
        batch_size=arguments.array("batch_size", batch_size, least=1),
        context=arguments.array("context", context, least=0),
    )
    return _step(
        hardware, precision, overlap,
        footprint.streamed_weight_bytes(model, batch_size, precision),
        batch_size * footprint.kv_bytes(model, context, precision),
        batch_size * footprint.linear_flop_per_token(model),
        batch_size * footprint.attention_flop_per_token(model, context),
    )  # fmt: skip


def prefill_step(hardware, model, prompt_tokens, batch_size=1, *, precision=BF16, overlap="kernels"):
    """Return the roofline bound on reading prompts: `batch_size` of them in one pass.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    prompt_tokens : array_like
        Tokens of each prompt, at least 1. Broadcasts with `batch_size`.
    batch_size : array_like
        Prompts read together, at least 1.
    precision : Precision
    overlap : {"kernels", "full", "none"}
        As in `decode_step`.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    The cache is written once. Reading it back inside attention is left out, because
    fused kernels keep it on chip; chunked prefill reads it again and needs more.
    """
    prompt_tokens, batch_size = arguments.together(
        prompt_tokens=arguments.array("prompt_tokens", prompt_tokens, least=1),
        batch_size=arguments.array("batch_size", batch_size, least=1),
    )
    return _step(
        hardware, precision, overlap,
        footprint.streamed_weight_bytes(model, batch_size * prompt_tokens, precision),
        batch_size * footprint.kv_bytes(model, prompt_tokens, precision),
        batch_size * footprint.prompt_linear_flop(model, prompt_tokens),
        batch_size * footprint.prompt_attention_flop(model, prompt_tokens),
    )  # fmt: skip


def _step(hardware, precision, overlap, weight_bytes, cache_bytes, linear_flop, attention_flop):
    arguments.record("hardware", hardware, Hardware)
    arguments.record("precision", precision, Precision)
    flop_rate = peak_flop_rate(hardware, precision.arithmetic)
    times = (
        weight_bytes / hardware.bandwidth, cache_bytes / hardware.bandwidth,
        linear_flop / flop_rate, attention_flop / flop_rate,
    )  # fmt: skip
    return Step(
        weight_bytes=weight_bytes, cache_bytes=cache_bytes, linear_flop=linear_flop, attention_flop=attention_flop,
        weight_time=times[0], cache_time=times[1], linear_time=times[2], attention_time=times[3],
        time=overlapped_time(*times, overlap=overlap),
    )  # fmt: skip


def overlapped_time(weight_time, cache_time, linear_time, attention_time, *, overlap="kernels"):
    """Return the time of a step from the times of its four parts.

    Parameters
    ----------
    weight_time, cache_time, linear_time, attention_time : array_like
        Seconds, at least 0. They broadcast together.
    overlap : {"kernels", "full", "none"}
        As in `decode_step`.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If a time is negative or `overlap` unknown.
    """
    arguments.choice("overlap", overlap, OVERLAPS)
    weight_time, cache_time, linear_time, attention_time = arguments.together(
        weight_time=arguments.array("weight_time", weight_time, least=0),
        cache_time=arguments.array("cache_time", cache_time, least=0),
        linear_time=arguments.array("linear_time", linear_time, least=0),
        attention_time=arguments.array("attention_time", attention_time, least=0),
    )
    if overlap == "full":
        return np.maximum(weight_time + cache_time, linear_time + attention_time)
    if overlap == "none":
        return weight_time + cache_time + linear_time + attention_time
    return np.maximum(weight_time, linear_time) + np.maximum(cache_time, attention_time)


def intensity(step):
    """Return the arithmetic intensity of a step.

    Parameters
    ----------
    step : Step

    Returns
    -------
    ndarray
        FLOP per byte.

    Raises
    ------
    ValueError
        If `step` is no `Step`.
    """
    arguments.record("step", step, Step)
    return (step.linear_flop + step.attention_flop) / (step.weight_bytes + step.cache_bytes)


def flop_rate(step):
    """Return the arithmetic that a step does per second of its bound.

    Parameters
    ----------
    step : Step

    Returns
    -------
    ndarray
        FLOP/s, at most the machine's peak.

    Raises
    ------
    ValueError
        If `step` is no `Step`.
    """
    arguments.record("step", step, Step)
    return (step.linear_flop + step.attention_flop) / step.time


def idle_share(step):
    """Return the share of the bound in which the arithmetic units have nothing to do.

    Parameters
    ----------
    step : Step

    Returns
    -------
    ndarray
        From 0 to 1. On a real machine steps last longer, so more is idle.

    Raises
    ------
    ValueError
        If `step` is no `Step`.
    """
    arguments.record("step", step, Step)
    return 1 - (step.linear_time + step.attention_time) / step.time


def regime(step):
    """Return what a step mostly waits for.

    Parameters
    ----------
    step : Step

    Returns
    -------
    ndarray of str
        "weights", "cache" or "arithmetic", in the step's shape. At a tie, the first.

    Raises
    ------
    ValueError
        If `step` is no `Step`.
    """
    arguments.record("step", step, Step)
    arithmetic = step.linear_time + step.attention_time
    heavier = np.where(step.weight_time >= step.cache_time, "weights", "cache")
    return np.where(np.maximum(step.weight_time, step.cache_time) >= arithmetic, heavier, "arithmetic")


def ridge_batch(hardware, model, *, precision=BF16):
    r"""Return the batch at which arithmetic with the weights takes as long as reading them.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    precision : Precision

    Returns
    -------
    float
        Sequences, at least 1, not rounded. The knee of the step time at context 0.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: B^* = \frac{W \pi}{2 N \beta}

    For a mixture of experts W grows with B, so B* is the root of W(B) / beta = 2 N B / pi.
    """
    arguments.record("hardware", hardware, Hardware)
    arguments.record("model", model, Model)
    arguments.record("precision", precision, Precision)
    ridge = peak_flop_rate(hardware, precision.arithmetic) / hardware.bandwidth

    def arithmetic_less_transfer(batch_size):
        read = footprint.streamed_weight_bytes(model, batch_size, precision)
        return batch_size * footprint.linear_flop_per_token(model) / ridge - read

    if arithmetic_less_transfer(1.0) >= 0:
        return 1.0
    most = ridge * footprint.weight_bytes(model, precision) / footprint.linear_flop_per_token(model)
    return float(optimize.brentq(arithmetic_less_transfer, 1.0, most + 1.0, xtol=1e-9, rtol=1e-12))
