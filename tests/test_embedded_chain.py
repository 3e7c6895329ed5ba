import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import nbinom, poisson

from lib.embedded_chain import (
    arrivals_law,
    arrivals_transform,
    disc_roots,
    first_below,
    landing_law,
    returns_below,
    starts_above,
    walk_memory,
    with_rest,
)

few = settings(max_examples=40, deadline=None)
loads = st.floats(0.05, 0.98)
caps = st.integers(1, 40)
spreads = st.sampled_from([0.0, 0.25, 1.0, 3.0])


def test_the_arrivals_are_poisson_or_negative_binomial():
    count = np.arange(60)
    assert_allclose(arrivals_law(7.0, 0, count), poisson.pmf(count, 7), rtol=1e-10)
    assert_allclose(arrivals_law(7.0, 0.5, count), nbinom.pmf(count, 2, 1 / 4.5), rtol=1e-10)
    assert_allclose(arrivals_law(7.0, 1e-9, count), poisson.pmf(count, 7), rtol=2e-6)
    assert_allclose(arrivals_law(0.0, 0, np.arange(2)), [1, 0])


@pytest.mark.parametrize("cv2", [1e-300, 1e-13, 1e-11, 1e-6])
def test_hardly_varying_times_are_constant_ones(cv2):
    """Linear in the variation: no digits are lost on the way to 0."""
    steady, varied = (landing_law(0.75, 8, spread) for spread in (0, cv2))
    assert_allclose(varied, steady, rtol=1e-12 + 30 * cv2)


@few
@given(arrivals=st.floats(0.1, 60), cv2=spreads)
def test_the_transform_is_that_of_the_law(arrivals, cv2):
    count = np.arange(8_000)
    law = arrivals_law(arrivals, cv2, count)
    assert_allclose(law.sum(), 1, atol=1e-11)
    assert_allclose(arrivals_transform(arrivals, cv2, 0.7), law @ 0.7**count, rtol=1e-9)


@few
@given(load=loads, cap=caps, cv2=spreads)
def test_the_roots_are_all_there_and_distinct(load, cap, cv2):
    pairs, alone = disc_roots(np.array(load), cap, cv2)
    roots = np.concatenate([pairs, pairs.conj(), alone])
    assert len(roots) == cap - 1
    assert_allclose(roots**cap, arrivals_transform(load * cap, cv2, roots), atol=1e-11)
    assert np.all(abs(roots) < 1)
    gaps = abs(roots[:, None] - roots) + 2 * np.eye(cap - 1)
    assert cap == 1 or gaps.min() > 1e-4


@few
@given(load=loads, cap=caps, cv2=spreads)
def test_landing_below_the_cap_balances_the_walk(load, cap, cv2):
    """From b the walk goes to A, which is below b or starts again from there."""
    landing = landing_law(load, cap, cv2)
    arrivals = arrivals_law(load * cap, cv2, np.arange(8_000))
    assert_allclose(arrivals[:cap] + returns_below(arrivals[None, cap:], landing)[0], landing, atol=1e-9)


def test_returns_from_the_cap_itself_are_the_landing_law():
    landing = np.array([0.2, 0.3, 0.5])
    returns = returns_below(np.eye(3), landing)
    assert_allclose(returns[0], landing)
    assert_allclose(returns[1], np.append(0, landing[:2]) + 0.5 * landing)
    assert_allclose(returns[2], np.append(0, returns[1][:2]) + returns[1][2] * landing)


@few
@given(load=loads, cap=caps, cv2=spreads)
def test_starts_beyond_the_last_are_rare_or_land_alike(load, cap, cv2):
    starts = starts_above(load * cap, cv2, cap, walk_memory(load, cap, cv2))
    landings = returns_below(np.eye(starts + 20)[[starts - 1, starts + 19]], landing_law(load, cap, cv2))
    beyond = 1 - arrivals_law(load * cap, cv2, np.arange(cap + starts)).sum()
    assert beyond * abs(np.diff(landings, axis=0)).max() < 1e-13


def test_no_start_is_left_out_because_the_law_has_not_yet_begun_there():
    assert 900 + 5 * 30 < starts_above(900.0, 0.0, 8, 0.99) < 2_000
    assert starts_above(900.0, 0.0, 8, 0.0) == 8


@few
@given(load=loads, cap=caps, cv2=spreads)
def test_the_walk_forgets_as_fast_as_its_largest_root(load, cap, cv2):
    pairs, alone = disc_roots(np.array(load), cap, cv2)
    assert walk_memory(load, cap, cv2) == max([0, *abs(pairs), *abs(alone)])


def test_what_a_law_lacks_goes_to_its_last_entry():
    assert_allclose(with_rest(np.array([[0.5, 0.2, 0.1], [0.3, 0.3, 0.4]])), [[0.5, 0.2, 0.3], [0.3, 0.3, 0.4]])


@settings(max_examples=25, deadline=None)
@given(load=loads, cap=caps, full_cv2=spreads, cv2=st.sampled_from([0.0, 0.03, 0.06, 0.26, 0.7, 1.0, 3.0]),
       arrivals=st.floats(0.01, 150))
def test_by_transform_or_by_number_the_walk_lands_where_a_long_sum_says(load, cap, full_cv2, cv2, arrivals):
    """Alone or among rows of other variation and of more arrivals than the cap."""
    landing, memory = landing_law(load, cap, full_cv2), walk_memory(load, cap, full_cv2)
    law = arrivals_law(arrivals, cv2, np.arange(9_000))
    expected = law[:cap] + returns_below(law[None, cap:], landing)[0]
    assert_allclose(first_below(np.array([arrivals]), np.array([cv2]), landing, memory)[0], expected, atol=1e-12)
    among = first_below(np.array([2.0, arrivals, 60.0]), np.array([3.0, cv2, 0.0]), landing, memory)
    assert_allclose(among[1], expected, atol=1e-12)
    assert_allclose(among.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("cv2", [0.01, 0.06, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("load", [0.3, 0.97, 0.9999])
def test_at_a_cap_of_256_the_transform_keeps_thirteen_digits(load, cv2):
    """From 0 with the arrivals of a full batch, and one such batch later: the chain of full batches balances."""
    landing, memory = landing_law(load, 256, cv2), walk_memory(load, 256, cv2)
    landed = first_below(np.array([load * 256]), np.array([cv2]), landing, memory)[0]
    assert_allclose(landed, landing, atol=1e-13)


def test_one_exponential_time_by_hand():
    """Cap 2, one arrival on average, from 1 lands on 0 or 1 alike: x0 = 1/2 + x1 / 4 and x1 = x0 / 2 + x1 / 4."""
    landing, time = np.array([0.5, 0.5]), (np.array([1.0]), np.array([1.0]))
    assert_allclose(first_below(*time, landing, 0.5), [[0.6, 0.4]])
