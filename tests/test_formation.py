import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import poisson

from lib.formation import formation_batch_size, formation_full_probability, formation_wait
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)
rates, caps, timeouts = st.floats(0.01, 50), st.integers(1, 60), st.floats(0, 5)


@few
@given(rate=rates, cap=caps, timeout=timeouts)
def test_the_closed_forms_are_the_sums_they_stand_for(rate, cap, timeout):
    others = np.arange(1, cap)
    reached = poisson.sf(others - 1, rate * timeout)
    batch_size = 1 + reached.sum()
    assert_allclose(formation_batch_size(rate, cap, timeout), batch_size, rtol=1e-10)
    assert_allclose(formation_wait(rate, cap, timeout), others @ reached / (rate * batch_size), rtol=1e-8, atol=1e-14)
    full = reached[-1] if cap > 1 else 1
    assert_allclose(formation_full_probability(rate, cap, timeout), full, rtol=1e-9, atol=1e-300)


def test_pairs_and_threes_by_hand():
    """A second request joins with probability 1 - e^-x; x = 1.5 here, and a wait of Q / (lambda E[B])."""
    one, two = 1 - np.exp(-1.5), 1 - 2.5 * np.exp(-1.5)
    assert_allclose(formation_batch_size(3, [2, 3], 0.5), [1 + one, 1 + one + two])
    assert_allclose(formation_full_probability(3, [2, 3], 0.5), [one, two])
    assert_allclose(formation_wait(3, [2, 3], 0.5), [one / (3 + 3 * one), (one + 2 * two) / (3 * (1 + one + two))])


@few
@given(rate=rates, cap=caps)
def test_without_a_timeout_every_batch_is_full(rate, cap):
    assert formation_batch_size(rate, cap, np.inf) == cap
    assert formation_full_probability(rate, cap, np.inf) == 1
    assert_allclose(formation_wait(rate, cap, np.inf), (cap - 1) / (2 * rate))


@few
@given(rate=rates, timeout=timeouts)
def test_without_a_cap_the_timeout_decides(rate, timeout):
    window = rate * timeout
    assert_allclose(formation_batch_size(rate, np.inf, timeout), 1 + window)
    assert formation_full_probability(rate, np.inf, timeout) == 0
    assert_allclose(formation_wait(rate, np.inf, timeout), timeout * (1 + window / 2) / (1 + window), atol=1e-300)


def test_without_either_the_batch_never_leaves():
    assert formation_batch_size(1, np.inf, np.inf) == np.inf
    assert formation_wait(1, np.inf, np.inf) == np.inf
    assert formation_full_probability(1, np.inf, np.inf) == 0


def test_a_batch_of_one_or_a_timeout_of_zero_waits_for_nobody():
    assert_allclose(formation_wait([3, 3, 3], [1, 8, np.inf], [5, 0, 0]), 0)
    assert_allclose(formation_batch_size([3, 3, 3], [1, 8, np.inf], [5, 0, 0]), 1)
    assert_allclose(formation_full_probability([3, 3], [1, 8], [5, 0]), [1, 0])


@few
@given(rate=rates, cap=caps, timeout=timeouts)
def test_more_patience_makes_no_smaller_batch_and_no_shorter_wait(rate, cap, timeout):
    sizes, waits = (f(rate, cap, [timeout, timeout + 0.1]) for f in (formation_batch_size, formation_wait))
    assert sizes[0] <= sizes[1] * (1 + 1e-12)
    assert waits[0] <= waits[1] * (1 + 1e-12)


@pytest.mark.parametrize(("rate", "cap", "timeout"), [(10, 4, 0.2), (10, 8, 1.0)])
def test_simulated_windows_agree(rate, cap, timeout):
    rng = np.random.default_rng(31)
    joined = np.cumsum(rng.exponential(1 / rate, (60, 2_000, cap - 1)), axis=-1)
    inside = joined < timeout
    closes = np.where(inside[..., -1], joined[..., -1], timeout)
    size = 1 + inside.sum(axis=-1)
    waited = closes + np.sum((closes[..., None] - joined) * inside, axis=-1)
    assert_mean_is(formation_batch_size(rate, cap, timeout), size.mean(axis=1))
    assert_mean_is(formation_wait(rate, cap, timeout), waited.sum(axis=1) / size.sum(axis=1))
    assert_mean_is(formation_full_probability(rate, cap, timeout), inside[..., -1].mean(axis=1))
