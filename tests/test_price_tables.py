"""Tables of money: whole, dated, sourced, with the ranges of what they rest on."""

import re

import numpy as np
import pytest

from lib import engine_step, frontier, market, price_curves, price_tables, prices, production_day
from lib.batch_limit import batch_limit, slots_within, within_targets
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware
from lib.measured import table
from lib.model import model
from lib.offer import offer
from lib.operating_point import capped, full_rate, replica
from lib.units import quantity_range

CHAT = traffic_of("azure-conversation")
BUS = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-8B"), dtype="fp8")
PAIR = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=4)
GRID = frontier.points(CHAT, models=("Llama-3-8B", "Llama-3-70B"), accelerators=("H100 SXM", "B200 SXM", "L40S"))
LAW = engine_step.law()
SPACE = "\N{NO-BREAK SPACE}"


def test_rents_are_those_of_the_lists_with_months_and_sources():
    found = price_tables.rents()
    row = found["accelerator"].index("H100 SXM")
    assert [found[column][row] for column in ("lowest (USD/h)", "median", "highest")] == ["2.69", "3.99", "12.3"]
    assert found["read"][row] == "August to November 2026"
    assert all(cell.startswith("{cite:p}`") for cell in found["lists"])
    assert found["accelerator"] == [*prices.rented()]


def test_the_three_cheapest_are_in_order_and_have_their_ranges():
    found = price_tables.cheapest(GRID, 20)
    ranked = frontier.ranked_at(GRID, "Llama-3-8B", 20)
    costs = [row["blended_cost"] for row in ranked]
    assert costs == sorted(costs)
    first = found["cheapest"][0]
    assert first.startswith(f"**{price_tables.short(ranked[0]['accelerator'])}** ")
    middle, low, high = (float(number) for number in re.findall(r"\d[.\d]+", first.split("** ")[1]))
    assert low < middle < high
    assert middle == pytest.approx(1e6 * costs[0], rel=0.05)


def test_the_middle_is_no_rounder_than_the_ends_and_the_third_is_third():
    found = price_tables.cheapest(GRID, 20)
    ranked = frontier.ranked_at(GRID, "Llama-3-8B", 20)
    assert len(ranked) == 3
    for column, row in zip(("cheapest", "second", "third"), ranked, strict=True):
        low, middle, high = (1e6 * row[f"blended_{end}"] for end in ("low", "cost", "high"))
        text = quantity_range(low, middle, high, "USD", digits=2)
        assert found[column][0] == f"**{price_tables.short(row['accelerator'], int(row['devices']))}** {text}"


def test_a_group_has_its_number_and_one_alone_has_none():
    assert [price_tables.short("H100 SXM", count) for count in (1, 2, 3)] == ["H100", "2 H100", "3 H100"]


@pytest.mark.parametrize(("share", "text"), [(0.5, "+50.0 %"), (0.0, "+0 %"), (-0.5, "-50.0 %")])
def test_an_error_has_its_sign(share, text):
    assert price_tables.signed(share).replace(SPACE, " ").replace("\N{MINUS SIGN}", "-") == text


def test_asked_prices_are_for_a_million_and_a_range_only_where_they_differ():
    found = price_tables.implied(market.implied(CHAT), (1, 2, 3))
    cells = dict(zip(found["service"], (cell.replace(SPACE, " ") for cell in found["input, output"]), strict=True))
    assert cells["Claude Opus 5.5"] == "4.00 USD, 20.0 USD"
    assert cells["DeepSeek-V4.1-Flash"] == "0.150 USD to 0.300 USD, 0.600 USD to 1.20 USD"


def test_what_is_not_there_is_said():
    small = frontier.points(CHAT, models=("Llama-3-70B",), accelerators=("L40S", "H100 SXM"))
    found = price_tables.cheapest(small, 40)
    assert price_tables.NO_ROOM in (found["second"][0], found["third"][0])


@pytest.mark.parametrize(
    ("ends", "text"),
    [((0.2, 0.5, 0.9), "50 % (20 % to 90 %)"), ((0.2, 0.5, 1.2), "50 % (20 % to never)"),
     ((0.7, 2.0, np.inf), "never (70 % to never)"), ((0.123, 0.456, 1.0), "46 % (12 % to 100 %)")],
)  # fmt: skip
def test_a_share_above_one_is_never(ends, text):
    assert price_tables.share_of_load(ends).replace(SPACE, " ") == text


def test_lists_have_a_day_and_a_source_in_every_row():
    for found in (price_tables.choices(market.choices(CHAT)), price_tables.implied(market.implied(CHAT), (1, 2, 3))):
        assert all(re.fullmatch(r"(?:\w+, )?\d{4}-\d\d-\d\d \{cite:p\}`\w+`", cell) for cell in found["read"])
        assert len({len(column) for column in found.values()}) == 1


def test_what_a_list_pays_is_held_against_the_other_end_of_the_server():
    """The best end: lowest rent and highest price over the fast engine; the middle over the middle."""
    one = market.implied(CHAT)[1]
    cell = price_tables.implied((one,), (10.0, 20.0, 40.0))["a 70B model there would pay from"][0]
    assert cell == price_tables.share_of_load((one.rates[0] / 40, one.rates[1] / 20, one.rates[2] / 10))


def test_the_day_has_its_errors_and_the_range_of_the_readers_speed():
    rates, books = price_tables.day_rates(), price_tables.day_books(production_day.all_books())
    slow, _, fast = production_day.decode_rates()
    low, high = sorted((slow.rate[0], fast.rate[0]))
    assert rates["output of a node"][0].endswith(f"({low / 1e3:.1f} to {high / 1e3:.1f})")
    assert rates["error"][:3] == [price_tables.signed(rate / 73_700 - 1) for rate in production_day.prefill_rate().rate]
    middle = production_day.decode_rate().rate
    real = production_day.published("day-decode-rate")
    assert rates["error "][:3] == [price_tables.signed(rate / real - 1) for rate in middle]
    assert books["cost of the day"][-1].replace(SPACE, " ") == "87,100 USD"
    assert [*books["rates"]] == [*production_day.LEVELS, "published rates"]


def test_a_curve_of_cost_is_rent_over_tokens_and_ends_where_the_targets_end_it():
    curves, (rates, costs) = price_curves.costs(PAIR, CHAT)
    _, end = within_targets(replica(PAIR, CHAT), 0.05, 1.0)
    *_, at, cost = curves["law, median rent"]
    tokens = CHAT.prompt_tokens + CHAT.output_tokens
    assert at[-1] == end == rates[1]
    assert cost == pytest.approx(1e6 * 4 * prices.rent("H100 SXM").middle / at / tokens)
    assert costs[1] == cost[-1] == pytest.approx(1e6 * offer(PAIR, CHAT).middle.blended)
    assert curves["law slow, rent high"][3][-1] == pytest.approx(1e6 * offer(PAIR, CHAT).high.blended)


def test_the_drawn_limits_are_the_derived_ones_with_the_range_of_the_law_around_them():
    curves, points, bands = price_curves.limits({"8B": (BUS, [1, 0])}, CHAT)
    *_, targets, slots = curves["8B, derived"]
    assert slots[::13].tolist() == [batch_limit(replica(BUS, CHAT), target / 1e3).slots for target in targets[::13]]
    at, low, high = bands["8B"]
    inside = np.isin(at, targets)
    assert np.all(low[inside] <= slots)
    assert np.all(slots <= high[inside])
    assert np.isin(targets, at).all()
    ends = (slots_within(replica(BUS, CHAT, slower=slower), at / 1e3) for slower in (LAW.high, LAW.low))
    assert [low.tolist(), high.tolist()] == [np.maximum(next(ends), 1).tolist(), next(ends).tolist()]
    slow = Deployment(hardware=hardware("L40S"), model=model("Llama-3-8B"))
    curves, _, bands = price_curves.limits({"slow": (slow, [1, 0])}, CHAT)
    *_, targets, slots = curves["slow, derived"]
    assert 1 <= slots.min() < slots[-1]
    assert 10 < bands["slow"][0][0] < targets[0], "neither is drawn where not even one is within the target"
    assert bands["slow"][2].min() == slots_within(replica(slow, CHAT, slower=LAW.low), bands["slow"][0][0] / 1e3)
    assert len(points["8B, searched"][0]) == np.count_nonzero(table("batch_limits")["model"] == "Llama-3-8B")


def test_a_dollar_buys_fewer_requests_in_time_than_requests():
    good, every = price_curves.goodput(BUS, CHAT)
    assert np.all(good <= every * (1 + 1e-12))
    assert good[0].max() > good[1].max() > good[2].max()
    assert np.all(np.diff(every, axis=1) > 0)


def test_a_dollar_buys_the_load_over_the_rent_of_all_devices():
    _, every = price_curves.goodput(PAIR, CHAT)
    full = capped(replica(PAIR, CHAT), batch_limit(replica(PAIR, CHAT), 0.05).slots)
    load = price_curves.SHARES * full_rate(full)
    assert every[1] == pytest.approx(load / (4 * prices.rent("H100 SXM").middle))


def test_a_point_of_the_frontier_has_its_speed_and_its_cost_for_a_million():
    found = price_curves.frontier(GRID)
    assert found["speed"] * GRID["time_per_token"] == pytest.approx(1)
    for end in ("low", "cost", "high"):
        assert found[end] == pytest.approx(1e6 * GRID[f"blended_{end}"])


def test_stretches_follow_each_other_and_stop_where_they_get_too_dear():
    found = price_curves.stretches(GRID)
    for name, parts in found.items():
        assert [slow for _, slow, _ in parts[1:]] == [fast for *_, fast in parts[:-1]]
        first = frontier.cheapest_at(GRID, name, parts[0][1])["blended_cost"]
        assert frontier.cheapest_at(GRID, name, parts[-1][1] * 1.0001)["blended_cost"] < 2 * 10 * first
