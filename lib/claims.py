"""The ledger: what the article claims, the number that decides each claim, and the verdict.

Nobody types a verdict. A claim's row in ``data/claims.csv`` names its numbers and
thresholds; its function here computes them; `judge` picks the wording.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from lib import (
    amortisation,
    arguments,
    first_token,
    footprint,
    hardware,
    loop_bus,
    measured,
    memory,
    prices,
    roofline,
)  # fmt: skip
from lib import model as models
from lib.deployment import Deployment, traffic_of
from lib.frontier import NOT_COVERED
from lib.length_fit import max_ratio, sorted_max_ratio
from lib.lengths import WORKLOADS, MeasuredLengths, length_quantile
from lib.offer import FIRST_TOKEN_TIME, TIME_PER_TOKEN, offer
from lib.rigid_batch import step_law
from lib.static_batch import elastic_speedup, slot_utilisation
from lib.units import MILLION, quantity

HOLDS, LIMITED, FAILS, OPEN = "holds", "holds within stated limits", "does not hold", "not yet examined"
ARTICLE_WEIGHT_BYTES, ARTICLE_TRANSFER_TIME, ARTICLE_ARITHMETIC_TIME = 100e9, 0.03, 0.0001
MACHINE, FASTER, MODEL = "H100 SXM", "H200 SXM", "Llama-3-8B"
CONTEXT, SERVING_BATCH, PROMPT = 1024, 256, 2048
WAFER = "Cerebras WSE-2"
PASSENGERS = 32
SERVER, LARGE, CHAT = 8, "Llama-3-70B", "azure-conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the article, with the rule that decides it; rule fields are empty while it is open.

    Attributes
    ----------
    id, statement, owner : str
        Permanent name; the claim in our words; the chapter that decides.
    number, unit, edge_number, edge_unit : str
        What the deciding number and the number at the edge are.
    rule : str
        "at least" or "at most".
    threshold, edge_threshold : float or None
    if_holds, if_limited, if_fails : str
        Sentences with ``{fields}`` that the evidence fills.
    """

    id: str
    statement: str
    owner: str
    number: str
    unit: str
    rule: str
    threshold: float | None
    edge_number: str
    edge_unit: str
    edge_threshold: float | None
    if_holds: str
    if_limited: str
    if_fails: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The two numbers that decide a claim, and the words that its sentences need.

    Attributes
    ----------
    number, edge : float
        In the article's own conditions, and at the edge of them.
    words : dict of str
    """

    number: float
    edge: float
    words: dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A claim, judged.

    Attributes
    ----------
    claim : Claim
    word : str
        `HOLDS`, `LIMITED`, `FAILS` or `OPEN`.
    number, edge, sentence : str
        As text, with units; empty while the claim is open.
    """

    claim: Claim
    word: str
    number: str = ""
    edge: str = ""
    sentence: str = ""


@cache
def claims():
    """Return the article's claims by id, in order, from ``data/claims.csv``.

    Raises
    ------
    ValueError
        If a row has a rule but not all of its parts.
    """
    text = (files("lib") / "data" / "claims.csv").read_text(encoding="utf-8")
    rows = [_claim(row) for row in csv.DictReader(text.splitlines())]
    return {claim.id: claim for claim in rows}


def _claim(row):
    given = [name for name in ("number", "rule", "threshold", "edge_threshold", "if_holds") if row[name]]
    if given and len(given) != 5:
        raise ValueError(f"claims.csv {row['id']}: a rule needs number, rule, thresholds and sentences, got {given}")
    limits = {name: float(row[name]) if row[name] else None for name in ("threshold", "edge_threshold")}
    return Claim(**{**row, **limits})


def judge(claim, evidence):
    """Return the verdict on a claim: the wording follows from its numbers and thresholds alone.

    Parameters
    ----------
    claim : Claim
        With a rule.
    evidence : Evidence

    Returns
    -------
    Verdict
        "holds" if both numbers pass, "holds within stated limits" if only the first
        does, "does not hold" otherwise.

    Raises
    ------
    ValueError
        If a number is NaN, or the claim has no rule.
    """
    arguments.record("claim", claim, Claim)
    arguments.record("evidence", evidence, Evidence)
    arguments.choice("rule", claim.rule, ("at least", "at most"))
    sign = 1 if claim.rule == "at least" else -1
    passes = sign * arguments.number("number", evidence.number) >= sign * claim.threshold
    beyond = sign * arguments.number("edge", evidence.edge) >= sign * claim.edge_threshold
    word, sentence = (
        (FAILS, claim.if_fails) if not passes else (HOLDS, claim.if_holds) if beyond else (LIMITED, claim.if_limited)
    )
    filled = {name: getattr(claim, name).format(**evidence.words) for name in ("number", "edge_number")}
    return Verdict(
        claim=replace(claim, **filled), word=word,
        number=quantity(evidence.number, claim.unit), edge=quantity(evidence.edge, claim.edge_unit),
        sentence=sentence.format(**evidence.words),
    )  # fmt: skip


@cache
def verdict(identity):
    """Return the verdict on the claim `identity`, such as "C01"; open if no chapter has decided it.

    Raises
    ------
    ValueError
        If there is no such claim.
    """
    claim = claims()[arguments.choice("identity", identity, claims())]
    return judge(claim, EVIDENCE[identity]()) if identity in EVIDENCE else Verdict(claim=claim, word=OPEN)


def ledger():
    """Return the verdicts on all claims, in order."""
    return [verdict(identity) for identity in claims()]


# --- memory_wall -------------------------------------------------------------------------------


def off_chip():
    """Return the accelerators that keep weights in memory off the chip: all but the wafer-scale one."""
    return {name: machine for name, machine in hardware.catalogue().items() if name != WAFER}


def _transfer_over_arithmetic(batch_size):
    """Return (ratio, accelerator, model) for the smallest ratio of transfer to arithmetic time.

    The ratio is the ridge point over the intensity, and the intensity is the same on every machine.
    """
    reference = hardware.hardware(MACHINE)
    intensity = {
        subject.name: float(roofline.intensity(roofline.decode_step(reference, subject, batch_size, CONTEXT)))
        for subject in models.catalogue().values()
    }
    return min(
        (hardware.ridge_point(machine) / intensity[name], machine.name, name)
        for machine in off_chip().values()
        for name in intensity
    )


def _memory_wall():
    number, machine, subject = _transfer_over_arithmetic(1)
    edge, *_ = _transfer_over_arithmetic(SERVING_BATCH)
    ridges = [hardware.ridge_point(machine) for machine in off_chip().values()]
    words = {
        "edge_batch": quantity(SERVING_BATCH, ""), "worst": f"{machine} with {subject}",
        "ridge_least": quantity(min(ridges), ""), "ridge_most": quantity(max(ridges), ""),
    }
    return Evidence(number=number, edge=edge, words=words)


def _on_chip_memory():
    known = {name: machine.on_chip_memory for name, machine in hardware.catalogue().items() if machine.on_chip_memory}
    weights = footprint.weight_bytes(models.model(MODEL))
    ratios = {name: weights / known[name] for name in known if name in off_chip()}
    worst = min(ratios, key=ratios.get)
    smallest = min(footprint.weight_bytes(subject) for subject in models.catalogue().values())
    words = {
        "model": MODEL, "worst": worst, "wafer": WAFER, "wafer_memory": quantity(known[WAFER], "B"),
    }
    return Evidence(number=ratios[worst], edge=smallest / max(known.values()), words=words)


def article_example(machine):
    """Return the time to stream the article's 100 GB on a machine, and that of one token's arithmetic.

    Parameters
    ----------
    machine : Hardware

    Returns
    -------
    tuple of float
        Seconds. 100 GB in 16 bit are 50e9 parameters, and each takes part in 2 FLOP.
    """
    parameters = ARTICLE_WEIGHT_BYTES / footprint.dtype_bytes("bf16")
    return ARTICLE_WEIGHT_BYTES / machine.bandwidth, 2 * parameters / hardware.peak_flop_rate(machine, "bf16")


def _worked_example():
    machine = hardware.hardware(MACHINE)
    transfer, arithmetic = article_example(machine)
    pairs = ((transfer, ARTICLE_TRANSFER_TIME), (arithmetic, ARTICLE_ARITHMETIC_TIME))
    fitting = [one for one in off_chip().values() if memory.USABLE_SHARE * one.capacity >= ARTICLE_WEIGHT_BYTES]
    words = {
        "machine": MACHINE, "transfer": quantity(transfer, "s"), "arithmetic": quantity(arithmetic, "s"),
        "capacity": quantity(machine.capacity, "B"), "fitting": str(len(fitting)), "all": str(len(off_chip())),
    }
    agreement = min(min(ours / theirs, theirs / ours) for ours, theirs in pairs)
    return Evidence(number=agreement, edge=machine.capacity / ARTICLE_WEIGHT_BYTES, words=words)


def _idle_units():
    subject = models.model(MODEL)
    shares = {
        name: float(roofline.idle_share(roofline.decode_step(machine, subject, 1, CONTEXT)))
        for name, machine in off_chip().items()
    }
    worst = min(shares, key=shares.get)
    words = {
        "machine": MACHINE, "model": MODEL, "worst": f"{worst} with {quantity(shares[worst], '%')}",
        "reaching": str(sum(share >= 0.99 for share in shares.values())), "all": str(len(shares)),
    }
    return Evidence(number=shares[MACHINE], edge=shares[worst], words=words)


def _gain(machine, step):
    """Return the share by which a step speeds up when the machine has twice the FLOP/s."""
    doubled = replace(machine, flop_rates={dtype: 2 * rate for dtype, rate in machine.flop_rates.items()})
    return float(step(machine).time / step(doubled).time) - 1


def _stronger_gpu():
    subject, machine, faster = models.model(MODEL), hardware.hardware(MACHINE), hardware.hardware(FASTER)
    gains = {
        name: _gain(one, lambda one: roofline.decode_step(one, subject, 1, CONTEXT))
        for name, one in off_chip().items()
    }
    words = {
        "machine": MACHINE, "faster": FASTER, "prompt": quantity(PROMPT, ""),
        "bandwidth_ratio": quantity(faster.bandwidth / machine.bandwidth, "times"),
        "worst": max(gains, key=gains.get),
    }
    prefill = _gain(machine, lambda one: roofline.prefill_step(one, subject, PROMPT))
    return Evidence(number=float(np.max([*gains.values()])), edge=prefill, words=words)


# --- amortisation ------------------------------------------------------------------------------


def _same_time():
    kernels, engines = amortisation.kernel_ratios(PASSENGERS), amortisation.engine_ratios(PASSENGERS)
    classes = np.array([amortisation.model_class(name) for name in kernels["model"].tolist()])
    mine = kernels["ratio"][(classes == amortisation.CLASSES[0]) & (kernels["context"] <= CONTEXT)]
    most = int(np.argmax(kernels["ratio"]))
    fits = engines["ratio"][engines["fits"] == "yes"]
    words = {
        "models": "70B with shared key heads", "context": quantity(CONTEXT, ""),
        "kernels": quantity(float(np.median(mine)), "times"), "most": quantity(kernels["ratio"][most], "times"),
        "worst": f"{kernels['model'][most]} at {quantity(kernels['context'][most], 'token')}",
        "engine_least": quantity(fits.min(), "times"), "engine_most": quantity(fits.max(), "times"),
    }  # fmt: skip
    return Evidence(number=float(np.median(mine)), edge=float(kernels["ratio"][most]), words=words)


def _cost_share():
    kernels, engines = amortisation.kernel_ratios(PASSENGERS), amortisation.engine_ratios(PASSENGERS)
    fall = PASSENGERS / engines["ratio"]
    fits = engines["fits"] == "yes"
    best = int(np.argmax(np.where(fits, fall, 0)))
    parallel = int(engines["tensor_parallel"][best])
    words = {
        "best": quantity(round(fall[best]), ""), "typical": quantity(round(float(np.median(fall[fits]))), ""),
        "worst": quantity(round(fall[fits].min()), ""), "waves": quantity(round(float(np.median(fall[~fits]))), ""),
        "kernels": quantity(round(PASSENGERS / kernels["ratio"].min()), ""),
        "where": f"{engines['model'][best]}, {engines['engine'][best]}, {parallel} x {engines['accelerator'][best]}",
    }  # fmt: skip
    return Evidence(number=float(fall[best]), edge=float(PASSENGERS / kernels["ratio"].min()), words=words)


# --- static_batching ---------------------------------------------------------------------------

SHORT_OUTPUT, LONG_OUTPUT = 2, 2000  # the article's two users, tokens
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


# --- continuous_batching -----------------------------------------------------------------------


def _next_step():
    found = {engine: loop_bus.served(engine) for engine in loop_bus.ENGINES}
    slowest = max(found, key=lambda engine: found[engine].held_back)
    words = {
        "load": quantity(loop_bus.LOAD, "", digits=1), "slowest": slowest,
        "held": quantity(found[slowest].held_back, "", digits=2), "first": quantity(found["vLLM"].held_back, ""),
    }  # fmt: skip
    return Evidence(number=found["vLLM"].held_back, edge=found[slowest].held_back, words=words)


def _full_cores():
    machine, subject = hardware.hardware(loop_bus.MACHINE), models.model(loop_bus.MODEL)
    most = int(memory.largest_batch(machine, subject, CONTEXT))
    used, used_most = (float(share) for share in loop_bus.arithmetic_used([PASSENGERS, most], CONTEXT))
    ratio = float(max_ratio(MeasuredLengths(workload=loop_bus.WORKLOAD, quantity="output"), PASSENGERS))
    words = {
        "machine": machine.name, "model": subject.name, "passengers": quantity(PASSENGERS, ""),
        "context": quantity(CONTEXT, ""), "most": quantity(most, ""), "used": quantity(used, "%", digits=2),
        "used_most": quantity(used_most, "%", digits=2), "slots_coach": quantity(1 / ratio, "%", digits=2),
    }  # fmt: skip
    return Evidence(number=used, edge=used_most, words=words)


def _tens_of_times():
    gain, busy = loop_bus.gains(), loop_bus.served("vLLM", loop_bus.BUSY)
    coach = float(max_ratio(MeasuredLengths(workload=loop_bus.WORKLOAD, quantity="output"), PASSENGERS))
    words = {
        "slots": quantity(loop_bus.SLOTS, ""), "passengers": quantity(PASSENGERS, ""), "gain": quantity(gain, "times"),
        "coach": quantity(coach, "times"), "workload": loop_bus.WORKLOAD, "busy": quantity(loop_bus.BUSY, "", digits=1),
        "first": quantity(busy.first_token, "s", digits=2), "first_p99": quantity(busy.first_token_p99, "s", digits=2),
        "alone": quantity(loop_bus.alone_first_token(), "s", digits=2),
    }  # fmt: skip
    return Evidence(number=gain, edge=coach, words=words)


# --- first_token -------------------------------------------------------------------------------

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


# --- price_of_a_token --------------------------------------------------------------------------


def article_price(batch_size):
    """Return what a million output tokens cost by the article's own numbers, on a server of 8 at the middle rent.

    Parameters
    ----------
    batch_size : float
        Users in a trip, at least 1; may be infinite.

    Returns
    -------
    float
        USD.

    Raises
    ------
    ValueError
        If there are fewer users.
    """
    batch_size = arguments.number("batch_size", batch_size, least=1, infinite=True)
    each = ARTICLE_TRANSFER_TIME / batch_size + ARTICLE_ARITHMETIC_TIME
    return MILLION * SERVER * prices.rent(MACHINE).middle * each


def _with_ends(made, side):
    low, middle, high = (
        quantity(MILLION * getattr(end, side), "USD") for end in (made.low, made.middle, made.high)
    )
    return f"{middle} ({low} to {high})"


def cheapest():
    """Return the machine on which tokens of the small model cost least in 8 bit, and its offer, within the targets.

    Returns
    -------
    str, Offer
        Of the accelerators that are rented out and that the law of engines covers.
    """
    machines = [
        machine for machine in map(hardware.hardware, prices.rented())
        if "fp8" in machine.flop_rates and machine.name not in NOT_COVERED
    ]  # fmt: skip
    made = {
        machine.name: offer(Deployment(hardware=machine, model=models.model(MODEL), dtype="fp8"), traffic_of(CHAT))
        for machine in machines
    }
    name = min(made, key=lambda one: made[one].middle.blended)
    return name, made[name]


def in_fen():
    """Return in words where the small model gets below a few fen, or that it does not."""
    most, exchange = claims()["C14"].edge_threshold, prices.asked("exchange", "CNY").middle
    name, made = cheapest()
    low, middle, high = (MILLION * exchange * end.blended for end in (made.low, made.middle, made.high))
    if middle > most:
        return "not in fen on any machine that is rented out"
    ends = f"{quantity(low, 'CNY')} to {quantity(high, 'CNY')}"
    return f"in fen only on cheaper machines, {name} first: {quantity(middle, 'CNY')} ({ends})"


def _token_price():
    small = offer(Deployment(hardware=hardware.hardware(MACHINE), model=models.model(MODEL), dtype="fp8"),
                  traffic_of(CHAT))  # fmt: skip
    large = offer(
        Deployment(hardware=hardware.hardware(MACHINE), model=models.model(LARGE), dtype="fp8", devices=4),
        traffic_of(CHAT),
    )
    cents = MILLION * small.middle.blended
    rent, exchange = prices.rent(MACHINE), prices.asked("exchange", "CNY")
    words = {
        "model": MODEL, "machine": MACHINE, "read": small.read, "large": LARGE, "parity": prices.in_words(exchange),
        "targets": f"{quantity(TIME_PER_TOKEN, 's')} a token and {quantity(FIRST_TOKEN_TIME, 's')} to the first",
        "blended": _with_ends(small, "blended"), "fen": in_fen(),
        "output": _with_ends(small, "output"), "large_output": _with_ends(large, "output"),
        "server": quantity(SERVER * rent.middle * 3600, "USD/h"), "users": str(PASSENGERS),
        "article": quantity(article_price(PASSENGERS), "USD"), "floor": quantity(article_price(np.inf), "USD"),
    }  # fmt: skip
    return Evidence(number=cents, edge=cents * exchange.middle, words=words)


EVIDENCE = {
    "C01": _memory_wall,
    "C02": _on_chip_memory,
    "C03": _worked_example,
    "C04": _idle_units,
    "C05": _same_time,
    "C06": _cost_share,
    "C07": _lengths_vary,
    "C08": _slots_waste,
    "C09": _next_step,
    "C10": _full_cores,
    "C11": _deliberate_pause,
    "C12": _alone,
    "C13": _tens_of_times,
    "C14": _token_price,
    "C15": _slow_then_fast,
    "C16": _boarding,
    "C17": _stronger_gpu,
}
