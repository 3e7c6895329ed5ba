"""A prediction and the runs it is judged by, on an engine that is made up."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import engine_runs
from tests.served import ENGINE_RUNS
from tests.served import ENGINE_STEPS as STEPS


def runs_of(**changes):
    return ENGINE_RUNS | changes


def test_the_prediction_follows_vllms_rules_by_hand():
    """Both board in 4 s, a step of 1.2; the third beside the first in 2 - 1.1 + 1.2; the last step 1.1."""
    made = {(case["policy"], case["slots"]): case for case in engine_runs.predicted(STEPS, [1, 2])["cases"]}
    assert len(made) == 6
    one = made["continuous", 2]
    assert one["makespan"] == pytest.approx(8.4)
    assert one["first_token"] == pytest.approx((4 + 4 + 7.3) / 3)
    assert one["time_per_token"] == pytest.approx((3.3 / 2 + 1.2 + 1.1) / 3)
    assert made["padded", 2]["makespan"] == pytest.approx(4 + 2 * 1.2 + 2 + 1.1)
    assert made["early exit", 2]["makespan"] == pytest.approx(4 + 1.2 + 1.1 + 2 + 1.1)


JOINING = {"boards": [1], "joining": [None, 1.5]}


def test_where_steps_with_prompts_beside_others_were_timed_they_are_taken():
    """As above, but the third beside the first in 1.5 s instead of 2 - 1.1 + 1.2."""
    steps = STEPS | {"visits": [STEPS["visits"][0] | JOINING]}
    made = engine_runs.predicted(steps, [2])["cases"]
    assert [case["makespan"] for case in made] == pytest.approx([9.5, 9.4, 7.8])
    before = ENGINE_RUNS["runs"][0]["before"] | {"boards": [1], "joining": [None, 2.7]}
    runs = runs_of(runs=[run | {"before": before} for run in ENGINE_RUNS["runs"]])
    compared = engine_runs.compared(steps, engine_runs.predicted(steps, [2]), runs)
    assert compared.retimed[0] == pytest.approx(8 + 2.4 + 2.7 + 2.2)


def test_prediction_and_run_stand_side_by_side():
    compared = engine_runs.compared(STEPS, engine_runs.predicted(STEPS, [2]), runs_of())
    assert compared.quantity == ["makespan", "first token", "time per token"]
    assert_allclose(compared.predicted[0], 8.4)
    assert_allclose(compared.retimed[0], 2 * 8.4)  # right before the runs every step took twice as long
    assert_allclose((compared.measured[0], compared.least[0], compared.most[0]), (9.5, 9, 10))
    assert_allclose(compared.measured[1:], [16 / 3, (2 + 2 + 1) / 3])


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (runs_of(output_length=[3, 2, 9]), "runs must be of the requests in the prediction, got 3 others"),
        (
            runs_of(runs=[runs_of()["runs"][0] | {"slots": 3}]),
            r"runs must have been predicted, got \('continuous', 3\)",
        ),
    ],
)
def test_a_run_that_was_not_predicted_is_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        engine_runs.compared(STEPS, engine_runs.predicted(STEPS, [2]), runs)


def test_the_parts_of_a_miss_by_hand():
    """Steps timed: 8 and 4.2 s with a prompt, 2.4 and 2.2 without. Taken: 6 and 3 s, and half a second between."""
    cause = engine_runs.explained(STEPS, runs_of())
    assert (cause.policy, cause.slots.tolist(), cause.steps.tolist()) == (["continuous"], [2], [4])
    assert cause.alike.all()
    assert_allclose((cause.boarding[0], cause.decoding[0], cause.between[0]), np.array([6.2, 1.6, -0.5]) / 9.5)
    compared = engine_runs.compared(STEPS, engine_runs.predicted(STEPS, [2]), runs_of())
    assert_allclose(cause.boarding + cause.decoding + cause.between, compared.retimed[0] / compared.measured[0] - 1)


def test_steps_of_another_size_are_told_and_not_compared():
    other = [run | {"step_size": [2, 2, 1, 2]} for run in runs_of()["runs"]]
    cause = engine_runs.explained(STEPS, runs_of(runs=other))
    assert not cause.alike.any()
    assert np.isnan([*cause.boarding, *cause.decoding]).all()


def test_what_one_visit_alone_would_have_predicted_is_written_down():
    twice = [visit | {"time": [2 * time for time in visit["time"]]} for visit in STEPS["visits"]]
    made = engine_runs.predicted(STEPS | {"visits": STEPS["visits"] + twice}, [2])["cases"][2]
    assert_allclose([made[key] for key in ("least", "makespan", "most")], [8.4, 12.6, 16.8])


def test_the_worst_misses_are_those_of_makespans():
    compared = engine_runs.Comparison(
        ["continuous", "continuous", "padded", "early exit"], np.full(4, 2),
        ["makespan", "first token", "makespan", "makespan"],
        *np.array([[9.0, 90, 9, 12], [11, 10, 10, 7], [10, 10, 10, 10], [9, 9, 9, 9], [11, 11, 11, 11]]),
    )  # fmt: skip
    assert engine_runs.worst_misses(compared) == pytest.approx((0.1, 0.3))
    assert engine_runs.worst_misses(compared, "predicted") == pytest.approx((0.1, 0.2))
    with pytest.raises(ValueError, match="compared must hold a static makespan, got none"):
        engine_runs.worst_misses(engine_runs.compared(STEPS, engine_runs.predicted(STEPS, [2]), runs_of()))


def test_step_times_are_means_of_all_visits():
    once = STEPS["visits"][0] | JOINING
    twice = once | {"time": [2 * time for time in once["time"]], "joining": [None, 2 * JOINING["joining"][1]]}
    table = engine_runs.step_times(STEPS | {"visits": [once, twice]})
    assert_allclose(table.joining, [[np.inf], [1.5 * 1.5]])
    assert_allclose(table.steps, 1.5 * np.array([[1.1, 1.1], [1.2, 1.2]]))
    assert_allclose(table.boarding, [3.0, 6.0])


def test_records_are_read_together_or_not_at_all(tmp_path):
    assert engine_runs.committed("vllm", tmp_path) is None
    (tmp_path / "vllm-steps.json").write_text(json.dumps(STEPS))
    (tmp_path / "vllm-prediction.json").write_text(json.dumps(engine_runs.predicted(STEPS, [2])))
    assert engine_runs.committed("vllm", tmp_path) is None
    (tmp_path / "vllm-run.json").write_text(json.dumps(runs_of()))
    assert np.isfinite(engine_runs.compared(*engine_runs.committed("vllm", tmp_path)).measured).all()


def test_steps_are_timed_again_in_the_sitting_of_the_run():
    """An hour before the second round steps took half as long: each round is judged by its own hour."""
    first, second = runs_of()["runs"]
    early = first | {"at": "2026-01-01T10:00:00+00:00", "before": {"sizes": [1, 2], "time": [1.1, 2.0, 1.2, 4.0]}}
    late = second | {"at": "2026-01-01T11:00:00+00:00"}
    made = engine_runs.compared(STEPS, engine_runs.predicted(STEPS, [2]), runs_of(runs=[early, late]))
    assert_allclose(made.retimed[0], (8.4 + 16.8) / 2)
    ten_minutes = second | {"at": "2026-01-01T10:10:00+00:00"}
    made_at_once = engine_runs.compared(
        STEPS, engine_runs.predicted(STEPS, [2]), runs_of(runs=[early, ten_minutes])
    )  # fmt: skip
    assert_allclose(made_at_once.retimed[0], 12.6)  # one sitting: both rounds by the mean of both timings
    cause = engine_runs.explained(STEPS, runs_of(runs=[early, late]))
    assert_allclose(cause.boarding + cause.decoding + cause.between, made.retimed[0] / made.measured[0] - 1)


@pytest.mark.parametrize(
    ("name", "bus"), [("vllm", 0.08), ("vllm-again", 0.10), ("vllm-third", 0.08), ("transformers", 0.08)]
)
def test_the_committed_runs_meet_the_prediction_with_the_speed_of_the_machine_right_before(name, bus):
    """The target: 8 % continuous, 12 % static. One bus of the second is 1 % beyond: its prompts were cheaper."""
    found = engine_runs.committed(name)
    if found is None:
        pytest.skip("no run of an engine is recorded")
    steps, prediction, runs = found
    compared, cause = engine_runs.compared(*found), engine_runs.explained(steps, runs)
    misses = compared.retimed / compared.measured - 1
    for policy, quantity, miss in zip(compared.policy, compared.quantity, misses, strict=True):
        if quantity == "makespan":
            assert abs(miss) < (bus if policy == "continuous" else 0.12)
    assert cause.alike.all(), "the engine steps as the simulation says"
    whole = cause.boarding + cause.decoding + cause.between
    parts = {case[:2]: case[2] for case in zip(cause.policy, cause.slots, whole, strict=True)}
    for policy, slots, quantity, miss in zip(compared.policy, compared.slots, compared.quantity, misses, strict=True):
        if quantity == "makespan":
            assert parts[policy, slots] == pytest.approx(miss, abs=1e-6), "and every miss is the time of steps"
    for written, again in zip(prediction["cases"], engine_runs.predicted(steps, (4, 8, 16, 32))["cases"], strict=True):
        assert again["policy"] == written["policy"]
        numbers = {key: value for key, value in written.items() if key != "policy"}
        assert {key: again[key] for key in numbers} == pytest.approx(numbers, rel=1e-9)
