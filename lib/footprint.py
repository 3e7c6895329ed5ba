"""What a model asks of the machine: weight bytes, cache bytes, arithmetic, per token and per step.

Every count follows from the shapes in `lib.model`; what a formula assumes stands in its Notes.
"""

from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from lib import arguments
from lib.model import Model, active_params, mlp_params, moe_layers, params

DTYPES = MappingProxyType(
    {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Number formats of one deployment; each a key of `dtype_bytes`.

    Attributes
    ----------
    weights, kv, arithmetic : str
        Format of the stored weights, of the cached keys and values, and of the
        matrix products. They are set apart: 4-bit weights can meet a 16-bit cache.
    """

    weights: str = "bf16"
    kv: str = "bf16"
    arithmetic: str = "bf16"

    def __post_init__(self):
        for field in fields(self):
            arguments.choice(field.name, getattr(self, field.name), DTYPES)


BF16 = Precision()


def dtype_bytes(dtype):
    """Return the bytes of one number stored as `dtype`.

    Parameters
    ----------
    dtype : str
        One of fp32, bf16, fp16, fp8, int8, fp4, int4.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    ValueError
        If the format is not one of these.

    Notes
    -----
    The scales that 8-bit and 4-bit formats store beside the numbers are left out;
    in MXFP4 they add 0.25 bit to each number (openai2025gptoss, section 2.1).
    """
    return DTYPES[arguments.choice("dtype", dtype, DTYPES)]


def streamed_params(model):
    """Return the parameters that one decode step of a huge batch reads.

    Parameters
    ----------
    model : Model

    Returns
    -------
    int
        Exact; `params` less an untied input table and the learned positions.

    Raises
    ------
    ValueError
        If `model` is no `Model`.

    Notes
    -----
    A step looks up one row of the input table per sequence and does not stream it.
    A tied table is read in full, once, as the output head. False if the batch is so
    small that some experts stay idle: see `streamed_weight_bytes`.
    """
    arguments.record("model", model, Model)
    looked_up = model.positions + (0 if model.tied else model.vocab_size)
    return params(model) - looked_up * model.hidden_size


def weight_bytes(model, precision=BF16):
    """Return the memory that the weights need.

    Parameters
    ----------
    model : Model
    precision : Precision

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind.

    Notes
    -----
    `params` times the bytes of one. False if parts keep another format: gpt-oss
    ships its experts in MXFP4 and the rest in bf16.
    """
    arguments.record("precision", precision, Precision)
    return params(model) * dtype_bytes(precision.weights)


def distinct_experts(model, batch_size):
    r"""Return how many routed experts of a layer a batch is expected to use.

    Parameters
    ----------
    model : Model
    batch_size : array_like
        Sequences decoded together, at least 1; a mean need not be whole.

    Returns
    -------
    ndarray
        Experts, in the shape of `batch_size`; 0 for a model without experts.

    Raises
    ------
    ValueError
        If any `batch_size` is below 1.

    Notes
    -----
    .. math:: E \left(1 - (1 - k/E)^B\right)

    Exact if each token picks k distinct experts, all equally likely, whatever the
    other tokens pick. Skewed routing uses fewer: over popularities this is an upper
    bound, because it is concave in each expert's share.
    """
    arguments.record("model", model, Model)
    batch_size = arguments.array("batch_size", batch_size, least=1)
    share = model.experts_per_token / model.experts if model.experts else 0.0
    return model.experts * (1 - (1 - share) ** batch_size)


def streamed_weight_bytes(model, batch_size, precision=BF16):
    """Return the weight bytes that one decode step is expected to read.

    Parameters
    ----------
    model : Model
    batch_size : array_like
        Sequences decoded together, at least 1.
    precision : Precision

    Returns
    -------
    ndarray
        Bytes, in the shape of `batch_size`.

    Raises
    ------
    ValueError
        If any `batch_size` is below 1.

    Notes
    -----
    `streamed_params` less the experts that nobody picked, times the bytes of one.
    Every weight in use is read once per step, whatever the batch: false if a kernel
    reads a matrix again for each tile of a large batch. For experts see
    `distinct_experts`.
    """
    arguments.record("precision", precision, Precision)
    idle = moe_layers(model) * (model.experts - distinct_experts(model, batch_size))
    read = streamed_params(model) - idle * mlp_params(model, model.expert_ffn_size)
    return read * dtype_bytes(precision.weights)


def kv_bytes_per_token(model, precision=BF16):
    r"""Return the bytes that the cache of one sequence grows by with each token.

    Parameters
    ----------
    model : Model
    precision : Precision

    Returns
    -------
    float
        Bytes per token, over all layers, before any sliding window is full.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind.

    Notes
    -----
    .. math:: 2 L n_{kv} d_h s \quad\text{or, for MLA,}\quad L (r + d_{rope}) s

    Key heads count, not query heads. MLA caches one latent and one rotated key for
    all heads (deepseek2024v2, section 2.1); false if an engine caches expanded
    keys and values instead. The first form is kwon2023pagedattention's 800 KB for OPT-13B.
    """
    arguments.record("model", model, Model)
    arguments.record("precision", precision, Precision)
    return model.layers * _layer_kv(model) * dtype_bytes(precision.kv)


def kv_bytes(model, context, precision=BF16):
    """Return the size of one sequence's cache, which is also what a decode step reads of it.

    Parameters
    ----------
    model : Model
    context : array_like
        Tokens cached, at least 0.
    precision : Precision

    Returns
    -------
    ndarray
        Bytes, in the shape of `context`.

    Raises
    ------
    ValueError
        If any `context` is below 0.

    Notes
    -----
    A windowed layer stops growing at its window. False if an engine keeps what has
    left the window, or rounds up to whole blocks.
    """
    arguments.record("precision", precision, Precision)
    return _attended(model, context) * _layer_kv(model) * dtype_bytes(precision.kv)


def linear_flop_per_token(model):
    """Return the arithmetic of one token outside attention to the cache.

    Parameters
    ----------
    model : Model

    Returns
    -------
    int
        FLOP: two for each parameter that the token uses, the input table excluded.

    Raises
    ------
    ValueError
        If `model` is no `Model`.

    Notes
    -----
    One multiplication and one addition per weight. Norms and biases are counted the
    same way, though they do less: under 0.1 % of the sum. False if the output head
    runs for the last token of a prompt only.
    """
    return 2 * (streamed_params(model) - params(model) + active_params(model))


def attention_flop_per_token(model, context):
    r"""Return the arithmetic of one token's attention to the cache.

    Parameters
    ----------
    model : Model
    context : array_like
        Tokens attended to, the new one included, at least 0.

    Returns
    -------
    ndarray
        FLOP, in the shape of `context`.

    Raises
    ------
    ValueError
        If any `context` is below 0.

    Notes
    -----
    .. math:: 4 L n_q d_h S \quad\text{or, for MLA,}\quad 2 L n_q (2 r + d_{rope}) S

    Scores, then the weighted sum; a window caps S in its layers. MLA is in absorbed
    form, as decoding runs it: heads meet the latent itself, not expanded keys.
    The softmax is left out. Source: austin2025scaling, part 4; deepseek2024v2.
    """
    arguments.record("model", model, Model)
    products = 2 * model.kv_lora_rank + model.rope_head_dim or 2 * model.head_dim
    return 2 * model.query_heads * products * _attended(model, context)


def flop_per_token(model, context):
    """Return all arithmetic of one token: `linear_flop_per_token` plus `attention_flop_per_token`.

    Parameters
    ----------
    model : Model
    context : array_like
        Tokens attended to, the new one included, at least 0.

    Returns
    -------
    ndarray
        FLOP, in the shape of `context`.

    Raises
    ------
    ValueError
        If any `context` is below 0.
    """
    return linear_flop_per_token(model) + attention_flop_per_token(model, context)


def _layer_kv(model):
    """Numbers that one layer caches for one token."""
    return model.kv_lora_rank + model.rope_head_dim or 2 * model.kv_heads * model.head_dim


def _attended(model, context):
    """Tokens attended to, summed over the layers."""
    arguments.record("model", model, Model)
    context = arguments.array("context", context, least=0)
    full = model.layers - model.windowed_layers
    if not model.windowed_layers:
        return full * context
    return full * context + model.windowed_layers * np.minimum(context, model.window)


def prompt_linear_flop(model, prompt_tokens):
    """Return the arithmetic of one prompt outside attention.

    Parameters
    ----------
    model : Model
    prompt_tokens : array_like
        At least 1.

    Returns
    -------
    ndarray
        FLOP, in the shape of `prompt_tokens`.

    Raises
    ------
    ValueError
        If any `prompt_tokens` is below 1.

    Notes
    -----
    `linear_flop_per_token` for each token, but the output head for the last one only:
    false if an engine scores every token of the prompt.
    """
    arguments.record("model", model, Model)
    prompt_tokens = arguments.array("prompt_tokens", prompt_tokens, least=1)
    head = 2 * model.vocab_size * model.hidden_size
    return (linear_flop_per_token(model) - head) * prompt_tokens + head


def prompt_attention_flop(model, prompt_tokens):
    r"""Return the arithmetic of one prompt's attention to itself.

    Parameters
    ----------
    model : Model
    prompt_tokens : array_like
        At least 1.

    Returns
    -------
    ndarray
        FLOP, in the shape of `prompt_tokens`.

    Raises
    ------
    ValueError
        If any `prompt_tokens` is below 1.

    Notes
    -----
    .. math:: 4 L n_q d_h \frac{T (T + 1)}{2}

    Token t attends to t tokens: the causal half. A window caps it in its layers. MLA is
    in expanded form here, as prefill runs it. False, up to twice too low, if a kernel
    computes the masked half too. Source: austin2025scaling, part 4.
    """
    arguments.record("model", model, Model)
    prompt_tokens = arguments.array("prompt_tokens", prompt_tokens, least=1)
    latent = model.rope_head_dim + model.nope_head_dim + model.value_head_dim
    products = latent if model.kv_lora_rank else 2 * model.head_dim
    pairs = (model.layers - model.windowed_layers) * prompt_tokens * (prompt_tokens + 1) / 2
    if model.windowed_layers:
        near = np.minimum(prompt_tokens, model.window)
        pairs = pairs + model.windowed_layers * (near * (near + 1) / 2 + (prompt_tokens - near) * model.window)
    return 2 * model.query_heads * products * pairs
