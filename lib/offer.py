"""What it costs to serve a model within targets, with the range that rents and the law of engines leave."""

from typing import NamedTuple

import numpy as np

from lib import arguments, engine_step, prices
from lib.batch_limit import batch_limit, within_targets
from lib.cost import TokenCost, token_costs
from lib.deployment import Deployment, Traffic
from lib.operating_point import capped, full_rate, output_time, replica, replicas

TIME_PER_TOKEN, FIRST_TOKEN_TIME = 0.05, 1.0  # 20 tokens a second, faster than people read; one second of pause


class Offer(NamedTuple):
    """The cost of tokens at the largest load within the targets.

    Attributes
    ----------
    low, middle, high : TokenCost
        USD per token: the lowest rent with the fastest engine, the middles, the highest with the slowest;
        `inf` where the targets cannot be met.
    slots : int
        Most residents, by the middle.
    rate : float
        Requests per second, by the middle.
    slots_ends, rate_ends : tuple
        The same by the slow and by the fast engine; no rent is in them.
    read : str
        Months in which the rents were read.
    """

    low: TokenCost
    middle: TokenCost
    high: TokenCost
    slots: int
    rate: float
    slots_ends: tuple
    rate_ends: tuple
    read: str


def offer(deployment, traffic, *, time_per_token=TIME_PER_TOKEN, first_token_time=FIRST_TOKEN_TIME):
    """Return what tokens cost on a rented deployment that is given all the load that its targets allow.

    Parameters
    ----------
    deployment : Deployment
        Its accelerator is one of `lib.prices.rented`.
    traffic : Traffic
    time_per_token, first_token_time : float
        Targets for the means, s, above 0; may be infinite.

    Returns
    -------
    Offer

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    The ends join both uncertainties at their worst, so the range is wider than nine tenths.
    """
    arguments.record("deployment", deployment, Deployment)
    arguments.record("traffic", traffic, Traffic)
    rent, law = prices.rent(deployment.hardware.name), engine_step.law()
    found = [
        _at_limit(deployment, traffic, (price * deployment.devices, slower), (time_per_token, first_token_time))
        for price, slower in ((rent.low, law.low), (rent.middle, 1.0), (rent.high, law.high))
    ]
    (low, most, fast), (middle, slots, rate), (high, least, slow) = found
    return Offer(low, middle, high, slots, rate, (least, most), (slow, fast), prices.in_words(rent))


def _at_limit(deployment, traffic, ends, targets):
    price_rate, slower = ends
    one = replica(deployment, traffic, slower=slower)
    allowed, rate = within_targets(one, *targets) if one else (None, 0.0)
    if not rate:
        return TokenCost(*(np.inf,) * 3), 0, 0.0
    slots = allowed.step_time.size
    costs = token_costs(price_rate, rate, traffic, allowed.prompt_time, output_time(allowed, slots))
    return TokenCost(*map(float, costs)), slots, rate


def full_rates(deployment, traffic, slots=None):
    """Return the requests per second of a replica whose slots are always taken.

    Parameters
    ----------
    deployment : Deployment
    traffic : Traffic
    slots : int, optional
        Residents, at least 1; the batch limit of each engine for `TIME_PER_TOKEN` if left out.

    Returns
    -------
    tuple of float
        By the slow engine, the law and the fast engine; 0 where nobody fits, or is too slow.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("deployment", deployment, Deployment)
    arguments.record("traffic", traffic, Traffic)
    slots = slots if slots is None else int(arguments.number("slots", slots, least=1, whole=True))
    rates = []
    for one in reversed(replicas(deployment, traffic)):
        most = 0 if one is None else batch_limit(one, TIME_PER_TOKEN).slots if slots is None else slots
        rates.append(full_rate(capped(one, most)) if most else 0.0)
    return tuple(rates)
