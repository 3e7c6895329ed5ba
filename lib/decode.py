"""The smallest honest decoder: a Llama in torch, with a cache that holds sequences of different age.

RMS norms, rotary positions, grouped queries, a gated network, and nothing else. Weights are
random, because the time of a step does not depend on their values.

Weights in the plain layout are dirty physics on a CPU: the product of one row streams at
half the bandwidth or less, and that of two rows can take twice as long. So oneDNN packs
each matrix once, where it can. Its two functions are not public. The public switches do
not serve here: ``torch.compile`` with freezing compiles every shape anew and packs for
another library in fp32; ``torch.utils.mkldnn`` converts each input and output. So packing
is tried and checked on this machine first, and `Decoder.linear` says what runs.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from lib import arguments
from lib.llama import cache_numbers, weight_shapes
from lib.model import Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}
DEVICES = ("cpu", "cuda")
LINEAR = ("auto", "packed", "plain")
NORM_EPSILON = 1e-5
ROPE_BASE = 500_000.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoder:
    """A model with its weights in place.

    Attributes
    ----------
    model : Model
    dtype, device : str
    linear : {"packed", "plain"}
        What multiplies with weights: oneDNN with packed matrices, or ``torch.nn.functional.linear``.
    weights : dict of str to Tensor or callable
        Tables and norms as tensors; matrices as functions that multiply with them.
    rope_base : float
    """

    model: Model
    dtype: str
    device: str
    linear: str
    weights: dict
    rope_base: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cache:
    """Keys and values of every slot, and how far each slot is filled.

    Attributes
    ----------
    keys, values : tuple of Tensor, each (slots, kv_heads, length, head_dim)
        One a layer.
    rotation : tuple of Tensor, each (length, head_dim)
        Cosine and sine of each position.
    filled : list of int
        Tokens held in each slot. `forward` advances them; anyone may set them back.
    """

    keys: tuple
    values: tuple
    rotation: tuple
    filled: list


def random_weights(model, *, dtype="fp32", device="cpu", seed=0):
    """Return random values for every tensor of a Llama-style model.

    Parameters
    ----------
    model : Model
        Llama-style.
    dtype : {"fp32", "bf16", "fp64"}
    device : {"cpu", "cuda"}
    seed : int

    Returns
    -------
    dict of str to Tensor
        Matrices normal with a variance of one over their columns, norms near 1.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    return dict(_random(model, dtype, device, seed))


def _random(model, dtype, device, seed):
    """Yield tensors one after another, so that they need not all be in memory."""
    kind, device = _kind(dtype), _device(device)
    seed = int(arguments.number("seed", seed, least=0, whole=True))
    generator = torch.Generator(device).manual_seed(seed)
    for name, shape in weight_shapes(model).items():
        values = torch.randn(shape, generator=generator, dtype=kind, device=device)
        yield name, (1 + 0.1 * values) if len(shape) == 1 else values.mul_(shape[1] ** -0.5)


def _kind(dtype):
    return DTYPES[arguments.choice("dtype", dtype, DTYPES)]


def _device(device):
    if arguments.choice("device", device, DEVICES) == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu where torch finds no CUDA, got 'cuda'")
    return device


def decoder(model, weights=None, *, dtype="fp32", device="cpu", linear="auto", rope_base=ROPE_BASE):
    """Return a model ready to run.

    Parameters
    ----------
    model : Model
        Llama-style.
    weights : mapping of str to Tensor, optional
        Each of `weight_shapes`. Default: as `random_weights`, made and packed one by one,
        so that the packed weights and the plain ones are never all in memory.
    dtype : {"fp32", "bf16", "fp64"}
    device : {"cpu", "cuda"}
    linear : {"auto", "packed", "plain"}
        "auto" packs where `packs` says that it works.
    rope_base : float
        Base of the rotary frequencies.

    Returns
    -------
    Decoder

    Raises
    ------
    ValueError
        If an argument breaks its rule, packing is asked for and does not work here, or
        a tensor is missing or of another shape.
    """
    arguments.choice("linear", linear, LINEAR)
    shapes, kind, device = weight_shapes(model), _kind(dtype), _device(device)
    rope_base = arguments.number("rope_base", rope_base, above=0)
    if weights is not None:
        arguments.record("weights", weights, Mapping)
    if linear == "packed" and not packs(dtype, device):
        raise ValueError(f"linear must be plain for {dtype} on this {device}, got 'packed'")
    packed = linear != "plain" and packs(dtype, device)
    held = {}
    for name, values in _random(model, dtype, device, 0) if weights is None else weights.items():
        if shapes.get(name) != tuple(values.shape):
            raise ValueError(f"weights {name} must be of shape {shapes.get(name)}, got {tuple(values.shape)}")
        values = values.to(device, kind)
        table = name == "embedding" or values.dim() == 1
        held[name] = values if table else multiplier(values, packed)
    if model.tied and "embedding" in held:
        held["head"] = multiplier(held["embedding"], packed)
    if missing := [*({*shapes} - {*held})]:
        raise ValueError(f"weights must hold {len(shapes)} tensors, got none for {missing[0]}")
    return Decoder(
        model=model, dtype=dtype, device=device, linear="packed" if packed else "plain", weights=held,
        rope_base=rope_base,
    )  # fmt: skip


@functools.cache
def packs(dtype, device="cpu"):
    """Return whether oneDNN can pack weights here, and multiply with them correctly.

    Parameters
    ----------
    dtype : {"fp32", "bf16", "fp64"}
    device : {"cpu", "cuda"}

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If an argument is not one of these.
    """
    kind = _kind(dtype)
    if arguments.choice("device", device, DEVICES) != "cpu" or dtype == "fp64":
        return False
    weight = torch.linspace(-1, 1, 96 * 64).reshape(96, 64).to(kind)
    rows = torch.linspace(1, 2, 3 * 64).reshape(3, 64).to(kind)
    try:
        computed = multiplier(weight, True)(rows)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.allclose(computed.float(), functional.linear(rows, weight).float(), rtol=0.02, atol=0.02)


def multiplier(weight, packed):
    """Return what multiplies rows with a transposed matrix.

    Parameters
    ----------
    weight : Tensor, shape (out, in)
    packed : bool
        Let oneDNN lay it out first: see `packs`.

    Returns
    -------
    callable
        From (..., in) to (..., out).

    Raises
    ------
    ValueError
        If an argument is of the wrong kind.
    """
    arguments.record("weight", weight, torch.Tensor)
    if not arguments.record("packed", packed, bool):
        return lambda rows: functional.linear(rows, weight)
    with torch.inference_mode():
        blocked = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    product = torch.ops.mkldnn._linear_pointwise
    return lambda rows: product(rows, blocked, None, "none", [], "")


def cache(decoder, slots, length, *, storage=None):
    """Return an empty cache.

    Parameters
    ----------
    decoder : Decoder
    slots : int
        Sequences that it has room for.
    length : int
        Tokens that each slot has room for.
    storage : Tensor, optional
        A flat tensor of `cache_numbers` or more in which to lay it out. It keeps what it
        holds: time does not depend on it, if it is finite.

    Returns
    -------
    Cache

    Raises
    ------
    ValueError
        If a size is below 1 or the storage too small.
    """
    shape = arguments.record("decoder", decoder, Decoder).model
    numbers, kind = cache_numbers(shape, slots, length), DTYPES[decoder.dtype]
    slots, length = int(slots), int(length)
    if storage is None:
        storage = torch.zeros(numbers, dtype=kind, device=decoder.device)
    if arguments.record("storage", storage, torch.Tensor).numel() < numbers or storage.dtype != kind:
        raise ValueError(f"storage must hold {numbers} numbers in {decoder.dtype}, got {storage.numel()}")
    parts = storage[:numbers].view(2, shape.layers, slots, shape.kv_heads, length, shape.head_dim)
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float64), decoder.rope_base**-exponents).repeat(1, 2)
    return Cache(
        keys=tuple(parts[0]), values=tuple(parts[1]), filled=[0] * slots,
        rotation=tuple(table.to(decoder.device, kind) for table in (angles.cos(), angles.sin())),
    )  # fmt: skip


def move(cache, source, target):
    """Copy one slot over another, so that a slot in use can fill a gap.

    Parameters
    ----------
    cache : Cache
    source, target : int
        Slots, counted from 0.

    Raises
    ------
    ValueError
        If there is no such slot.
    """
    slots = len(arguments.record("cache", cache, Cache).filled) - 1
    source = int(arguments.number("source", source, least=0, most=slots, whole=True))
    target = int(arguments.number("target", target, least=0, most=slots, whole=True))
    filled = cache.filled[source]
    for part in (*cache.keys, *cache.values):
        part[target, :, :filled] = part[source, :, :filled]
    cache.filled[target] = filled


@torch.inference_mode()
def forward(decoder, cache, tokens, first_slot=0, *, every=False):
    """Read tokens into the cache and return what should follow.

    Parameters
    ----------
    decoder : Decoder
    cache : Cache
        Advanced in place.
    tokens : Tensor of int, shape (n, t)
        The next t tokens of the n slots from `first_slot` on. A decode step has t = 1;
        the slots may be filled to different lengths.
    first_slot : int
    every : bool
        Score every token, not only the last.

    Returns
    -------
    Tensor, shape (n, vocab_size), or (n, t, vocab_size) if `every`
        Logits.

    Raises
    ------
    ValueError
        If the slots do not exist or have no room.
    """
    arguments.record("decoder", decoder, Decoder)
    arguments.record("cache", cache, Cache)
    if arguments.record("tokens", tokens, torch.Tensor).dim() != 2 or not tokens.numel():
        raise ValueError(f"tokens must be of shape (n, t), got {tuple(tokens.shape)}")
    first_slot = int(arguments.number("first_slot", first_slot, least=0, whole=True))
    arguments.record("every", every, bool)
    count, new = tokens.shape
    slots = slice(first_slot, first_slot + count)
    held = cache.filled[slots]
    room = cache.keys[0].shape[2]
    if len(held) != count:
        raise ValueError(f"first_slot must leave {count} slots of {len(cache.filled)}, got {first_slot}")
    if max(held) + new > room:
        raise ValueError(f"tokens must be at most {room - max(held)} for the room left, got {new}")
    at = _places(cache, slots, held, new)
    weights, shape = decoder.weights, decoder.model
    state = functional.embedding(tokens, weights["embedding"])
    for layer in range(shape.layers):
        normed = _norm(state, weights[f"{layer}.attention_norm"])
        mixed = _attention(weights[f"{layer}.qkv"](normed), cache.keys[layer], cache.values[layer], shape, at)
        state = state + weights[f"{layer}.output"](mixed)
        normed = _norm(state, weights[f"{layer}.mlp_norm"])
        gate, up = weights[f"{layer}.gate_up"](normed).chunk(2, dim=-1)
        state = state + weights[f"{layer}.down"](functional.silu(gate) * up)
    cache.filled[slots] = [have + new for have in held]
    return weights["head"](_norm(state if every else state[:, -1], weights["norm"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the new tokens go, and what each may see."""

    slots: slice
    index: tuple
    longest: int
    rotation: tuple
    seen: torch.Tensor | None


def _places(cache, slots, held, new):
    longest = max(held) + new
    if min(held) == max(held):  # no index tensors: a view is faster, and a CUDA graph can hold it
        here = slice(held[0], longest)
        rotation = tuple(table[here].unsqueeze(1) for table in cache.rotation)
        index, seen = (slots, slice(None), here), None
        if new > 1:
            seen = torch.ones(1, 1, new, longest, dtype=torch.bool, device=rotation[0].device).tril(held[0])
    else:
        device = cache.rotation[0].device
        positions = torch.tensor(held, device=device).unsqueeze(1) + torch.arange(new, device=device)
        rotation = tuple(table[positions].unsqueeze(2) for table in cache.rotation)
        rows = torch.arange(slots.start, slots.stop, device=device).unsqueeze(1)
        index = (rows, slice(None), positions)
        seen = (torch.arange(longest, device=device) <= positions.unsqueeze(2)).unsqueeze(1)
    return _Places(slots=slots, index=index, longest=longest, rotation=rotation, seen=seen)


def _norm(state, scale):
    return functional.rms_norm(state, scale.shape, scale, NORM_EPSILON)


def _rotated(heads, rotation):
    cosine, sine = rotation
    one, other = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-other, one), dim=-1) * sine


def _attention(qkv, keys, values, shape, at):
    """Return what each token gathers from its slot, after putting its own key and value there."""
    count, new, _ = qkv.shape
    groups, grouped = shape.kv_heads, shape.query_heads // shape.kv_heads
    heads = qkv.view(count, new, shape.query_heads + 2 * groups, shape.head_dim)
    turned = _rotated(heads[:, :, : shape.query_heads + groups], at.rotation)
    queries, key = turned.split([shape.query_heads, groups], dim=2)
    value = heads[:, :, shape.query_heads + groups :]
    one_place = isinstance(at.index[2], slice)
    keys[at.index] = key.transpose(1, 2) if one_place else key
    values[at.index] = value.transpose(1, 2) if one_place else value
    # The queries of a key head go in as rows of one head: so its keys are read once for all of them.
    rows = queries.view(count, new, groups, grouped, shape.head_dim).permute(0, 2, 3, 1, 4)
    past = [part[at.slots, :, : at.longest] for part in (keys, values)]
    mixed = functional.scaled_dot_product_attention(
        rows.reshape(count, groups, grouped * new, shape.head_dim), *past,
        attn_mask=None if at.seen is None else at.seen.repeat(1, 1, grouped, 1),
    )  # fmt: skip
    mixed = mixed.view(count, groups, grouped, new, shape.head_dim)
    return mixed.permute(0, 3, 1, 2, 4).reshape(count, new, -1)
