"""Tables of money: columns of text, each amount with its range, each list with its day and its source."""

from lib import frontier, market, prices, production_day
from lib.units import HOUR, MILLION, quantity, quantity_range

SHORT = {"RTX PRO 6000 Blackwell Server": "PRO 6000", "A100 SXM 80GB": "A100", "RTX 4090": "4090"}
NO_ROOM = "too slow, or does not fit"


def short(accelerator, devices=1):
    """Return the name of a group of accelerators for a bar or a cell."""
    name = SHORT.get(accelerator, accelerator.replace(" SXM", ""))
    return f"{devices} {name}" if devices > 1 else name


def signed(share):
    """Return a share in per cent with its sign."""
    return ("+" if share >= 0 else "") + quantity(share, "%")


def rents():
    """Return what accelerators rent for, by the hour."""
    asked = {name: prices.rent(name) for name in prices.rented()}
    return {
        "accelerator": [*asked],
        "lowest (USD/h)": [quantity(HOUR * one.low, "") for one in asked.values()],
        "median": [quantity(HOUR * one.middle, "") for one in asked.values()],
        "highest": [quantity(HOUR * one.high, "") for one in asked.values()],
        "sellers": [quantity(len(one.sellers), "") for one in asked.values()],
        "read": [prices.in_words(one) for one in asked.values()],
        "lists": [_cited(one) for one in asked.values()],
    }


def cheapest(found, speed):
    """Return, for each model, the three cheapest kinds of accelerator that give readers so many tokens a second.

    Parameters
    ----------
    found : dict of ndarray
        From `lib.frontier.points`.
    speed : float
        Tokens per second, above 0.

    Returns
    -------
    dict of str to list of str
    """
    columns = {"model": [], "cheapest": [], "second": [], "third": []}
    for model in dict.fromkeys(found["model"].tolist()):
        ranked = frontier.ranked_at(found, model, speed)[:3]
        cells = [
            f"**{short(row['accelerator'], int(row['devices']))}** " + quantity_range(
                *(MILLION * row[f"blended_{end}"] for end in ("low", "cost", "high")), "USD", digits=2
            )
            for row in ranked
        ]  # fmt: skip
        for column, cell in zip(columns, [model, *cells, *[NO_ROOM] * (3 - len(cells))], strict=True):
            columns[column].append(cell)
    return columns


def choices(found):
    """Return rent or buy for each model that is sold, from `lib.market.choices`."""
    return {
        "model, rented": [f"{one.model} on {short(market.MACHINE, one.devices)}" for one in found],
        "input, output": [f"{_asked(one.input)}, {_asked(one.output)}" for one in found],
        "read": [f"{one.seller}, {one.output.newest} {_cited(one.output)}" for one in found],
        "renting pays from": [quantity_range(*one.break_even, "request/s") for one in found],
        "largest load": [quantity_range(*one.largest, "request/s") for one in found],
        "share of it": [share_of_load(one.share) for one in found],
    }


def share_of_load(ends):
    """Return from which share of the largest load on something is true, with its range: above 1 it never is."""
    best, middle, worst = (quantity(end, "%", digits=2) if end <= 1 else "never" for end in ends)
    return f"{middle} ({best} to {worst})"


def implied(found, rates):
    """Return what list prices imply, from `lib.market.implied`.

    Parameters
    ----------
    found : tuple of Implied
    rates : tuple of float
        Requests per second that the same server carries with the model it is held against: slow engine, law,
        fast engine.

    Returns
    -------
    dict of str to list of str
    """
    return {
        "class": [one.kind for one in found],
        "service": [one.service for one in found],
        "input, output": [f"{_asked(one.input)}, {_asked(one.output)}" for one in found],
        "read": [f"{one.output.newest} {_cited(one.output)}" for one in found],
        "pays the server from": [quantity_range(*one.rates, "request/s", digits=2) for one in found],
        "a 70B model there would pay from": [
            share_of_load(pays / most for pays, most in zip(one.rates, reversed(rates), strict=True)) for one in found
        ],
    }


def _asked(one):
    low, high = (quantity(MILLION * end, "USD") for end in (one.low, one.high))
    return low if low == high else f"{low} to {high}"


def _cited(one):
    return f"{{cite:p}}`{','.join(one.sources)}`"


def day_rates():
    """Return the predicted rates of the published day beside the published ones, readers' speeds as a range."""
    day = production_day
    prefill, (slow, middle, fast) = day.prefill_rate(), day.decode_rates()
    real_in, real_out = day.published("day-prefill-rate"), day.published("day-decode-rate")
    ends = [tuple(sorted((a, b, c))) for a, b, c in zip(slow.rate, middle.rate, fast.rate, strict=True)]
    return {
        "what is counted": [*day.LEVELS, "published"],
        "input of a node": [quantity(rate, "token/s") for rate in (*prefill.rate, real_in)],
        "error": [*(signed(rate / real_in - 1) for rate in prefill.rate), ""],
        "output of a node": [*(quantity_range(*end, "token/s") for end in ends), quantity(real_out, "token/s")],
        "error ": [*(signed(rate / real_out - 1) for rate in middle.rate), ""],
        "sequences on a GPU": [*(quantity(int(batch), "") for batch in middle.batch), ""],
    }


def day_books(books):
    """Return the accounts of the published day, one row for each of `lib.production_day.all_books`."""
    return {
        "rates": [*books],
        "prefill nodes": [quantity(one.prefill_nodes, "") for one in books.values()],
        "decode nodes": [quantity(one.decode_nodes, "") for one in books.values()],
        "cost of the day": [quantity(one.cost, "USD") for one in books.values()],
        "revenue at list prices": [quantity(one.revenue, "USD") for one in books.values()],
        "profit over cost": [quantity(one.margin, "%") for one in books.values()],
    }
