import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.order_statistics import exponential_max_ratio
from lib.static_batch import elastic_speedup, slot_utilisation, sorted_bins_throughput
from tests.replications import assert_mean_is

few = settings(max_examples=60, deadline=None)


def test_a_batch_of_32_exponential_outputs_uses_a_quarter_of_its_slots():
    assert_allclose(slot_utilisation(exponential_max_ratio(32)), 1 / 4.05849519544)


@few
@given(ratio=st.floats(1, 50), size=st.integers(1, 500), fixed=st.floats(0.01, 10), marginal=st.floats(0.01, 10))
def test_an_elastic_batch_loses_at_most_what_a_rigid_one_does(ratio, size, fixed, marginal):
    assert 1 <= elastic_speedup(ratio, size, fixed, marginal) <= ratio


def test_the_ends_of_the_elastic_speedup():
    """Only the step counts, or only the sequences do; half and half in between."""
    assert_allclose(elastic_speedup(4, 8, [1, 0, 8], [0, 1, 1]), [4, 1, 2.5])


def test_a_step_without_time_is_refused():
    with pytest.raises(ValueError, match="fixed_time plus marginal_time must be above 0, got 0"):
        elastic_speedup(4, 8, 0, 0)


@few
@given(short=st.floats(0, 5), extra=st.floats(0.1, 20), size=st.integers(1, 64), bins=st.integers(1, 30))
def test_more_bins_never_hurt_and_end_at_the_mean(short, extra, size, bins):
    finer = sorted_bins_throughput(short, short + extra, size, [bins, bins + 1, 10**9])
    assert finer[0] <= finer[1] <= finer[2] * (1 + 1e-9)
    assert_allclose(finer[2], size / (short + extra / 2), rtol=1e-6)


def test_simulated_bins_agree():
    rng = np.random.default_rng(43)
    low, high, size, bins = 1.0, 20.0, 8, 4
    which = rng.integers(0, bins, (60, 3_000, 1))
    times = low + (high - low) * (which + rng.random((60, 3_000, size))) / bins
    assert_mean_is(size / sorted_bins_throughput(low, high, size, bins), times.max(-1).mean(-1))


def test_ends_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="longest must be at least shortest, got 2"):
        sorted_bins_throughput([1, 3], [1, 2], 8, 4)
