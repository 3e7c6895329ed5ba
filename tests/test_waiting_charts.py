"""Charts of waiting draw every second they are given, in the colour of its cause."""

import numpy as np

from lib import theme, waiting_charts
from lib.waiting_charts import CAUSES, ORDER

SAID = "Most of the pause is the own prompt, and no part of it is deliberate."
PARTS = {cause: np.array([0.01, 0.02]) for cause in ORDER} | {"slot": np.zeros(2)}


def drawn(chart):
    """Return the rows of a chart."""
    return [row for rows in theme.specification(chart)["datasets"].values() for row in rows]


def test_bars_are_as_long_as_their_parts_together():
    rows = drawn(waiting_charts.stacked(["a", "b"], PARTS, x_title="TTFT (ms)", description=SAID))
    assert max(row["end"] for row in rows if row["name"] == "a") == 50
    assert {row["cause"] for row in rows} == {CAUSES[cause][0] for cause in ORDER if cause != "slot"}


def test_a_life_runs_from_arrival_to_the_last_token_and_is_cut_at_the_end_of_the_axis():
    panels = {"vLLM": (np.array([0.0, 1.0]), PARTS, np.array([0.5, 9.0]))}
    rows = [row for row in drawn(waiting_charts.lives(panels, x_title="time (s)", until=2.0, description=SAID))
            if "start" in row]  # fmt: skip
    assert min(row["start"] for row in rows) == 0
    assert max(row["end"] for row in rows) == 2
    one = [row for row in rows if row["y"] == 1]
    assert sum(row["end"] - row["start"] for row in one) == 0.5


def test_every_cause_has_a_colour_of_its_own():
    assert len({meaning for _, meaning in CAUSES.values()}) == len(CAUSES) == len(ORDER)


def test_simulated_points_have_intervals_and_formulas_have_none():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    chart = waiting_charts.simulated(
        {"simulated": ("simulated", [1, 0], x, y, 0.5 * y), "formula": ("muted", [4, 4], x, 2 * y, None)},
        x_title="load", y_title="TTFT (ms)", x_scale={"zero": False}, y_scale={"type": "log"}, description=SAID,
    )  # fmt: skip
    spans = [row for row in drawn(chart) if "low" in row]
    assert [(row["low"], row["high"]) for row in spans] == [(1.5, 4.5), (2, 6)]
    assert {row["series"] for row in spans} == {"simulated"}
