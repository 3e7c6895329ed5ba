import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.token_load import (
    fluid_step_time,
    mean_concurrency,
    mean_resident_context,
    memory_limited_rate,
    resident_tokens,
    staircase_step_time,
    token_slots,
    useful_share,
    work_conserving_rate,
)
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)


def test_token_slots_of_the_published_workloads():
    """dong2026: (10, 20), (10, 40), (10, 60) take 410, 1220, 2430; four of each fit in 16492."""
    slots = token_slots(10, [20, 40, 60])
    assert list(slots) == [410, 1220, 2430]
    assert 4 * slots.sum() == 16240


@few
@given(prompt=st.integers(0, 300), output=st.integers(1, 300))
def test_token_slots_count_every_step(prompt, output):
    assert token_slots(prompt, output) == sum(prompt + step for step in range(1, output + 1))


def test_memory_limits_the_rate_in_proportion():
    assert_allclose(memory_limited_rate([1000, 2000], 0.5, [100, 400]), [20, 10])


def test_a_work_conserving_replica_by_hand():
    """512 tokens in .16 s are 3200 a second; a request of 50 + 14 takes 64."""
    assert_allclose(work_conserving_rate(512, 0.16, 50, 14), 50)


@pytest.mark.parametrize(("tokens", "tiles"), [(1, 1), (128, 1), (129, 2), (512, 4)])
def test_the_staircase_rises_with_each_tile_begun(tokens, tiles):
    """dai2025: 11.28 + 35.47 ceil(b / 128) ms."""
    assert_allclose(staircase_step_time(tokens, 11.28, 35.47, 128), 11.28 + 35.47 * tiles)


@few
@given(load=st.floats(0, 900), fixed=st.floats(0.001, 0.1))
def test_the_fluid_step_sustains_itself(load, fixed):
    step = fluid_step_time(load, fixed, 1e-3)
    assert_allclose(step, fixed + 1e-3 * load * step)


@pytest.mark.parametrize("load", [1000, 1001, 1e9])
def test_a_fluid_beyond_its_edge_has_no_step(load):
    assert fluid_step_time(load, 0.02, 1e-3) == np.inf


def test_constant_outputs_hold_half_of_themselves():
    """A resident of prompt 500 has made 0..199 of its 200 tokens: 99.5 on average."""
    assert_allclose(mean_resident_context(500, 200, 200**2), 599.5)


@few
@given(prompt=st.floats(0, 1000), mean=st.floats(1, 500), cv2=st.floats(0, 10))
def test_more_variable_outputs_hold_more(prompt, mean, cv2):
    steady, varied = mean_resident_context(prompt, mean, mean**2 * (1 + np.array([0, cv2])))
    assert_allclose(varied - steady, cv2 * mean / 2, atol=1e-6)


def test_an_infinite_variance_holds_infinite_context():
    assert mean_resident_context(500, 200, np.inf) == np.inf


def test_constant_requests_hold_their_average_footprint():
    """lambda d int K: 3 * .1 * (10 * 4 + 8), and lambda d (100 * 4 + 10 * 16 + 64 / 3)."""
    mean, variance = resident_tokens(3, 0.1, 10, [4, 16, 64])
    assert_allclose([mean, variance], [0.3 * 48, 0.3 * (400 + 160 + 64 / 3)])


def test_infinite_moments_make_memory_infinite():
    assert_allclose(resident_tokens(3, 0.1, 10, [4, 16, np.inf]), [0.3 * 48, np.inf])
    assert resident_tokens(3, 0.1, 0, [4, np.inf, np.inf]) == (np.inf, np.inf)


@pytest.mark.parametrize("moments", [[4, 15, 64], [4, 16, 63], [4, 16], [[4, 16, 64]], 4])
def test_moments_that_no_law_has_are_refused(moments):
    with pytest.raises(ValueError, match="output_moments"):
        resident_tokens(3, 0.1, 10, moments)


@pytest.mark.parametrize(("mean", "second"), [(200, 39_999), (0.5, 0.4)])
def test_a_second_moment_below_the_square_or_the_mean_is_refused(mean, second):
    with pytest.raises(ValueError, match="output_second_moment must be at least output_length and its square"):
        mean_resident_context(10, mean, second)


def test_little_counts_first_token_and_decoding():
    assert_allclose(mean_concurrency(4, 0.5, 250, 0.03), 32)


def test_simulated_residents_agree_with_campbell():
    """Requests that arrived in the last 30 s, longer than any output lasts."""
    rng = np.random.default_rng(71)
    rate, pace, prompt, mean = 2.0, 0.02, 50, 60.0
    held = np.zeros((60, 2_000))
    for index in range(60):
        count = rng.poisson(rate * 30, 2_000)
        owner = np.repeat(np.arange(2_000), count)
        age = rng.random(count.sum()) * 30 / pace
        here = age < rng.exponential(mean, count.sum())
        held[index] = np.bincount(owner, (prompt + age) * here, 2_000)
    expected = resident_tokens(rate, pace, prompt, [mean, 2 * mean**2, 6 * mean**3])
    assert_mean_is(expected[0], held.mean(axis=1))
    assert_mean_is(expected[1], held.var(axis=1, ddof=1))


def test_mean_outputs_below_a_token_are_let_through():
    """Output .5 on average, as 0 or 1 token: the mean cache is rate times pace times E[L^2] / 2."""
    assert_allclose(resident_tokens(1, 1, 0, [0.5, 0.5, 0.5]), [0.25, 0.5 / 3])


def test_memory_reserved_for_the_longest_is_mostly_empty():
    """Prompt 10, output 2: 11 and 12 tokens held in two steps."""
    assert useful_share([10], [2], [32]) == pytest.approx((11 + 12) / 64)
    assert useful_share([10, 4], [2, 1], [32, 16]) == pytest.approx((11 + 12 + 5) / (64 + 16))


def test_even_who_knows_the_length_reserves_more_than_it_holds():
    """Without a prompt the cache is half full on average: (n + 1) / (2 n)."""
    assert useful_share(0, 99, 99) == pytest.approx(100 / 198)
    with pytest.raises(ValueError, match="reserved must be at least prompt_length and output_length"):
        useful_share(10, 20, 29)


def test_a_prompt_of_one_token_adds_its_share_of_the_variance():
    """.3 (1 * 4 + 1 * 16 + 64 / 3)."""
    assert_allclose(resident_tokens(3, 0.1, 1, [4, 16, 64])[1], 0.3 * (4 + 16 + 64 / 3))
