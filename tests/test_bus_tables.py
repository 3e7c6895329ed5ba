"""Runs beside their simulation, in words and arrays, from records that are made up."""

import pytest
from numpy.testing import assert_allclose

from lib import bus_tables, engine_runs, serving_records
from tests.served import ENGINE_RUNS, ENGINE_STEPS, SERVED

PREDICTION = engine_runs.predicted(ENGINE_STEPS, [2])
COMPARED = engine_runs.compared(ENGINE_STEPS, PREDICTION, ENGINE_RUNS)
CAUSE = engine_runs.explained(ENGINE_STEPS, ENGINE_RUNS)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "served.json"
    serving_records.write(path, SERVED)
    return serving_records.cases(serving_records.record(path))


def test_each_case_is_a_row_and_its_miss_is_signed(cases):
    """Twice as long as it was is simulated 100 % too long."""
    twice = [one._replace(simulated_makespan=2 * one.makespan) for one in cases]
    table = bus_tables.own_misses(twice)
    assert {len(column) for column in table.values()} == {len(cases)}
    assert table["simulated, off by (%)"] == ["+100.0"] * len(cases)
    assert table["policy"] == [bus_tables.NAMES[one.policy] for one in cases]


def test_points_are_mean_least_and_most_of_the_rounds(cases):
    found = bus_tables.own_points(cases, "makespan")
    for one in cases:
        slots, *ends = found[bus_tables.NAMES[one.policy]]
        at = slots.tolist().index(one.slots)
        assert_allclose([end[at] for end in ends], [one.makespan.mean(), one.makespan.min(), one.makespan.max()])


def test_the_misses_of_an_engine_and_their_parts_by_hand():
    """Measured 9.5 s, predicted 8.4, steps timed again 16.8: 6.2 s too much in prompts, 1.6 in other steps."""
    table = bus_tables.engine_misses(COMPARED, CAUSE)
    row = {name: column[0].replace("\N{NO-BREAK SPACE}", " ") for name, column in table.items()}
    assert row["policy"] == "loop bus"
    assert row["makespan (s)"] == "9.00 to 10.0"
    assert row["foretold (%)"] == f"{100 * (8.4 / 9.5 - 1):+.1f}"
    assert row["re-timed (%)"] == f"{100 * (16.8 / 9.5 - 1):+.1f}"
    assert row["prompt steps (%)"] == f"{100 * 6.2 / 9.5:+.1f}"
    assert row["other steps (%)"] == f"{100 * 1.6 / 9.5:+.1f}"
    assert row["TTFT (%)"] == f"{100 * (2 * 15.3 / 16 - 1):+.1f}"
    assert row["TPOT (%)"] == f"{100 * (2 * 3.95 / 5 - 1):+.1f}"


def test_predicted_simulated_and_measured_makespans_by_hand():
    theory, simulated, measured = bus_tables.engine_ways(COMPARED)
    assert_allclose([float(part[0]) for part in theory["loop bus"][2:]], [2, 8.4])
    assert_allclose([float(part[0]) for part in simulated["loop bus"]], [2, 16.8, 16.8, 16.8])
    assert_allclose([float(part[0]) for part in measured["loop bus"]], [2, 9.5, 9, 10])


def test_causes_of_other_cases_are_refused():
    with pytest.raises(ValueError, match="cause must be of the cases compared, got 1 others"):
        bus_tables.engine_misses(COMPARED, CAUSE._replace(slots=CAUSE.slots + 1))


def test_no_case_is_refused():
    with pytest.raises(ValueError, match="cases must hold at least one, got none"):
        bus_tables.own_misses([])
