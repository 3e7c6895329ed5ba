import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.batch_law import (
    batch_time,
    half_saturation_batch,
    largest_batch_within,
    token_cost,
    token_rate,
    usl_contention,
    usl_peak,
    usl_token_rate,
)

few = settings(max_examples=60, deadline=None)
times = st.floats(1e-4, 10)
sizes = st.integers(1, 5000)


def test_the_scaling_book_batch_times():
    """austin2025scaling, part 7: LLaMA 2-13B on 8 TPU v5e, ms and tokens per second."""
    fixed, marginal = 26 / 6.56, 6.7 / 6.56
    assert_allclose(batch_time([1, 32, 240], fixed, marginal), [4.98, 36.65, 249.09], atol=0.006)
    assert_allclose(1e3 * token_rate([1, 32, 240], fixed, marginal), [200.61, 873.21, 963.53], atol=0.05)


def test_either_part_of_the_time_may_be_zero():
    assert list(batch_time(4, [0, 2], [0.5, 0])) == [2, 2]
    assert list(token_rate(4, [0, 2], [0.5, 0])) == [2, 2]
    assert list(token_cost(3, 4, [0, 2], [0.5, 0])) == [1.5, 1.5]
    assert list(usl_contention([0, 2], [0.5, 0])) == [1, 0]


@few
@given(size=sizes, fixed=times, marginal=times)
def test_a_larger_batch_is_slower_faster_per_token_and_cheaper(size, fixed, marginal):
    pair = [size, size + 1]
    assert np.diff(batch_time(pair, fixed, marginal)) > 0
    assert np.diff(token_rate(pair, fixed, marginal)) > 0
    assert np.diff(token_cost(2, pair, fixed, marginal)) < 0
    assert_allclose(token_cost(2, size, fixed, marginal), 2 / token_rate(size, fixed, marginal))


@few
@given(fixed=times, marginal=times)
def test_half_saturation_is_half_of_peak_twice_the_floor_and_most_power(fixed, marginal):
    half = half_saturation_batch(fixed, marginal)
    assert_allclose(half / (fixed + half * marginal), 1 / (2 * marginal))
    if half >= 1:
        assert_allclose(token_cost(1, half, fixed, marginal), 2 * marginal)
    around = half * np.array([0.9, 1, 1.1])
    product = (fixed + around * marginal) ** 2 / around
    assert product[1] < min(product[0], product[2])


def test_half_saturation_of_the_scaling_book():
    assert_allclose(half_saturation_batch([26, 3, 0], [6.7, 0, 1]), [26 / 6.7, np.inf, 0])


@few
@given(fixed=times, marginal=times, size=sizes)
def test_the_largest_batch_fits_and_the_next_does_not(fixed, marginal, size):
    limit = batch_time(size, fixed, marginal)
    assert largest_batch_within(limit, fixed, marginal) == size
    assert largest_batch_within(limit + 0.4 * marginal, fixed, marginal) == size
    assert largest_batch_within(limit - 0.4 * marginal, fixed, marginal) == size - 1


def test_the_ends_of_the_largest_batch():
    assert list(largest_batch_within([1, 2, 5, np.inf], 1, [0.5, 0, 0, 0.5])) == [0, np.inf, np.inf, np.inf]


@few
@given(size=sizes, fixed=times, marginal=times)
def test_the_affine_law_is_usl_without_coherency(size, fixed, marginal):
    contention = usl_contention(fixed, marginal)
    scaled = usl_token_rate(size, 1 / (fixed + marginal), contention, 0)
    assert_allclose(scaled, token_rate(size, fixed, marginal), rtol=1e-9)


def test_usl_by_hand():
    """100 * 10 / (1 + .1 * 9 + .01 * 90)."""
    assert_allclose(usl_token_rate(10, 100, 0.1, 0.01), 1000 / 2.8)


@few
@given(contention=st.floats(0, 0.9), coherency=st.floats(1e-6, 0.01))
def test_usl_peaks_where_it_says(contention, coherency):
    peak = usl_peak(contention, coherency)
    around = np.maximum(np.round(peak * np.array([0.5, 1, 2])), 1)
    rates = usl_token_rate(around, 1, contention, coherency)
    assert rates[1] >= max(rates[0], rates[2]) * (1 - 1e-9)


def test_the_ends_of_the_usl_peak():
    assert_allclose(usl_peak([0.19, 0, 1, 0.5], [0.0001, 0, 0, 4]), [90, np.inf, 1, 1])


@pytest.mark.parametrize("call", [
    lambda: batch_time(4, 0, 0), lambda: token_rate(4, [0, 1], 0), lambda: token_cost(1, 4, 0, 0),
    lambda: half_saturation_batch(0, 0), lambda: largest_batch_within(1, 0, 0), lambda: usl_contention(0, 0)])
def test_a_batch_without_time_is_refused(call):
    with pytest.raises(ValueError, match="fixed_time plus marginal_time must be above 0, got 0"):
        call()
