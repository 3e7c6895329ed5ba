import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.bulk import bulk_queue
from lib.control_limit import (
    best_control_limit,
    clearing_cost,
    clearing_limit,
    clearing_timer,
    constant_batch_sojourn_time,
    waiting_threshold,
)

few = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize(("times", "load", "best", "least", "greedy", "full"), [
    (np.ones(8), 0.3, 2, 1.4750, 1.4823, 2.4588),
    (np.ones(8), 0.9, 7, 1.9346, 1.9499, 1.9361),
    (1.8874 + 0.1438 * np.arange(1, 9), 0.3, 1, 3.2343, 3.2343, 7.4693),
    (1.8874 + 0.1438 * np.arange(1, 9), 0.9, 3, 5.5195, 5.5225, 5.8814),
    (1.8874 + 0.1438 * np.arange(1, 33), 0.3, 2, 3.7378, 3.7507, 16.966),
    (1.8874 + 0.1438 * np.arange(1, 33), 0.9, 5, 8.2504, 8.2504, 10.476)])
def test_deliberate_waiting_gains_under_one_percent_for_constant_times(times, load, best, least, greedy, full):
    """Computed independently from a truncated chain; mean sojourn time by control limit."""
    rate = load * len(times) / times[-1]
    limit, cost = best_control_limit(rate, times)
    assert limit == best
    ends = [bulk_queue(rate, times, control_limit=limit).sojourn_time for limit in (1, len(times))]
    assert_allclose([cost / rate, *ends], [least, greedy, full], rtol=5e-5)


@few
@given(arrivals=st.floats(0.05, 12), limit=st.integers(1, 20))
def test_a_constant_batch_is_the_chain_without_its_cap(arrivals, limit):
    queue = bulk_queue(arrivals / 2, np.full(80, 2.0), control_limit=limit)
    assert_allclose(constant_batch_sojourn_time(arrivals / 2, 2, limit), queue.sojourn_time, rtol=1e-8)


def test_waiting_for_a_second_costs_134_percent_at_light_load():
    """Computed independently: arrivals .3 per batch time."""
    one, two = constant_batch_sojourn_time(0.3, 1, [1, 2])
    assert_allclose(two / one - 1, 1.34, atol=0.005)


def test_the_gain_of_a_second_peaks_at_two_thirds_of_a_percent():
    arrivals = np.linspace(2, 6, 4001)
    gain = 1 - constant_batch_sojourn_time(arrivals, 1, 2) / constant_batch_sojourn_time(arrivals, 1, 1)
    assert_allclose(gain.max(), 0.0066, atol=5e-5)
    assert_allclose(arrivals[np.argmax(gain)], 2.84, atol=0.02)


@few
@given(limit=st.integers(1, 60))
def test_at_the_threshold_one_more_neither_gains_nor_loses(limit):
    threshold = waiting_threshold(limit)
    around = constant_batch_sojourn_time(threshold * np.array([[0.99], [1], [1.01]]), 1, [limit, limit + 1])
    gains = around[:, 0] - around[:, 1]
    assert gains[0] < 0 < gains[2]
    assert abs(gains[1]) < 1e-12


@few
@given(limit=st.integers(1, 30), arrivals=st.floats(0.1, 80))
def test_one_more_pays_when_its_gap_is_shorter_than_the_wait(limit, arrivals):
    now, more = constant_batch_sojourn_time(arrivals, 1, [limit, limit + 1])
    if abs(more - now) > 1e-9:
        assert (more < now) == (limit / arrivals < now - 1)


def test_a_batch_cost_makes_batches_wait_for_company():
    times = 1 + 0.05 * np.arange(1, 41)
    limits = [best_control_limit(1.0, times, batch_cost=cost)[0] for cost in (0, 5, 20, 80)]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1]


def test_the_cost_is_batches_per_second_and_requests_held():
    times = np.array([1.0, 1.2, 1.4])
    limit, cost = best_control_limit(1.5, times, batch_cost=7, holding_cost=2, service_cv2=1)
    queues = [bulk_queue(1.5, times, control_limit=a, service_cv2=1) for a in (1, 2, 3)]
    costs = [7 * 1.5 / queue.batch_size + 2 * 1.5 * queue.sojourn_time for queue in queues]
    assert cost == min(costs)
    assert costs[limit - 1] == cost


def test_no_limit_rescues_an_unstable_server():
    assert best_control_limit(3, [1, 1]) == (1, np.inf)


@few
@given(rate=st.floats(0.01, 100), cost=st.floats(0.01, 100), holding=st.floats(0.1, 10))
def test_the_clearing_limit_is_the_cheapest(rate, cost, holding):
    limit = clearing_limit(rate, cost, holding)
    around = clearing_cost(rate, cost, holding, np.maximum(np.add(limit, [-1, 0, 1]), 1))
    assert around[1] <= around.min() * (1 + 1e-9)


def test_a_tie_goes_to_the_smaller_limit():
    """M (M + 1) = 2 lambda K / h: M and M + 1 cost the same."""
    size = np.arange(1, 2000)
    assert list(clearing_limit(size * (size + 1) / 2, 1, 1)) == list(size)
    assert list(clearing_limit(size * (size + 1) * 0.15, 1, 0.3)) == list(size)  # not exact in binary


def test_a_clearing_costs_its_batch_and_those_who_wait():
    assert_allclose(clearing_cost(10, 5, 3, [1, 10]), [50, 5 + 3 * 4.5])


def test_the_timer_balances_batches_against_waiting():
    """K / T = h lambda T / 2 at the least cost."""
    period = clearing_timer(4, 18, 0.25)
    assert_allclose(period, 6)
    assert_allclose(18 / period, 0.25 * 4 * period / 2)
