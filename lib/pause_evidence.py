"""Evidence of the pause before the first token: C11, C12, C15 and C16."""

import numpy as np

from lib import first_token, hardware, measured, pause_record, roofline
from lib import model as models
from lib.evidence import CHAT, MACHINE, MODEL, Evidence
from lib.units import quantity

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI"}
LOADS = {first_token.LONE: "a lone user", first_token.HALF: "half load", first_token.NEAR: "near saturation"}
TYPICAL = {"workload": CHAT, "accelerator": MACHINE, "model": MODEL}
AT_ONCE = 32  # requests in the closed loops that judge what boarding costs
HALTING = 8192  # tokens of a long prompt
WHERE = f"{MODEL} on one {MACHINE}, chat lengths of Azure"


def deliberate_shares():
    """Return the share of the mean TTFT that is deliberate waiting, for each simulated case.

    Returns
    -------
    dict of tuple to float
        By policy, workload, accelerator and load.
    """
    return _over("held_back", "ttft")


def _over(one, other):
    """Return the mean of one quantity over that of another, for each simulated case of an engine."""
    table = pause_record.rows()
    cases = (table["experiment"] == "parts") & np.isin(table["policy"], [*ENGINES])
    keys = [*zip(*(table[name].tolist() for name in ("policy", "workload", "accelerator", "load")), strict=True)]
    above, below = (
        {keys[at]: table["mean"][at] for at in np.flatnonzero(cases & (table["quantity"] == name))}
        for name in (one, other)
    )
    return {key: float(above[key] / below[key]) for key in below}


def _typical(quantity_, policy, load, experiment="parts"):
    return pause_record.value(quantity_, experiment=experiment, policy=policy, load=load, **TYPICAL)


def _deliberate_pause():
    shares = deliberate_shares()
    words = {"where": WHERE, "most": quantity(max(shares.values()), "%")}
    for name, load in (("half", first_token.HALF), ("near", first_token.NEAR)):
        words[f"tgi_{name}"] = quantity(_typical("held_back", "tgi", load), "s")
        words[f"tgi_{name}_ttft"] = quantity(_typical("ttft", "tgi", load), "s")
    runs = measured.table("served_first_tokens")
    told = runs["held_back"] > 0
    words["told"] = quantity(float(np.median(runs["held_back"][told] / runs["predicted"][told])), "%", digits=2)
    words["told_runs"] = quantity(int(told.sum()), "")
    return Evidence(number=max(shares.values()), edge=min(shares.values()), words=words)


def _alone():
    one = {"experiment": "singly", "policy": "one by one", **TYPICAL}
    lone, half = (pause_record.value("ttft", load=load, **one) for load in (first_token.LONE, first_token.HALF))
    shared = pause_record.value("ttft", experiment="singly", policy="vllm", **TYPICAL)
    rate, most = (pause_record.value(name, load=first_token.HALF, **one) for name in ("rate", "capacity"))
    near = pause_record.arrival_rate(experiment="parts", policy="vllm", load=first_token.NEAR, **TYPICAL)
    words = {
        "where": WHERE, "rate": quantity(rate, "", digits=2), "alone": quantity(half, "s"),
        "shared": quantity(shared, "s"),
        "capacity": quantity(near / first_token.NEAR / most, "times", digits=2),
    }
    return Evidence(number=lone / _typical("ttft", "vllm", first_token.LONE), edge=half / shared, words=words)


def first_over_later():
    """Return the median TTFT over the median time per output token, for each simulated case.

    Returns
    -------
    dict of tuple to float
        By policy, workload, accelerator and load.
    """
    return _over("ttft_p50", "tpot_p50")


def _slow_then_fast():
    ratios = first_over_later()
    policy, load_of, _machine, load = min(ratios, key=ratios.get)
    first, later = (_typical(name, "vllm", first_token.LONE) for name in ("ttft", "tpot"))
    lengths = measured.table("workloads")
    output = float(lengths["output_mean"][lengths["workload"] == CHAT][0])
    answer = first + (output - 1) * later
    words = {
        "where": WHERE, "first": quantity(first, "s"), "later": quantity(later, "s"),
        "worst": f"{quantity(min(ratios.values()), 'times')} for {load_of} under {ENGINES[policy]}, {LOADS[load]}",
        "answer": quantity(answer, "s"), "share": quantity(first / answer, "%"),
    }
    medians = [_typical(name, "vllm", first_token.LONE) for name in ("ttft_p50", "tpot_p50")]
    return Evidence(number=medians[0] / medians[1], edge=min(ratios.values()), words=words)


def boarding_shares():
    """Return what others' prompts take of the time per output token in engines measured end to end.

    Returns
    -------
    dict of str to ndarray
        ``input_tokens``, ``output_tokens``, ``concurrency`` and ``share``.
    """
    table = measured.table("end_to_end")
    keep = table["quantity"] == "tpot"
    points = {name: column[keep] for name, column in table.items()}
    names = ("input_tokens", "output_tokens", "concurrency", "accelerator", "model", "engine", "value")
    return {name: points[name] for name in names} | {"share": first_token.boarding_share(points)}


def _boarding():
    found = boarding_shares()
    ratio = found["input_tokens"] / found["output_tokens"]
    busy = found["concurrency"] >= AT_ONCE
    even, long = busy & (ratio == 1), busy & (ratio == 8)
    number, edge = (float(np.median(found["share"][keep])) for keep in (even, long))
    halt = float(roofline.prefill_step(hardware.hardware(MACHINE), models.model(MODEL), HALTING).time)
    words = {
        "least": str(AT_ONCE), "number": quantity(number, "%"), "edge": quantity(edge, "%"),
        "points": str(int(even.sum() + long.sum())), "halt": quantity(halt, "s"), "prompt": quantity(HALTING, ""),
        "where": f"one {MACHINE} with {MODEL} (a bound)",
    }  # fmt: skip
    return Evidence(number=number, edge=edge, words=words)


EVIDENCE = {"C11": _deliberate_pause, "C12": _alone, "C15": _slow_then_fast, "C16": _boarding}
