from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.queueing import (
    ekm1_wait,
    gg1_wait,
    kingman_bound,
    mg1_wait,
    mg1_wait_second_moment,
    mm1_sojourn_quantile,
    mm1_sojourn_time,
)
from tests.replications import assert_mean_is, lindley_waits

few = settings(max_examples=40, deadline=None)
loads = st.floats(0.01, 0.99)
spreads = st.floats(0, 20)


def test_mm1_at_load_point_nine_takes_ten_services():
    """kleinrock1975, 3.2: W = 1 / (mu - lambda)."""
    assert_allclose(mm1_sojourn_time([0.9, 0.45], [1, 2]), [10, 20], rtol=1e-14)


def test_half_of_mm1_sojourn_times_are_below_ln_2_means():
    assert_allclose(mm1_sojourn_quantile([0, 0.5, 1], 0.9, 1), [0, 10 * np.log(2), np.inf])
    assert_allclose(mm1_sojourn_quantile(0.5, 0.45, 2), 20 * np.log(2))


def test_a_constant_service_waits_half_as_long_as_an_exponential_one():
    """kleinrock1975, 5.7."""
    assert_allclose(mg1_wait(0.8, 1, [1, 2]), [2, 4])


def test_mg1_wait_second_moment_is_that_of_mm1():
    """The wait is 0 or exponential with rate 1 - rho: E[W^2] = 2 rho / (1 - rho)^2."""
    assert_allclose(mg1_wait_second_moment(0.7, 1, 2, 6), 2 * 0.7 / 0.3**2)
    assert_allclose(mg1_wait_second_moment(0.35, 2, 8, 48), 4 * 2 * 0.7 / 0.3**2)


def test_one_stage_of_arrivals_is_mm1():
    assert_allclose(ekm1_wait([0.5, 0.9], [1.5, 1], 1), mm1_sojourn_time([0.5, 0.9], [1.5, 1]) * [0.75, 0.9])


def test_many_stages_of_arrivals_are_regular_ones():
    """D/M/1 at load 1/2: sigma = .2031878699799799 solves sigma = exp(-2 (1 - sigma)) (kleinrock1975, 6.4)."""
    sigma = 0.2031878699799799
    assert_allclose(ekm1_wait(0.5, 1, 10**6), sigma / (1 - sigma), rtol=1e-5)


@pytest.mark.parametrize(("load", "stages"), [(1 - 1e-6, 2), (1 - 2.0**-20, 8), (0.999, 64), (1e-3, 3)])
def test_ekm1_wait_keeps_nine_digits_near_saturation_and_at_light_load(load, stages):
    """The root, found again with 60 digits."""
    getcontext().prec = 60
    exact_load = Decimal(load)
    wait = Decimal(float(ekm1_wait(load, 1, stages)))
    gap = 1 / (1 + wait)
    for _ in range(60):
        base = 1 + gap / (stages * exact_load)
        slope = 1 - base ** (-stages - 1) / exact_load
        gap -= (gap - 1 + base**-stages) / slope
    assert_allclose(float(wait), float((1 - gap) / gap), rtol=1e-9)


@few
@given(load=loads, stages=st.integers(1, 50))
def test_steadier_arrivals_wait_less(load, stages):
    waits = ekm1_wait(load, 1, [stages, stages + 1])
    assert 0 <= waits[1] <= waits[0]


@few
@given(load=loads, stages=st.integers(1, 50))
def test_kingman_bounds_the_exact_wait(load, stages):
    assert ekm1_wait(load, 1, stages) <= kingman_bound(load, 1, 1 / stages, 1)


@few
@given(load=loads, cv2=spreads)
def test_variability_utilisation_time_is_exact_for_poisson_arrivals(load, cv2):
    assert_allclose(gg1_wait(load / 3, 3, 1, cv2), mg1_wait(load / 3, 3, 9 * (1 + cv2)), rtol=1e-12)


def test_kingman_bound_by_hand():
    """lambda (var_a + var_s) / (2 (1 - rho)) with lambda 1/4, S 2, var_a 8, var_s 12: 5 / 1."""
    assert_allclose(kingman_bound(0.25, 2, 0.5, 3), 5)


@few
@given(load=loads, arrival_cv2=spreads, service_cv2=spreads)
def test_the_approximation_never_exceeds_the_bound_and_meets_it_in_heavy_traffic(load, arrival_cv2, service_cv2):
    bound = kingman_bound(load, 1, arrival_cv2, service_cv2)
    assert 0 <= gg1_wait(load, 1, arrival_cv2, service_cv2) <= bound * (1 + 1e-12)
    heavy = 1 - 1e-9
    assert_allclose(gg1_wait(heavy, 1, arrival_cv2, service_cv2), kingman_bound(heavy, 1, arrival_cv2, service_cv2))


@pytest.mark.parametrize("load", [1, 1 + 1e-12, 2, 1e9])
def test_beyond_the_edge_every_wait_is_infinite(load):
    waits = [mm1_sojourn_time(load, 1), mm1_sojourn_quantile(0.5, load, 1), mg1_wait(load, 1, 1),
             mg1_wait_second_moment(load, 1, 1, 1), ekm1_wait(load, 1, 2), kingman_bound(load, 1, 0, 0),
             gg1_wait(load, 1, 0.5, 1)]
    assert waits == [np.inf] * 7


def test_near_the_edge_waits_are_finite_and_exact():
    """Load 1 - 2^-30 is exact in binary, so is the answer."""
    assert mm1_sojourn_time(1 - 2.0**-30, 1) == 2.0**30
    assert_allclose(mg1_wait(1 - 2.0**-30, 1, 2), 2.0**30 - 1, rtol=1e-15)


def test_an_infinite_variance_gives_an_infinite_wait():
    waits = [mg1_wait(0.1, 1, np.inf), mg1_wait_second_moment(0.1, 1, 2, np.inf), kingman_bound(0.1, 1, 1, np.inf),
             kingman_bound(0.1, 1, np.inf, 1), gg1_wait(0.1, 1, 1, np.inf), gg1_wait(0.1, 1, np.inf, 1)]
    assert waits == [np.inf] * 6


@pytest.mark.parametrize("call", [
    lambda: mg1_wait(0.5, 2, 3.9),
    lambda: mg1_wait_second_moment(0.5, 1, 2, 3.9),
])
def test_moments_that_no_law_has_are_refused(call):
    with pytest.raises(ValueError, match=r"must be at least .* \(4\), got 3.9"):
        call()


def test_simulated_mg1_agrees_with_both_moments():
    """Service .5 or 2.5 with probability .75, .25: mean 1, moments 1.75 and 4."""
    rng = np.random.default_rng(7)
    gaps = rng.exponential(1 / 0.6, (60, 20_000))
    services = rng.choice([0.5, 2.5], (60, 20_000), p=[0.75, 0.25])
    waits = lindley_waits(gaps, services)[:, 2_000:]
    assert_mean_is(mg1_wait(0.6, 1, 1.75), waits.mean(axis=1))
    assert_mean_is(mg1_wait_second_moment(0.6, 1, 1.75, 4), (waits**2).mean(axis=1))


def test_simulated_e3m1_agrees():
    rng = np.random.default_rng(8)
    gaps = rng.gamma(3, 1 / (3 * 0.7), (60, 20_000))
    waits = lindley_waits(gaps, rng.exponential(1, gaps.shape))[:, 2_000:]
    assert_mean_is(ekm1_wait(0.7, 1, 3), waits.mean(axis=1))
