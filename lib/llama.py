"""A Llama-style shape: what the decoder can run, and how any catalogued model is made into one."""

from dataclasses import replace

from lib import arguments
from lib.model import Model

_LLAMA = {
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "rope_head_dim", "nope_head_dim", "value_head_dim"), 0),
    **dict.fromkeys(("experts", "experts_per_token", "expert_ffn_size", "shared_experts", "dense_layers"), 0),
    **dict.fromkeys(("positions", "windowed_layers"), 0),
    **dict(biases=(), norm="rms", norms_per_layer=2, qk_norm=False, ffn_matrices=3, window=float("inf")),
}


def stand_in(model, divisor=1):
    """Return a Llama-style shape in place of a model, made smaller by a stated rule.

    Parameters
    ----------
    model : Model
        Any of the catalogue.
    divisor : int
        At least 1.

    Returns
    -------
    Model
        Hidden size, network width and vocabulary are divided and rounded to a multiple
        of 64, layers and key heads divided and rounded, to 1 at least; a key head
        keeps its size and its query heads. The parameters shrink by about the cube.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    What is not Llama-style is replaced, so that bytes stay: experts by one network as
    wide as those that a token uses, a network of two matrices by a gated one of two
    thirds the width, a cached latent by one key head of half its width. Biases,
    windows, learned positions and norms of heads are left out.
    """
    arguments.record("model", model, Model)
    divisor = int(arguments.number("divisor", divisor, least=1, whole=True))
    width = model.ffn_size
    if model.experts:
        width = (model.experts_per_token + model.shared_experts) * model.expert_ffn_size
    if model.ffn_matrices == 2:
        width = width * 2 / 3
    latent = model.kv_lora_rank + model.rope_head_dim
    heads, head_dim = (1, latent // 2) if latent else (model.kv_heads, model.head_dim)
    kv_heads = _divided(heads, divisor)
    if not (plain := _is_llama(model)) or divisor > 1:
        model = replace(
            model, name=f"{model.name} / {divisor}" if divisor > 1 else f"{model.name}, Llama-style",
            layers=_divided(model.layers, divisor), hidden_size=_divided(model.hidden_size, divisor, 64),
            query_heads=kv_heads * (model.query_heads // heads), kv_heads=kv_heads, head_dim=head_dim + head_dim % 2,
            ffn_size=_divided(width, divisor, 64), vocab_size=_divided(model.vocab_size, divisor, 64),
            published_params=0, published_where="", where=f"{model.where}; divided by {divisor}",
            **({} if plain else _LLAMA),
        )  # fmt: skip
    return model


def _is_llama(model):
    return all(getattr(model, name) == value for name, value in _LLAMA.items())


def _divided(size, divisor, multiple=1):
    return multiple * max(1, round(size / divisor / multiple))


def weight_shapes(model):
    """Return the shape of every tensor of a Llama-style model.

    Parameters
    ----------
    model : Model

    Returns
    -------
    dict of str to tuple of int
        In the order in which a step uses them. Queries, keys and values share one
        matrix, as do gate and up. A tied model has no "head".

    Raises
    ------
    ValueError
        If the model is not Llama-style: `stand_in` makes it so.
    """
    arguments.record("model", model, Model)
    if not _is_llama(model):
        raise ValueError(f"model must be Llama-style, got {model.name}; stand_in replaces what is not")
    width, queries = model.hidden_size, model.query_heads * model.head_dim
    shapes = {"embedding": (model.vocab_size, width)}
    for layer in range(model.layers):
        shapes |= {
            f"{layer}.attention_norm": (width,),
            f"{layer}.qkv": (queries + 2 * model.kv_heads * model.head_dim, width),
            f"{layer}.output": (width, queries),
            f"{layer}.mlp_norm": (width,),
            f"{layer}.gate_up": (2 * model.ffn_size, width),
            f"{layer}.down": (width, model.ffn_size),
        }
    shapes["norm"] = (width,)
    if not model.tied:
        shapes["head"] = (model.vocab_size, width)
    return shapes


def cache_numbers(model, slots, length):
    """Return how many numbers the cache of `slots` sequences of `length` tokens holds.

    Parameters
    ----------
    model : Model
        Llama-style.
    slots, length : int
        At least 1.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("model", model, Model)
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    length = int(arguments.number("length", length, least=1, whole=True))
    return 2 * model.layers * slots * model.kv_heads * length * model.head_dim
