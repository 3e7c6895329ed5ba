import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.erlang import erlang_b, mmc_wait, mmc_wait_probability, mmc_wait_tail
from lib.occupancy import admission_wait_tail, capped_occupancy, loss_probability, occupancy_law
from lib.processor_sharing import lps_wait, uncapped_occupancy
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)
loads = st.floats(0.05, 0.97)
STEPS = 0.02 + 0.001 * np.arange(1, 41)  # s


@few
@given(load=loads, slots=st.integers(1, 30))
def test_slots_that_do_not_slow_each_other_are_servers(load, slots):
    """A constant step: M/M/c with a service of E[L] steps."""
    rate = load * slots / 2
    queue = capped_occupancy(rate, 100, np.full(slots, 0.02))
    assert_allclose(queue.wait, mmc_wait(rate, 2, slots), rtol=1e-8)
    assert_allclose(queue.wait_probability, mmc_wait_probability(rate, 2, slots), rtol=1e-8)
    assert_allclose([queue.time_per_token, queue.resident], [0.02, rate * 2], rtol=1e-9)
    assert_allclose(admission_wait_tail([0.0, 0.7], rate, 100, np.full(slots, 0.02)),
                    mmc_wait_tail([0.0, 0.7], rate, 2, slots), rtol=1e-8)


@few
@given(load=loads, slots=st.integers(1, 30))
def test_steps_in_proportion_share_one_server(load, slots):
    """t(n) = n t: limited processor sharing of a server of constant speed."""
    queue = capped_occupancy(load / 2, 100, 0.02 * np.arange(1, slots + 1))
    assert_allclose(queue.wait, lps_wait(load / 2, 2, slots), rtol=1e-8)
    assert_allclose(queue.sojourn_time, 2 / (1 - load), rtol=1e-8)


@few
@given(rate=st.floats(0.1, 7), length=st.floats(10, 110))
def test_the_law_balances_every_cut_and_holds_the_means(rate, length):
    law = occupancy_law(rate, length, STEPS)
    queue = capped_occupancy(rate, length, STEPS)
    load = rate * length * STEPS[-1] / 40
    if load < 1:
        death = np.arange(1, 41) / (STEPS * length)
        below = np.append(law[:-1], law[-1] * (1 - load))
        assert_allclose(below[:-1] * rate, below[1:] * death, rtol=1e-8, atol=1e-300)
        assert_allclose(law @ np.arange(41), rate * length * queue.time_per_token, rtol=1e-9)
        assert_allclose(queue.residual_step, law[1:] @ STEPS / 2)
        assert_allclose(queue.sojourn_time, queue.wait + length * queue.time_per_token)
    assert_allclose(law.sum(), 1)


@few
@given(rate=st.floats(0.1, 6.5))
def test_the_tail_integrates_to_the_mean_wait(rate):
    time = np.linspace(0, 40 / (40 / (STEPS[-1] * 100) - rate), 4_001)
    tail = admission_wait_tail(time, rate, 100, STEPS)
    assert_allclose(np.trapezoid(tail, time), capped_occupancy(rate, 100, STEPS).wait, rtol=1e-4)


def test_so_many_slots_that_nobody_waits():
    steps = 0.02 + 0.001 * np.arange(1, 301)
    capped, uncapped = capped_occupancy(5, 100, steps), uncapped_occupancy(5, 100, 0.02, 0.001)
    assert_allclose(capped[2:], uncapped[2:], rtol=1e-9)
    assert capped.wait < 1e-30


def test_other_length_laws_scale_the_wait_and_nothing_else():
    """E-CAP rows; simulated waits at rate 6: constant .183, lognormal .394, hyperexponential .95 s."""
    waits = [capped_occupancy(6, 100, STEPS, output_cv2=cv2).wait for cv2 in (0, 1.71828, 5.5)]
    assert_allclose(waits, [0.173, 0.470, 1.125], rtol=2e-3)
    other, same = capped_occupancy(6, 100, STEPS, output_cv2=3), capped_occupancy(6, 100, STEPS)
    assert_allclose(other.wait, 2 * same.wait)
    assert_allclose(other.sojourn_time - other.wait, same.sojourn_time - same.wait)


def test_an_infinite_variance_gives_an_infinite_wait():
    queue = capped_occupancy([1e-9, 1], 100, STEPS, output_cv2=np.inf)
    assert list(queue.wait) == [np.inf] * 2
    assert list(queue.sojourn_time) == [np.inf] * 2


@pytest.mark.parametrize("rate", [1 / STEPS[-1] * 0.4, 8, 1e6])
def test_beyond_the_edge_every_slot_is_taken(rate):
    queue = capped_occupancy(rate, 100, STEPS)
    assert [float(value) for value in queue[:4]] == [1, np.inf, np.inf, 40]
    assert_allclose([queue.time_per_token, queue.residual_step], [STEPS[-1], STEPS[-1] / 2])
    assert admission_wait_tail(1e9, rate, 100, STEPS) == 1
    assert list(occupancy_law(rate, 100, STEPS)) == [0] * 40 + [1]


def test_near_the_edge_the_wait_is_finite_and_exact():
    """One slot is M/M/1: W_q = rho S / (1 - rho)."""
    load = 1 - 2.0**-30
    assert_allclose(capped_occupancy(load, 4, [0.25]).wait, load * 2.0**30, rtol=1e-9)


@few
@given(offered=st.floats(0.1, 100), slots=st.integers(1, 30))
def test_lost_requests_follow_erlang_when_slots_do_not_slow_each_other(offered, slots):
    assert_allclose(loss_probability(offered / 2, 100, np.full(slots, 0.02)), erlang_b(offered, slots), rtol=1e-9)


def test_a_sharing_server_that_holds_k_loses_like_mm1k():
    """t(n) = n t: pi_K = (1 - rho) rho^K / (1 - rho^(K + 1)); 1 / (K + 1) at load 1."""
    losses = loss_probability([0.4, 0.5], 100, 0.02 * np.arange(1, 5))
    assert_allclose(losses, [0.2 * 0.8**4 / (1 - 0.8**5), 1 / 5])


def simulated_slots(rate, length, steps, events, rng, *, replications=200):
    """Return waiting and resident requests and step time, averaged over time, by replication."""
    slots, present = len(steps), np.full(replications, 5)
    clock, waiting, resident, stepping = np.zeros((4, replications))
    for event in range(events):
        taken = np.minimum(present, slots)
        time = np.where(taken > 0, steps[np.maximum(taken, 1) - 1], 0)
        leave = np.where(taken > 0, taken / (steps[np.maximum(taken, 1) - 1] * length), 0)
        hold = rng.exponential(1 / (rate + leave)) * (event > events // 10)
        clock, waiting = clock + hold, waiting + hold * (present - taken)
        resident, stepping = resident + hold * taken, stepping + hold * time
        present = present + np.where(rng.random(replications) * (rate + leave) < rate, 1, -1)
    return waiting / clock, resident / clock, stepping / clock


def test_simulated_continuous_batching_agrees():
    steps = 0.02 + 0.002 * np.arange(1, 9)
    queue = capped_occupancy(1.3, 100, steps)
    waiting, resident, stepping = simulated_slots(1.3, 100, steps, 8_000, np.random.default_rng(51))
    assert_mean_is(queue.resident, resident)
    assert_mean_is(queue.residual_step, stepping / 2)
    assert_mean_is(1.3 * queue.wait, waiting, precision=0.15)


def test_in_a_sweep_too_an_unstable_queue_has_every_slot_taken():
    laws = occupancy_law([0.1, 1e3, 1e6], 50, [0.02, 0.03, 0.04, 0.05])
    assert_allclose(laws[1:], [[0, 0, 0, 0, 1]] * 2)
    assert laws[0, 0] > 0.8
