"""The record of simulated points is whole, agrees with theory, and a small grid of it runs here."""

import csv
import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import simulated
from scripts import simulate_batching

with simulate_batching.OUT.open(newline="", encoding="utf-8") as opened:
    RECORD = [*csv.DictReader(opened)]


@functools.cache
def cases(name):
    """Return the points of an experiment: what theory says of them takes a while."""
    return [*simulate_batching.EXPERIMENTS[name]()]


JUDGED = [row for row in RECORD if row["expected"]]
# The gamma law has the mean and variance of the batch time, not the rest of it.
APPROXIMATE = ("coach-queue", "two-users-queue", "control-limit", "bus-wait", "bus-load")


def test_the_record_holds_every_point_of_every_experiment():
    for name in simulate_batching.EXPERIMENTS:
        mine = [row for row in RECORD if row["experiment"] == name]
        assert {row["x"] for row in mine} == {f"{case.x:.6g}" for case in cases(name)}, name
        assert {int(row["replications"]) for row in mine} == {simulate_batching.REPLICATIONS}
        assert {int(row["seed"]) for row in mine} == {simulate_batching.SEED}
    assert {row["experiment"] for row in RECORD} == {*simulate_batching.EXPERIMENTS}


def test_the_recorded_expectations_are_what_the_formulas_say_now():
    for name in simulate_batching.EXPERIMENTS:
        for case in cases(name):
            for series, expected in case.expected.items():
                rows = [
                    row for row in RECORD
                    if (row["experiment"], row["series"], row["x"]) == (name, series, f"{case.x:.6g}")
                ]  # fmt: skip
                assert any(float(row["expected"]) == pytest.approx(expected, rel=1e-4, abs=1e-9) for row in rows)


def test_exact_formulas_lie_in_their_intervals():
    """At 95 %, one in twenty may miss; none by three half-widths, which is one in a hundred million."""
    exact = [row for row in JUDGED if row["experiment"] not in APPROXIMATE]
    misses = [abs(float(row["mean"]) - float(row["expected"])) / max(float(row["half_width"]), 1e-9) for row in exact]
    assert max(misses) < 3
    assert np.mean(np.array(misses) > 1) < 0.1


def test_the_matched_moments_come_near():
    rough = [row for row in JUDGED if row["experiment"] in APPROXIMATE]
    for row in rough:
        slack = 3 * float(row["half_width"]) + 0.03 * float(row["mean"])
        assert abs(float(row["mean"]) - float(row["expected"])) < slack, row


def test_the_intervals_are_narrow_enough_to_tell_something():
    widths = [float(row["half_width"]) / abs(float(row["mean"])) for row in RECORD if float(row["mean"])]
    assert np.median(widths) < 0.02
    assert np.quantile(widths, 0.95) < 0.15


@pytest.mark.parametrize("name", simulate_batching.EXPERIMENTS)
def test_a_short_run_meets_the_record(name):
    """The first, the middle and the last point, with fewer requests: within five times the joint error."""
    known = cases(name)
    bus = name.startswith("bus-")  # iteration by iteration: the first point, and fewer requests still
    chosen = known[:1] if bus else (known[0], known[len(known) // 2], known[-1])
    for case in {case.x: case for case in chosen}.values():
        part = 4 if name != "best-timeout" else 20
        count = case.count // 4 if name == "sorted" else 640 if bus else max(case.count // part, 2_048)
        rows = [*simulate_batching.rows(name, case, np.random.default_rng(1), replications=20, count=count)]
        for row in rows:
            points = simulated.points(name, row["series"])
            at = int(np.argmin(np.abs(points.x - case.x)))
            joint = np.hypot(float(row["half_width"]), points.high[at] - points.mean[at])
            assert abs(float(row["mean"]) - points.mean[at]) < 2.5 * joint + 0.03 * abs(points.mean[at]), row


def test_points_come_in_order_with_their_intervals():
    found = simulated.points("longest", "arxiv")
    assert_allclose(found.x, [2, 4, 8, 16, 32, 64, 128])
    assert np.all(found.low < found.mean) and np.all(found.mean < found.high)
    assert simulated.effort("longest") == (40, 12_800)


def test_an_unknown_series_is_refused():
    with pytest.raises(ValueError, match="experiment must be one of"):
        simulated.points("no such", "arxiv")
    with pytest.raises(ValueError, match="series must be one of"):
        simulated.points("longest", "no such")
