"""The reader's case as the page computes it: the formulas of `lib.your_case`, traced, and the tables they draw on."""

from typing import NamedTuple

import numpy as np

from lib import hardware as machines
from lib import model as shapes
from lib import prices, your_case
from lib.deployment import DEPLOYED, assembled, machine_numbers, model_numbers
from lib.expressions import Expression
from lib.footprint import dtype_bytes
from lib.frontier import covered
from lib.units import HOUR

DEVICES = (1, 2, 4, 8)


class TracedCase(NamedTuple):
    """What `lib.price_charts.your_numbers` draws.

    Attributes
    ----------
    catalogues : dict
    traced : dict
        See there.
    """

    catalogues: dict
    traced: dict


def models():
    """Return the models that may be chosen: keys and values cached by head, and heads that split eight ways.

    Returns
    -------
    list of str
    """
    return [one.name for one in shapes.catalogue().values() if one.kv_heads and one.query_heads % max(DEVICES) == 0]


def catalogues():
    """Return the tables behind the controls.

    Returns
    -------
    dict of str to (list of str, dict of str to list of float)
    """
    rented, subjects = [*covered(prices.OPEN_TERMS)], models()
    numbers = [{dtype: machine_numbers(machines.hardware(one), dtype) for dtype in DEPLOYED} for one in rented]
    asked = [prices.rent(one) for one in rented]
    of_machine = {name: [one["bf16"][name] for one in numbers] for name in ("bandwidth", "byte_time", "capacity")}
    of_machine |= {f"peak_{dtype}": [one[dtype]["peak"] for one in numbers] for dtype in DEPLOYED}
    of_machine |= {f"table_{end}": [HOUR * getattr(one, end) for one in asked] for end in your_case.ENDS}
    shape = [model_numbers(shapes.model(one)) for one in subjects]
    return {
        "accelerator": (rented, of_machine),
        "model": (subjects, {f"m_{name}": [one[name] for one in shape] for name in shape[0]}),
        "dtype": ([*DEPLOYED], {
            "of_weight": [dtype_bytes(one) for one in DEPLOYED],
            "of_cache": [dtype_bytes("bf16" if one == "bf16" else "fp8") for one in DEPLOYED],
        }),
    }  # fmt: skip


def traced_case():
    """Return the tables and the traced formulas.

    Returns
    -------
    TracedCase
    """
    tables = catalogues()
    symbol = {name: Expression(name) for _, (_, columns) in tables.items() for name in columns}
    named = [("peak", "({" + ",".join(f"'{one}':peak_{one}" for one in DEPLOYED) + "})[dtype]")]

    def let(name, value):
        named.append((name, str(value)))
        return Expression(name)

    machine = {name: symbol[name] for name in ("bandwidth", "byte_time", "capacity")}
    machine |= {"peak": Expression("peak"), "attention_peak": symbol["peak_bf16"]}
    numbers = {name.removeprefix("m_"): one for name, one in symbol.items() if name.startswith("m_")}
    group = assembled(machine, numbers, Expression("devices"), (symbol["of_weight"], symbol["of_cache"]))
    scales = type(group)(*(let(f"s_{name}", value) for name, value in zip(group._fields, group, strict=True)))
    rent = Expression("rent")
    case = your_case.Case(
        prompt=Expression("prompt"), output=Expression("output"), rate=Expression("rate"),
        target=let("target", Expression("target_ms") / 1000),
        **{f"rent_{end}": let(f"rent_{end}", np.where(rent > 0, rent, symbol[f"table_{end}"]))
           for end in your_case.ENDS},
    )  # fmt: skip
    your_case.estimate(scales, case, let=let)
    law, batch = your_case.engine_step.law(), Expression("datum.n")
    asked = (case.prompt, case.output, your_case.resident(case))
    curves = {
        "law of engines": ("price", [1, 0], your_case.step(scales, batch, case, 1.0)),
        "its range": ("muted", [7, 3], your_case.step(scales, batch, case, law.high)),
        "roofline bound": ("weights", [2, 3], your_case.engine_step.bound_time(scales, batch, asked)),
    }
    return TracedCase(tables, {
        "params": named, "curves": curves, "template": your_case.TEMPLATE,
        "too_large": your_case.DOES_NOT_FIT, "too_slow": your_case.TOO_SLOW,
    })  # fmt: skip
