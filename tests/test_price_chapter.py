"""One price changed in the table moves every amount of money and every figure of the chapters that rest on it."""

from dataclasses import replace
from pathlib import Path

import pytest

from lib import claims, prices, prose, theme
from tests.test_prose import CURRENCIES, code_cells

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters"
# Money that does not rest on the rent of this accelerator: other lists, other machines, the published day.
ELSEWHERE = {
    "price_of_a_token": {
        "cached-list", "fen", "day-cost", "day-cost-own", "day-cost-published", "day-output", "exercise-a100",
    },
    "your_numbers": {"api"},
}  # fmt: skip


def said_and_shown(page, monkeypatch):
    """Return (values said in a currency, specifications shown) when the code of a chapter runs."""
    said, shown = {}, {}

    def say(key, value, unit="", **_):
        if unit in CURRENCIES:
            said[key] = value

    def show(key, chart):
        spec = theme.specification(chart)
        shown[key] = {name: part for name, part in spec.items() if name != "description"}

    for name, stand_in in (("say", say), ("show", show), ("tabulate", lambda *_: None)):
        monkeypatch.setattr(prose, name, stand_in)
    names = {}
    for _, _, code in code_cells((CHAPTERS / f"{page}.md").read_text(encoding="utf-8")):
        exec(compile(code, page, "exec"), names)
    return said, shown


@pytest.mark.slow
@pytest.mark.parametrize("page", ["price_of_a_token", "your_numbers"])
def test_one_rent_changed_moves_every_sentence_and_figure_that_rests_on_it(page, monkeypatch):
    before, drawn = said_and_shown(page, monkeypatch)
    changed = tuple(
        replace(line, low=1.5 * line.low, high=1.5 * line.high) if line.item == "H100 SXM" else line
        for line in prices.listings()
    )
    monkeypatch.setattr(prices, "listings", lambda: changed)
    claims.verdict.cache_clear()
    after, redrawn = said_and_shown(page, monkeypatch)
    claims.verdict.cache_clear()
    assert before.keys() == after.keys()
    assert {key for key in before if before[key] == after[key]} == ELSEWHERE[page]
    still = {key for key in drawn if drawn[key] == redrawn[key]}
    # Batch limits know no money, shares of the cost do not change with a common factor, and the choice of
    # accelerators and its frontier do not show one that is never best.
    assert still <= {"fig-batch-limit", "fig-swings", "fig-accelerator-choice", "fig-frontier"}
