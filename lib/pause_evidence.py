"""Evidence of the pause before the first token: C11, C12, C15 and C16."""

import numpy as np

from lib import first_token, hardware, measured, roofline
from lib import model as models
from lib.evidence import CHAT, MACHINE, MODEL, Evidence
from lib.units import quantity

ENGINES = {"vllm": "vLLM", "tgi": "TGI", "sglang": "SGLang"}
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
    table = first_token.rows()
    cases = (table["experiment"] == "parts") & np.isin(table["policy"], [*ENGINES])
    keys = [*zip(*(table[name].tolist() for name in ("policy", "workload", "accelerator", "load")), strict=True)]
    means = {
        name: {keys[at]: table["mean"][at] for at in np.flatnonzero(cases & (table["quantity"] == name))}
        for name in ("held_back", "ttft")
    }
    return {key: float(means["held_back"][key] / means["ttft"][key]) for key in means["ttft"]}


def _typical(quantity_, policy, load, experiment="parts"):
    return first_token.value(quantity_, experiment=experiment, policy=policy, load=load, **TYPICAL)


def _deliberate_pause():
    shares = deliberate_shares()
    words = {"where": WHERE, "most": quantity(max(shares.values()), "%")}
    for name, load in (("half", first_token.HALF), ("near", first_token.NEAR)):
        words[f"tgi_{name}"] = quantity(_typical("held_back", "tgi", load), "s")
        words[f"tgi_{name}_ttft"] = quantity(_typical("ttft", "tgi", load), "s")
    return Evidence(number=max(shares.values()), edge=min(shares.values()), words=words)


def _alone():
    one = {"experiment": "singly", "policy": "one by one", **TYPICAL}
    lone, half = (first_token.value("ttft", load=load, **one) for load in (first_token.LONE, first_token.HALF))
    shared = first_token.value("ttft", experiment="singly", policy="vllm", **TYPICAL)
    rate, most = (first_token.value(name, load=first_token.HALF, **one) for name in ("rate", "capacity"))
    table = first_token.rows()
    near = (table["experiment"] == "parts") & (table["policy"] == "vllm") & (table["load"] == first_token.NEAR)
    for name, wanted in TYPICAL.items():
        near &= table[name] == wanted
    words = {
        "where": WHERE, "rate": quantity(rate, "", digits=2), "alone": quantity(half, "s"),
        "shared": quantity(shared, "s"),
        "capacity": quantity(table["arrival_rate"][near][0] / first_token.NEAR / most, "times", digits=2),
    }
    return Evidence(number=lone / _typical("ttft", "vllm", first_token.LONE), edge=half / shared, words=words)


def first_over_later():
    """Return the median TTFT over the median time per output token, for each simulated case.

    Returns
    -------
    dict of tuple to float
        By policy, workload, accelerator and load.
    """
    table = first_token.rows()
    cases = (table["experiment"] == "parts") & np.isin(table["policy"], [*ENGINES])
    keys = [*zip(*(table[name].tolist() for name in ("policy", "workload", "accelerator", "load")), strict=True)]
    first, later = (
        {keys[at]: table["mean"][at] for at in np.flatnonzero(cases & (table["quantity"] == name))}
        for name in ("ttft_p50", "tpot_p50")
    )
    return {key: float(first[key] / later[key]) for key in first}


def _slow_then_fast():
    ratios = first_over_later()
    policy, load_of, _machine, load = min(ratios, key=ratios.get)
    state = {first_token.LONE: "a lone user", first_token.HALF: "half load", first_token.NEAR: "near saturation"}
    first, later = (_typical(name, "vllm", first_token.LONE) for name in ("ttft", "tpot"))
    lengths = measured.table("workloads")
    output = float(lengths["output_mean"][lengths["workload"] == CHAT][0])
    answer = first + (output - 1) * later
    words = {
        "where": WHERE, "first": quantity(first, "s"), "later": quantity(later, "s"),
        "worst": f"{quantity(min(ratios.values()), 'times')} for {load_of} under {ENGINES[policy]}, {state[load]}",
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
