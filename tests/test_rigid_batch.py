import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.calibration import predict
from lib.rigid_batch import StepLaw, rigid_batch, rigid_batch_law, step_law


def test_the_step_law_goes_through_one_and_thirty_two():
    law = step_law("H100 SXM", "Llama-3-8B", 1024)
    made = predict("H100 SXM", "Llama-3-8B", [1, 32], 1024)
    whole = made.calibrated + made.output_head
    assert_allclose([law.fixed_time + n * law.marginal_time for n in (1, 32)], whole)


def test_two_users_by_hand():
    """2 or 2,000 tokens, steps of 1 s and .5 s a sequence: the longest of two is 2,000 with chance 3/4."""
    batch = rigid_batch([2, 2000], StepLaw(1.0, 0.5), 2)
    mean, square = np.array([1001, 1500.5]), np.array([2_000_002, 3_000_001])
    assert_allclose(batch.mean_time, [1.5 * 1001, 2 * 1500.5])
    assert_allclose(batch.cv2, square / mean**2 - 1)


def test_the_law_of_two_users_by_hand_and_its_moments():
    times, shares = rigid_batch_law([2, 2000, 2000, 2], StepLaw(1.0, 0.5), 2)
    assert_allclose(times, [[3, 3000], [4, 4000]])
    assert_allclose(shares, [[0.5, 0.5], [0.25, 0.75]])
    batch = rigid_batch([2, 2000], StepLaw(1.0, 0.5), 2)
    mean = (times * shares).sum(axis=1)
    assert_allclose(mean, batch.mean_time)
    assert_allclose((times**2 * shares).sum(axis=1) / mean**2 - 1, batch.cv2)


def test_a_length_of_nothing_takes_next_to_nothing():
    times, shares = rigid_batch_law([0, 10], StepLaw(1.0, 0.0), 1)
    assert_allclose(times, [[1e-3, 10]])
    assert_allclose(shares, [[0.5, 0.5]])


def test_equal_lengths_do_not_vary():
    batch = rigid_batch([7, 7, 7], StepLaw(1.0, 0.0), 5)
    assert_allclose(batch.mean_time, 7)
    assert_allclose(batch.cv2, 0, atol=1e-12)


def test_drawn_batches_have_the_moments():
    rng = np.random.default_rng(8)
    lengths = np.rint(rng.lognormal(4, 1, 500))
    longest = lengths[rng.integers(0, 500, (200_000, 6))].max(axis=1)
    batch = rigid_batch(lengths, StepLaw(0.02, 0.001), 6)
    assert_allclose(batch.mean_time[-1], 0.026 * longest.mean(), rtol=0.01)
    assert_allclose(batch.cv2[-1], longest.var() / longest.mean() ** 2, rtol=0.03)


def test_lengths_that_are_all_nothing_are_refused():
    with pytest.raises(ValueError, match="lengths must have one axis and not be all 0"):
        rigid_batch([0, 0], StepLaw(1.0, 0.5), 2)
