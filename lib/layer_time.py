r"""The calibrated time of one layer: what the roofline leaves out, as a few fitted coefficients.

A layer is a handful of matrix products and one attention kernel. Each costs a fixed time,
streams below the datasheet's bandwidth and computes below its peak. This module holds the
law; `lib.layer_fit` fits its coefficients, `lib.calibration` reads the committed ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from lib import arguments, layer_shape
from lib.hardware import Hardware, peak_flop_rate
from lib.layer_shape import SIXTEEN_BIT, kind, share

CACHE_BYTES = (0.25e6, 4e6, 32e6, 256e6, 2048e6)
CONTEXTS = (128.0, 512.0, 2048.0, 16384.0)
WORKERS = (2, 4, 8)
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
        Seconds of attention in one layer at each knot: kind of `layer_shape.KINDS`, bytes of cache
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
        if self.link_efficiency is not None:
            arguments.number("link_efficiency", self.link_efficiency, above=0)
        if not arguments.record("cache_time", self.cache_time, Mapping):
            raise ValueError("cache_time must hold every knot, got none")
        for name in ("cache_time", "all_reduce_latency"):
            given = dict(arguments.record(name, getattr(self, name), Mapping))
            for time in given.values():
                arguments.number(name, time, above=0)
            object.__setattr__(self, name, MappingProxyType(given))


def smooth_maximum(one, other, sharpness):
    r"""Return :math:`(a^p + b^p)^{1/p}`: the larger where they differ, up to :math:`2^{1/p}` of it at a tie."""
    larger = np.maximum(one, other)
    return larger * (1 + (np.minimum(one, other) / larger) ** sharpness) ** (1 / sharpness)


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
    kind(model)
    tensor_parallel = share(model, tensor_parallel)
    moved, work = layer_shape.matrices(model, tensor_parallel, batch_size)
    transfer = stream_time(moved, hardware.bandwidth, coefficients.weight_efficiency, coefficients.small_matrix_loss)
    arithmetic = work / (coefficients.arithmetic_efficiency * peak_flop_rate(hardware, "bf16"))
    activations = batch_size * layer_shape.activation_bytes(model, tensor_parallel)
    return (
        coefficients.overhead + coefficients.overhead_per_width * model.hidden_size
        + smooth_maximum(transfer, arithmetic, coefficients.sharpness).sum(axis=0)
        + activations / (coefficients.activation_efficiency * hardware.bandwidth)
    )  # fmt: skip


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
    kernel = kind(model)
    weights, beyond = knots(layer_shape.cache_read(model, batch_size, context, share(model, tensor_parallel)), context)
    table = [coefficients.cache_time[kernel, at, tokens] for at in CACHE_BYTES for tokens in CONTEXTS]
    return np.exp(weights @ np.log(table) + beyond)


def head_time(coefficients, hardware, model, batch_size, *, tensor_parallel=1):
    """Return the time of the output head: one more matrix product, a step, at the same efficiencies.

    Parameters
    ----------
    coefficients : Coefficients
    hardware : Hardware
    model : Model
    batch_size : array_like
        Sequences decoded together, at least 1.
    tensor_parallel : int

    Returns
    -------
    ndarray
        Seconds, in the shape of `batch_size`.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("coefficients", coefficients, Coefficients)
    arguments.record("hardware", hardware, Hardware)
    batch_size = arguments.array("batch_size", batch_size, least=1)
    tensor_parallel = share(model, tensor_parallel)
    size = model.vocab_size * model.hidden_size / tensor_parallel
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
    arguments.record("coefficients", coefficients, Coefficients)
    arguments.record("hardware", hardware, Hardware)
    workers = int(arguments.number("workers", workers, least=1, whole=True))
    if workers == 1:
        return np.zeros_like(message_bytes)
    if workers not in WORKERS:
        raise ValueError(f"workers must be one of 1, {', '.join(map(str, WORKERS))}, got {workers}")
    if coefficients.link_efficiency is None or hardware.link_bandwidth is None:
        return np.full_like(message_bytes, np.nan)
    sent = 2 * (workers - 1) / workers * message_bytes
    return coefficients.all_reduce_latency[workers] + sent / (
        coefficients.link_efficiency * hardware.link_bandwidth / 2
    )
