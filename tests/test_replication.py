import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.replication import mean_interval, without_warm_up
from tests.replications import assert_mean_is


def test_the_first_requests_are_left_out():
    assert [*without_warm_up([1, 2, 3, 4, 5], 0.4)] == [3, 4, 5]


def test_an_interval_by_hand():
    """Twenty values of 1 and 3: mean 2, sd sqrt(20/19); Student's t at 95 % with 19 degrees is 2.0930."""
    mean, half_width = mean_interval([1, 3] * 10, 0.95)
    assert mean == 2
    assert_allclose(half_width, 2.0930 * np.sqrt(20 / 19) / np.sqrt(20), rtol=1e-4)


def test_few_replications_are_refused():
    with pytest.raises(ValueError, match=r"replications must have one axis of at least 20, got shape \(19,\)"):
        mean_interval(np.ones(19))


def test_the_interval_covers_as_often_as_it_says():
    """Of 2000 intervals of 90 % around means of 20 normal numbers, 90 % hold the true mean."""
    drawn = np.random.default_rng(1).normal(3, 2, (2000, 20))
    inside = [abs(mean - 3) <= half for mean, half in (mean_interval(row, 0.9) for row in drawn)]
    assert_mean_is(0.9, inside)
