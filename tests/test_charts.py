"""Charts draw what they are given, in the theme's colours, with a description."""

import csv
import inspect
import io
import json
import re

import numpy as np
import pytest

from lib import charts, theme
from lib.expressions import Expression
from lib.figures import plotted_rows

SAID = "The line rises over the whole range and the points lie on it."
X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.25, 0.5, 1.0])
ROOF = {
    "n": X, "intensity": Expression("datum.n"), "rate": Expression("datum.n") * 1e12,
    "time": Expression("batch") / 1e3, "start": (X, 1e12 * X),
}  # fmt: skip
EXAMPLES = {
    "roofline": lambda: charts.roofline(
        (["A", "B"], [1e12, 2e12], [1e14, 2e14]), ROOF, ROOF, ROOF, description=SAID,
    ),
    "two_times": lambda: charts.two_times(["A", "B", "C"], Y, Y / 100, [True, False, True], description=SAID),
    "memory_sizes": lambda: charts.memory_sizes(["A", "B", "C"], 1e6 * Y, 1e10 * Y, {"8B": 1.6e10}, description=SAID),
    "lines": lambda: charts.lines(
        {"one": ("weights", [1, 0], X, Y), "two": ("muted", [4, 4], X[:2], Y[:2])},
        x_title="batch size (sequences)", y_title="step time (ms)", marks={"seen": (X, Y)}, description=SAID,
    ),
    "measured": lambda: charts.measured(
        {"bound": ("weights", [1, 0], X, Y)}, {"seen": (X, Y, 0.9 * Y, 1.1 * Y), "again": (X, Y, Y, Y)},
        y_title="step time (ms)", y_scale={"type": "log"}, description=SAID,
    ),
    "by_year": lambda: charts.by_year(
        ["A", "B", "C"], [2016, 2020, 2024], 100 * Y, ([2016, 2024], [20, 90], [10, 70], [30, 120]),
        y_title="ridge point (FLOP/B)", labelled=["B"], description=SAID,
    ),
    "ratio_dots": lambda: charts.ratio_dots(["A", "B", "B"], 1 + Y, ["kernels", "engine", "engine"],
                                            x_title="measured over bound", description=SAID),
    "regimes": lambda: charts.regimes(
        (["A", "B"], [1e12, 2e12], [1e14, 2e14], [4e10, 8e10]),
        (["M", "N"], [1e10, 2e10], [9e9, 2e10], [1e5, 2e5], [2e10, 3e10], [1e5, 1e5]),
        {"weights": Expression("read") / 1e12, "cache": Expression("datum.n") / 1e3,
         "arithmetic": Expression("datum.n") / 2e3, "step": Expression("datum.n") / 1e3,
         "full": Expression("room") / 1e10},
        X, description=SAID,
    ),
    "against": lambda: charts.against(Y, 1.1 * Y, ["one", "two", "one"], unit="step", description=SAID),
    "ranges": lambda: charts.ranges(["A", "B", "C"], -Y, 0 * Y, Y, ["one", "one", "two"],
                                    x_title="error (%)", description=SAID),
}  # fmt: skip


def functions():
    own = [item for item in vars(charts).values() if inspect.isfunction(item) and item.__module__ == charts.__name__]
    return [item.__name__ for item in own if not item.__name__.startswith("_")]


def test_every_kind_of_figure_has_an_example_here():
    assert sorted(functions()) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_chart_is_described_and_draws(name):
    spec = theme.specification(EXAMPLES[name]())
    assert spec["description"] == SAID
    svg = theme.static_svg(spec)
    assert svg.count("<path") + svg.count("<line") > 10
    assert "NaN" not in svg and "undefined" not in svg


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_chart_wears_no_colour_that_dark_mode_does_not_know(name):
    known = {colour.lower() for pair in (*theme.COLOURS.values(), theme.GRID, theme.GROUND) for colour in pair}
    drawn = {colour.lower() for colour in re.findall(r'(?:fill|stroke)="(#\w+|[a-z]+)"', theme.static_svg(
        theme.specification(EXAMPLES[name]())))}  # fmt: skip
    assert drawn - known <= {"none", "transparent"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_number_on_an_axis_has_its_unit_in_the_title(name):
    spec = theme.specification(EXAMPLES[name]())
    titles = set(re.findall(r'"(?:x|y)": \{[^{}]*"title": "([^"]+)"', json.dumps(spec)))
    for title in titles:
        assert re.search(r"\(.+\)|year|over", title), title


def test_the_lines_and_points_are_the_ones_given():
    table = [*csv.DictReader(io.StringIO(plotted_rows(theme.specification(EXAMPLES["lines"]()))))]
    assert [float(row["step time (ms)"]) for row in table] == [*Y, *Y[:2], *Y]
    assert [row["series"] for row in table] == ["one"] * 3 + ["two"] * 2 + [""] * 3


def test_points_are_never_joined():
    spec = theme.specification(EXAMPLES["lines"]())
    marks = [layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["line", "point"]


def test_a_description_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="description must say what the chart shows"):
        charts.lines({"one": ("weights", [1, 0], X, Y)}, x_title="x", y_title="y", description="A chart.")


def test_a_row_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="step must be a number, got nan"):
        theme.rows(batch=[1, 2], step=[1.0, np.nan])
    with pytest.raises(ValueError, match="must broadcast together"):
        theme.rows(batch=[1, 2, 3], step=[1.0, 2.0])


def test_layers_that_plot_the_same_rows_hold_them_once():
    shared = theme.rows(batch=X, step=Y)
    two = charts.alt.Chart(shared).mark_line() + charts.alt.Chart(theme.rows(batch=X, step=Y)).mark_point()
    spec = theme.specification(theme.finished(two, SAID))
    assert len(spec["datasets"]) == 1
