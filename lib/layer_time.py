r"""The calibrated time of one layer: what the roofline leaves out, as a few fitted coefficients.

A layer is a handful of matrix products and one attention kernel. Each costs a fixed time,
streams below the datasheet's bandwidth and computes below its peak. This module holds the
law; `lib.layer_fit` fits its coefficients, `lib.calibration` reads the committed ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from lib import arguments, footprint, roofline
from lib.hardware import Hardware, peak_flop_rate, several
from lib.model import Model, mlp_params, moe_layers

KINDS = ("grouped", "one to one")
CACHE_BYTES = (0.25e6, 4e6, 32e6, 256e6, 2048e6)
CONTEXTS = (128.0, 512.0, 2048.0, 16384.0)
WORKERS = (2, 4, 8)
SIXTEEN_BIT = 2.0
HALF_LOSS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What was fitted for one accelerator.

    Attributes
    ----------
    overhead, overhead_per_width : float
        Fixed seconds of a layer; seconds of a layer for each unit of hidden size.
    weight_efficiency, arithmetic_efficiency, activation_efficiency : float
        Shares of the datasheet's bandwidth and FLOP peak that large matrix products reach;
        share of the bandwidth at which activations move.
    small_matrix_loss : float
        What is added to 1 / `weight_efficiency` for a tiny matrix; half of it at `HALF_LOSS` bytes.
    sharpness : float
        Exponent of the smooth maximum of transfer and arithmetic, at least 1.
    cache_time : mapping of (str, float, float) to float
        Seconds of attention in one layer at each knot: kind of `KINDS`, bytes of cache
        read per layer and device, tokens of context.
    all_reduce_latency : mapping of int to float
        Seconds, by number of devices.
    link_efficiency : float or None
        Share of the one-way link bandwidth that an all-reduce reaches.
    """

    overhead: float
    overhead_per_width: float
    weight_efficiency: float
    arithmetic_efficiency: float
    activation_efficiency: float
    sharpness: float
    small_matrix_loss: float
    cache_time: Mapping[tuple, float] = field(hash=False)
    all_reduce_latency: Mapping[int, float] = field(default_factory=dict, hash=False)
    link_efficiency: float | None = None

    def __post_init__(self):
        for name in ("overhead", "overhead_per_width", "small_matrix_loss"):
            arguments.number(name, getattr(self, name), least=0)
        for name in ("weight_efficiency", "arithmetic_efficiency", "activation_efficiency"):
            arguments.number(name, getattr(self, name), above=0)
        arguments.number("sharpness", self.sharpness, least=1)
        for name in ("cache_time", "all_reduce_latency"):
            given = dict(arguments.record(name, getattr(self, name), Mapping))
            for time in given.values():
                arguments.number(name, time, above=0)
            object.__setattr__(self, name, MappingProxyType(given))


def kind(model):
    """Return which attention kernel a model needs: "grouped", or "one to one" key head per query head.

    Raises
    ------
    ValueError
        If the model caches a latent vector (MLA): no such kernel was measured.
    """
    arguments.record("model", model, Model)
    if not model.kv_heads:
        raise ValueError(f"model must cache keys and values by head, got {model.name}, which caches a latent vector")
    return "one to one" if model.kv_heads == model.query_heads else "grouped"


def share(model, tensor_parallel):
    """Return `tensor_parallel` as an int, or refuse it if the query heads do not split so.

    Raises
    ------
    ValueError
        Names rule and value.
    """
    tensor_parallel = int(arguments.number("tensor_parallel", tensor_parallel, least=1, whole=True))
    if model.query_heads % tensor_parallel:
        heads = model.query_heads
        raise ValueError(f"tensor_parallel must divide the {heads} query heads of {model.name}, got {tensor_parallel}")
    return tensor_parallel


def matrices(model, tensor_parallel, batch_size):
    """Return bytes and FLOP of the four matrix products of a mean layer, per device.

    Parameters
    ----------
    model : Model
    tensor_parallel : int
    batch_size : ndarray, shape (n,)

    Returns
    -------
    tuple of ndarray, each of shape (4, n)
        Bytes in 16 bit, FLOP of the whole batch: queries, keys and values; attention
        output; network in; network out.

    Notes
    -----
    Experts count as one network as wide as the experts in use (`footprint.distinct_experts`)
    that computes for those a token picked. False in detail: they are separate products.
    """
    tokens = np.ones_like(batch_size)
    heads = model.query_heads * model.head_dim
    attention = [model.hidden_size * (heads + 2 * model.kv_heads * model.head_dim), model.hidden_size * heads]
    dense = (model.layers - moe_layers(model)) * mlp_params(model, model.ffn_size)
    experts = moe_layers(model) * mlp_params(model, model.expert_ffn_size)
    read = (dense + experts * (footprint.distinct_experts(model, batch_size) + model.shared_experts)) / model.layers
    used = (dense + experts * (model.experts_per_token + model.shared_experts)) / model.layers
    entering = (model.ffn_matrices - 1) / model.ffn_matrices
    parts = (entering, 1 - entering)
    size = np.array([*(one * tokens for one in attention), *(part * read * tokens for part in parts)])
    work = np.array([*(one * tokens for one in attention), *(part * used * tokens for part in parts)])
    return SIXTEEN_BIT * size / tensor_parallel, 2 * batch_size * work / tensor_parallel


def activation_bytes(model, tensor_parallel):
    """Return the bytes that one token's activations move in a layer, per device: norms, sums, rotation, gate."""
    rotated = (model.query_heads + model.kv_heads) * model.head_dim
    width = model.ffn_size or model.experts_per_token * model.expert_ffn_size
    return SIXTEEN_BIT * (10 * model.hidden_size + (2 * rotated + 3 * width) / tensor_parallel)


def smooth_maximum(one, other, sharpness):
    r"""Return :math:`(a^p + b^p)^{1/p}`: the larger where they differ, up to :math:`2^{1/p}` of it at a tie."""
    return (one**sharpness + other**sharpness) ** (1 / sharpness)


def stream_time(matrix_bytes, bandwidth, efficiency, loss):
    """Return the seconds in which one matrix streams; a small one reaches a smaller share of the bandwidth."""
    return matrix_bytes / bandwidth * (1 / efficiency + loss / (1 + matrix_bytes / HALF_LOSS))


def linear_time(coefficients, hardware, model, batch_size, *, tensor_parallel=1):
    r"""Return the time of a layer outside attention.

    Parameters
    ----------
    coefficients : Coefficients
    hardware : Hardware
        One device.
    model : Model
    batch_size : array_like
    tensor_parallel : int

    Returns
    -------
    ndarray
        Seconds, in the shape of `batch_size`.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: o + o_h h + \sum_{i=1}^{4} \Big[\big(\tfrac{w_i}{e(w_i) \beta}\big)^p
              + \big(\tfrac{2 B n_i}{e_c \pi}\big)^p\Big]^{1/p} + \frac{B a}{e_a \beta}, \quad
              \frac{1}{e(w)} = \frac{1}{e_w} + \frac{\ell}{1 + w / 1\,\mathrm{GB}}

    Why a 7B model and a slice of a large one are the hard case: the fixed part does not
    shrink with the matrices. It is the launch and the ramp of every kernel, and the norms,
    which every device repeats over the full width. False where the library of matrix
    products picks another kernel for another shape: such steps of some per cent remain.
    """
    arguments.record("coefficients", coefficients, Coefficients)
    arguments.record("hardware", hardware, Hardware)
    batch_size = arguments.array("batch_size", batch_size, least=1)
    tensor_parallel = share(model, tensor_parallel)
    moved, work = matrices(model, tensor_parallel, batch_size)
    transfer = stream_time(moved, hardware.bandwidth, coefficients.weight_efficiency, coefficients.small_matrix_loss)
    arithmetic = work / (coefficients.arithmetic_efficiency * peak_flop_rate(hardware, "bf16"))
    activations = batch_size * activation_bytes(model, tensor_parallel)
    return (
        coefficients.overhead + coefficients.overhead_per_width * model.hidden_size
        + smooth_maximum(transfer, arithmetic, coefficients.sharpness).sum(axis=0)
        + activations / (coefficients.activation_efficiency * hardware.bandwidth)
    )  # fmt: skip


def cache_read(model, batch_size, context, tensor_parallel=1):
    """Return the bytes of cache that one device reads in a mean layer.

    Key heads are split over the devices until each has one; more devices then read the same head.
    """
    return batch_size * footprint.kv_bytes(model, context) / model.layers / min(tensor_parallel, model.kv_heads)


def knots(cache_bytes, context):
    """Return how much each knot of the cache table weighs, and the logarithm beyond its last bytes.

    Returns
    -------
    tuple of ndarray
        Weights of shape (n, len(CACHE_BYTES) * len(CONTEXTS)); n logarithms, 0 inside the table.

    Notes
    -----
    Linear in the logarithms of bytes and context. Below the table the time is that of its
    first bytes; above, it grows with the bytes. Contexts beyond the ends count as the ends.
    """
    cache_bytes = np.maximum(cache_bytes, 1.0)
    along_bytes = _hats(np.log(cache_bytes), np.log(CACHE_BYTES))
    along_context = _hats(np.log(np.maximum(context, 1.0)), np.log(CONTEXTS))
    weights = along_bytes[..., :, None] * along_context[..., None, :]
    beyond = np.maximum(0.0, np.log(cache_bytes) - np.log(CACHE_BYTES[-1]))
    return weights.reshape(*weights.shape[:-2], -1), beyond


def _hats(values, at):
    low = np.clip(np.searchsorted(at, values, side="right") - 1, 0, len(at) - 2)
    part = np.clip((values - at[low]) / (at[low + 1] - at[low]), 0, 1)[..., None]
    column = np.arange(len(at))
    return (column == low[..., None]) * (1 - part) + (column == low[..., None] + 1) * part


def attention_time(coefficients, model, batch_size, context, *, tensor_parallel=1):
    """Return the time of decode attention in a mean layer.

    Parameters
    ----------
    coefficients : Coefficients
    model : Model
    batch_size, context : array_like
        They broadcast together.
    tensor_parallel : int

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
    A table over bytes read and context, interpolated in logarithms. So the efficiency is a
    function of the bytes: a small cache waits for latency, a large one for bandwidth.
    """
    arguments.record("coefficients", coefficients, Coefficients)
    batch_size, context = arguments.together(
        batch_size=arguments.array("batch_size", batch_size, least=1),
        context=arguments.array("context", context, least=0),
    )
    weights, beyond = knots(cache_read(model, batch_size, context, share(model, tensor_parallel)), context)
    table = [coefficients.cache_time[kind(model), at, tokens] for at in CACHE_BYTES for tokens in CONTEXTS]
    return np.exp(weights @ np.log(table) + beyond)


def head_time(coefficients, hardware, model, batch_size, *, tensor_parallel=1):
    """Return the time of the output head: one more matrix product, a step, at the same efficiencies."""
    batch_size = arguments.array("batch_size", batch_size, least=1)
    size = model.vocab_size * model.hidden_size / share(model, tensor_parallel)
    transfer = stream_time(
        SIXTEEN_BIT * size, hardware.bandwidth, coefficients.weight_efficiency, coefficients.small_matrix_loss
    )
    peak = coefficients.arithmetic_efficiency * peak_flop_rate(hardware, "bf16")
    return smooth_maximum(transfer, 2 * batch_size * size / peak, coefficients.sharpness)


def all_reduce_time(coefficients, hardware, message_bytes, workers):
    r"""Return the time of one all-reduce among the devices of a node.

    Parameters
    ----------
    coefficients : Coefficients
    hardware : Hardware
        One device, with a link bandwidth.
    message_bytes : array_like
        Above 0.
    workers : int
        1, or one of `WORKERS`.

    Returns
    -------
    ndarray
        Seconds; 0 for one device; NaN if nothing was fitted for this accelerator's links.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: \lambda_n + \frac{2 (n - 1)}{n} \frac{m}{e_l \, \beta_l / 2}

    A ring: each device sends its share 2(n-1) times. NCCL, timed alone; engines have faster
    ways for small messages, so below 1 MB this is an upper bound.
    """
    message_bytes = arguments.array("message_bytes", message_bytes, above=0)
    if workers == 1:
        return np.zeros_like(message_bytes)
    if int(workers) not in WORKERS:
        raise ValueError(f"workers must be one of 1, {', '.join(map(str, WORKERS))}, got {workers}")
    if coefficients.link_efficiency is None or hardware.link_bandwidth is None:
        return np.full_like(message_bytes, np.nan)
    sent = 2 * (workers - 1) / workers * message_bytes
    return coefficients.all_reduce_latency[int(workers)] + sent / (
        coefficients.link_efficiency * hardware.link_bandwidth / 2
    )


def bound(hardware, model, batch_size, context, *, tensor_parallel=1):
    """Return the roofline of the layers alone: `roofline.decode_step` of the group, without the output head.

    Parameters
    ----------
    hardware : Hardware
        One device.
    model, batch_size, context, tensor_parallel
        As in `attention_time`.

    Returns
    -------
    roofline.Step
        Measured sums of layer kernels are held against its `time`.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    group = several(hardware, share(model, tensor_parallel))
    step = roofline.decode_step(group, model, batch_size, context)
    head = model.vocab_size * model.hidden_size
    batch_size = np.asarray(batch_size, float)
    weight_bytes = step.weight_bytes - SIXTEEN_BIT * head
    linear_flop = step.linear_flop - 2 * batch_size * head
    weight_time, linear_time_ = weight_bytes / group.bandwidth, linear_flop / peak_flop_rate(group, "bf16")
    time = roofline.overlapped_time(weight_time, step.cache_time, linear_time_, step.attention_time)
    return roofline.Step(
        weight_bytes=weight_bytes, cache_bytes=step.cache_bytes, linear_flop=linear_flop,
        attention_flop=step.attention_flop, weight_time=weight_time, cache_time=step.cache_time,
        linear_time=linear_time_, attention_time=step.attention_time, time=time,
    )  # fmt: skip


REGIMES = ("small batch", "knee", "long context")


def regime(step):
    """Return the load regime of each step of `bound`, by which errors are reported.

    Returns
    -------
    ndarray of str
        "long context" if the cache takes longer than the weights and their arithmetic; else
        "knee" if that arithmetic is at least a quarter of the weights' transfer; else "small batch".
    """
    linear = np.maximum(step.weight_time, step.linear_time)
    knee = np.where(step.linear_time >= step.weight_time / 4, "knee", "small batch")
    return np.where(step.cache_time > linear, "long context", knee)
