"""Runs of a bus beside their simulation, as the tables and figures of the report show them: in words, and in arrays."""

import numpy as np

from lib import arguments, serving_records
from lib.boarding import POLICIES
from lib.engine_runs import Cause, Comparison
from lib.units import quantity

NAMES = {"padded": "coach, padded", "early exit": "coach, early exit", "continuous": "loop bus"}
LOOKS = {"padded": ("cache", [2, 3]), "early exit": ("cache", [7, 3]), "continuous": ("weights", [1, 0])}


def own_misses(cases):
    """Return how far the simulation missed each case of a record of this report's own decoder.

    Parameters
    ----------
    cases : sequence of lib.serving_records.Case
        At least one.

    Returns
    -------
    dict of str to list of str
        Columns for `lib.prose.tabulate`.

    Raises
    ------
    ValueError
        If they are no cases.
    """
    cases = _cases(cases)
    off = {
        what: [getattr(one, f"simulated_{what}").mean() / getattr(one, what).mean() - 1 for one in cases]
        for what in ("makespan", "time_per_token")
    }
    return {
        "policy": [NAMES[one.policy] for one in cases], "slots": [str(one.slots) for one in cases],
        "makespan (s)": [_span(one.makespan.min(), one.makespan.max()) for one in cases],
        "simulated, off by (%)": [_off(miss) for miss in off["makespan"]],
        "mean TPOT": [quantity(one.time_per_token.mean(), "s") for one in cases],
        "simulated TPOT, off by (%)": [_off(miss) for miss in off["time_per_token"]],
    }  # fmt: skip


def own_points(cases, column):
    """Return mean, least and most of a column of the cases against slots, as `lib.bus_charts.three_ways` takes them.

    Parameters
    ----------
    cases : sequence of lib.serving_records.Case
        At least one.
    column : {"makespan", "simulated_makespan"}

    Returns
    -------
    dict of str to tuple of ndarray
        Name of the policy to slots, and s.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.choice("column", column, ("makespan", "simulated_makespan"))
    found = {}
    for policy in dict.fromkeys(one.policy for one in _cases(cases)):
        mine = [one for one in cases if one.policy == policy]
        ends = (np.array([take(getattr(one, column)) for one in mine]) for take in (np.mean, np.min, np.max))
        found[NAMES[policy]] = (np.array([float(one.slots) for one in mine]), *ends)
    return found


def engine_misses(compared, cause):
    """Return how far the predictions missed each case of an engine, and the steps that the misses come from.

    Parameters
    ----------
    compared : lib.engine_runs.Comparison
    cause : lib.engine_runs.Cause
        Of the same runs.

    Returns
    -------
    dict of str to list of str
        Columns for `lib.prose.tabulate`.

    Raises
    ------
    ValueError
        If they are not of the same cases.
    """
    spans, firsts, tokens = (_rows(compared, what) for what in ("makespan", "first token", "time per token"))
    arguments.record("cause", cause, Cause)
    if [*zip(cause.policy, cause.slots, strict=True)] != [(compared.policy[at], compared.slots[at]) for at in spans]:
        raise ValueError(f"cause must be of the cases compared, got {len(cause.policy)} others")
    ahead, off = (one / compared.measured - 1 for one in (compared.predicted, compared.retimed))
    shares = {
        "foretold": ahead[spans], "re-timed": off[spans], "prompt steps": cause.boarding, "other steps": cause.decoding,
        "TTFT": off[firsts], "TPOT": off[tokens],
    }  # fmt: skip
    return {
        "policy": [NAMES[policy] for policy in cause.policy], "slots": [str(slots) for slots in cause.slots],
        "makespan (s)": [_span(compared.least[at], compared.most[at]) for at in spans],
        **{f"{name} (%)": [_off(share) for share in column] for name, column in shares.items()},
    }  # fmt: skip


def engine_ways(compared):
    """Return the makespans of an engine as `lib.bus_charts.three_ways` takes them.

    Parameters
    ----------
    compared : lib.engine_runs.Comparison

    Returns
    -------
    tuple of dict
        As predicted in advance; simulated with steps timed again; measured, with the range of the rounds.

    Raises
    ------
    ValueError
        If it is none.
    """
    spans = _rows(compared, "makespan")
    theory, simulated, measured = {}, {}, {}
    for policy in POLICIES:
        mine = [at for at in spans if compared.policy[at] == policy]
        if mine:
            slots, name = compared.slots[mine].astype(float), NAMES[policy]
            theory[name] = (*LOOKS[policy], slots, compared.predicted[mine])
            simulated[name] = (slots, *[compared.retimed[mine]] * 3)
            measured[name] = (slots, compared.measured[mine], compared.least[mine], compared.most[mine])
    return theory, simulated, measured


def _cases(cases):
    for one in cases:
        arguments.record("cases", one, serving_records.Case)
    if not cases:
        raise ValueError("cases must hold at least one, got none")
    return cases


def _rows(compared, quantity_name):
    arguments.record("compared", compared, Comparison)
    return [at for at, what in enumerate(compared.quantity) if what == quantity_name]


def _span(least, most):
    return f"{quantity(float(least), '')} to {quantity(float(most), '')}"


def _off(share):
    return f"{100 * share:+.1f}"
