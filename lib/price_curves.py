"""The arrays behind the figures of money, under the words of their legends."""

import numpy as np

from lib import prices
from lib.batch_limit import batch_limit, slots_within, within_targets
from lib.cost import goodput_per_dollar
from lib.frontier import choices
from lib.measured import table
from lib.offer import FIRST_TOKEN_TIME, TIME_PER_TOKEN
from lib.operating_point import bound_replica, capped, full_rate, good_share, replicas
from lib.price_tables import short
from lib.units import MILLION

LEAST_LOAD = 0.25  # requests per second
SPEEDS, DEAREST = np.geomspace(5, 640, 29), 10  # tokens per second; times the least cost
TARGETS = np.geomspace(0.01, 0.1, 40)  # s
SHARES = np.concatenate([np.linspace(0.1, 0.95, 18), np.linspace(0.955, 0.9995, 30)])


def costs(deployment, traffic):
    """Return cost over load for `lib.charts.lines`, and the points where the targets end the curves.

    Returns
    -------
    dict of str to (meaning, dash, ndarray, ndarray)
        Requests per second and USD per million tokens.
    tuple of list
        The same two of the ends.
    """
    rent, tokens = prices.rent(deployment.hardware.name), traffic.prompt_tokens + traffic.output_tokens
    fast, law, slow = replicas(deployment, traffic)
    curves = {}
    for label, meaning, dash, one, price in (
        ("roofline bound", "weights", [2, 3], bound_replica(deployment, traffic), rent.middle),
        ("law, median rent", "price", [1, 0], law, rent.middle),
        ("law slow, rent high", "muted", [7, 3], slow, rent.high),
        ("law fast, rent low", "muted", [4, 4], fast, rent.low),
    ):
        rates = np.geomspace(LEAST_LOAD, within_targets(one, TIME_PER_TOKEN, FIRST_TOKEN_TIME)[1], 40)
        curves[label] = (meaning, dash, rates, MILLION * deployment.devices * price / rates / tokens)
    return curves, tuple([one[axis][-1] for one in curves.values()] for axis in (2, 3))


def limits(deployments, traffic):
    """Return derived batch limits, what a search found, and the range of the law, for `lib.price_charts.searched`.

    Parameters
    ----------
    deployments : dict of str to (Deployment, dash)
        By the words of the legend.
    traffic : Traffic

    Returns
    -------
    tuple of dict
        Curves, points and bands: targets in ms, sequences.
    """
    found, curves, points, bands = table("batch_limits"), {}, {}, {}
    for label, (one, dash) in deployments.items():
        fast, slots, slow = (slots_within(made, TARGETS).astype(float) for made in replicas(one, traffic))
        curves[f"{label}, derived"] = ("price", dash, 1e3 * TARGETS[slots > 0], slots[slots > 0])
        bands[label] = (1e3 * TARGETS[fast > 0], np.maximum(slow, 1)[fast > 0], fast[fast > 0])
        mine = found["model"] == one.model.name
        columns = (found[f"slots_{end}"][mine] for end in ("searched", "low", "high"))
        points[f"{label}, searched"] = (1e3 * found["time_per_token"][mine], *columns)
    return curves, points, bands


def goodput(deployment, traffic):
    """Return requests in time, and all requests, for a dollar: at the low, the middle and the high end of cost.

    Returns
    -------
    tuple of ndarray, each of shape (3, n)
        Requests per USD at `SHARES` of the rate that fills every slot.
    """
    rent = prices.rent(deployment.hardware.name)
    good, every = [], []
    for one, price in zip(replicas(deployment, traffic), (rent.low, rent.middle, rent.high), strict=True):
        full = capped(one, batch_limit(one, TIME_PER_TOKEN).slots)
        load, price = SHARES * full_rate(full), price * deployment.devices
        every.append(goodput_per_dollar(load, 1.0, price))
        good.append(goodput_per_dollar(load, good_share(full, load, FIRST_TOKEN_TIME), price))
    return np.array(good), np.array(every)


def frontier(best):
    """Return the Pareto points for `lib.price_charts.frontier`."""
    labels = zip(best["devices"], best["accelerator"], best["dtype"], best["batch"], strict=True)
    return {
        "model": best["model"], "kind": [short(one) for one in best["accelerator"]],
        "label": [f"{int(count)} x {machine}, {dtype}, batch {int(batch)}" for count, machine, dtype, batch in labels],
        "speed": 1 / best["time_per_token"], "first": best["first_token_time"],
        **{end: MILLION * best[f"blended_{end}"] for end in ("cost", "low", "high")},
    }  # fmt: skip


def stretches(found):
    """Return which group is cheapest at each of `SPEEDS`, for `lib.price_charts.accelerator_choice`."""
    return {
        model: [
            (short(machine, devices), slow, fast)
            for machine, devices, slow, fast, _ in choices(found, model, SPEEDS, dearest=DEAREST)
        ]
        for model in dict.fromkeys(found["model"].tolist())
    }
