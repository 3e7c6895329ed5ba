"""A model on a group of accelerators, and the requests that it gets."""

import functools
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lib import arguments, footprint, measured, memory
from lib.footprint import Precision
from lib.hardware import Hardware, peak_flop_rate
from lib.model import Model, mlp_params, moe_layers, params

SIXTEEN_BIT = ("bf16", "fp16")
DEPLOYED = ("bf16", "fp8", "fp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One replica: a model split over the devices of one group.

    Attributes
    ----------
    hardware : Hardware
        One device of the group.
    model : Model
        With keys and values cached by head: attention to a latent is not covered by the law of engines.
    dtype : str
        One of `DEPLOYED`: of the weights and of their arithmetic. Below 16 bit the cache is in 8 bit.
    devices : int
        Tensor parallelism, at least 1; divides the query heads. Above 1 the devices need a link.
    """

    hardware: Hardware
    model: Model
    dtype: str = "bf16"
    devices: int = 1

    def __post_init__(self):
        arguments.record("hardware", self.hardware, Hardware)
        arguments.record("model", self.model, Model)
        arguments.choice("dtype", self.dtype, DEPLOYED)
        peak_flop_rate(self.hardware, self.dtype)
        devices = int(arguments.number("devices", self.devices, least=1, whole=True))
        object.__setattr__(self, "devices", devices)
        if not self.model.kv_heads:
            raise ValueError(f"model must cache keys and values by head, got {self.model.name}")
        if self.model.query_heads % devices:
            heads, name = self.model.query_heads, self.model.name
            raise ValueError(f"devices must divide the {heads} query heads of {name}, got {devices}")
        if devices > 1 and not self.hardware.link_bandwidth:
            raise ValueError(f"devices must be 1 without a documented link, got {devices} x {self.hardware.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the requests ask for, whatever their rate.

    Attributes
    ----------
    prompt_tokens, output_tokens : float
        Means, at least 1.
    output_cv2 : float
        Variance over squared mean of the output, at least 0. Long outputs hold their cache for longer.
    """

    prompt_tokens: float
    output_tokens: float
    output_cv2: float = 0.0

    def __post_init__(self):
        arguments.number("prompt_tokens", self.prompt_tokens, least=1)
        arguments.number("output_tokens", self.output_tokens, least=1)
        arguments.number("output_cv2", self.output_cv2, least=0)


def traffic_of(workload):
    """Return the mean traffic of a workload that somebody measured.

    Parameters
    ----------
    workload : str
        One of ``workloads.csv``, such as "azure-conversation".

    Returns
    -------
    Traffic

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    known = measured.table("workloads")
    row = known["workload"] == arguments.choice("workload", workload, known["workload"].tolist())
    return Traffic(
        prompt_tokens=float(known["prompt_mean"][row][0]), output_tokens=float(known["output_mean"][row][0]),
        output_cv2=float(known["output_cv"][row][0]) ** 2,
    )  # fmt: skip


class Scales(NamedTuple):
    """What the law of a step needs to know of a deployment: plain numbers, or symbols for the page.

    Attributes
    ----------
    layers, devices, hidden : float
    bandwidth, peak, attention_peak : float
        Of the whole group: B/s; FLOP/s in `dtype`; FLOP/s in 16 bit.
    byte_time : float
        Seconds that a byte takes over the links of one device; 0 without a link.
    room : float
        Bytes for weights and caches, over the group.
    held_bytes, fixed_bytes, expert_bytes : float
        Weights in memory; those that every step reads; routed experts, all of them.
    picked : float
        Share of the routed experts that a token uses; 0 without experts.
    full_layers, windowed_layers, window : float
    cache_bytes : float
        Of one token in one layer.
    linear_flop, head_flop, pair_flop : float
        Of a token outside attention; of its output head; of a pair of tokens in one layer.
    """

    layers: float
    devices: float
    hidden: float
    bandwidth: float
    peak: float
    attention_peak: float
    byte_time: float
    room: float
    held_bytes: float
    fixed_bytes: float
    expert_bytes: float
    picked: float
    full_layers: float
    windowed_layers: float
    window: float
    cache_bytes: float
    linear_flop: float
    head_flop: float
    pair_flop: float


def precision(deployment):
    """Return the formats of a deployment: the cache in 8 bit unless the weights are in 16.

    Parameters
    ----------
    deployment : Deployment

    Returns
    -------
    Precision

    Raises
    ------
    ValueError
        If it is none.
    """
    dtype = arguments.record("deployment", deployment, Deployment).dtype
    return Precision(weights=dtype, kv="bf16" if dtype in SIXTEEN_BIT else "fp8", arithmetic=dtype)


def name(deployment):
    """Return a deployment in words: "Llama-3-70B in fp8 on 2 x H100 SXM".

    Parameters
    ----------
    deployment : Deployment

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("deployment", deployment, Deployment)
    group = f"{deployment.devices} x " if deployment.devices > 1 else ""
    return f"{deployment.model.name} in {deployment.dtype} on {group}{deployment.hardware.name}"


def scales(deployment):
    """Return the numbers of a deployment that the law of a step needs.

    Parameters
    ----------
    deployment : Deployment

    Returns
    -------
    Scales

    Raises
    ------
    ValueError
        If it is none.
    """
    formats = precision(deployment)
    sizes = tuple(footprint.dtype_bytes(one) for one in (formats.weights, formats.kv))
    machine = machine_numbers(deployment.hardware, deployment.dtype)
    return assembled(machine, model_numbers(deployment.model), float(deployment.devices), sizes)


def machine_numbers(hardware, dtype):
    """Return what the law of a step needs to know of one device.

    Parameters
    ----------
    hardware : Hardware
    dtype : str
        One of `DEPLOYED`. Without a documented peak for it, the arithmetic runs in 16 bit.

    Returns
    -------
    dict of str to float
        ``bandwidth``, ``peak``, ``attention_peak``, ``byte_time`` and ``capacity``.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("hardware", hardware, Hardware)
    arithmetic = arguments.choice("dtype", dtype, DEPLOYED)
    return {
        "bandwidth": hardware.bandwidth,
        "peak": peak_flop_rate(hardware, arithmetic if arithmetic in hardware.flop_rates else "bf16"),
        "attention_peak": peak_flop_rate(hardware, "bf16"),
        "byte_time": 1 / hardware.link_bandwidth if hardware.link_bandwidth else 0.0,
        "capacity": hardware.capacity,
    }


@functools.cache
def _model_numbers(model):
    routed = moe_layers(model) * model.experts * mlp_params(model, model.expert_ffn_size) if model.experts else 0
    return MappingProxyType({
        "layers": float(model.layers), "hidden": float(model.hidden_size), "held": float(params(model)),
        "fixed": float(footprint.streamed_params(model) - routed), "experts": float(routed),
        "picked": model.experts_per_token / model.experts if model.experts else 0.0,
        "full_layers": float(model.layers - model.windowed_layers), "windowed_layers": float(model.windowed_layers),
        "window": float(model.window) if model.windowed_layers else 0.0,
        "cached": float(2 * model.kv_heads * model.head_dim or model.kv_lora_rank + model.rope_head_dim),
        "linear_flop": float(footprint.linear_flop_per_token(model)),
        "head_flop": 2.0 * model.vocab_size * model.hidden_size,
        "pair_flop": 4.0 * model.query_heads * model.head_dim,
    })  # fmt: skip


def model_numbers(model):
    """Return what the law of a step needs to know of a model, in numbers of parameters and not yet in bytes.

    Parameters
    ----------
    model : Model

    Returns
    -------
    mapping of str to float
        As `Scales`, but ``held``, ``fixed`` and ``experts`` are parameters, and ``cached`` numbers of a token
        in one layer.

    Raises
    ------
    ValueError
        If it is none.
    """
    return _model_numbers(arguments.record("model", model, Model))


def assembled(machine, numbers, devices, sizes):
    """Return the scales of a group: numbers, or symbols for the page.

    Parameters
    ----------
    machine : mapping
        From `machine_numbers`.
    numbers : mapping
        From `model_numbers`.
    devices : float
    sizes : tuple of float
        Bytes of a weight and of a cached number.

    Returns
    -------
    Scales
    """
    of_weight, of_cache = sizes
    return Scales(
        layers=numbers["layers"], devices=devices, hidden=numbers["hidden"],
        bandwidth=devices * machine["bandwidth"], peak=devices * machine["peak"],
        attention_peak=devices * machine["attention_peak"], byte_time=machine["byte_time"],
        room=memory.USABLE_SHARE * devices * machine["capacity"],
        held_bytes=numbers["held"] * of_weight, fixed_bytes=numbers["fixed"] * of_weight,
        expert_bytes=numbers["experts"] * of_weight, picked=numbers["picked"],
        full_layers=numbers["full_layers"], windowed_layers=numbers["windowed_layers"], window=numbers["window"],
        cache_bytes=numbers["cached"] * of_cache, linear_flop=numbers["linear_flop"],
        head_flop=numbers["head_flop"], pair_flop=numbers["pair_flop"],
    )  # fmt: skip


def resident_context(traffic):
    r"""Return the tokens that a resident request has in the cache, on average over time.

    Parameters
    ----------
    traffic : Traffic

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If it is none.

    Notes
    -----
    .. math:: \bar S = P + \frac{E[L^2]}{2 E[L]} = P + \frac{L (1 + c^2)}{2}

    As `lib.token_load.mean_resident_context`, without its half token. A mean prompt that does not
    depend on the output is assumed.
    """
    arguments.record("traffic", traffic, Traffic)
    return traffic.prompt_tokens + traffic.output_tokens * (1 + traffic.output_cv2) / 2


def cached_bytes(scales, context):
    """Return the cache of one sequence.

    Parameters
    ----------
    scales : Scales
    context : array_like
        Tokens, at least 0.

    Returns
    -------
    ndarray
        Bytes.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("scales", scales, Scales)
    context = arguments.array("context", context, least=0)
    near = np.minimum(context, scales.window)
    return scales.cache_bytes * (scales.full_layers * context + scales.windowed_layers * near)


def memory_limit(scales, context):
    """Return how many sequences fit beside the weights; below 1 if none does.

    Parameters
    ----------
    scales : Scales
    context : array_like
        Tokens of each, at least 1.

    Returns
    -------
    ndarray
        Whole sequences, as `lib.memory.largest_batch`; negative where the weights alone do not fit.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("scales", scales, Scales)
    context = arguments.array("context", context, least=1)
    return np.floor((scales.room - scales.held_bytes) / cached_bytes(scales, context))


def kv_tokens(deployment):
    """Return how many tokens of context fit beside the weights of a deployment.

    Parameters
    ----------
    deployment : Deployment

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it is none, or its model does not attend to its whole context.
    """
    one = scales(arguments.record("deployment", deployment, Deployment))
    if one.windowed_layers:
        name = deployment.model.name
        raise ValueError(f"deployment must serve a model that attends to its whole context, got {name}")
    return int(max(one.room - one.held_bytes, 0) / (one.cache_bytes * one.full_layers))
