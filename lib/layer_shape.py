"""One layer of a model on one device: its matrices, its cache, its bound, and the load regime it is in."""

import numpy as np

from lib import arguments, footprint, roofline
from lib.hardware import peak_flop_rate, several
from lib.model import Model, mlp_params, moe_layers

KINDS = ("grouped", "one to one")
REGIMES = ("small batch", "knee", "long context")
SIXTEEN_BIT = 2.0


def kind(model):
    """Return which attention kernel a model needs: "grouped", or "one to one" key head per query head.

    Parameters
    ----------
    model : Model

    Returns
    -------
    str

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

    Parameters
    ----------
    model : Model
    tensor_parallel : int
        Devices that share each layer, at least 1.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Names rule and value.
    """
    arguments.record("model", model, Model)
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


def cache_read(model, batch_size, context, tensor_parallel=1):
    """Return the bytes of cache that one device reads in a mean layer.

    Key heads are split over the devices until each has one; more devices then read the same head.
    """
    return batch_size * footprint.kv_bytes(model, context) / model.layers / min(tensor_parallel, model.kv_heads)


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


def regime(step):
    """Return the load regime of each step of `bound`, by which errors are reported.

    Parameters
    ----------
    step : roofline.Step
        From `bound`.

    Returns
    -------
    ndarray of str
        "long context" if the cache takes longer than the weights and their arithmetic; else
        "knee" if that arithmetic is at least a quarter of the weights' transfer; else "small batch".

    Raises
    ------
    ValueError
        If `step` is no `roofline.Step`.
    """
    arguments.record("step", step, roofline.Step)
    linear = np.maximum(step.weight_time, step.linear_time)
    knee = np.where(step.linear_time >= step.weight_time / 4, "knee", "small batch")
    return np.where(step.cache_time > linear, "long context", knee)
