"""Figures of batches draw what they are given; the rules of `test_charts` hold for them too."""

import inspect
import json
import re

import numpy as np
import pytest

from lib import batch_charts, theme
from lib.schedule import continuous_schedule, static_schedule
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
        {"raw_load": "0.5", "wait": "own/1000", "mean": "0.002+datum.wait", "size": "1.5", "busy": "0.5",
         "greedy_mean": "0.002", "greedy_busy": "0.6", "best": "0"},
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
