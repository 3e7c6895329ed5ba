import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

from lib.bulk import bulk_queue, left_behind_law, timeout_queue
from lib.embedded_chain import arrivals_law
from lib.exponential_batch import mmab_batch_size, mmab_idle_probability, mmab_wait
from lib.queueing import mg1_wait
from tests.replications import assert_mean_is

few = settings(max_examples=25, deadline=None)
loads = st.floats(0.05, 0.97)
V100 = 1.8874 + 0.1438 * np.arange(1, 9)  # ms, inoue2021


def truncated_chain(rate, batch_time, limit, cv2, states):
    """Return the means of `bulk_queue` from the chain of numbers left, cut at `states`."""
    cap, left = len(batch_time), np.arange(states)
    size, behind = np.clip(left, limit, cap), np.maximum(left - cap, 0)
    cv2 = np.broadcast_to(cv2, cap)[size - 1]
    steps = np.zeros((states, states))
    for n in left:
        steps[n, behind[n]:] = arrivals_law(rate * batch_time[size[n] - 1], cv2[n], left[:states - behind[n]])
    steps[:, -1] += 1 - steps.sum(axis=1)
    balance = steps.T - np.eye(states)
    balance[-1] = 1
    law = np.linalg.solve(balance, left == states - 1)
    time = batch_time[size - 1]
    cycle = law @ (np.maximum(limit - left, 0) / rate + time)
    forming = np.array([sum(range(n, limit)) for n in left]) / rate
    waiting = law @ (forming + behind * time + rate * time**2 * (1 + cv2) / 2) / cycle
    served = law @ (size * time) / cycle
    return waiting / rate, (waiting + served) / rate, law @ size, law @ time / cycle, law @ left


@pytest.mark.parametrize(("load", "cap", "limit", "cv2"), [
    (0.9, 8, 3, 0), (0.6, 40, 20, 0), (0.3, 16, 1, 0), (0.5, 12, 5, 1), (0.4, 6, 2, 2.5), (0.7, 2, 2, 0.1),
    (0.6, 10, 4, 0.25), (0.8, 7, 1, 0.5)])
def test_the_means_are_those_of_a_long_enough_chain(load, cap, limit, cv2):
    times = 1 + 0.1 * np.arange(1, cap + 1)
    rate = load * cap / times[-1]
    queue = bulk_queue(rate, times, control_limit=limit, service_cv2=cv2)
    assert_allclose(queue[:5], truncated_chain(rate, times, limit, cv2, 500), rtol=1e-9)


def test_a_cap_of_256_stays_exact():
    """Roots near 0 made a direct solution lose every digit here; a chain of 700 states does not."""
    times = 1.8874 + 0.1438 * np.arange(1, 257)
    queue = bulk_queue(0.8 * 256 / times[-1], times)
    assert_allclose(queue[:5], truncated_chain(0.8 * 256 / times[-1], times, 1, 0, 600), rtol=1e-9)


@pytest.mark.parametrize("load", [0.1, 0.9, 0.9999])
@pytest.mark.parametrize("limit", [1, 100, 256])
def test_exponential_batches_at_a_cap_of_256_have_the_closed_form(load, limit):
    queue = bulk_queue(load * 128, np.full(256, 2.0), control_limit=limit, service_cv2=1)
    assert_allclose(queue.wait, mmab_wait(load * 128, 2, limit, 256), rtol=1e-11)


@few
@given(load=loads, cv2=st.floats(0, 4))
def test_batches_of_one_are_mg1(load, cv2):
    queue = bulk_queue(load / 2, [2.0], service_cv2=cv2)
    assert_allclose(queue.wait, mg1_wait(load / 2, 2, 4 * (1 + cv2)), rtol=1e-8)
    assert_allclose(queue.sojourn_time, queue.wait + 2)
    assert_allclose(queue.busy_fraction, load)


@few
@given(load=loads, cap=st.integers(1, 12), data=st.data())
def test_exponential_batches_of_any_size_have_the_closed_form(load, cap, data):
    limit = data.draw(st.integers(1, cap))
    queue = bulk_queue(load * cap / 2, np.full(cap, 2.0), control_limit=limit, service_cv2=1)
    closed = [function(load * cap / 2, 2, limit, cap) for function in (mmab_wait, mmab_batch_size)]
    assert_allclose([queue.wait, queue.batch_size], closed, rtol=1e-7)
    assert_allclose(1 - queue.busy_fraction, mmab_idle_probability(load * cap / 2, 2, limit, cap), atol=1e-9)


def test_near_the_edge_the_chain_is_finite_and_exact():
    rate = 8 * (1 - 2.0**-20)
    queue = bulk_queue(rate, np.ones(8), control_limit=3, service_cv2=1)
    assert_allclose(queue.wait, mmab_wait(rate, 1, 3, 8), rtol=1e-9)


@pytest.mark.parametrize("rate", [8 / V100[-1], 8 / V100[-1] * 1.001, 1e6])
@pytest.mark.parametrize("control_limit", [1, 8])
def test_beyond_the_edge_batches_are_full_and_waits_infinite(rate, control_limit):
    queue = bulk_queue(rate, V100, control_limit=control_limit)
    assert [float(value) for value in queue[:5]] == [np.inf, np.inf, 8, 1, np.inf]
    assert list(queue.size_law) == [0] * 7 + [1]
    assert left_behind_law(rate, V100, 5).sum() == 0


def test_a_sweep_of_rates_is_its_points():
    sweep = bulk_queue([[0.5, 2.0], [2.5, 9.0]], V100, control_limit=2)
    point = bulk_queue(2.5, V100, control_limit=2)
    assert sweep.wait.shape == (2, 2)
    assert sweep.size_law.shape == (2, 2, 8)
    assert_allclose(sweep.size_law[1, 0], point.size_law)
    assert sweep.sojourn_time[1, 1] == np.inf


@few
@given(load=loads, limit=st.integers(1, 8), cv2=st.sampled_from([0.0, 0.5, 1.0]))
def test_what_arrives_is_served(load, limit, cv2):
    """Busy time per request times the arrival rate is the busy fraction; no batch is below the limit."""
    rate = load * 8 / V100[-1]
    queue = bulk_queue(rate, V100, control_limit=limit, service_cv2=cv2)
    assert_allclose(queue.busy_fraction, rate * (queue.size_law @ V100) / queue.batch_size)
    assert_allclose(queue.size_law.sum(), 1)
    assert_allclose(queue.size_law[:limit - 1], 0, atol=1e-12)
    assert queue.sojourn_time - queue.wait <= V100[-1] + 1e-9


@few
@given(load=st.floats(0.05, 0.8), limit=st.integers(1, 8), cv2=st.sampled_from([0.0, 0.5]))
def test_the_law_of_the_number_left_has_the_mean_of_the_queue(load, limit, cv2):
    rate = load * 8 / V100[-1]
    queue = bulk_queue(rate, V100, control_limit=limit, service_cv2=cv2)
    joint = left_behind_law(rate, V100, 300, control_limit=limit, service_cv2=cv2)
    assert_allclose(joint.sum(axis=0), queue.size_law, atol=1e-9)
    assert_allclose(np.arange(300) @ joint.sum(axis=1), queue.left_behind, rtol=1e-8)
    assert joint.min() > -1e-12


@few
@given(load=loads)
def test_a_timeout_of_zero_serves_what_there_is(load):
    rate = load * 8 / V100[-1]
    timeout, greedy = timeout_queue(rate, V100, 0), bulk_queue(rate, V100)
    assert_allclose(timeout.size_law, greedy.size_law, atol=1e-12)
    assert_allclose(timeout[:5], greedy[:5], rtol=1e-8)


@few
@given(load=loads, timeout=st.floats(0, 2))
def test_with_a_timeout_what_arrives_is_served(load, timeout):
    rate = load * 8 / V100[-1]
    queue = timeout_queue(rate, V100, timeout)
    assert_allclose(queue.busy_fraction, rate * (queue.size_law @ V100) / queue.batch_size, rtol=1e-9)
    assert queue.batch_size >= timeout_queue(rate, V100, 0).batch_size - 1e-9


def test_a_timeout_alone_adds_its_formation_wait_at_light_load():
    """One request per busy server: it waits out the timeout, then its batch."""
    queue = timeout_queue(1e-7, V100, 1.5)
    assert_allclose([queue.wait, queue.sojourn_time], [1.5, 1.5 + V100[0]], rtol=1e-6)


def test_beyond_the_edge_a_timeout_changes_nothing():
    assert timeout_queue(9, V100, 1).wait == np.inf


def test_a_timeout_beyond_the_shortest_batch_is_refused():
    with pytest.raises(ValueError, match=r"shortest batch_time must be at least timeout \(3\), got 2.0312"):
        timeout_queue(1, V100, 3)


def test_a_limit_beyond_the_cap_is_refused():
    with pytest.raises(ValueError, match=r"control_limit \(9\), got 8"):
        bulk_queue(1, V100, control_limit=9)


def simulated_timeout(rate, batch_time, timeout, requests, rng):
    """Return mean sojourn time and mean batch of one server, request by request."""
    cap = len(batch_time)
    arrivals = np.cumsum(rng.exponential(1 / rate, requests + cap)).tolist()
    free = served = batches = 0
    total = 0.0
    while served < requests:
        full = arrivals[served + cap - 1]
        start = max(free, min(full, arrivals[served] + timeout))
        size = 0
        while size < cap and arrivals[served + size] <= start:
            size += 1
        free = start + batch_time[size - 1]
        total += size * free - sum(arrivals[served:served + size])
        served, batches = served + size, batches + 1
    return total / served, served / batches


@pytest.mark.parametrize("timeout", [0.3, 1.0])
def test_a_simulated_timeout_agrees(timeout):
    times = 0.8 + 0.25 * np.arange(1, 5)
    runs = [simulated_timeout(1.4, times, timeout, 8_000, rng) for rng in np.random.default_rng(11).spawn(25)]
    queue = timeout_queue(1.4, times, timeout)
    assert_mean_is(queue.sojourn_time, [run[0] for run in runs])
    assert_mean_is(queue.batch_size, [run[1] for run in runs])


def test_a_simulated_control_limit_agrees():
    rng = np.random.default_rng(12)
    times, rate, limit = 1 + 0.2 * np.arange(1, 7), 1.6, 3
    left, sizes, busy, clock = np.zeros(60, int), np.zeros(60), np.zeros(60), np.zeros(60)
    for _ in range(3_000):
        size = np.clip(left, limit, 6)
        clock += rng.gamma(np.maximum(limit - left, 0) + 1e-300, 1 / rate)
        service = rng.exponential(times[size - 1])
        clock, busy, sizes = clock + service, busy + service, sizes + size
        left = np.maximum(left - 6, 0) + rng.poisson(rate * service)
    queue = bulk_queue(rate, times, control_limit=limit, service_cv2=1)
    assert_mean_is(queue.batch_size, sizes / 3_000)
    assert_mean_is(queue.busy_fraction, busy / clock)


def test_one_variation_for_each_size_may_be_the_same_for_all():
    times = 1 + 0.1 * np.arange(1, 7)
    one, each = (bulk_queue([0.5, 3.0], times, control_limit=2, service_cv2=cv2) for cv2 in (0.7, np.full(6, 0.7)))
    for field, other in zip(one, each, strict=True):
        assert_allclose(field, other)
    laws = [left_behind_law(3.0, times, 9, service_cv2=cv2) for cv2 in (0.7, np.full(6, 0.7))]
    assert_allclose(*laws)


@pytest.mark.parametrize(("load", "limit"), [(0.3, 1), (0.6, 3), (0.8, 2)])
def test_a_variation_for_each_size_is_that_of_a_long_enough_chain(load, limit):
    """Small batches vary much, full ones little, as the longest of many lengths does."""
    times, cv2 = 1 + 0.2 * np.arange(1, 6), np.array([3.0, 1.5, 0.8, 0.4, 0.2])
    rate = load * 5 / times[-1]
    queue = bulk_queue(rate, times, control_limit=limit, service_cv2=cv2)
    assert_allclose(queue[:5], truncated_chain(rate, times, limit, cv2, 500), rtol=1e-8)
    law = left_behind_law(rate, times, 200, control_limit=limit, service_cv2=cv2)
    assert_allclose(np.arange(200) @ law.sum(axis=1), queue.left_behind, rtol=1e-5)


@pytest.mark.parametrize("cv2", [np.linspace(2, 0, 7), np.array([0.0, 2, 0, 2, 0.01, 0.3, 1])])
@pytest.mark.parametrize("times", [1 + 0.2 * np.arange(7), np.linspace(3, 1, 7)])
def test_small_batches_may_vary_much_and_take_long_where_full_ones_do_neither(cv2, times):
    """The tail of every size counts, not that of the full batch alone."""
    queue = bulk_queue(0.6 * 7 / times[-1], times, control_limit=1, service_cv2=cv2)
    assert_allclose(queue[:5], truncated_chain(0.6 * 7 / times[-1], times, 1, cv2, 900), rtol=1e-9)


EACH_LAW = {
    "constant": 0, "nearly constant": 1e-3, "short": 0.02, "33 stages": 0.03, "16 stages": 1 / 16, "between": 0.3,
    "two stages": 0.5, "exponential": 1, "spread": 2, "wide": 4, "very wide": 20,
    "each its own": np.linspace(3, 0.2, 256), "from wide to constant": np.linspace(3, 0, 256),
}  # fmt: skip


@pytest.mark.alone
@pytest.mark.parametrize("law", EACH_LAW)
def test_any_batch_law_at_a_cap_of_256_takes_under_20_ms_a_point(law):
    """Best of up to forty tries, in processor time of one core: a neighbour on it slows all of them.

    A second thread of the matrix library would count too, and most of its time is spent waiting.
    """
    times = 1.8874 + 0.1438 * np.arange(1, 257)
    for load in (0.1, 0.5, 0.9, 0.97):
        rate, best = load * 256 / times[-1], np.inf
        for _ in range(40):
            with threadpool_limits(1):
                began = time.process_time()
                bulk_queue(rate, times, control_limit=64, service_cv2=EACH_LAW[law])
                best = min(best, time.process_time() - began)
            if best < 0.02:
                break
        assert best < 0.02, f"{1e3 * best:.1f} ms at load {load}"


def test_a_variation_of_other_sizes_is_refused():
    with pytest.raises(ValueError, match="service_cv2 must be one number or one for each batch_time"):
        bulk_queue(1.0, [1.0, 1.2], service_cv2=[0.1, 0.2, 0.3])
