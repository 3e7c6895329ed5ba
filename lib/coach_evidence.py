"""Evidence of the coach that waits for its slowest: C07 and C08."""

import numpy as np

from lib import arguments, footprint, hardware, memory
from lib import model as models
from lib.article import LONG_OUTPUT, PASSENGERS, SHORT_OUTPUT
from lib.evidence import MACHINE, MODEL, Evidence
from lib.length_fit import max_ratio, sorted_max_ratio
from lib.lengths import WORKLOADS, MeasuredLengths, length_quantile
from lib.rigid_batch import step_law
from lib.static_batch import elastic_speedup, slot_utilisation
from lib.units import quantity

SPREAD = (0.001, 0.999)
GATHERED = 16


def measured_outputs():
    """Return the measured output lengths by workload."""
    return {name: MeasuredLengths(workload=name, quantity="output") for name in WORKLOADS}


def share_within(law, tokens):
    """Return the share of requests whose output has at most that many tokens.

    Parameters
    ----------
    law : LengthLaw or MeasuredLengths
    tokens : int
        At least 1.

    Returns
    -------
    float
    """
    levels = (np.arange(100_000) + 0.5) / 100_000
    tokens = arguments.number("tokens", tokens, least=1, whole=True)
    return float(np.mean(length_quantile(law, levels) <= tokens))


def _lengths_vary():
    laws = measured_outputs()
    ratios = {name: float(np.divide(*length_quantile(law, SPREAD)[::-1])) for name, law in laws.items()}
    widest, narrowest = max(ratios, key=ratios.get), min(ratios, key=ratios.get)
    short, long = share_within(laws[widest], SHORT_OUTPUT), 1 - share_within(laws[widest], LONG_OUTPUT - 1)
    words = {
        "widest": widest, "narrowest": narrowest, "all": str(len(ratios)),
        "least": quantity(ratios[narrowest], ""), "most": quantity(ratios[widest], ""),
        "short": quantity(short, "%", digits=2), "long": quantity(long, "%", digits=1),
        "middle": quantity(float(np.median([*ratios.values()])), ""),
    }  # fmt: skip
    return Evidence(number=ratios[widest], edge=ratios[narrowest], words=words)


def _slots_waste():
    laws, machine, subject = measured_outputs(), hardware.hardware(MACHINE), models.model(MODEL)
    ratios = {name: float(max_ratio(law, PASSENGERS)) for name, law in laws.items()}
    mildest, worst = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    # The longest context at which the passengers fit: there a finished slot costs least when it is left.
    context = int(memory.cache_capacity(machine, subject) // footprint.kv_bytes_per_token(subject) // PASSENGERS)
    left = elastic_speedup(ratios[mildest], PASSENGERS, *step_law(MACHINE, MODEL, context))
    ordered = sorted_max_ratio(laws[mildest], PASSENGERS, GATHERED)
    words = {
        "riders": str(PASSENGERS), "mildest": mildest, "worst": worst, "machine": MACHINE, "model": MODEL,
        "most": quantity(float(1 - slot_utilisation(ratios[worst])), "%"),
        "least": quantity(float(1 - slot_utilisation(ratios[mildest])), "%"),
        "left": quantity(float(1 - 1 / left), "%"), "context": quantity(context, "token"),
        "ordered": quantity(1 - 1 / ordered, "%"), "gathered": str(GATHERED),
    }  # fmt: skip
    return Evidence(number=float(1 - 1 / ratios[mildest]), edge=float(1 - 1 / left), words=words)


EVIDENCE = {"C07": _lengths_vary, "C08": _slots_waste}
