"""Evidence of the price of a token: C14."""

import numpy as np

from lib import article, hardware, prices
from lib import model as models
from lib.deployment import Deployment, traffic_of
from lib.evidence import CHAT, MACHINE, MODEL, Evidence
from lib.frontier import NOT_COVERED
from lib.offer import FIRST_TOKEN_TIME, TIME_PER_TOKEN, offer
from lib.units import HOUR, MILLION, quantity

LARGE = "Llama-3-70B"


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
    most, exchange = article.claims()["C14"].edge_threshold, prices.asked("exchange", "CNY").middle
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
        "server": quantity(HOUR * article.SERVER * rent.middle, "USD/h"), "users": str(article.PASSENGERS),
        "article": quantity(article.token_price(article.PASSENGERS), "USD"),
        "floor": quantity(article.token_price(np.inf), "USD"),
    }  # fmt: skip
    return Evidence(number=cents, edge=cents * exchange.middle, words=words)


EVIDENCE = {"C14": _token_price}
