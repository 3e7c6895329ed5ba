"""The price table: every line sourced and dated; ranges and days; one changed price moves what rests on it."""

import csv
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from lib import frontier, hardware, prices
from lib import model as models
from lib.deployment import traffic_of

ROOT = Path(__file__).resolve().parents[1]
FILE = files("lib") / "data" / "prices.csv"
LINES = prices.listings()


def test_every_source_is_in_a_bibliography_and_every_entry_is_used():
    keys = {}
    for path in [ROOT / "references.bib", *(ROOT / "lib" / "data").glob("*.bib")]:
        for key in re.findall(r"^@\w+\{([^,\s]+),", path.read_text("utf-8"), re.M):
            keys[key] = path.name
    used = {line.source for line in LINES}
    assert used <= set(keys)
    own = {key for key, name in keys.items() if name == "prices.bib"}
    assert own - used == {"zhao2025insights"}  # cited by published_results.csv


def test_an_entry_that_repeats_another_sellers_list_says_so():
    text = (ROOT / "lib" / "data" / "prices.bib").read_text("utf-8")
    first_hand = {"deepseek2025prices", "xinhua2025parity", "zhao2025insights"}
    for key, body in re.findall(r"^@\w+\{([^,\s]+),(.*?)^\}", text, re.M | re.S):
        assert ("Secondary:" in body) == (key not in first_hand), key


def test_what_is_rented_is_in_the_catalogue_and_open_models_are_too():
    assert {line.item for line in LINES if line.kind == "rental"} <= {*hardware.catalogue()}
    closed = {line.item for line in LINES if line.seller in ("OpenAI", "Anthropic", "DeepSeek")}
    priced = {line.item for line in LINES if line.kind in ("input", "output")}
    assert priced - closed <= {*models.catalogue()}
    assert "Llama-3-8B" in priced


def test_every_model_with_an_output_price_has_an_input_price_from_the_same_seller():
    pairs = {kind: {(line.item, line.seller) for line in LINES if line.kind == kind} for kind in ("input", "output")}
    assert pairs["input"] == pairs["output"]


def test_no_line_stands_twice():
    keys = [(line.kind, line.item, line.seller, line.terms) for line in LINES]
    assert len(keys) == len(set(keys))


def test_a_rent_is_in_dollars_a_second_and_its_middle_is_the_median_of_the_lists():
    """H100 SXM, ten lines less the reserved one: 2.69 2.71 3.20 3.85 3.99 4.14 6.88 10.98 12.29 by hand."""
    found = prices.rent("H100 SXM")
    assert (found.low, found.high) == pytest.approx((2.69 / 3600, 12.29 / 3600))
    assert found.middle == pytest.approx(3.99 / 3600)
    assert (found.oldest, found.newest) == ("2026-08-26", "2026-11-09")
    assert set(found.sellers) == {
        "RunPod", "Lambda", "Hyperstack", "Akash", "Nebius", "AWS", "Google Cloud", "Azure"
    }  # fmt: skip


def test_a_list_with_a_range_counts_at_its_middle():
    """B200: 5.00 5.98 6.00 6.79 6.84 7.15, where 6.84 is the middle of Lambda's 6.69 to 6.99."""
    assert 3600 * prices.rent("B200 SXM").middle == pytest.approx((6.00 + 6.79) / 2)
    only = prices.asked("rental", "B200 SXM", seller="Lambda")
    assert 3600 * only.middle == pytest.approx(6.84)


def test_a_reserved_machine_is_no_open_offer():
    reserved = prices.asked("rental", "H100 SXM", terms=("reserved",))
    assert reserved.high * 3600 == pytest.approx(2.72)
    assert prices.rent("H200 SXM").low > prices.asked("rental", "H200 SXM", terms=("reserved",)).low


def test_a_token_price_is_in_dollars_a_token():
    assert prices.asked("output", "DeepSeek-R1").middle == pytest.approx(2.19e-6)
    assert prices.asked("output", "Qwen3-8B", seller="Fireworks").high == pytest.approx(2e-7)


def test_an_accelerator_that_only_strangers_rent_out_is_not_on_demand():
    assert "RTX 5090" in prices.rented()
    assert "RTX 5090" not in prices.rented(("on demand",))


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (("2026-11-09", "2026-11-20"), "November 2026"),
        (("2026-08-26", "2026-11-09"), "August to November 2026"),
        (("2025-03-01", "2026-11-09"), "March 2025 to November 2026"),
    ],
)
def test_the_days_are_said_in_months(days, words):
    found = replace(prices.rent("H100 SXM"), oldest=days[0], newest=days[1])
    assert prices.in_words(found) == words


def table(tmp_path, **changes):
    with FILE.open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    rows[0] |= changes
    path = tmp_path / "prices.csv"
    with path.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=[*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"low": "0", "high": "0"}, "low must be above 0"),
        ({"low": "3", "high": "2"}, "high must be at least 3"),
        ({"low": "cheap"}, "low must be a number, got 'cheap'"),
        ({"unit": "USD/Mtoken"}, "unit must be one of USD/h"),
        ({"date": "November"}, "date must be an ISO day"),
        ({"source": " "}, "source must be a text"),
        ({"terms": "cash"}, "terms must be one of"),
    ],
)
def test_a_bad_line_is_named(tmp_path, changes, rule):
    with pytest.raises(ValueError, match=rf"prices.csv row 2: .*{rule}"):
        prices.listings_in(table(tmp_path, **changes))


def test_one_price_changed_moves_every_point_of_its_accelerator_and_no_other(monkeypatch):
    """All H100 SXM lines three times as dear: every cost on it is three times as high."""
    grid = {"models": ("Llama-3-8B",), "accelerators": ("H100 SXM", "L40S")}
    before = frontier.points(traffic_of("azure-conversation"), **grid)
    changed = tuple(
        replace(line, low=3 * line.low, high=3 * line.high) if line.item == "H100 SXM" else line for line in LINES
    )
    monkeypatch.setattr(prices, "listings", lambda: changed)
    after = frontier.points(traffic_of("azure-conversation"), **grid)
    ratio = after["blended_cost"] / before["blended_cost"]
    assert ratio[before["accelerator"] == "H100 SXM"] == pytest.approx(3)
    assert ratio[before["accelerator"] == "L40S"] == pytest.approx(1)
