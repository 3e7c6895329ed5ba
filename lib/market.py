"""What the lists of others ask, held against a rented machine: when renting pays, and what a price implies."""

import math
from typing import NamedTuple

from lib import arguments, prices
from lib.article import MACHINE, SERVER
from lib.cost import break_even_rate, request_price
from lib.deployment import Deployment, Traffic
from lib.hardware import hardware
from lib.model import model
from lib.offer import offer

# Open models that somebody sells: the seller, and the devices that hold the model in 8 bit.
SOLD = {
    "Llama-3-8B": ("DeepInfra", 1), "Qwen3-8B": ("Fireworks", 1), "Mixtral-8x7B": ("DeepInfra", 2),
    "Llama-3-70B": ("DeepInfra", 4), "Llama-3.1-405B": ("DeepInfra", 8),
}  # fmt: skip
CLASSES = {
    "ChatGPT": ("GPT-6 Luna", "GPT-6 Sol", "GPT-6 Astra"),
    "Claude": ("Claude Haiku 5.5", "Claude Sonnet 5.5", "Claude Opus 5.5"),
    "DeepSeek": ("DeepSeek-R1", "DeepSeek-V4.1-Flash", "DeepSeek-V4-Pro"),
}


class Choice(NamedTuple):
    """Rent or buy, for one model that is sold.

    Attributes
    ----------
    model, seller : str
    devices : int
        Of `MACHINE`.
    input, output : PriceRange
        What the seller asks.
    break_even : tuple of float
        Requests per second from which renting is cheaper, at the lowest, median and highest rent.
    largest : tuple of float
        The largest load within the targets, by the slow engine, the law and the fast engine.
    """

    model: str
    seller: str
    devices: int
    input: prices.PriceRange
    output: prices.PriceRange
    break_even: tuple
    largest: tuple

    @property
    def share(self):
        """Share of the largest load from which renting pays, both best ends joined, the middles, both worst.

        Above 1 it never pays; `inf` where the targets cannot be kept.
        """
        ends = zip(self.break_even, reversed(self.largest), strict=True)
        return tuple(pays / most if most else math.inf for pays, most in ends)


class Implied(NamedTuple):
    """What the list prices of one service imply.

    Attributes
    ----------
    kind, service : str
    input, output : PriceRange
        What its list asks, nothing found in a cache.
    rates : tuple of float
        Requests per second that pay the rent of a server: the lowest rent at the highest prices, the middles,
        the highest rent at the lowest prices.
    """

    kind: str
    service: str
    input: prices.PriceRange
    output: prices.PriceRange
    rates: tuple


def choices(traffic):
    """Return, for each model of `SOLD`, the load from which renting is cheaper than buying.

    Parameters
    ----------
    traffic : Traffic

    Returns
    -------
    tuple of Choice

    Raises
    ------
    ValueError
        If `traffic` is none.
    """
    arguments.record("traffic", traffic, Traffic)
    return tuple(_choice(name, *how, traffic) for name, how in SOLD.items())


def _choice(name, seller, devices, traffic):
    deployed = Deployment(hardware=hardware(MACHINE), model=model(name), dtype="fp8", devices=devices)
    made, rent = offer(deployed, traffic), prices.rent(MACHINE)
    asked = [prices.asked(kind, name, seller=seller) for kind in ("input", "output")]
    bill = request_price(traffic, *(one.middle for one in asked))
    pays = tuple(float(break_even_rate(devices * end, bill)) for end in (rent.low, rent.middle, rent.high))
    return Choice(name, seller, devices, *asked, pays, (made.rate_ends[0], made.rate, made.rate_ends[1]))


def implied(traffic):
    """Return what the list prices of ChatGPT-, Claude- and DeepSeek-class services imply for a rented server.

    Parameters
    ----------
    traffic : Traffic

    Returns
    -------
    tuple of Implied

    Raises
    ------
    ValueError
        If `traffic` is none.

    Notes
    -----
    Nobody outside knows the machines, the sizes of the models, the share found in caches or the discounts: the
    server is imagined, not theirs.
    """
    arguments.record("traffic", traffic, Traffic)
    return tuple(_implied(kind, one, traffic) for kind, services in CLASSES.items() for one in services)


def _implied(kind, service, traffic):
    rent, asked = prices.rent(MACHINE), [prices.asked(one, service) for one in ("input", "output")]
    pairs = ((rent.low, "high"), (rent.middle, "middle"), (rent.high, "low"))
    bills = [request_price(traffic, *(getattr(one, end) for one in asked)) for _, end in pairs]
    rates = (float(break_even_rate(SERVER * price, bill)) for (price, _), bill in zip(pairs, bills, strict=True))
    return Implied(kind, service, *asked, tuple(rates))
