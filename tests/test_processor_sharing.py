import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.processor_sharing import (
    largest_arrival_rate,
    lps_sojourn_time,
    lps_wait,
    uncapped_law,
    uncapped_occupancy,
)
from lib.queueing import mg1_wait, mm1_sojourn_time
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)
loads = st.floats(0.02, 0.95)


@few
@given(load=st.floats(0.02, 0.9), fixed=st.floats(0, 0.05), marginal=st.floats(1e-4, 0.01))
def test_the_law_is_that_of_the_birth_death_chain(load, fixed, marginal):
    """pi_n / pi_(n-1) = lambda E[L] t(n) / n."""
    rate, count = load / (marginal * 100), np.arange(1, 40)
    law = uncapped_law(np.arange(40), rate, 100, fixed, marginal)
    ratio = rate * 100 * (fixed + count * marginal) / count
    assert_allclose(law[1:], law[:-1] * ratio, rtol=1e-8, atol=1e-290)


@few
@given(load=st.floats(0.02, 0.8), fixed=st.floats(0, 0.05), marginal=st.floats(1e-3, 0.01))
def test_the_means_are_those_of_the_law(load, fixed, marginal):
    rate, count = load / (marginal * 100), np.arange(2_000)
    law = uncapped_law(count, rate, 100, fixed, marginal)
    queue = uncapped_occupancy(rate, 100, fixed, marginal)
    assert_allclose(law.sum(), 1)
    assert_allclose(law @ count, queue.resident, rtol=1e-9)
    assert_allclose(law[1:] @ (fixed + marginal * count[1:]) / 2, queue.residual_step, rtol=1e-9)
    assert_allclose(queue.resident, rate * queue.sojourn_time)
    assert_allclose(queue.sojourn_time, 100 * queue.time_per_token)
    assert queue.wait == queue.wait_probability == 0


def test_without_marginal_time_residents_are_poisson():
    """M/G/inf with a service of 100 steps of 20 ms."""
    assert_allclose(uncapped_law([0, 1, 3], 0.75, 100, 0.02, 0), np.exp(-1.5) * np.array([1, 1.5, 1.5**3 / 6]))
    queue = uncapped_occupancy(0.75, 100, 0.02, 0)
    assert_allclose([queue.resident, queue.time_per_token], [1.5, 0.02])
    assert_allclose(queue.residual_step, 0.01 * (1 - np.exp(-1.5)))


def test_a_fluid_is_low_by_the_share_of_one_sequence():
    """t_w / (1 - x) against (t_w + t_c) / (1 - x)."""
    queue = uncapped_occupancy(5, 100, 0.02, 0.001)
    assert_allclose(queue.time_per_token / (0.02 / 0.5), 1.05)


@few
@given(load=loads, fixed=st.floats(1e-3, 0.05), marginal=st.floats(1e-4, 0.01))
def test_the_largest_rate_meets_its_limit(load, fixed, marginal):
    limit = uncapped_occupancy(load / (marginal * 100), 100, fixed, marginal).time_per_token
    assert_allclose(largest_arrival_rate(limit, 100, fixed, marginal), load / (marginal * 100), rtol=1e-9)


def test_a_limit_no_request_meets_admits_none_and_free_company_all():
    assert list(largest_arrival_rate([0.01, 0.021, 0.03], 100, 0.02, [0.001, 0.001, 0])) == [0, 0, np.inf]


@pytest.mark.parametrize("rate", [10, 10.1, 1e6])
def test_beyond_the_edge_residents_grow_without_bound(rate):
    queue = uncapped_occupancy(rate, 100, 0.02, 0.001)
    assert [float(value) for value in queue[2:]] == [np.inf] * 4
    assert uncapped_law(3, rate, 100, 0.02, 0.001) == 0
    assert lps_wait(rate, 0.1, 4) == lps_sojourn_time(rate, 0.1, 4, 0) == np.inf


@few
@given(load=loads, cv2=st.floats(0, 10))
def test_one_slot_is_mg1_and_endless_slots_are_sharing(load, cv2):
    one = 2 + mg1_wait(load / 2, 2, 4 * (1 + cv2))
    assert_allclose(lps_sojourn_time(load / 2, 2, [1, np.inf], cv2), [one, 2 / (1 - load)], rtol=1e-9)
    assert_allclose(lps_wait(load / 2, 2, [1, np.inf]), [2 * load / (1 - load), 0], rtol=1e-9)


@few
@given(load=loads, slots=st.integers(1, 50))
def test_exponential_requests_do_not_mind_the_slots(load, slots):
    assert_allclose(lps_sojourn_time(load, 1, slots, 1), mm1_sojourn_time(load, 1))


def test_an_infinite_variance_hurts_unless_all_share():
    assert list(lps_sojourn_time(0.1, 1, [1, 400, np.inf], np.inf)) == [np.inf, np.inf, 1 / 0.9]


def test_near_the_edge_sharing_is_finite_and_exact():
    load = 1 - 2.0**-30
    assert_allclose(lps_wait(load, 1, 2), load**2 * 2.0**30, rtol=1e-12)
    assert_allclose(uncapped_occupancy(load, 1, 2.0, 1.0).time_per_token, 3 * 2.0**30, rtol=1e-12)


@pytest.mark.parametrize("law", ["exponential", "constant"])
def test_simulated_sharing_does_not_depend_on_the_length_law(law):
    """Event by event: residents advance together at rate 1 / t(n)."""
    rng = np.random.default_rng(61)
    fixed, marginal, rate, length = 0.05, 0.01, 0.5, 100.0
    queue = uncapped_occupancy(rate, length, fixed, marginal)
    means = [shared_sojourn_time(rate, length, fixed, marginal, law, child) for child in rng.spawn(40)]
    assert_mean_is(queue.sojourn_time, means)


def shared_sojourn_time(rate, length, fixed, marginal, law, rng, *, requests=1_500):
    """Return the mean sojourn time of one run, without its start and its end.

    `progress` counts the tokens that a resident since time 0 would have made.
    """
    gaps = rng.exponential(1 / rate, requests).tolist()
    lengths = (rng.exponential(length, requests) if law == "exponential" else np.full(requests, length)).tolist()
    residents, progress, clock, arrived, total = [], 0.0, 0.0, 0, 0.0
    next_arrival = gaps[0]
    while arrived < requests:
        step = fixed + marginal * len(residents)
        leaves = clock + (min(residents)[0] - progress) * step if residents else np.inf
        now = min(leaves, next_arrival)
        progress += (now - clock) / step if residents else 0.0
        clock = now
        if leaves <= next_arrival:
            done = min(residents)
            residents.remove(done)
            total += (clock - done[1]) * (150 <= done[2] < requests - 150)
        else:
            residents.append((progress + lengths[arrived], clock, arrived))
            arrived += 1
            next_arrival += gaps[arrived] if arrived < requests else np.inf
    return total / (requests - 300)
