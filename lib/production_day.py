r"""One published day of a large service, predicted from the model's shape, the machine and the stated setting.

DeepSeek-V3 and R1 on H800 nodes of 8, 27 to 28 February 2025. The attention and the shared
expert of every layer are on each GPU; routed experts are spread over a unit of many. A
prediction here uses no rate of that day, only its setting: unit, context, speed per reader.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments, footprint, memory, serving
from lib.footprint import Precision
from lib.hardware import hardware, peak_flop_rate
from lib.measured import table
from lib.model import mlp_params, model, moe_layers
from lib.units import HOUR

NODE = 8
DAY = 24 * HOUR
EIGHT_BIT = Precision(weights="fp8", kv="bf16", arithmetic="fp8")
DISPATCHED, COMBINED = 1, 2  # bytes of a number on its way to the experts and back
LEVELS = ("bound", "with communication", "typical efficiency")


class Prediction(NamedTuple):
    """Tokens per second of a node of 8, at each of `LEVELS`.

    Attributes
    ----------
    rate : tuple of float
        Tokens per second.
    batch : tuple of float
        Sequences on a GPU; NaN for prompts.
    step : tuple of float
        Seconds of a decode step; of a token on a GPU, for prompts.
    """

    rate: tuple
    batch: tuple
    step: tuple


class Books(NamedTuple):
    """The day's accounts.

    Attributes
    ----------
    prefill_nodes, decode_nodes : float
        Mean nodes that the day's tokens keep busy.
    cost, revenue : float
        USD for the day.
    margin : float
        Revenue less cost, over cost.
    """

    prefill_nodes: float
    decode_nodes: float
    cost: float
    revenue: float
    margin: float


def published(name):
    """Return a number of that day as published.

    Parameters
    ----------
    name : str
        The id in ``published_results.csv`` without "deepseek-".

    Returns
    -------
    float
        In the unit of its row.

    Raises
    ------
    ValueError
        If there is none.
    """
    known = table("published_results")
    key = f"deepseek-{arguments.text('name', name)}"
    row = known["id"] == arguments.choice("name", key, known["id"].tolist())
    return float(known["value"][row][0])


def _weights(experts):
    """Bytes on a GPU with `experts` routed experts of each layer: in memory, and read by a step."""
    one = model("DeepSeek-V3")
    routed = moe_layers(one) * mlp_params(one, one.expert_ffn_size)
    shared = footprint.streamed_params(one) - one.experts * routed
    table_rows = one.vocab_size * one.hidden_size
    return shared + experts * routed + table_rows, shared + experts * routed


def _exchange(copies):
    """Seconds that the exchange of one token with `copies` experts or nodes takes on one GPU's network port."""
    one = model("DeepSeek-V3")
    return moe_layers(one) * copies * one.hidden_size * (DISPATCHED + COMBINED) / published("network-rate")


def decode_rate(speed=None):
    r"""Return the predicted output of a decode node.

    Parameters
    ----------
    speed : float, optional
        Tokens per second that each reader gets, above 0; the middle of the published range if left out.

    Returns
    -------
    Prediction

    Raises
    ------
    ValueError
        If `speed` is not above 0.

    Notes
    -----
    A GPU holds b sequences; a step takes d(b), and each reader waits 1 / speed for it. So b is the most
    that memory holds and that d(b) <= 1 / speed allows, and the node makes 8 b speed.

    .. math:: d(b) = \max(W, F b) + \max(K b, A b) + X b

    with W, K, F, A as in `lib.roofline` and X the exchange with the experts: each of a token's experts
    gets its vector in 8 bit and sends it back in 16, at the rate of one port (zhao2025insights, 2.3.2).
    "bound" leaves X out; "typical efficiency" multiplies by the constants that `lib.serving` assumes
    before it sees a measurement. Overlap of exchange and arithmetic, load balance: not modelled.
    """
    stated = (published("day-speed-low") + published("day-speed-high")) / 2
    speed = stated if speed is None else arguments.number("speed", speed, above=0)
    one, gpu, context = model("DeepSeek-V3"), hardware("H800"), published("day-context")
    held, read = _weights(published("day-decode-experts"))
    cache = float(footprint.kv_bytes(one, context))
    weights = read / gpu.bandwidth
    linear = footprint.linear_flop_per_token(one) / peak_flop_rate(gpu, "fp8")
    caches = max(cache / gpu.bandwidth,
                 float(footprint.attention_flop_per_token(one, context)) / peak_flop_rate(gpu, "bf16"))  # fmt: skip
    exchange = _exchange(one.experts_per_token + one.shared_experts)
    room = np.floor((memory.USABLE_SHARE * gpu.capacity - held) / cache)
    host, _, of_weights, of_cache, of_linear, _, of_links, a_sequence = serving.TYPICAL
    sizes = np.arange(1.0, room + 1)
    steps = (
        np.maximum(weights, linear * sizes) + caches * sizes,
        np.maximum(weights, linear * sizes) + (caches + exchange) * sizes,
        host * one.layers + np.maximum(of_weights * weights, of_linear * linear * sizes)
        + (of_cache * caches + of_links * exchange + a_sequence) * sizes,
    )  # fmt: skip
    batches = tuple(float(np.count_nonzero(step <= 1 / speed)) for step in steps)
    return Prediction(
        tuple(NODE * batch * speed for batch in batches), batches,
        tuple(float(step[int(max(batch, 1)) - 1]) for step, batch in zip(steps, batches, strict=True)),
    )  # fmt: skip


def decode_rates():
    """Return the prediction of `decode_rate` at the slow end, the middle and the fast end of the published speeds.

    Returns
    -------
    tuple of Prediction
    """
    slow, fast = published("day-speed-low"), published("day-speed-high")
    return decode_rate(slow), decode_rate(), decode_rate(fast)


def prefill_rate():
    r"""Return the predicted input of a prefill node, tokens found in the cache on disk included.

    Returns
    -------
    Prediction

    Notes
    -----
    Per computed token, on one GPU: arithmetic with the weights at the 8-bit peak, attention at the 16-bit
    peak over half of the published mean context, and the exchange, whose copies cross the network once
    for each other node that holds an expert of the token. What was found in the cache costs nothing
    here: the rate is that of computed tokens over the share that had to be computed. Reading the cache
    from disk, uneven load and idle time: not modelled.
    """
    one, gpu, context = model("DeepSeek-V3"), hardware("H800"), published("day-context")
    computed = 1 - published("day-input-cached") / published("day-input")
    linear = float(footprint.prompt_linear_flop(one, context)) / context / peak_flop_rate(gpu, "fp8")
    attention = float(footprint.prompt_attention_flop(one, context)) / context / peak_flop_rate(gpu, "bf16")
    exchange = _exchange(published("node-limit") - 1)
    _, _, _, _, of_linear, of_attention, of_links, _ = serving.TYPICAL
    steps = (
        linear + attention, linear + attention + exchange,
        of_linear * linear + of_attention * attention + of_links * exchange,
    )  # fmt: skip
    return Prediction(
        tuple(NODE / step / computed for step in steps), (np.nan,) * len(steps), tuple(map(float, steps))
    )


def books(prefill_rate, decode_rate):
    """Return nodes, cost, revenue and margin of the day, at given rates of a node.

    Parameters
    ----------
    prefill_rate, decode_rate : float
        Tokens per second of a node, above 0.

    Returns
    -------
    Books

    Raises
    ------
    ValueError
        If a rate is not above 0.
    """
    prefill_rate = arguments.number("prefill_rate", prefill_rate, above=0)
    decode_rate = arguments.number("decode_rate", decode_rate, above=0)
    tokens, cached, output = (published(f"day-{name}") for name in ("input", "input-cached", "output"))
    nodes = tokens / prefill_rate / DAY, output / decode_rate / DAY
    cost = sum(nodes) * NODE * published("day-gpu-price") * DAY / HOUR
    revenue = (
        cached * published("day-price-hit") + (tokens - cached) * published("day-price-miss")
        + output * published("day-price-output")
    )  # fmt: skip
    return Books(*nodes, cost, revenue, revenue / cost - 1)


def all_books():
    """Return the day's accounts at the rates of each of `LEVELS` and at the published ones.

    Returns
    -------
    dict of str to Books
    """
    rates = zip(prefill_rate().rate, decode_rate().rate, strict=True)
    found = {level: books(*pair) for level, pair in zip(LEVELS, rates, strict=True)}
    return found | {"published rates": books(published("day-prefill-rate"), published("day-decode-rate"))}
