"""Evidence of the price of a token: C14."""

import numpy as np

from lib import article, engine_step, hardware, prices
from lib import model as models
from lib.deployment import Deployment, traffic_of
from lib.evidence import CHAT, MACHINE, MODEL, Evidence
from lib.frontier import covered
from lib.offer import FIRST_TOKEN_TIME, TIME_PER_TOKEN, offer
from lib.units import HOUR, MILLION, quantity, quantity_range

LARGE = "Llama-3-70B"


def _with_ends(made, side):
    return quantity_range(*(MILLION * getattr(end, side) for end in made[:3]), "USD")


def _by_the_article(batch_size):
    return quantity_range(*(article.token_price(batch_size, rent=end) for end in ("low", "middle", "high")), "USD")


def cheapest():
    """Return the machine on which tokens of the small model cost least in 8 bit, and its offer, within the targets.

    Returns
    -------
    str, Offer
        Of the accelerators that are rented out and that the law of engines covers.
    """
    machines = [
        machine for machine in map(hardware.hardware, covered(prices.OPEN_TERMS)) if "fp8" in machine.flop_rates
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
    ends = [MILLION * exchange * end.blended for end in made[:3]]
    if ends[1] > most:
        return "not in fen on any machine that is rented out"
    held = "" if name in engine_step.held_against() else ", on which no engine was held against the law"
    return f"in fen only on cheaper machines, {name} first{held}: {quantity_range(*ends, 'CNY')}"


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
        "model": MODEL, "machine": MACHINE, "large": LARGE, "read": f"{small.read} ({{numref}}`tab-rents`)",
        "parity": f"{prices.in_words(exchange)} {{cite:p}}`{exchange.sources[0]}`",
        "targets": f"{quantity(TIME_PER_TOKEN, 's')} a token and {quantity(FIRST_TOKEN_TIME, 's')} to the first",
        "blended": _with_ends(small, "blended"), "fen": in_fen(),
        "output": _with_ends(small, "output"), "large_output": _with_ends(large, "output"),
        "server": quantity_range(*(HOUR * article.SERVER * end for end in (rent.low, rent.middle, rent.high)), "USD/h"),
        "users": str(article.PASSENGERS), "article": _by_the_article(article.PASSENGERS),
        "floor": _by_the_article(np.inf),
    }  # fmt: skip
    return Evidence(number=cents, edge=cents * exchange.middle, words=words)


EVIDENCE = {"C14": _token_price}
