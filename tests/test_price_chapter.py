"""One price changed in the table moves every sentence, table and figure that rests on it, and no other."""

from dataclasses import replace
from pathlib import Path

import pytest

from lib import claims, prices, prose, theme
from tests.test_prose import CURRENCIES, code_cells

ROOT = Path(__file__).resolve().parents[1]
PAGES = {name: ROOT / "chapters" / f"{name}.md" for name in ("price_of_a_token", "your_numbers")}
PAGES["index"] = ROOT / "index.md"
# Money that does not rest on the rent of an H100: other lists, other machines, the published day, the reader's own.
ELSEWHERE = {
    "price_of_a_token": {
        "cached-list", "fen", "day-cost", "day-cost-own", "day-cost-published", "day-output", "exercise-a100",
    },
    "your_numbers": {"api"},
    "index": set(),
}  # fmt: skip
# What rests on it though it is no amount of money.
DERIVED = {
    "price_of_a_token": {
        "cents-rate", "cents-share", "fen-over", "good-dollar", "rented-from", "sol-rate", "opus-rate", "flash-rate",
    },
    "your_numbers": {"break-even"},
    "index": set(),
}  # fmt: skip
TABLES = {
    "price_of_a_token": {
        "tab-rents", "tab-break-even", "tab-implied", "tab-price-verdicts", "tab-cost-by-accelerator",
    },
    "your_numbers": {"tab-your-case"},
    "index": set(),
}  # fmt: skip
# Batch limits know no money, shares of the cost do not change with a common factor, the choice of accelerators and
# its frontier do not show one that is never best, and time over batch has no price.
STILL = {"fig-batch-limit", "fig-swings", "fig-accelerator-choice", "fig-frontier", "fig-fare"}


def told(page, patched):
    """Return what the code of a page says, tabulates and draws: values with their units, by key."""
    said = {}

    def say(key, value, unit="", **_):
        said[key] = (value, unit)

    def say_range(key, ends, unit="", **_):
        said[key] = ([*map(float, ends)], unit)

    def show(key, chart):
        spec = theme.specification(chart)
        said[key] = ({name: part for name, part in spec.items() if name != "description"}, "figure")

    def tabulate(key, columns):
        said[key] = (columns, "table")

    for stand_in in (say, say_range, show, tabulate):
        patched.setattr(prose, stand_in.__name__, stand_in)
    names = {}
    for _, _, code in code_cells(PAGES[page].read_text(encoding="utf-8")):
        exec(compile(code, page, "exec"), names)
    return said


def moved(before, after):
    """Return the keys whose value is another, by what they hold: "money", "table", "figure" or "other"."""
    assert before.keys() == after.keys()
    kinds = {"money": set(), "table": set(), "figure": set(), "other": set()}
    for key, (value, unit) in before.items():
        if value != after[key][0]:
            kinds["money" if unit in CURRENCIES else unit if unit in kinds else "other"].add(key)
    return kinds


def with_prices(patched, change):
    """Put another table of prices in place of the one that is read."""
    changed = tuple(change(line) for line in prices.listings())
    patched.setattr(prices, "listings", lambda: changed)
    claims.verdict.cache_clear()


def dearer(line):
    return replace(line, low=1.5 * line.low, high=1.5 * line.high)


@pytest.fixture(scope="module", params=[*PAGES])
def today(request):
    """A page, and what it says with the prices as they are."""
    with pytest.MonkeyPatch.context() as patched:
        return request.param, told(request.param, patched)


@pytest.mark.slow
def test_one_rent_changed_moves_all_that_rests_on_it(today, monkeypatch):
    page, before = today
    with_prices(monkeypatch, lambda line: dearer(line) if line.item == "H100 SXM" else line)
    found = moved(before, told(page, monkeypatch))
    claims.verdict.cache_clear()
    money = {key for key, (_, unit) in before.items() if unit in CURRENCIES}
    assert money - found["money"] == ELSEWHERE[page]
    assert DERIVED[page] <= found["other"]
    assert found["table"] == TABLES[page]
    drawn = {key for key, (_, unit) in before.items() if unit == "figure"}
    assert drawn - found["figure"] <= STILL


@pytest.mark.slow
def test_every_other_price_moves_the_rest(today, monkeypatch):
    """All lines but the H100's: the money that stood still above moves now, but for what the lists do not hold."""
    page, before = today
    with_prices(monkeypatch, lambda line: line if line.item == "H100 SXM" else dearer(line))
    found = moved(before, told(page, monkeypatch))
    claims.verdict.cache_clear()
    published = {key for key in ELSEWHERE[page] if key.startswith("day-")} | {"api"}  # of one day; of the reader
    assert ELSEWHERE[page] - published <= found["money"]
    assert not published & found["money"]
    if page == "price_of_a_token":
        assert {"sol-rate", "opus-rate", "flash-rate", "rented-from"} <= found["other"]
        assert {"fig-frontier"} <= found["figure"]
        assert "lead-blended" not in found["money"]
