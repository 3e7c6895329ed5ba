"""Figures of money draw what they are given."""

import numpy as np

from lib import price_charts, theme


def test_a_bar_spans_the_input_and_a_thin_line_the_law():
    spans = {"load": (1.0, 10.0, 1.0, 10.0), "model": (1.0, 7.8, 1.0, 9.0)}
    spec = theme.specification(price_charts.swings(spans, description="The load moves the cost most."))
    rows = [row for rows in spec["datasets"].values() for row in rows if "name" in row]
    assert [row["name"] for row in rows][:2] == ["load", "model"]
    assert {(row["low"], row["high"], row["least"], row["most"]) for row in rows} == {*spans.values()}
    thin, bars, _ = spec["layer"]
    assert (thin["encoding"]["x"]["field"], thin["encoding"]["x2"]["field"]) == ("least", "most")
    assert (bars["encoding"]["x"]["field"], bars["encoding"]["x2"]["field"]) == ("low", "high")


def test_bands_lie_behind_the_curves_that_they_belong_to():
    x = np.array([1.0, 2.0])
    spec = theme.specification(price_charts.searched(
        {"derived": ("price", [1, 0], x, x)}, {"found": (x, x, x, x)}, bands={"derived": (x, x / 2, 2 * x)},
        axes=(("target (ms)", {}, []), ("slots (sequences)", {}, [])), description="A band lies behind a line.",
    ))  # fmt: skip
    marks = [layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["area", "line", "rule", "point"]
    assert (spec["layer"][0]["encoding"]["y"]["field"], spec["layer"][0]["encoding"]["y2"]["field"]) == ("low", "high")
