import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.batching import DynamicBatching
from lib.bulk import timeout_queue
from lib.queues import served_in_batches
from lib.timeout_batching import (
    _Tail,
    timeout_batch_size,
    timeout_busy_fraction,
    timeout_size_law,
    timeout_sojourn_quantile,
    timeout_sojourn_time,
)
from tests.replications import assert_mean_is

V100 = (1.8874, 0.1438)
few = settings(max_examples=40, deadline=None)
parts = st.floats(0, 1)


@few
@given(rate=st.floats(0.05, 3), part=parts)
def test_with_a_timeout_it_is_the_walk_with_a_large_cap(rate, part):
    timeout = part * sum(V100)
    queue = timeout_queue(rate, V100[0] + V100[1] * np.arange(1, 81), timeout)
    assert_allclose(timeout_batch_size(rate, *V100, timeout), queue.batch_size, rtol=1e-8)
    assert_allclose(timeout_sojourn_time(rate, *V100, timeout), queue.sojourn_time, rtol=1e-8)
    assert_allclose(timeout_busy_fraction(rate, *V100, timeout), queue.busy_fraction, rtol=1e-8)


@few
@given(rate=st.floats(0.05, 5), part=parts)
def test_the_law_of_the_size_has_the_mean_and_is_a_law(rate, part):
    law = timeout_size_law(rate, *V100, part * sum(V100))
    assert_allclose(law.sum(), 1)
    assert law.min() > -1e-12
    assert law[-1] < 1e-9
    assert_allclose(law @ np.arange(1, law.size + 1), timeout_batch_size(rate, *V100, part * sum(V100)), rtol=1e-8)


@pytest.mark.parametrize(("rate", "part"), [(0.1, 0.7), (0.6, 0.0), (1.0, 0.4), (3.0, 1.0)])
def test_the_quantiles_rise_and_integrate_to_the_mean(rate, part):
    """By the midpoint rule over levels."""
    levels = (np.arange(50) + 0.5) / 50
    times = [timeout_sojourn_quantile(level, rate, *V100, part * sum(V100)) for level in levels]
    assert np.all(np.diff(times) > -1e-9)
    assert_allclose(np.mean(times), timeout_sojourn_time(rate, *V100, part * sum(V100)), rtol=0.01)


def test_the_tail_integrates_to_the_mean_where_each_request_takes_long():
    """The mean is the integral of the share above: here a slope of .8 and a timeout of a whole pass."""
    setting = (0.6, 1.0, 0.8, 1.8)
    times = np.linspace(0, 40, 8_001)
    tail = _Tail(timeout_size_law(*setting), *setting)
    shares = [tail.share_above(time) for time in times]
    assert_allclose(np.trapezoid(shares, times), timeout_sojourn_time(*setting), rtol=1e-3)


@pytest.mark.parametrize(("rate", "timeout"), [(0.3, 1.0), (1.0, 1.5), (3.0, 0.6)])
def test_simulated_timeouts_agree(rate, timeout):
    """One and a half passes in a hundred come late: the tail too."""
    rng, policy = np.random.default_rng(12), DynamicBatching(control_limit=10**6, timeout=timeout)
    kept = []
    for child in rng.spawn(25):
        arrivals = child.exponential(1 / rate, 12_000).cumsum()
        served = served_in_batches(arrivals, lambda first, last: V100[0] + V100[1] * (last - first), policy)
        kept.append((served.end_time - arrivals)[2_000:])
    kept = np.array(kept)
    assert_mean_is(float(timeout_sojourn_time(rate, *V100, timeout)), kept.mean(axis=1))
    late = timeout_sojourn_quantile(0.99, rate, *V100, timeout)
    assert_mean_is(0.01, (kept > late).mean(axis=1), precision=0.3)


def test_a_timeout_beyond_a_batch_of_one_and_an_unstable_server_are_refused():
    with pytest.raises(ValueError, match="timeout must be at most fixed_time plus marginal_time"):
        timeout_sojourn_time(1.0, *V100, 2.1)
    with pytest.raises(ValueError, match="arrival_rate times marginal_time must be below 1, got 1"):
        timeout_size_law(1.0, 1.0, 1.0, 0.0)
    assert timeout_sojourn_time(7.0, *V100, 1.0) == np.inf


def test_a_law_is_refused_where_requests_outrun_what_each_adds_whatever_the_fixed_time():
    with pytest.raises(ValueError, match="arrival_rate times marginal_time must be below 1, got 2"):
        timeout_size_law(2.0, 0.1, 1.0, 0.1)
    assert timeout_size_law(0.1, 5.0, 1.0, 0.1).sum() == pytest.approx(1)
