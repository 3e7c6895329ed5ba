"""What it costs to serve a model within targets, with the range that rents and the law of engines leave."""

from typing import NamedTuple

import numpy as np

from lib import arguments, engine_step, prices
from lib.batch_limit import within_targets
from lib.cost import TokenCost, token_costs
from lib.deployment import Deployment, Traffic
from lib.operating_point import output_time, replica

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
    read : str
        Months in which the rents were read.
    """

    low: TokenCost
    middle: TokenCost
    high: TokenCost
    slots: int
    rate: float
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
    (low, *_), (middle, slots, rate), (high, *_) = found
    return Offer(low, middle, high, slots, rate, prices.in_words(rent))


def _at_limit(deployment, traffic, ends, targets):
    price_rate, slower = ends
    one = replica(deployment, traffic, slower=slower)
    allowed, rate = within_targets(one, *targets) if one else (None, 0.0)
    if not rate:
        return TokenCost(*(np.inf,) * 3), 0, 0.0
    slots = allowed.step_time.size
    costs = token_costs(price_rate, rate, traffic, allowed.prompt_time, output_time(allowed, slots))
    return TokenCost(*map(float, costs)), slots, rate
