"""Language models by their shapes, and the parameters that the shapes multiply out to.

Nothing here is a rounded headline. Every count is multiplied out from the
shapes in ``data/models.csv``, and the tests hold it against the counts that
others published. One layer is attention plus a feed-forward network, which is
either one dense network or a router and its experts.
"""

import csv
import functools
import math
from dataclasses import MISSING, dataclass, fields, replace
from importlib.resources import files
from types import MappingProxyType

from lib import arguments

BIASES = ("qkv", "output", "sink", "mlp", "router", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only language model, as its configuration file describes it.

    A count of 0 means that the model has none of it.

    Attributes
    ----------
    name : str
    layers, hidden_size : int
    query_heads, kv_heads, head_dim : int
        Attention shape. Models that cache a latent vector (MLA) have query heads
        only, and the five sizes below.
    q_lora_rank, kv_lora_rank, rope_head_dim, nope_head_dim, value_head_dim : int
        MLA: width of the query latent (0: queries are not compressed) and of the
        cached latent; size of a key head's part with and without rotation; size of
        a value head.
    ffn_size : int
        Width of the dense feed-forward network; 0 if every layer has experts.
    ffn_matrices : int
        3 for a gated network, 2 for a plain one; experts have the same form.
    experts, experts_per_token, expert_ffn_size, shared_experts, dense_layers : int
        Mixture of experts: routed experts in a layer, how many of them a token
        uses, their width, experts that every token uses, layers without experts.
    vocab_size : int
        Rows of the embedding table as shipped.
    positions : int
        Rows of the learned position table.
    tied : bool
        The output head is the embedding table.
    biases : tuple of str
        Which parts add a learned vector: "qkv", "output", "mlp" (experts too),
        "router", "head"; "sink" is one number per query head.
    norm : str
        "rms" (a scale) or "layer" (a scale and a bias).
    norms_per_layer : int
    qk_norm : bool
        Queries and keys are normalised per head.
    window : float
        Tokens that a windowed layer attends to; infinity if there is none.
    windowed_layers : int
    published_params : int
        Total printed by somebody else, exact; 0 if not found.
    published_where : str
        Key in the bibliography, and where in it.
    source, where, date : str
        Bibliography key of the shapes; file, table or section; date of that version.
    """

    name: str
    layers: int
    hidden_size: int
    query_heads: int
    kv_heads: int = 0
    head_dim: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    nope_head_dim: int = 0
    value_head_dim: int = 0
    ffn_size: int = 0
    ffn_matrices: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn_size: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    vocab_size: int
    positions: int = 0
    tied: bool
    biases: tuple = ()
    norm: str
    norms_per_layer: int
    qk_norm: bool = False
    window: float = math.inf
    windowed_layers: int = 0
    published_params: int = 0
    published_where: str = ""
    source: str
    where: str
    date: str

    def __post_init__(self):
        for name in ("name", "source", "where", "date"):
            arguments.text(name, getattr(self, name))
        positive = {"layers", "hidden_size", "query_heads", "vocab_size", "norms_per_layer"}
        for name in (field.name for field in fields(self) if field.type is int):
            whole = arguments.number(name, getattr(self, name), least=int(name in positive), whole=True)
            object.__setattr__(self, name, int(whole))
        for name in ("tied", "qk_norm"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        arguments.choice("norm", self.norm, ("rms", "layer"))
        arguments.number("ffn_matrices", self.ffn_matrices, least=2, most=3)
        for bias in arguments.record("biases", self.biases, tuple):
            arguments.choice("biases", bias, BIASES)
        _check_attention(self)
        _check_network(self)
        arguments.number("windowed_layers", self.windowed_layers, most=self.layers)
        arguments.number("window", self.window, least=1, infinite=True)
        if math.isfinite(self.window) != (self.windowed_layers > 0):
            raise ValueError(f"window must be finite just when windowed_layers is above 0, got {self.window:g}")
        if (self.published_params > 0) != bool(arguments.record("published_where", self.published_where, str)):
            raise ValueError(f"published_where must go with published_params, got {self.published_where!r}")


@functools.cache
def catalogue():
    """Return the models of ``data/models.csv``.

    Returns
    -------
    mapping of str to Model
        Read-only, in the order of the file.

    Raises
    ------
    ValueError
        If a row is bad; the message names file, row and rule.
    """
    return models_in(files("lib") / "data" / "models.csv")


def model(name):
    """Return the catalogued model called `name`.

    Parameters
    ----------
    name : str
        A key of `catalogue`, such as "Llama-3-8B".

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If there is none; the message offers the closest names.
    """
    return catalogue()[arguments.choice("name", name, catalogue())]


def models_in(file):
    """Return the models of a CSV file: a column per `Model` attribute, a row per model.

    Parameters
    ----------
    file : path
        An empty cell means the attribute's default. `biases` are separated by spaces.

    Returns
    -------
    mapping of str to Model
        Read-only, in the order of the file.

    Raises
    ------
    ValueError
        If a column is unknown or missing, a row is bad or a name occurs twice; the
        message names file, row (the header is row 1) and rule.
    """
    kinds = {field.name: field for field in fields(Model)}
    models = {}
    with file.open(encoding="utf-8", newline="") as opened:
        rows = csv.reader(opened)
        header = next(rows, [])
        if sorted(header) != sorted(kinds):
            wrong = sorted({*header} ^ {*kinds}) or header
            raise ValueError(f"{file.name} row 1: columns must be those of Model, got trouble with {wrong}")
        for line, cells in enumerate(rows, start=2):
            try:
                if len(cells) != len(header):
                    raise ValueError(f"cells must be {len(header)}, got {len(cells)}")
                read = Model(**{n: _cell(kinds[n], text) for n, text in zip(header, cells, strict=True)})
                if read.name in models:
                    raise ValueError(f"name must be new, got {read.name!r}")
            except ValueError as error:
                raise ValueError(f"{file.name} row {line}: {error}") from None
            models[read.name] = read
    return MappingProxyType(models)


def with_key_heads(model, kv_heads):
    """Return the model with plain attention and another number of key heads: a shape to compare with.

    Parameters
    ----------
    model : Model
        One that caches a latent gets heads as wide as the part of its keys without rotation.
    kv_heads : int
        From 1 to the number of query heads, a divisor of it.

    Returns
    -------
    Model
        Named "Llama-3-70B with 64 key heads"; nobody trained it.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("model", model, Model)
    kv_heads = int(arguments.number("kv_heads", kv_heads, least=1, most=model.query_heads, whole=True))
    latent = ("q_lora_rank", "kv_lora_rank", "rope_head_dim", "nope_head_dim", "value_head_dim")
    return replace(
        model, name=f"{model.name} with {kv_heads} key heads", kv_heads=kv_heads,
        head_dim=model.head_dim or model.nope_head_dim, published_params=0, published_where="",
        **dict.fromkeys(latent, 0),
    )  # fmt: skip


def attention_kind(model):
    """Return how the heads share keys and values: "MHA", "GQA", "MQA" or "MLA".

    Parameters
    ----------
    model : Model

    Returns
    -------
    str
        A cached latent vector is MLA, one key head is MQA, as many key heads as
        query heads is MHA; all between is GQA.

    Raises
    ------
    ValueError
        If `model` is no `Model`.
    """
    arguments.record("model", model, Model)
    if model.kv_lora_rank:
        return "MLA"
    if model.kv_heads == model.query_heads:
        return "MHA"
    return "MQA" if model.kv_heads == 1 else "GQA"


def params(model):
    r"""Return all parameters of a model.

    Parameters
    ----------
    model : Model

    Returns
    -------
    int
        Exact.

    Raises
    ------
    ValueError
        If `model` is no `Model`.

    Notes
    -----
    .. math:: N = V d (1 + [\text{untied}]) + \text{positions} + L \cdot \text{attention} + \text{norms}
              + L_d \cdot \text{dense} + (L - L_d)(\text{router} + (E + E_s) \cdot \text{expert})

    A tied table counts once. Rotary frequencies are constants and do not count, nor
    do layers that only help training or speculation: DeepSeek-V3 is counted without
    its multi-token-prediction module (deepseek2024weights).
    """
    arguments.record("model", model, Model)
    norm = model.hidden_size * (2 if model.norm == "layer" else 1)
    layer = _attention_params(model) + model.norms_per_layer * norm
    dense = (model.layers - moe_layers(model)) * mlp_params(model, model.ffn_size)
    router = model.experts * (model.hidden_size + ("router" in model.biases))
    experts = (model.experts + model.shared_experts) * mlp_params(model, model.expert_ffn_size)
    head = model.vocab_size * ((not model.tied) * model.hidden_size + ("head" in model.biases))
    table = (model.vocab_size + model.positions) * model.hidden_size
    return table + model.layers * layer + dense + moe_layers(model) * (router + experts) + norm + head


def active_params(model):
    """Return the parameters that one token uses.

    Parameters
    ----------
    model : Model

    Returns
    -------
    int
        Exact; `params` less the routed experts that the token is not sent to.

    Raises
    ------
    ValueError
        If `model` is no `Model`.

    Notes
    -----
    The input table counts whole, as in the 12.9e9 of jiang2024mixtral. The 37e9 of
    deepseek2024v3 and the 5.13e9 of openai2025gptoss leave it out.
    """
    arguments.record("model", model, Model)
    idle = moe_layers(model) * (model.experts - model.experts_per_token)
    return params(model) - idle * mlp_params(model, model.expert_ffn_size)


def mlp_params(model, size):
    """Return the parameters of one feed-forward network of width `size`: dense, or one expert.

    Parameters
    ----------
    model : Model
    size : int
        Width, at least 0.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `model` is no `Model` or `size` is negative.
    """
    arguments.record("model", model, Model)
    size = int(arguments.number("size", size, least=0, whole=True))
    bias = (model.ffn_matrices - 1) * size + model.hidden_size if "mlp" in model.biases else 0
    return model.ffn_matrices * model.hidden_size * size + bias


def moe_layers(model):
    """Return how many layers of a model have experts.

    Parameters
    ----------
    model : Model

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `model` is no `Model`.
    """
    arguments.record("model", model, Model)
    return model.layers - model.dense_layers if model.experts else 0


def _attention_params(model):
    heads, width = model.query_heads, model.hidden_size
    if model.kv_lora_rank:
        key = heads * (model.rope_head_dim + model.nope_head_dim)
        rank, query_rank = model.kv_lora_rank, model.q_lora_rank
        query = query_rank * (width + 1 + key) if query_rank else width * key
        compress = width * (rank + model.rope_head_dim) + rank
        expand = rank * heads * (model.nope_head_dim + model.value_head_dim)
        return query + compress + expand + heads * model.value_head_dim * width
    qkv = (heads + 2 * model.kv_heads) * model.head_dim
    sizes = {"qkv": qkv, "output": width, "sink": heads}
    bias = sum(size for name, size in sizes.items() if name in model.biases)
    return width * (qkv + heads * model.head_dim) + bias + model.qk_norm * 2 * model.head_dim


def _check_attention(model):
    latent = ("rope_head_dim", "nope_head_dim", "value_head_dim")
    if model.kv_lora_rank:
        _need(model, latent, ("kv_heads", "head_dim"), "kv_lora_rank is above 0")
        if {"qkv", "output", "sink"} & {*model.biases}:
            raise ValueError(f"biases must spare latent attention, got {model.biases}")
        if model.qk_norm:
            raise ValueError("qk_norm must be false with latent attention, got true")
    else:
        _need(model, ("kv_heads", "head_dim"), ("q_lora_rank", *latent), "kv_lora_rank is 0")
        if model.query_heads % model.kv_heads:
            raise ValueError(f"kv_heads must divide {model.query_heads} query_heads, got {model.kv_heads}")


def _check_network(model):
    routed = ("experts_per_token", "expert_ffn_size")
    if model.experts:
        _need(model, routed, (), "experts is above 0")
        arguments.number("experts_per_token", model.experts_per_token, most=model.experts)
        arguments.number("dense_layers", model.dense_layers, most=model.layers - 1)
    else:
        _need(model, (), (*routed, "shared_experts", "dense_layers"), "experts is 0")
    if (model.ffn_size > 0) != (not model.experts or model.dense_layers > 0):
        rule = "ffn_size must be above 0 just when experts is 0 or dense_layers above 0"
        raise ValueError(f"{rule}, got {model.ffn_size}")


def _need(model, given, absent, because):
    for name in given:
        if not getattr(model, name):
            raise ValueError(f"{name} must be at least 1, because {because}, got 0")
    for name in absent:
        if getattr(model, name):
            raise ValueError(f"{name} must be 0, because {because}, got {getattr(model, name)}")


def _cell(field, text):
    if not text:
        if field.default is MISSING:
            raise ValueError(f"{field.name} must not be empty")
        return field.default
    if field.type is bool:
        return arguments.choice(field.name, text, ("true", "false")) == "true"
    if field.type is tuple:
        return tuple(text.split())
    try:
        return field.type(text)
    except ValueError:
        raise ValueError(f"{field.name} must be a number, got {text!r}") from None
