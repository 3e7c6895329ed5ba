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


def test_records_are_read_together_or_not_at_all(tmp_path):
    assert engine_runs.committed("vllm", tmp_path) is None
    (tmp_path / "vllm-steps.json").write_text(json.dumps(STEPS))
    (tmp_path / "vllm-prediction.json").write_text(json.dumps(engine_runs.predicted(STEPS, [2])))
    assert engine_runs.committed("vllm", tmp_path) is None
    (tmp_path / "vllm-run.json").write_text(json.dumps(runs_of()))
    assert np.isfinite(engine_runs.compared(*engine_runs.committed("vllm", tmp_path)).measured).all()


def test_the_committed_runs_meet_the_prediction_with_the_speed_of_the_machine_right_before():
    """The target: 8 % continuous, 12 % static; the prediction itself was written down for a slower hour."""
    found = engine_runs.committed("vllm")
    if found is None:
        pytest.skip("no run of an engine is recorded")
    compared = engine_runs.compared(*found)
    for policy, quantity, retimed, measured in zip(
        compared.policy, compared.quantity, compared.retimed, compared.measured, strict=True
    ):
        if quantity == "makespan":
            assert abs(retimed / measured - 1) < (0.08 if policy == "continuous" else 0.12)
    for written, again in zip(
        found[1]["cases"], engine_runs.predicted(found[0], (4, 8, 16, 32))["cases"], strict=True
    ):
        assert again.pop("policy") == written["policy"]
        assert again == pytest.approx({key: written[key] for key in again}, rel=1e-9)
