"""The formulas against simulation: the committed record is whole and agrees, and a small grid of it runs here."""

import csv

import numpy as np
import pytest

from scripts import validate_theory
from scripts.validation.experiment import Check
from tests.valid_calls import CALLS as ALL_CALLS
from tests.valid_queueing_calls import CALLS

with validate_theory.OUT.open(newline="", encoding="utf-8") as opened:
    RECORD = [*csv.DictReader(opened)]
# What has nothing to simulate.
SELF_EVIDENT = {
    "erlang.birth_death_law": "its balance equations are tested in test_erlang, and mmck_law is made of it",
    "multiserver.halfin_whitt_servers": "a definition",
    "multiserver.halfin_whitt_wait_probability": "a limit: test_multiserver holds it against ever more servers",
    "token_load.useful_share": "a ratio of two sums over measured lengths, tested in test_token_load",
    "token_load.memory_limited_rate": "a necessary condition, from Little's law; a step time that is measured",
    "token_load.work_conserving_rate": "a stability limit that is quoted; its parts are defined",
    "token_load.staircase_step_time": "a definition",
    "batch_law.batch_time": "a definition",
    "batch_law.token_rate": "a definition; token_cost is computed from it the other way round",
    "batch_law.usl_token_rate": "a definition",
}


def test_every_function_is_in_the_record_or_has_nothing_to_simulate():
    tables = CALLS | {"timeout_batching": ALL_CALLS["timeout_batching"]}
    called = [(f"{module}.{name}", given) for module, table in tables.items() for name, given in table.items()]
    functions = {name for name, given in called if isinstance(given, dict)}
    recorded = {row["function"].partition(":")[0] for row in RECORD}
    assert functions - recorded == {*SELF_EVIDENT}
    assert recorded - functions == set()


def test_the_record_holds_every_experiment_at_every_load():
    wanted = {
        (function, f"{load:g}")
        for case in validate_theory.WITH_LOAD.values()
        for load in validate_theory.LOADS
        for function in case(load).checks
    }
    assert wanted - {(row["function"], row["load"]) for row in RECORD} == set()
    assert {row["load"] for row in RECORD if row["load"]} == {"0.1", "0.5", "0.9", "0.97"}


def test_the_recorded_numbers_are_what_the_formulas_say_now():
    for case in validate_theory.WITH_LOAD.values():
        for load in validate_theory.LOADS:
            experiment = case(load)
            for function, check in experiment.checks.items():
                (row,) = [
                    row for row in RECORD
                    if (row["function"], row["setting"], row["load"]) == (function, experiment.setting, f"{load:g}")
                ]  # fmt: skip
                assert row["kind"] == check.kind
                assert float(row["expected"]) == pytest.approx(check.expected, rel=1e-4, abs=1e-12), function


def test_every_recorded_number_agrees():
    """At 99.9 %, about one exact number in a thousand may miss its interval; none did in this record."""
    assert [row for row in RECORD if row["agrees"] != "True"] == []


def test_the_recorded_intervals_are_narrow_enough_to_tell_something():
    """At each load half of them are within 4 % of the mean, and all within 30 %; rare things apart."""
    exact = [row for row in RECORD if row["kind"] == "exact" and float(row["simulated"]) > 0.02]
    for load in ("0.1", "0.5", "0.9", "0.97"):
        widths = [float(row["half_width"]) / float(row["simulated"]) for row in exact if row["load"] == load]
        assert np.median(widths) < 0.04
        assert max(widths) < 0.3


CASES = {**validate_theory.WITH_LOAD, **validate_theory.WITHOUT_LOAD}


@pytest.mark.parametrize("name", CASES)
def test_a_formula_meets_a_short_simulation(name):
    load = 0.6 if name in validate_theory.WITH_LOAD else ""
    experiment = CASES[name](load) if load else CASES[name]()
    rows = validate_theory.rows(experiment, load, 2_000, np.random.default_rng(11), replications=20)
    assert [row for row in rows if not row["agrees"]] == []


def test_what_is_searched_for_is_found():
    assert [row for row in validate_theory.searched() if not row["agrees"]] == []


@pytest.mark.parametrize(
    ("kind", "expected", "agrees"),
    [
        ("exact", 1.09, True), ("exact", 1.11, False), ("exact", 0.89, False), ("approximate", 9.0, True),
        ("upper", 0.91, True), ("upper", 0.89, False), ("lower", 1.09, True), ("lower", 1.11, False),
    ],
)  # fmt: skip
def test_a_wrong_formula_would_be_seen(kind, expected, agrees):
    assert validate_theory.outcome(Check(kind, expected), 1.0, 0.1) is agrees
