"""Rides in the page are those of Python; figures of the bus draw what they are given."""

import inspect
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import boarding, bus_charts, theme
from lib.boarding import POLICIES, Timetable, ride
from tests.test_boarding import timetable
from tests.test_charts import SAID

SCRIPT = Path(bus_charts.__file__).parent / "static" / "boarding.js"
RNG = np.random.default_rng(3)
TIMES = {"fixed": 6e-3, "marginal": 2e-4, "prompt": 9e-3}
SETTINGS = bus_charts.settings(
    np.cumsum(RNG.exponential(1.0, 40)), RNG.standard_normal(40), TIMES, mean=60, longest=400
)
X, Y = np.array([4.0, 8.0, 16.0]), np.array([30.0, 20.0, 12.0])
POINTS = {"loop bus": (X, Y, 0.9 * Y, 1.1 * Y)}
EXAMPLES = {
    "rides": lambda: bus_charts.rides(SETTINGS, description=SAID),
    "three_ways": lambda: bus_charts.three_ways(
        {"loop bus": ("weights", [1, 0], X, Y), "coach": ("cache", [7, 3], X, 2 * Y)}, POINTS, POINTS,
        y_title="time (s)", description=SAID,
    ),
}  # fmt: skip


def test_every_kind_of_figure_has_an_example_here():
    own = [item for item in vars(bus_charts).values() if inspect.isfunction(item)]
    names = [item.__name__ for item in own if item.__module__ == bus_charts.__name__ and item.__name__[0] != "_"]
    assert sorted({*names} - {"settings", "rows"}) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_chart_is_described_draws_and_wears_known_colours(name):
    spec = theme.specification(EXAMPLES[name]())
    assert spec["description"] == SAID
    assert theme.static_svg(spec).startswith("<svg")
    known = {colour for pair in [*theme.COLOURS.values(), theme.GROUND, theme.GRID] for colour in pair}
    assert {*re.findall(r"#[0-9A-Fa-f]{6}", json.dumps(spec))} <= known


def test_a_run_without_points_draws_theory_alone():
    lines = {"loop bus": ("weights", [1, 0], X, Y)}
    spec = theme.specification(bus_charts.three_ways(lines, {}, {}, y_title="time (s)", description=SAID))
    assert len(spec["layer"]) == 1


def test_policies_may_have_run_at_other_slots():
    lines = {"loop bus": ("weights", [1, 0], X, Y), "coach": ("cache", [7, 3], X, 2 * Y)}
    some = POINTS | {"coach": tuple(part[:1] for part in POINTS["loop bus"])}
    spec = theme.specification(bus_charts.three_ways(lines, some, some, y_title="time (s)", description=SAID))
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == X.tolist()


def test_seats_are_the_lowest_free_and_held_to_the_end_of_the_batch_on_a_coach():
    """Lengths 2, 5, 3, 3 on two slots, a step of 1 s."""
    made = {policy: ride(np.zeros(4), [2, 5, 3, 3], policy, 2, timetable()) for policy in POLICIES}
    slot, freed = boarding.seating(made["early exit"], "early exit", 2)
    assert slot.tolist() == [0, 1, 0, 1]
    assert_allclose(freed, [4, 4, 6, 6], atol=1e-9)
    slot, freed = boarding.seating(made["continuous"], "continuous", 2)
    assert slot.tolist() == [0, 1, 0, 0]
    assert_allclose(freed, made["continuous"].finish)
    with pytest.raises(ValueError, match="slots must be enough for those who ride together, got 1"):
        boarding.seating(made["continuous"], "continuous", 1)


def test_no_two_bars_of_a_slot_overlap():
    for slots, rate, variation in ((1, 20.0, 0.5), (5, 60.0, 1.5), (16, 100.0, 0.0)):
        bars, words = bus_charts.rows(SETTINGS, slots, rate, variation)
        assert words["policy"] == [*bus_charts.BLOCKS]
        for low in {*bars["low"]}:
            spans = sorted((a, b) for a, b, at in zip(bars["from"], bars["to"], bars["low"], strict=True) if at == low)
            assert all(one[1] <= other[0] + 1e-9 for one, other in itertools.pairwise(spans))


def test_the_words_say_what_the_ride_was():
    bars, words = bus_charts.rows(SETTINGS, 8, 30.0, 1.0)
    assert words["done"][2] <= words["done"][1] <= words["done"][0]
    assert words["first"][2] < words["first"][1]
    ridden = list(zip(bars["kind"], bars["policy"], strict=True)).count((bus_charts.KINDS[0], "loop bus"))
    assert ridden == 40


@pytest.mark.browser
def test_the_page_computes_what_python_computes(browser):
    """200 settings of the controls: every bar and every word to 1e-6, most of them to the last digit."""
    page = browser.new_page()
    page.add_script_tag(path=str(SCRIPT))
    for _ in range(200):
        slots, rate = int(RNG.integers(1, 17)), float(RNG.integers(1, 101))
        variation = round(float(RNG.uniform(0, 2)), 1)
        made = page.evaluate(
            "([settings, controls]) => window.boarding.rows(settings, controls)",
            [SETTINGS, {"slots": slots, "rate": rate, "variation": variation}],
        )
        bars, words = bus_charts.rows(SETTINGS, slots, rate, variation)
        for ours, theirs in ((bars, made["bars"]), (words, made["words"])):
            assert len(theirs) == len(ours["policy"])
            for name, column in ours.items():
                found = [row[name] for row in theirs]
                if isinstance(column[0], str):
                    assert found == column
                else:
                    assert_allclose(found, column, rtol=1e-6, atol=1e-9)
    page.close()


def test_settings_are_checked():
    with pytest.raises(ValueError, match="times must hold fixed, marginal and prompt, got fixed"):
        bus_charts.settings([1.0], [0.0], {"fixed": 1.0}, mean=60, longest=400)
    with pytest.raises(ValueError, match="rate must be above 0, got 0"):
        bus_charts.rows(SETTINGS, 8, 0, 1.0)


def test_a_ride_on_one_slot_serves_one_by_one():
    table = Timetable(bus_charts._table(TIMES, 1))
    made = ride([0.0, 0.0], [3, 2], "continuous", 1, table)
    assert_allclose(made.finish, [9e-3 + 2 * 6.2e-3, 2 * 9e-3 + 3 * 6.2e-3])
