"""Figures of batches draw what they are given; the rules of `test_charts` hold for them too."""

import inspect
import json
import re

import numpy as np
import pytest

from lib import batch_charts, theme
from lib.schedule import continuous_schedule, static_schedule
from tests.conftest import ROOT
from tests.test_charts import SAID

X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.25, 0.5, 1.0])
LENGTHS = [3, 1, 2, 5, 4]
EXAMPLES = {
    "slots": lambda: batch_charts.slots(
        {"coach": static_schedule(LENGTHS, 2), "loop bus": continuous_schedule(LENGTHS, 2)},
        names=("makes tokens", "waits"), description=SAID,
    ),
    "curves": lambda: batch_charts.curves(
        {"one": ("weights", [1, 0], X, Y), "two": ("cache", [2, 3], X, 2 * Y)}, {"simulated": (X, Y, 0.9 * Y, 1.1 * Y)},
        x=("batch size (requests)", {"type": "log", "base": 2}), y=("time (ms)", {"domain": [0, 3]}),
        x_axis={"values": [1, 2, 4]}, columns=2, description=SAID,
    ),
    "calculator": lambda: batch_charts.calculator(
        {"raw_load": "0.5", "wait": "datum.share*fixed/1000", "mean": "0.002+datum.wait"},
        {"raw_load": "0.5", "wait": "own/1000", "mean": "0.002+datum.wait", "p99": "0.004", "busy": "0.5",
         "greedy_mean": "0.002", "greedy_p99": "0.003", "greedy_busy": "0.6", "best": "0", "cap": "5", "pass": "0.001"},
        description=SAID,
    ),
}  # fmt: skip


def functions():
    own = [item for item in vars(batch_charts).values() if inspect.isfunction(item)]
    return [item.__name__ for item in own if item.__module__ == batch_charts.__name__ and item.__name__[0] != "_"]


def test_every_kind_of_figure_has_an_example_here():
    assert sorted(functions()) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_chart_is_described_draws_and_wears_known_colours(name):
    spec = theme.specification(EXAMPLES[name]())
    assert spec["description"] == SAID
    svg = theme.static_svg(spec)
    assert svg.count("<path") + svg.count("<line") > 10
    assert "NaN" not in svg and "undefined" not in svg
    known = {colour.lower() for pair in (*theme.COLOURS.values(), theme.GRID, theme.GROUND) for colour in pair}
    drawn = {colour.lower() for colour in re.findall(r'(?:fill|stroke)="(#\w+|[a-z]+)"', svg)}
    assert drawn - known <= {"none", "transparent"}
    titles = set(re.findall(r'"(?:x|y)": \{[^{}]*"title": "([^"]+)"', json.dumps(spec)))
    assert all(re.search(r"\(.+\)", title) for title in titles)


def test_each_request_has_a_bar_and_waiting_has_another():
    """Five requests on the coach, of which two wait; five on the bus, where nobody does."""
    (rows,) = theme.specification(EXAMPLES["slots"]())["datasets"].values()
    kinds = [(row["row"].rsplit(" ", 1)[0], row["kind"]) for row in rows]
    assert kinds.count(("coach", "makes tokens")) == kinds.count(("loop bus", "makes tokens")) == 5
    assert kinds.count(("coach", "waits")) == 2
    assert kinds.count(("loop bus", "waits")) == 0


def test_points_are_never_joined():
    spec = theme.specification(EXAMPLES["curves"]())
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "rule", "point"]


def test_curves_without_points_are_lines_alone():
    chart = batch_charts.curves(
        {"one": ("weights", [1, 0], X, Y)}, {}, x=("time (s)", {}), y=("time (s)", {}), description=SAID
    )
    assert [layer["mark"]["type"] for layer in theme.specification(chart)["layer"]] == ["line"]


LINES = {"one": ("weights", [1, 0], X, Y), "two": ("cache", [2, 3], X, 3 * Y)}
ON_ONE = {"simulated": (X, 1.01 * Y, 0.99 * Y, 1.03 * Y)}


def test_a_line_that_its_points_miss_is_found():
    assert batch_charts._without_points(LINES, ON_ONE) == ["two"]
    assert batch_charts._without_points(LINES, {}) == ["one", "two"]
    both = {**ON_ONE, "others": (X[1:], 3 * Y[1:], 3 * Y[1:], 3 * Y[1:])}
    assert batch_charts._without_points(LINES, both) == []
    once = {**ON_ONE, "others": (X[1:2], 3 * Y[1:2], 3 * Y[1:2], 3 * Y[1:2])}
    assert batch_charts._without_points(LINES, once) == ["two"]


def test_a_line_without_points_is_refused_unless_it_is_named():
    options = {"x": ("time (s)", {}), "y": ("time (s)", {}), "description": SAID}
    with pytest.raises(ValueError, match=r"bare must name the lines without simulated points, \['two'\], got \[\]"):
        batch_charts.curves(LINES, ON_ONE, bare=(), **options)
    batch_charts.curves(LINES, ON_ONE, bare=("two",), **options)


@pytest.mark.parametrize("chapter", ["static_batching", "waiting_to_fill"])
def test_every_curve_of_the_coach_has_simulated_points_or_is_a_definition(chapter):
    """Each call says which lines may be bare, so that the build refuses any other without points."""
    text = (ROOT / "chapters" / f"{chapter}.md").read_text(encoding="utf-8")
    calls = text.split("batch_charts.curves(")[1:]
    assert len(calls) >= 5
    named = [re.search(r"bare=\(([^)]*)\)", call.split("\n))")[0]) for call in calls]
    assert all(named)
    definitions = {name for one in named for name in re.findall(r'"([^"]+)"', one[1])}
    assert definitions <= {"rented by the hour", "full passes", "full batches"}
