"""Boarding: who sits where and when, by hand; then replayed and compared with the queue simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lib import boarding, queues, simulation
from lib.batching import ContinuousBatching, DynamicBatching
from lib.boarding import POLICIES, StepTimes, Timetable, ride
from lib.replica import StepLoad
from lib.trace import Trace


def timetable(most=64, prompt=4, fixed=1.0, marginal=0.0, context=0.0, boarding_time=0.0):
    """Return a bus whose step takes ``fixed + marginal n + context longest``, and a prompt `boarding_time`."""
    sizes, longest = np.array([1, 2, most]), np.array([1, 1000])
    steps = fixed + marginal * sizes[:, None] + context * longest
    reading = np.maximum(boarding_time * sizes, 1e-12)
    return Timetable(StepTimes(prompt=prompt, sizes=sizes, longest=longest, steps=steps, boarding=reading))


def at_once(lengths, policy, slots, **times):
    return ride(np.zeros(len(lengths)), lengths, policy, slots, timetable(**times))


def test_the_same_four_passengers_under_each_policy_by_hand():
    """Lengths 2, 5, 3, 3 on two slots, a step of 1 s, prompts free: the first token is there at once."""
    lengths = [2, 5, 3, 3]
    padded = at_once(lengths, "padded", 2)
    assert_allclose(padded.finish, [1, 4, 6, 6], atol=1e-9)
    assert_allclose(padded.boarded, [0, 0, 4, 4], atol=1e-9)
    early = at_once(lengths, "early exit", 2)
    assert_allclose(early.finish, padded.finish, atol=1e-9)
    assert early.step_size[early.step_kind == 1].tolist() == [2, 1, 1, 1, 2, 2]
    assert padded.step_size[padded.step_kind == 1].tolist() == [2] * 6
    continuous = at_once(lengths, "continuous", 2)
    assert_allclose(continuous.finish, [1, 4, 3, 5], atol=1e-9)
    assert_allclose(continuous.boarded, [0, 0, 1, 3], atol=1e-9)


def test_a_finished_slot_costs_in_a_padded_batch_only():
    """Lengths 2 and 5, a step of 1 s and 1 s a slot: 4 steps of 3 s, or one of 3 s and three of 2 s."""
    assert_allclose(at_once([2, 5], "padded", 2, marginal=1.0).finish, [3, 12], atol=1e-9)
    assert_allclose(at_once([2, 5], "early exit", 2, marginal=1.0).finish, [3, 9], atol=1e-9)


def test_reading_prompts_holds_up_those_who_sit_already():
    """Boarding takes 10 s a prompt: 20 s for two, and the third boards after one step."""
    made = at_once([2, 4, 3], "continuous", 2, boarding_time=10.0)
    assert_allclose(made.first_token, [20, 20, 31], atol=1e-9)
    assert_allclose(made.finish, [21, 33, 33], atol=1e-9)


def test_an_output_of_one_token_needs_no_step():
    made = at_once([1, 1, 3], "continuous", 1, boarding_time=1.0)
    assert_allclose(made.finish, [1, 2, 5], atol=1e-9)
    assert made.step_kind.tolist() == [0, 0, 0, 1, 1]


def test_a_static_batch_takes_who_is_there_and_a_continuous_bus_lets_in_between_steps():
    arrivals, lengths = [0.0, 0.5, 10.0], [4, 4, 2]
    static = ride(arrivals, lengths, "early exit", 2, timetable())
    assert_allclose(static.boarded, [0, 3, 10], atol=1e-9)
    continuous = ride(arrivals, lengths, "continuous", 2, timetable())
    assert_allclose(continuous.boarded, [0, 1, 10], atol=1e-9)


def test_step_times_are_read_by_size_and_by_the_longest():
    """By hand: 1 + 2 n + 0.1 longest; a prompt of 4 and its first step make 5."""
    made = at_once([2, 3, 3], "continuous", 2, prompt=4, marginal=2.0, context=0.1)
    steps = made.step_time[made.step_kind == 1]
    assert_allclose(steps, [1 + 4 + 0.5, 1 + 4 + 0.6, 1 + 2 + 0.6], atol=1e-9)


def test_the_log_says_what_each_step_did():
    made = at_once([2, 4, 3], "continuous", 2)
    assert made.step_kind.tolist() == [0, 1, 0, 1, 1]
    assert made.step_size.tolist() == [2, 2, 1, 2, 2]
    assert made.step_least.tolist() == [0, 1, 0, 1, 2]
    assert made.step_most.tolist() == [0, 1, 0, 2, 3]
    assert_allclose(np.diff(made.step_end), made.step_time[1:], atol=1e-9)


LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=30)


@settings(deadline=None)
@given(lengths=LENGTHS, slots=st.integers(1, 6), policy=st.sampled_from(POLICIES), seed=st.integers(0, 99))
def test_every_token_is_made_once_and_nobody_sits_twice(lengths, slots, policy, seed):
    arrivals = np.sort(np.random.default_rng(seed).uniform(0, 30, len(lengths)))
    made = ride(arrivals, lengths, policy, slots, timetable(marginal=0.1, boarding_time=0.3))
    steps = made.step_kind == 1
    assert made.step_size.max() <= slots
    if policy != "padded":
        assert made.step_size[steps].sum() == np.sum(lengths) - len(lengths)
    assert made.step_size[~steps].sum() == len(lengths)
    assert np.all(made.boarded >= arrivals)
    assert np.all(np.diff(made.boarded) >= 0)
    assert np.all(made.first_token > made.boarded)
    assert np.all(made.finish >= made.first_token)
    assert_array_equal(made.finish == made.first_token, np.array(lengths) == 1)


@settings(deadline=None)
@given(lengths=LENGTHS, slots=st.integers(1, 6))
def test_a_loop_bus_is_never_later_than_a_coach_whose_steps_cost_the_same(lengths, slots):
    finish = [at_once(lengths, policy, slots).finish.max() for policy in POLICIES]
    assert finish[2] <= finish[1] + 1e-9
    assert finish[1] == pytest.approx(finish[0])


@pytest.mark.parametrize("seed", range(5))
def test_the_loop_bus_meets_the_independent_simulation(seed):
    """There the first token comes with the first step; here with the prompt, for nothing."""
    rng = np.random.default_rng(seed)
    arrivals, lengths = np.cumsum(rng.exponential(2.0, 60)), rng.geometric(0.1, 60) + 1
    ours = ride(arrivals, lengths, "continuous", 5, timetable(fixed=1.0, marginal=0.2, prompt=1))
    theirs = queues.served_by_steps(arrivals, lengths - 1, lambda size, context: 1.0 + 0.2 * size, slots=5)
    assert_allclose(ours.finish, theirs.end_time, atol=1e-6)
    assert_allclose(ours.boarded, theirs.start_time, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [2, 3]}, "sizes must begin with 1, got 2"),
        ({"sizes": [1, 1]}, "sizes must rise along one axis"),
        ({"longest": [5]}, "longest must hold at least 2, got 1"),
        ({"steps": np.ones((2, 3))}, r"steps must have shape \(2, 2\), got \(2, 3\)"),
        ({"boarding": [1.0, 0.0]}, "boarding must be above 0, got 0"),
        ({"prompt": 0}, "prompt must be at least 1, got 0"),
        ({"boards": [0], "joining": [[1.0], [1.0]]}, "boards must be at least 1, got 0"),
        ({"boards": [1]}, "joining must hold numbers, got None"),
        ({"joining": [[np.inf], [1.0]]}, "boards must hold numbers, got None"),
        ({"boards": [1], "joining": [np.inf, 1.0]}, r"joining must have shape \(2, 1\), got \(2,\)"),
        ({"boards": [1], "joining": [[np.inf], [0.0]]}, "joining must be above 0, got 0"),
        ({"boards": [1], "joining": [[1.0], [np.inf]]}, "joining must be finite, got inf"),
    ],
)
def test_a_table_that_is_none_is_refused(change, message):
    whole = dict(prompt=4, sizes=[1, 2], longest=[5, 9], steps=np.ones((2, 2)), boarding=[1.0, 2])
    with pytest.raises(ValueError, match=message):
        boarding.StepTimes(**whole | change)


def test_a_ride_needs_a_bus_and_arrivals_in_order():
    with pytest.raises(ValueError, match="bus must have the method wait"):
        ride([0.0], [3], "padded", 2, object())
    with pytest.raises(ValueError, match="arrival_time must not fall"):
        ride([1.0, 0.0], [3, 3], "padded", 2, timetable())
    with pytest.raises(ValueError, match=r"output_length must have shape \(1,\), got \(2,\)"):
        ride([0.0], [3, 3], "padded", 2, timetable())


def trace(arrivals, lengths, prompt):
    return Trace(np.asarray(arrivals, float), np.full(len(lengths), prompt), np.asarray(lengths))


def policy_of(policy, slots):
    """Return the same rules as `lib.simulation` knows them."""
    if policy == "continuous":
        return ContinuousBatching(slots=slots, prefill="whole")
    return DynamicBatching(cap=slots, padded=policy == "padded")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_bus_meets_the_independent_simulation_of_a_replica(policy, seed):
    """Steps that depend on the slots taken only: then padding does not matter, and both must agree to rounding."""
    rng = np.random.default_rng(seed)
    arrivals, lengths = np.cumsum(rng.exponential(1.0, 80)), rng.geometric(0.1, 80)
    table = timetable(marginal=0.1, boarding_time=0.3)
    theirs = simulation.simulate(trace(arrivals, lengths, 4), policy_of(policy, 6), table.times)
    ours = ride(arrivals, lengths, policy, 6, table)
    assert_allclose(ours.finish, theirs.finish_time, atol=1e-6)
    assert_allclose(ours.first_token, theirs.first_token_time, atol=1e-6)


def test_a_prompt_beside_others_costs_what_it_costs_alone_less_a_step():
    """Steps of 1 s + 0.1 s a slot + 1 ms a token of the mean, prompts of 4 in 2 s each: by hand."""
    times = timetable(marginal=0.1, context=0.001, boarding_time=2.0).times
    assert times(StepLoad(3, 30, 0, 0.0, ())) == pytest.approx(1.31)
    assert times(StepLoad(0, 0, 8, 0.0, ((4, 0), (4, 0)))) == pytest.approx(4.0)
    both = times(StepLoad(3, 32, 4, 0.0, ((4, 0),)))
    assert both == pytest.approx((1 + 0.4 + 0.009) + (2.0 - 1.104))


def test_a_prompt_beside_others_costs_what_was_timed_beside_others():
    """Steps of 1, 2 and 4 s by size; all prompts of a step alone in 3, 6 and 16 s; beside others as in `joining`."""
    times = StepTimes(
        prompt=4, sizes=[1, 2, 4], longest=[5, 9], steps=[[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]],
        boarding=[3.0, 6.0, 16.0], boards=[1, 2], joining=[[np.inf, np.inf], [3.5, np.inf], [5.0, 8.0]],
    )  # fmt: skip
    added = {(1, 1): 2, (1, 2): 1.5, (2, 2): 4, (1, 4): 1, (2, 4): 4, (3, 4): 8, (4, 4): 12, (1, 3): 1.25}
    for (boards, size), wanted in added.items():
        assert times.joining_time(boards, size) == pytest.approx(wanted), (boards, size)
    all_board = StepTimes(
        prompt=4, sizes=[1, 3], longest=[5, 9], steps=[[1.0, 1.0], [2.0, 2.0]], boarding=[3.0, 6.0],
        boards=[1, 3], joining=[[np.inf, np.inf], [3.0, np.inf]],
    )  # fmt: skip
    assert all_board.joining_time(2, 3) == pytest.approx((1 + 4) / 2)
    assert times(StepLoad(3, 15, 4, 0.0, ((4, 0),))) == pytest.approx(4 + 1)
    assert times(StepLoad(0, 0, 8, 0.0, ((4, 0), (4, 0)))) == pytest.approx(6)
    assert times(StepLoad(4, 20, 0, 0.0, ())) == pytest.approx(4)


def test_times_between_the_sizes_and_lengths_of_the_table_lie_on_straight_lines():
    times = StepTimes(prompt=4, sizes=[1, 3], longest=[10, 20], steps=[[1.0, 2.0], [3.0, 6.0]], boarding=[1.0, 5.0])
    assert times.step_time(2, 10) == pytest.approx(2.0)
    assert times.step_time(2, 15) == pytest.approx(3.0)
    assert times.step_time(1, 30) == pytest.approx(3.0)
    assert times.step_time(9, 20) == pytest.approx(6.0)
    assert times.boarding_time(2) == pytest.approx(3.0)
