"""The domain of each word of the theory: what `arrival_rate`, `servers` and the others may be.

One table, so a word means the same in every signature and is refused by the
same rule everywhere.
"""

import numpy as np

from lib import arguments

_POSITIVE = {"above": 0}
_NON_NEGATIVE = {"least": 0}
_COUNT = {"least": 1, "whole": True}
_LIMITLESS_COUNT = {"least": 1, "whole": True, "infinite": True}
_SPREAD = {"least": 0, "infinite": True}  # an infinite variance is a law, not a mistake

DOMAINS = {
    "arrival_cv2": _SPREAD,
    "arrival_rate": _POSITIVE,
    "batch_cap": _LIMITLESS_COUNT,
    "batch_cost": _POSITIVE,
    "batch_size": _COUNT,
    "batch_time": _POSITIVE,
    "bins": _COUNT,
    "birth_rate": _NON_NEGATIVE,
    "capacity": _COUNT,
    "coherency": _NON_NEGATIVE,
    "contention": {"least": 0, "most": 1},
    "control_limit": _COUNT,
    "count": {"least": 0, "whole": True},
    "death_rate": _POSITIVE,
    "first_token_time": _POSITIVE,
    "fixed_time": _NON_NEGATIVE,
    "holding_cost": _POSITIVE,
    "largest": _COUNT,
    "lengths": _NON_NEGATIVE,
    "level": {"least": 0, "most": 1},
    "log_sd": _NON_NEGATIVE,
    "longest": _POSITIVE,
    "marginal_time": _NON_NEGATIVE,
    "max_ratio": {"least": 1},
    "mean_batch": {"least": 1},
    "mean_length": {"least": 1},
    "memory_tokens": _POSITIVE,
    "offered_load": _POSITIVE,
    "output_cv2": _SPREAD,
    "output_length": _POSITIVE,
    "output_second_moment": {"above": 0, "infinite": True},
    "price_rate": _NON_NEGATIVE,
    "prompt_length": _NON_NEGATIVE,
    "second_moment": {"above": 0, "infinite": True},
    "servers": _COUNT,
    "service_cv2": _SPREAD,
    "service_time": _POSITIVE,
    "shape": {"above": 1},
    "shortest": _NON_NEGATIVE,
    "single_rate": _POSITIVE,
    "slack": _POSITIVE,
    "slots": _LIMITLESS_COUNT,
    "stages": _COUNT,
    "step_limit": {"above": 0, "infinite": True},
    "step_time": _POSITIVE,
    "survival": {"least": 0, "most": 1},
    "third_moment": {"above": 0, "infinite": True},
    "tile": _COUNT,
    "tile_time": _NON_NEGATIVE,
    "time": {"least": 0, "infinite": True},
    "time_per_token": _POSITIVE,
    "timeout": {"least": 0, "infinite": True},
    "token_load": _NON_NEGATIVE,
    "token_slots": _POSITIVE,
    "token_time": _POSITIVE,
    "tokens": _COUNT,
}


def checked(**values):
    """Return the named values as float arrays, each in its domain, broadcast together.

    Raises
    ------
    ValueError
        Names argument, rule and the first value that breaks it, or the shapes that do not fit.
    """
    arrays = {name: arguments.array(name, value, **DOMAINS[name]) for name, value in values.items()}
    return arguments.together(**arrays)


def single(**values):
    """Return the named values as floats, each in its domain; one value is returned bare.

    Raises
    ------
    ValueError
        Names argument, rule and value.
    """
    numbers = [arguments.number(name, value, **DOMAINS[name]) for name, value in values.items()]
    return numbers if len(numbers) > 1 else numbers[0]


def at_least(name, values, floor_name, floor):
    """Refuse `values` below `floor`, up to rounding.

    Raises
    ------
    ValueError
        Names both arguments and the first pair that breaks the rule.
    """
    values, floor = np.broadcast_arrays(values, floor)
    short = values < floor * (1 - 1e-12)
    if short.any():
        rule = f"{name} must be at least {floor_name}"
        raise ValueError(f"{rule} ({float(floor[short].flat[0]):g}), got {float(values[short].flat[0]):g}")
