"""The time until all are done: by hand on one slot, and against the policies run step by step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.boarding import POLICIES, StepTimes, Timetable, ride
from lib.makespan import makespan

LINE = (0.03, 0.001, 0.01, 0.02)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_slot_serves_one_after_the_other_under_every_policy(policy):
    assert_allclose(makespan(policy, 1, LINE, requests=10, mean_length=21), 10 * (20 * 0.031 + 0.03))


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_of_one_token_cost_their_prompts_alone(policy):
    assert_allclose(makespan(policy, 2, LINE, requests=8, mean_length=1), 4 * (0.01 + 2 * 0.02))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("slots", [2, 8, 32])
def test_it_is_what_the_policy_takes_step_by_step(policy, slots):
    fixed, marginal, reading, each = LINE
    sizes = np.arange(1, slots + 1)
    steps = np.repeat((fixed + marginal * sizes)[:, None], 2, axis=1)
    times = StepTimes(
        prompt=1, sizes=sizes, longest=np.array([1, 2]), steps=steps, boarding=reading + each * sizes
    )  # fmt: skip
    lengths = np.random.default_rng(3).geometric(1 / 20, 1600)
    found = ride(np.zeros(lengths.size), lengths, policy, slots, Timetable(times)).finish.max()
    assert_allclose(makespan(policy, slots, LINE, requests=lengths.size, mean_length=lengths.mean()), found, rtol=0.03)
