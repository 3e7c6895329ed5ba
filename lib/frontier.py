"""Which accelerator for which model at which speed: cost, time per token and time to the first token.

    python -m lib.frontier > frontier.csv

writes every point: each accelerator that is rented out, in each format it computes in, in
groups of one to eight, with each model and batch. The book draws the Pareto points only.
"""

import csv
import math
import sys

import numpy as np

from lib import arguments, engine_step, prices
from lib.cost import token_costs
from lib.deployment import DEPLOYED, Deployment, Traffic, traffic_of
from lib.hardware import hardware
from lib.model import model as shape
from lib.operating_point import output_time, replicas

MODELS = (
    "Llama-3-8B", "Qwen3-30B-A3B", "Qwen3-32B", "Mixtral-8x7B",
    "Llama-3-70B", "gpt-oss-120b", "Qwen3-235B-A22B", "Llama-3.1-405B",
)  # fmt: skip
DEVICES = (1, 2, 4, 8)
BATCHES = np.unique((2.0 ** np.arange(0, 11.01, 0.5)).round())
CHAT = "azure-conversation"


def covered(terms=("on demand",)):
    """Return the accelerators that somebody rents out on these terms and that the law of engines covers.

    Parameters
    ----------
    terms : tuple of str
        As `lib.prices.rented` takes them.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If a term is unknown.
    """
    return tuple(name for name in prices.rented(terms) if name not in engine_step.NOT_COVERED)


def points(traffic, *, models=MODELS, accelerators=None):
    """Return every point of the grid, with every slot taken all the time.

    Parameters
    ----------
    traffic : Traffic
    models : tuple of str
    accelerators : tuple of str, optional
        `covered` if left out.

    Returns
    -------
    dict of str to ndarray, each of shape (n,)
        ``model``, ``accelerator``, ``dtype``, ``devices``, ``batch``; ``time_per_token`` and
        ``first_token_time``, s, with ``time_low`` and ``time_high``, the range of the former; ``rent``, ``rent_low``
        and ``rent_high``, USD/s of the group; ``input_cost``, ``output_cost``, ``blended_cost``,
        ``blended_low``, ``blended_high``, USD/token. The ends of cost join the ends of rent and time.

    Raises
    ------
    ValueError
        If a name is unknown.

    Notes
    -----
    Full load, so a floor of the cost; `lib.batch_limit` has the cost at a real one. First token:
    half a step, then the one that carries the prompt; no queue.
    """
    arguments.record("traffic", traffic, Traffic)
    accelerators = covered() if accelerators is None else accelerators
    columns, rents = {}, {name: prices.rent(name) for name in accelerators}
    for name in models:
        for accelerator in accelerators:
            for dtype in DEPLOYED:
                for devices in DEVICES:
                    found = _points(name, rents[accelerator], (accelerator, dtype, devices), traffic)
                    for column, values in found.items():
                        columns.setdefault(column, []).append(values)
    return {column: np.concatenate(parts) for column, parts in columns.items()}


def _points(name, rent, group, traffic):
    accelerator, dtype, devices = group
    try:
        one = Deployment(hardware=hardware(accelerator), model=shape(name), dtype=dtype, devices=devices)
    except ValueError:  # no such peak, no link, or heads that do not split so
        hardware(accelerator), shape(name)  # an unknown name is still refused
        return {}
    fast, made, slow = replicas(one, traffic)
    if made is None:
        return {}
    batch = BATCHES[made.step_time.size >= BATCHES]
    at = batch.astype(int) - 1
    step, low, high = made.step_time[at], fast.step_time[at], slow.step_time[at]
    cost = token_costs(
        rent.middle * devices, batch / step / traffic.output_tokens, traffic, made.prompt_time, output_time(made, batch)
    )
    return {
        "model": np.full(batch.size, name), "accelerator": np.full(batch.size, accelerator),
        "dtype": np.full(batch.size, dtype), "devices": np.full(batch.size, devices), "batch": batch,
        "time_per_token": step, "time_low": low, "time_high": high,
        "first_token_time": step / 2 + made.prompt_time + made.decode_time[at],
        "rent": np.full(batch.size, rent.middle * devices), "rent_low": np.full(batch.size, rent.low * devices),
        "rent_high": np.full(batch.size, rent.high * devices),
        "input_cost": cost.input, "output_cost": cost.output, "blended_cost": cost.blended,
        "blended_low": cost.blended * (low / step) * (rent.low / rent.middle),
        "blended_high": cost.blended * (high / step) * (rent.high / rent.middle),
    }  # fmt: skip


def pareto(*costs):
    """Return which points no other point beats: as good everywhere and better somewhere.

    Parameters
    ----------
    *costs : array_like, each shape (n,)
        Of each point, to be made small.

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    ValueError
        If there is none, or shapes differ.
    """
    if not costs:
        raise ValueError("costs must hold at least one column, got none")
    columns = [arguments.array("costs", cost) for cost in costs]
    if any(column.ndim != 1 or column.shape != columns[0].shape for column in columns):
        raise ValueError(f"costs must have one length, got {[column.shape for column in columns]}")
    table = np.stack(columns, axis=1)
    kept, best = np.zeros(len(table), bool), table[:0]
    for index in np.lexsort(table.T[::-1]):  # whoever beats a row comes before it
        row = table[index]
        if not np.any(np.all(best <= row, axis=1) & np.any(best < row, axis=1)):
            kept[index], best = True, np.vstack([best, row])
    return kept


def best(found, *, rank="blended_cost"):
    """Return the Pareto points of each model: cost, time per token, time to the first token.

    Parameters
    ----------
    found : dict of ndarray
        From `points`.
    rank : str
        Which of its costs counts.

    Returns
    -------
    dict of ndarray
        The same columns, fewer rows.

    Raises
    ------
    ValueError
        If `rank` is no column.
    """
    cost = found[arguments.choice("rank", rank, found)]
    kept = np.zeros(len(cost), bool)
    for name in dict.fromkeys(found["model"].tolist()):
        mine = np.flatnonzero(found["model"] == name)
        kept[mine] = pareto(cost[mine], found["time_per_token"][mine], found["first_token_time"][mine])
    return {column: values[kept] for column, values in found.items()}


def cheapest_at(found, model, speed):
    """Return the cheapest point of a model that gives each reader at least so many tokens per second.

    Parameters
    ----------
    found : dict of ndarray
        From `points`.
    model : str
        One that `found` holds.
    speed : float
        Tokens per second, above 0.

    Returns
    -------
    dict or None
        One row of `found`; None if nothing is that fast.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    places = _by_cost(found, model, speed)
    return _row(found, places[0]) if places.size else None


def _by_cost(found, model, speed):
    """Return where the points of a model are that are so fast, the cheapest first."""
    arguments.choice("model", model, dict.fromkeys(found["model"].tolist()))
    speed = arguments.number("speed", speed, above=0)
    fast = np.flatnonzero((found["model"] == model) & (found["time_per_token"] <= 1 / speed))
    return fast[np.argsort(found["blended_cost"][fast], kind="stable")]


def _row(found, place):
    return {column: values[place] for column, values in found.items()}


def ranked_at(found, model, speed):
    """Return the cheapest point of each accelerator that gives each reader at least so many tokens per second.

    Parameters
    ----------
    found : dict of ndarray
        From `points`.
    model : str
        One that `found` holds.
    speed : float
        Tokens per second, above 0.

    Returns
    -------
    list of dict
        Rows of `found`, the cheapest first; accelerators that are too slow or too small are absent.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    places = _by_cost(found, model, speed)
    _, firsts = np.unique(found["accelerator"][places], return_index=True)
    return [_row(found, place) for place in places[np.sort(firsts)]]


def at_end(found, *, time="middle", rent="middle"):
    """Return the same grid at an end of the law of engines or of the rents.

    Parameters
    ----------
    found : dict of ndarray
        From `points`.
    time, rent : str
        "low", "middle" or "high".

    Returns
    -------
    dict of ndarray
        With ``time_per_token`` and ``blended_cost`` of that end.

    Raises
    ------
    ValueError
        If there is no such end.
    """
    ends = ("low", "middle", "high")
    step = {"middle": "time_per_token"}.get(arguments.choice("time", time, ends), f"time_{time}")
    paid = {"middle": "rent"}.get(arguments.choice("rent", rent, ends), f"rent_{rent}")
    factor = found[step] / found["time_per_token"] * found[paid] / found["rent"]
    return found | {"time_per_token": found[step], "blended_cost": found["blended_cost"] * factor}


def agreement(found, other, speeds):
    """Return how often two grids choose the same group of accelerators, over all models and speeds that both reach.

    Parameters
    ----------
    found, other : dict of ndarray
        From `points`, with different costs.
    speeds : array_like, shape (m,)
        Tokens per second, above 0.

    Returns
    -------
    float
        Share, from 0 to 1.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    same = []
    for model in dict.fromkeys(found["model"].tolist()):
        for speed in arguments.array("speeds", speeds, above=0).tolist():
            rows = cheapest_at(found, model, speed), cheapest_at(other, model, speed)
            if all(rows):
                groups = {(str(row["accelerator"]), int(row["devices"])) for row in rows}
                same.append(len(groups) == 1)
    return float(np.mean(same))


def choices(found, model, speeds, *, dearest=math.inf):
    """Return which group of accelerators is cheapest at each speed, as stretches of the same choice.

    Parameters
    ----------
    found : dict of ndarray
        From `points`.
    model : str
        One that `found` holds.
    speeds : array_like, shape (m,)
        Tokens per second, above 0, rising.
    dearest : float
        Stretches that begin above so many times the first one's cost are left out.

    Returns
    -------
    list of tuple
        ``(accelerator, devices, slowest, fastest, cost)`` for each stretch: tokens per second, and the
        blended cost at its slow end, USD/token. Empty if nothing is as fast as the first speed.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    speeds = arguments.array("speeds", speeds, above=0)
    dearest = arguments.number("dearest", dearest, least=1, infinite=True)
    stretches = []
    for speed in speeds.tolist():
        row = cheapest_at(found, model, speed)
        if row is None:
            break
        group = str(row["accelerator"]), int(row["devices"])
        if stretches and stretches[-1][:2] == group:
            stretches[-1] = (*stretches[-1][:3], speed, stretches[-1][4])
        else:
            start = stretches[-1][3] if stretches else speed
            stretches.append((*group, start, speed, float(row["blended_cost"])))
    return [one for one in stretches if one[4] <= dearest * stretches[0][4]]


def main():
    """Write every point of the grid as CSV; return 0."""
    found = points(traffic_of(CHAT))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found)
    for row in zip(*found.values(), strict=True):
        writer.writerow(cell if isinstance(cell, str) else f"{cell:.6g}" for cell in row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
