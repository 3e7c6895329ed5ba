import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.bulk import bulk_queue
from lib.control_limit import constant_batch_sojourn_time
from lib.dynamic_batching import (
    dynamic_batch_size,
    dynamic_busy_fraction,
    dynamic_sojourn_bounds,
    dynamic_sojourn_time,
    inoue_heavy_bound,
    inoue_light_bound,
)
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)
loads = st.floats(0.01, 0.97)
P4, V100 = (1.4284, 0.5833), (1.8874, 0.1438)  # fixed and marginal time, ms: inoue2021, 3.3


@pytest.mark.parametrize(("fit", "load", "lower", "exact", "upper", "inoue"), [
    (P4, 0.3, 3.5114, 3.5345, 3.5390, 3.7980), (P4, 0.5, 5.1363, 5.1846, 5.1991, 5.2574),
    (V100, 0.1, 3.1371, 3.1459, 3.1465, 3.2982), (V100, 0.3, 4.2219, 4.2248, 4.2251, 4.2262)])
def test_the_bounds_of_both_accelerators(fit, load, lower, exact, upper, inoue):
    """Computed independently from the chain of batch sizes; phi from inoue2021, theorem 2."""
    fixed, marginal = fit
    rate = load / marginal
    computed = [*dynamic_sojourn_bounds(rate, fixed, marginal), dynamic_sojourn_time(rate, fixed, marginal),
                min(inoue_light_bound(rate, fixed, marginal), inoue_heavy_bound(rate, fixed, marginal))]
    assert_allclose(computed, [lower, upper, exact, inoue], atol=6e-5)


@few
@given(load=loads, fixed=st.floats(0, 20), marginal=st.floats(0.01, 5))
def test_the_bounds_enclose_the_exact_time_inside_inoues(load, fixed, marginal):
    rate = load / marginal
    lower, upper = dynamic_sojourn_bounds(rate, fixed, marginal)
    exact = dynamic_sojourn_time(rate, fixed, marginal)
    inoue = min(inoue_light_bound(rate, fixed, marginal), inoue_heavy_bound(rate, fixed, marginal))
    assert lower <= exact * (1 + 1e-9)
    assert exact <= upper * (1 + 1e-9)
    assert upper <= inoue * (1 + 1e-9)


@few
@given(rate=st.floats(0.05, 3), fixed=st.floats(0.1, 4), marginal=st.floats(0.01, 0.3))
def test_the_lighter_bound_is_the_first_up_to_one_batch_of_one_per_arrival(rate, fixed, marginal):
    light, heavy = inoue_light_bound(rate, fixed, marginal), inoue_heavy_bound(rate, fixed, marginal)
    if abs(rate * (fixed + marginal) - 1) > 1e-6:
        assert (light < heavy) == (rate * (fixed + marginal) < 1)


@pytest.mark.parametrize(("load", "fixed", "marginal"), [(0.1, 1, 0.5), (0.5, 2, 0.5), (0.6, 0.3, 1.0)])
def test_a_cap_that_is_never_reached_gives_the_same(load, fixed, marginal):
    """The chain of `lib.bulk` is solved by other means."""
    queue = bulk_queue(load / marginal, fixed + marginal * np.arange(1, 121))
    rate = load / marginal
    assert_allclose(dynamic_sojourn_time(rate, fixed, marginal), queue.sojourn_time, rtol=1e-9)
    assert_allclose(dynamic_batch_size(rate, fixed, marginal), queue.batch_size, rtol=1e-9)
    assert_allclose(dynamic_busy_fraction(rate, fixed, marginal), queue.busy_fraction, rtol=1e-9)


@few
@given(rate=st.floats(0.05, 20), fixed=st.floats(0.1, 5))
def test_without_marginal_time_it_is_the_constant_batch_and_both_bounds(rate, fixed):
    """A batch of any size takes as long: E[B] = lambda tau_0 + exp(-lambda tau_0)."""
    exact = constant_batch_sojourn_time(rate, fixed, 1)
    assert_allclose(dynamic_batch_size(rate, fixed, 0), rate * fixed + np.exp(-rate * fixed))
    assert_allclose([dynamic_sojourn_time(rate, fixed, 0), *dynamic_sojourn_bounds(rate, fixed, 0)], exact, rtol=1e-9)


@few
@given(load=loads, marginal=st.floats(0.1, 5))
def test_batch_size_grows_and_sojourn_time_too_with_the_load(load, marginal):
    rates = np.array([load, load * 1.01]) / marginal
    assert np.all(np.diff(dynamic_batch_size(rates, 1, marginal)) > 0)
    assert np.all(np.diff(dynamic_sojourn_time(rates, 1, marginal)) > 0)


def test_a_rare_request_is_a_batch_of_one():
    assert_allclose(dynamic_batch_size(1e-9, 2, 3), 1)
    assert_allclose(dynamic_sojourn_time(1e-9, 2, 3), 5)
    assert_allclose(dynamic_sojourn_bounds(1e-9, 2, 3), 5)
    assert_allclose(dynamic_busy_fraction(1e-9, 2, 3), 5e-9, rtol=1e-6)


@pytest.mark.parametrize("rate", [1, 1.5, 1e6])
def test_beyond_the_edge_everything_is_infinite_and_the_server_busy(rate):
    assert dynamic_batch_size(rate, 2, 1) == np.inf
    assert dynamic_busy_fraction(rate, 2, 1) == 1
    waits = [dynamic_sojourn_time(rate, 2, 1), *dynamic_sojourn_bounds(rate, 2, 1), inoue_light_bound(rate, 2, 1),
             inoue_heavy_bound(rate, 2, 1)]
    assert waits == [np.inf] * 5


def test_near_the_edge_the_bounds_close_in():
    rate = (1 - 2.0**-30) / V100[1]
    exact = dynamic_sojourn_time(rate, *V100)
    assert np.isfinite(exact)
    assert_allclose([*dynamic_sojourn_bounds(rate, *V100), inoue_heavy_bound(rate, *V100)], exact, rtol=1e-9)


def test_simulated_dynamic_batching_agrees():
    rng = np.random.default_rng(21)
    rate, (fixed, marginal) = 0.5 / P4[1], P4
    size, sizes, squares = np.ones(80), np.zeros(80), np.zeros(80)
    for _ in range(4_000):
        arrived = rng.poisson(rate * (fixed + marginal * size))
        size = np.maximum(arrived, 1)
        sizes, squares = sizes + size, squares + size * (fixed + marginal * size)
    assert_mean_is(dynamic_batch_size(rate, *P4), sizes / 4_000)
    in_service = squares / sizes  # of a request: its batch's time, size-biased
    wait = dynamic_sojourn_time(rate, *P4) - in_service.mean()
    assert 0 < wait < in_service.mean()
