"""How long an iteration takes: an affine law, as a record that the simulator can add up in closed form.

Any function of a `StepLoad` that returns seconds will do as well; the simulator then asks it
for each iteration.
"""

from dataclasses import dataclass

from lib import arguments
from lib.replica import StepLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineStep:
    """The time of an iteration, as a sum of what it does.

    Attributes
    ----------
    fixed : float
        Every iteration, s, above 0: the weights.
    per_sequence : float
        Each sequence that decodes, s, at least 0.
    per_context_token : float
        Each token that these attend to, s, at least 0: the cache.
    per_prompt_token : float
        Each token of a prompt that is read, s, at least 0.
    per_prompt_pair : float
        Each pair of a prompt token and one that it attends to, s, at least 0: the quadratic part of a prefill.

    Raises
    ------
    ValueError
        If a value leaves its domain.

    Notes
    -----
    False where a batch is large enough for arithmetic to bind, and where a kernel changes with the shape.
    """

    fixed: float
    per_sequence: float = 0.0
    per_context_token: float = 0.0
    per_prompt_token: float = 0.0
    per_prompt_pair: float = 0.0

    def __post_init__(self):
        arguments.number("fixed", self.fixed, above=0)
        for name in ("per_sequence", "per_context_token", "per_prompt_token", "per_prompt_pair"):
            arguments.number(name, getattr(self, name), least=0)

    def __call__(self, load):
        """Return the time of one iteration, s."""
        arguments.record("load", load, StepLoad)
        return (
            self.fixed
            + (self.per_sequence * load.decoding + self.per_context_token * load.context)
            + (self.per_prompt_token * load.prompt_tokens + self.per_prompt_pair * load.prompt_pairs)
        )
