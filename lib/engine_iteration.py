"""One iteration of a running engine by the law of `lib.engine_step`, for the simulator.

`lib.calibrated_step` sums kernels of 16 bit; here are the engines that somebody ran, in their own precision, with the
host time that they showed.
"""

from dataclasses import dataclass, field
from math import log2

from lib import arguments
from lib.deployment import Deployment, cached_bytes, scales
from lib.engine_step import reduced_time
from lib.replica import StepLoad
from lib.serving import TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIteration:
    """The time of an iteration as a running engine shows it.

    Attributes
    ----------
    deployment : Deployment
        Of a dense model that attends to its whole context.
    coefficients : tuple of float
        One for each of `lib.serving.TERMS`, at least 0; the first must let an iteration take time.

    Raises
    ------
    ValueError
        If a value leaves its domain.

    Notes
    -----
    `lib.engine_step.decode_time` of the sequences that decode, at the sum of their contexts, and `prompt_time` of the
    tokens that are read beside them. An iteration that reads prompts alone streams the weights all the same.
    """

    deployment: Deployment
    coefficients: tuple
    _numbers: tuple = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        arguments.record("deployment", self.deployment, Deployment)
        one = self.deployment.model
        if one.experts or one.windowed_layers:
            raise ValueError(f"deployment must serve a dense model that attends to its whole context, got {one.name}")
        held = arguments.array("coefficients", self.coefficients, least=0)
        if held.shape != (len(TERMS),) or held[0] == 0:
            raise ValueError(f"coefficients must be {len(TERMS)}, the first above 0, got {self.coefficients!r}")
        object.__setattr__(self, "coefficients", tuple(held.tolist()))
        object.__setattr__(self, "_numbers", _numbers(scales(self.deployment), self.coefficients))

    def __call__(self, load):
        """Return the time of one iteration, s."""
        arguments.record("load", load, StepLoad)
        host, read, computed, weights, cache, sequence, reduced, linear, head, pair = self._numbers
        batch = load.decoding
        streamed = weights * (read + (computed * batch) ** 4) ** 0.25
        return (
            host + streamed + cache * load.context + sequence * batch + reduced * (batch + load.prompt_tokens)
            + linear * load.prompt_tokens + head * len(load.chunks) + pair * load.prompt_pairs
        )  # fmt: skip


def _numbers(one, coefficients):
    """Return what `EngineIteration` adds up: seconds for a step, and for each of what it holds."""
    layer, doubling, weights, cache, of_linear, of_attention, reduced, sequence = coefficients
    read = one.fixed_bytes / one.bandwidth
    return (
        one.layers * (layer + doubling * log2(one.devices)), read**4, 2 * one.linear_flop / one.peak, weights,
        cache * float(cached_bytes(one, 1.0)) / one.bandwidth, sequence, reduced * reduced_time(one),
        of_linear * (one.linear_flop - one.head_flop) / one.peak, of_linear * one.head_flop / one.peak,
        of_attention * one.pair_flop * one.full_layers / one.attention_peak,
    )  # fmt: skip
