"""Tables of what requests wait for: columns of text for `lib.prose.tabulate`, from the records of simulations."""

import numpy as np

from lib import arguments, bursts, first_token, measured, memory_pressure, pause_record, token_load
from lib.lengths import MeasuredLengths, length_quantile
from lib.pause_evidence import ENGINES, LOADS, boarding_shares
from lib.units import quantity

PLACES = (
    ("azure-conversation", "chat", "H100 SXM"), ("azure-code", "code", "H100 SXM"),
    ("servegen-reasoning", "reasoning", "H100 SXM"), ("azure-conversation", "chat", "A100 SXM 80GB"),
)  # fmt: skip
SHAPES = {"1,024 / 8,192": (1024, 8192), "1,024 / 1,024": (1024, 1024), "8,192 / 1,024": (8192, 1024)}
CONTEXT, LEVELS, SEED = 2048, 20_000, 3


def first_tokens():
    """Return p50 and p99 of the TTFT by engine, workload and load; the own prompt; what TGI holds back.

    Returns
    -------
    dict of str to list of str
    """
    cells = {"lengths, machine": [], "load": [], **{title: [] for title in ENGINES.values()}}
    cells |= {"own prompt, vLLM": [], "held back by TGI": []}
    for workload, short, accelerator in PLACES:
        for load, state in LOADS.items():
            where = {"experiment": "parts", "workload": workload, "accelerator": accelerator, "load": load}
            pairs = [[_number(name, policy=policy, **where) for name in ("ttft_p50", "ttft_p99")] for policy in ENGINES]
            own, whole = (pause_record.value(name, policy="vllm", **where) for name in ("own_prefill", "ttft"))
            row = (f"{short}, {accelerator.split()[0]}", state, *(" / ".join(pair) for pair in pairs),
                   quantity(own / whole, "%", digits=2), _number("held_back", policy="tgi", **where))  # fmt: skip
            _add(cells, row)
    return cells


def boarding():
    """Return the median share of the time per output token that goes into prompts of others, by shape and users.

    Returns
    -------
    dict of str to list of str
    """
    shares = boarding_shares()
    cells = {"tokens in / out": [*SHAPES]}
    for low, high in ((4, 16), (17, 64), (65, 512)):
        users = (shares["concurrency"] >= low) & (shares["concurrency"] <= high)
        column = []
        for into, out in SHAPES.values():
            here = users & (shares["input_tokens"] == into) & (shares["output_tokens"] == out)
            column.append(f"{quantity(float(np.median(shares['share'][here])), '%', digits=2)} ({here.sum()})")
        cells[f"{low} to {high} at once"] = column
    return cells


def useful_shares(workload):
    """Return the share of reserved cache that holds tokens, by rule: published, ours, ours in a buddy allocator.

    Parameters
    ----------
    workload : str
        One of `lib.lengths.WORKLOADS`; requests up to a context of 2,048 tokens, prompt and output independent.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    level = (np.arange(LEVELS) + 0.5) / LEVELS
    mixed = np.random.default_rng(SEED).permutation(level)
    prompt, output = (
        length_quantile(MeasuredLengths(workload=workload, quantity=kind), at)
        for kind, at in (("prompt", level), ("output", mixed))
    )
    fits = prompt + output <= CONTEXT
    prompt, output = prompt[fits], output[fits]
    single = measured.table("published_results")
    published = dict(zip(single["id"].tolist(), single["value"].tolist(), strict=True))
    reserved = {
        "the longest context": ("max", np.full(prompt.size, float(CONTEXT))),
        "the next power of two": ("pow2", np.minimum(prompt + 2 ** np.ceil(np.log2(output)), CONTEXT)),
        "the length, known in advance": ("oracle", prompt + output),
    }
    cells = {"reserved": [], "published": [], "ours": [], "ours, rounded up": []}
    for rule, (key, room) in reserved.items():
        exact = token_load.useful_share(prompt, output, room)
        buddy = token_load.useful_share(prompt, output, 2 ** np.ceil(np.log2(room)))
        shares = (published[f"paged-useful-{key}"], exact, buddy)
        _add(cells, (rule, *(quantity(float(share), "%") for share in shares)))
    return cells


def pressure(cases):
    """Return what happens when more requests board than fit.

    Parameters
    ----------
    cases : list of (str, float)
        Allocation, one of `lib.memory_pressure.ALLOCATIONS`, and slots, as in the record.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    ValueError
        If a case is not in the record.
    """
    cells = {"cache is": [], "slots": [], "finished (1/s)": [], "lost (times each)": [], "again (tokens each)": []}
    cells["halted, p99"] = []
    for allocation, slots in cases:
        arguments.choice("allocation", allocation, memory_pressure.ALLOCATIONS)
        where = {"experiment": "pressure", "load": 0.0, "policy": allocation, "setting": slots}
        finished, lost, again, halted = (
            pause_record.value(name, **where) for name in ("finished", "preempted", "computed_again", "stalled_p99")
        )
        _add(cells, (allocation, f"{slots:,.0f}", quantity(finished, ""), quantity(lost, "", digits=2),
                     f"{again:,.0f}", quantity(halted, "s", digits=2)))  # fmt: skip
    return cells


def targets(variations):
    """Return the largest load within each target of the first token, by variation of the gaps between arrivals.

    Parameters
    ----------
    variations : array_like, shape (n,)
        As in the record, the first that of Poisson arrivals.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    ValueError
        If the record has no such variation.
    """
    variations = arguments.array("variations", variations, above=0)
    cells = {"variation": [quantity(float(cv), "", digits=2) for cv in variations]}
    for target in first_token.TARGETS:
        found = [bursts.bearable_load(cv, target) for cv in variations]
        said = quantity(target, "s", digits=1)
        cells[f"load within {said}"] = [_crossing(one) for one in found]
        cells[f"of Poisson, {said}"] = [quantity(one.load / found[0].load, "%", digits=2) for one in found]
    return cells


def _crossing(one):
    if not one.high:
        return "none"
    load, low, high = (quantity(share, "%", digits=2) for share in one)
    return f"{load} ({low} to {high})"


def _number(name, **where):
    return quantity(pause_record.value(name, **where), "s", digits=2)


def _add(cells, row):
    for column, cell in zip(cells.values(), row, strict=True):
        column.append(cell)
