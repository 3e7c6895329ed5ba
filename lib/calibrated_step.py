r"""The time of an iteration on a real accelerator, for the simulator: measured kernels, summed.

`lib.calibration` predicts a decode step. Here the same coefficients say how long an iteration
takes that also reads prompts: all tokens go through the weights together.
"""

import functools
from bisect import bisect_right
from dataclasses import dataclass
from math import exp, log

import numpy as np

from lib import arguments, engine_step, footprint, layer_shape
from lib import layer_time as layers
from lib.calibration import coefficients
from lib.hardware import catalogue as hardware_catalogue
from lib.hardware import hardware, peak_flop_rate, several
from lib.model import catalogue as model_catalogue
from lib.model import model as model_named
from lib.replica import StepLoad
from lib.serving import TERMS

TOKENS = 16_384  # in one iteration; beyond, the time grows in proportion
_OF_ATTENTION = TERMS.index("prefill, attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedStep:
    """The time of an iteration as a sum of kernels that somebody measured.

    Attributes
    ----------
    accelerator, model : str
        Of the catalogues; the model attends to its whole context.
    devices : int
        Tensor parallelism: 1, or one of `layer_time.WORKERS`.

    Raises
    ------
    ValueError
        If a value leaves its domain, or nobody measured the links of this accelerator.

    Notes
    -----
    With T tokens in the iteration, B of them decoding: linear layers and all-reduces of T tokens, decode
    attention of B sequences at their mean context, attention of the prompts at the efficiency that running
    engines show (`lib.engine_step`), and the output head for those that get a token. Left out: what
    the host does between kernels. All-reduces are NCCL's, timed alone: the slow end.
    """

    accelerator: str
    model: str
    devices: int = 1

    def __post_init__(self):
        arguments.choice("accelerator", self.accelerator, hardware_catalogue())
        one = model_named(arguments.choice("model", self.model, model_catalogue()))
        if one.windowed_layers:
            raise ValueError(f"model must attend to its whole context, got {self.model}")
        devices = int(arguments.number("devices", self.devices, least=1, whole=True))
        object.__setattr__(self, "devices", devices)
        if devices not in (1, *layers.WORKERS) or not np.isfinite(_tables(self.accelerator, self.model, devices)[0][0]):
            raise ValueError(f"devices must be 1 or a group whose links were measured, got {devices}")

    def __call__(self, load):
        """Return the time of one iteration, s."""
        arguments.record("load", load, StepLoad)
        linear, head, attention, (pair_time, bytes_per_token) = _tables(self.accelerator, self.model, self.devices)
        tokens, ending = load.decoding + load.prompt_tokens, load.decoding + len(load.chunks)
        time = _looked_up(linear, max(tokens, 1)) + _looked_up(head, max(ending, 1)) + pair_time * load.prompt_pairs
        if load.decoding:
            time += _attention(attention, load.context * bytes_per_token, load.context / load.decoding)
        return time


def kv_tokens(accelerator, model, devices=1):
    """Return how many tokens of context fit beside the weights, in 16 bit: `lib.memory`'s share of the memory.

    Parameters
    ----------
    accelerator, model : str
        Of the catalogues.
    devices : int
        At least 1.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    from lib.memory import cache_capacity

    machine = hardware(arguments.choice("accelerator", accelerator, hardware_catalogue()))
    one = model_named(arguments.choice("model", model, model_catalogue()))
    devices = int(arguments.number("devices", devices, least=1, whole=True))
    return int(cache_capacity(several(machine, devices), one) / footprint.kv_bytes_per_token(one))


def _looked_up(table, count):
    return table[count - 1] if count <= len(table) else table[-1] * count / len(table)


def _attention(table, cache_bytes, context):
    """Return decode attention: the interpolation of `layer_time.knots` for one number, without arrays."""
    at, part, beyond = _place(cache_bytes, layers.CACHE_BYTES)
    column, share, _ = _place(context, layers.CONTEXTS)
    low, high = table[at], table[at + 1]
    first = low[column] * (1 - share) + low[column + 1] * share
    second = high[column] * (1 - share) + high[column + 1] * share
    return exp(first * (1 - part) + second * part + beyond)


def _place(value, knots):
    if value <= knots[0]:
        return 0, 0.0, 0.0
    last = len(knots) - 1
    if value >= knots[last]:
        return last - 1, 1.0, log(value / knots[last])
    at = bisect_right(knots, value) - 1
    return at, log(value / knots[at]) / log(knots[at + 1] / knots[at]), 0.0


@functools.cache
def _tables(accelerator, model, devices):
    """Return times by tokens and by sequences, logarithms of decode attention, and what a pair and a token take."""
    machine, one, (fitted, _) = hardware(accelerator), model_named(model), coefficients(accelerator)
    tokens = np.arange(1.0, TOKENS + 1)
    linear = one.layers * layers.linear_time(fitted, machine, one, tokens, tensor_parallel=devices)
    message = tokens * one.hidden_size * layer_shape.SIXTEEN_BIT
    linear = linear + 2 * one.layers * layers.all_reduce_time(fitted, machine, message, devices)
    head = layers.head_time(fitted, machine, one, tokens[:4096], tensor_parallel=devices)
    kernel = layer_shape.kind(one)
    attention = [
        [log(one.layers * fitted.cache_time[kernel, at, context]) for context in layers.CONTEXTS]
        for at in layers.CACHE_BYTES
    ]
    per_pair = float(footprint.attention_flop_per_token(one, 1)) / (devices * peak_flop_rate(machine, "bf16"))
    per_pair *= engine_step.law().coefficients[_OF_ATTENTION]
    read = float(layer_shape.cache_read(one, 1, 1, devices))
    return linear.tolist(), head.tolist(), attention, (per_pair, read)
