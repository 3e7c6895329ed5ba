import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from lib.order_statistics import (
    clipped_moments,
    empirical_max,
    exponential_max_ratio,
    geometric_max,
    lognormal_max_ratio,
    pareto_max_ratio,
    survival_max,
    uniform_max,
)
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)
sizes = st.integers(1, 2000)


@few
@given(size=st.integers(1, 300))
def test_the_exponential_ratio_is_the_harmonic_number(size):
    assert_allclose(exponential_max_ratio(size), sum(1 / k for k in range(1, size + 1)), rtol=1e-13)


@few
@given(sd=st.floats(0, 3))
def test_the_lognormal_ratio_of_two_has_a_closed_form(sd):
    assert_allclose(lognormal_max_ratio(sd, 2), 2 * norm.cdf(sd / np.sqrt(2)), rtol=1e-13)


@pytest.mark.parametrize(("sd", "size"), [(0.7, 8), (1.5, 32), (2.5, 1000), (0.05, 10**6)])
def test_the_lognormal_ratio_is_its_integral(sd, size):
    """By adaptive quadrature of the textbook form, E[e^(sigma Z)] of the largest of n normals."""
    def density(z):
        return size * np.exp(sd * z - sd**2 / 2 + norm.logpdf(z) + (size - 1) * norm.logcdf(z))
    assert_allclose(lognormal_max_ratio(sd, size), quad(density, -5, 15, limit=400, epsabs=0)[0], rtol=1e-8)


@pytest.mark.parametrize(("sd", "ratios"), [
    (0.7, [2.335476, 3.550451]), (1.0, [3.083848, 5.490164]), (1.5, [4.427035, 9.939351])])
def test_the_lognormal_ratios_of_8_and_32(sd, ratios):
    """Computed independently by quadrature with 50 digits."""
    assert_allclose(lognormal_max_ratio(sd, [8, 32]), ratios, atol=6e-7)


def test_the_pareto_ratio_of_two_by_hand():
    """a = 2: (1/2) Gamma(3) Gamma(1/2) / Gamma(5/2) = 4/3."""
    assert_allclose(pareto_max_ratio(2, 2), 4 / 3)


def test_the_pareto_ratio_grows_like_a_power():
    ratio = pareto_max_ratio(1.5, [10**6, 8 * 10**6])
    assert_allclose(ratio[1] / ratio[0], 4, rtol=1e-5)


@few
@given(sd=st.floats(0, 3), shape=st.floats(1.05, 20), size=sizes)
def test_ratios_start_at_one_and_rise_to_at_most_n(sd, shape, size):
    n = np.array([1, size, size + 1])
    for ratio in (exponential_max_ratio(n), lognormal_max_ratio(sd, n), pareto_max_ratio(shape, n)):
        assert_allclose(ratio[0], 1)
        assert np.all(np.diff(ratio) >= -1e-12)
        assert np.all(ratio <= n * (1 + 1e-12))


@few
@given(mean=st.floats(1, 300), size=st.integers(1, 3000))
def test_the_geometric_maximum_is_its_sum(mean, size):
    """Every one of the three rules against the first 60 means of terms; mean 1 is always one token."""
    survival = (1 - 1 / mean) ** np.arange(int(60 * mean) + 60)
    assert_allclose(geometric_max(mean, size), np.sum(1 - (1 - survival) ** size), rtol=1e-10)


@few
@given(mean=st.floats(1.5, 1e4), size=st.integers(1, 10**6))
def test_eisenbergs_bounds_enclose_the_geometric_maximum(mean, size):
    """eisenberg2008: H_n / d <= E[max] <= 1 + H_n / d."""
    smooth = exponential_max_ratio(size) / -np.log1p(-1 / mean)
    assert smooth <= geometric_max(mean, size) * (1 + 1e-12)
    assert geometric_max(mean, size) <= (1 + smooth) * (1 + 1e-12)


def test_the_geometric_rules_meet():
    """The largest n of one rule and the smallest of the next, long and short outputs."""
    for mean in (5.0, 19.0, 22.0, 1000.0):
        around = geometric_max(mean, [15, 16, 17, 18])
        harmonic = np.diff(around) * -np.log1p(-1 / mean) * [16, 17, 18]
        assert_allclose(harmonic, 1, rtol=1e-3 if mean < 10 else 1e-9)


def test_the_longest_of_two_dice():
    """161/36."""
    assert_allclose(uniform_max(6, [1, 2]), [3.5, 161 / 36])


@few
@given(lengths=st.lists(st.integers(0, 500), min_size=1, max_size=40), size=st.integers(1, 60))
def test_the_empirical_maximum_lies_between_the_mean_and_the_largest(lengths, size):
    longest = empirical_max(lengths, [1, size])
    assert_allclose(longest[0], np.mean(lengths), atol=1e-9)
    assert longest[0] - 1e-9 <= longest[1] <= max(lengths) + 1e-9


def test_the_empirical_maximum_of_two_drawn_from_two():
    assert_allclose(empirical_max([9, 1], 2), 7)


@few
@given(mean=st.floats(1, 200), limit=st.integers(1, 400), size=st.integers(1, 500))
def test_a_clipped_batch_runs_no_longer_than_the_limit(mean, limit, size):
    survival = (1 - 1 / mean) ** np.arange(limit)
    longest, (first, *_) = survival_max(survival, size), clipped_moments(survival)
    assert first <= longest * (1 + 1e-12)
    assert longest <= limit * (1 + 1e-12)
    assert longest <= geometric_max(mean, size) * (1 + 1e-12)


def test_clipped_moments_of_a_die():
    survival = 1 - np.arange(6) / 6
    assert_allclose(clipped_moments(survival), [21 / 6, 91 / 6, 441 / 6])
    assert_allclose(clipped_moments(survival[:2]), [11 / 6, (1 + 5 * 4) / 6, (1 + 5 * 8) / 6])


@pytest.mark.parametrize(("call", "message"), [
    (lambda: survival_max([1, 0.5, 0.6], 2), "survival must not rise, got 0.5 then 0.6"),
    (lambda: survival_max([[1, 0.5]], 2), r"survival must have one axis, got shape \(1, 2\)"),
    (lambda: empirical_max([[1, 2]], 2), r"lengths must have one axis, got shape \(1, 2\)"),
    (lambda: pareto_max_ratio(1, 2), "shape must be above 1, got 1")])
def test_laws_that_do_not_exist_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_simulated_batches_agree():
    rng = np.random.default_rng(41)
    shape = (60, 1_000, 24)
    lengths = [1, 4, 9, 16, 200]
    assert_mean_is(exponential_max_ratio(24), rng.exponential(1, shape).max(-1).mean(-1))
    assert_mean_is(lognormal_max_ratio(1, 24), rng.lognormal(-0.5, 1, shape).max(-1).mean(-1))
    assert_mean_is(pareto_max_ratio(3, 24) * 1.5, (1 + rng.pareto(3, shape)).max(-1).mean(-1))
    assert_mean_is(geometric_max(50, 24), rng.geometric(1 / 50, shape).max(-1).mean(-1))
    assert_mean_is(empirical_max(lengths, 3), rng.choice(lengths, (60, 1_000, 3)).max(-1).mean(-1))
