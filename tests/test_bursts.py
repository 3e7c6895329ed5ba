"""Where the share of late requests crosses its level, and what the record says of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import bursts, first_token, pause_record, queueing
from scripts import simulate_first_token as script

LOADS = [0.2, 0.4, 0.6, 0.8]


def test_a_share_crosses_between_its_points():
    found = bursts.crossing(LOADS, [0.0, 0.005, 0.015, 0.1], np.zeros(4))
    assert_allclose(found, [0.5, 0.5, 0.5])


def test_the_interval_comes_from_the_ends_of_the_shares():
    found = bursts.crossing(LOADS, [0.0, 0.005, 0.015, 0.1], np.full(4, 0.005))
    assert_allclose(found, [0.5, 0.4, 0.6])


def test_above_the_level_from_the_start_is_no_load_at_all_and_below_to_the_end_the_last():
    assert bursts.crossing(LOADS, [0.02, 0.03, 0.04, 0.05], np.zeros(4)) == (0, 0, 0)
    assert bursts.crossing(LOADS, [0.0, 0.001, 0.002, 0.003], np.zeros(4)) == (0.8, 0.8, 0.8)


def test_a_share_that_falls_again_by_chance_has_not_risen():
    assert_allclose(bursts.crossing(LOADS, [0.011, 0.005, 0.015, 0.1], np.zeros(4)).load, 0.5)


@pytest.mark.parametrize("load", [[0.4, 0.2], [0.4, 0.4]])
def test_loads_must_rise(load):
    with pytest.raises(ValueError, match="load must rise"):
        bursts.crossing(load, [0.0, 0.1], [0.0, 0.0])


@pytest.mark.parametrize(
    ("share", "load"),
    [([0.005, 0.015, 0.02], 0.3), ([0.01, 0.02, 0.03], 0.2), ([0.01, 0.01, 0.02], 0.4), ([0.01, 0.01, 0.01], 0.6)],
)
def test_a_share_at_the_level_has_not_crossed_it(share, load):
    assert_allclose(bursts.crossing([0.2, 0.4, 0.6], share, np.zeros(3)).load, load)


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", [-0.5, 0.1]), ("share", [0.1, 1.5]), ("half_width", [-0.5, 0]), ("level", -0.5), ("level", 1.5)],
)
def test_shares_are_between_nothing_and_all(name, value):
    whole = {"load": [0.2, 0.4], "share": [0.0, 1.0], "half_width": [0.0, 0.0], "level": 0.01}
    assert bursts.crossing(**whole | {"level": 0.0}).load == 0.2
    with pytest.raises(ValueError, match=name):
        bursts.crossing(**whole | {name: value})


def test_more_bursty_arrivals_bear_less_at_either_target():
    for target in first_token.TARGETS:
        loads = [bursts.bearable_load(cv, target).load for cv in script.VARIATIONS]
        assert np.all(np.diff(loads) <= 0)
        assert loads[0] > 0.85
        assert loads[-1] < loads[0] / 2
    assert np.all(
        [bursts.bearable_load(cv, 2.0).load >= bursts.bearable_load(cv, 1.0).load for cv in script.VARIATIONS]
    )


def test_the_record_of_targets_is_what_the_code_gives():
    case = first_token.Case(workload=script.CHAT, step=script.H100, policy="vllm")
    loads, means, half = pause_record.curve("ttft", "load", experiment="targets", setting=2.0)
    rate = loads[0] * script.capacity(case)
    requests = script.drawn(script.CHAT, rate, script.TARGETED, 0, cv=2.0)
    said = first_token.summary(*first_token.simulated(case, requests))
    assert abs(said["ttft"] - means[0]) < 4.5 * half[0] * 1.5


def test_a_curve_of_the_record_is_in_order_and_names_one_row_a_place():
    settings, means, half = pause_record.curve("itl_p99", "setting", experiment="chunk")
    assert np.all(np.diff(settings) > 0)
    assert np.all(np.diff(means) > 0)
    assert np.all(half > 0)
    with pytest.raises(ValueError, match="where must name one row of ttft at each setting, got"):
        pause_record.curve("ttft", "setting", experiment="bursts")
    with pytest.raises(ValueError, match="along must be one of setting, load"):
        pause_record.curve("ttft", "policy", experiment="bursts")


def test_the_rate_of_a_case_is_its_load_of_the_capacity():
    case = {"experiment": "targets", "setting": 2.0}
    rates = [pause_record.arrival_rate(load=load, **case) / load for load in (0.75, 0.92)]
    assert_allclose(rates[0], rates[1], rtol=1e-4)
    with pytest.raises(ValueError, match="where must name one case, got"):
        pause_record.arrival_rate(**case)


def test_a_variation_must_be_one_of_its_experiment():
    table = pause_record.rows()
    elsewhere = np.setdiff1d(*(table["setting"][table["experiment"] == name] for name in ("chunk", "targets")))
    with pytest.raises(ValueError, match=r"variation must be one of (?!.*512)"):
        bursts.bearable_load(elsewhere.max(), 1.0)


def test_a_target_must_be_one_of_the_record():
    assert first_token.later_than(2.0) == "later_than_2"
    with pytest.raises(ValueError, match=r"target must be one of 1\.0, 2\.0, got 3\.0"):
        first_token.later_than(3.0)


def test_kingman_with_independent_gaps_is_above_a_server_that_batches():
    """The record at load 0.8: simulated waits stay below the formula of a single server from a variation of 2."""
    settings, means, half = pause_record.curve("ttft", "setting", experiment="bursts", load=0.8)
    capacity = script.capacity(first_token.Case(workload=script.CHAT, step=script.H100, policy="vllm"))
    formula = queueing.gg1_wait(0.8 * capacity, 1 / capacity, settings**2, 1.0)
    assert np.all((means + half)[2:] < formula[2:] + 0.03)
