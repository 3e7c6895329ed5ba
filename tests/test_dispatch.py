import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.bulk import bulk_queue
from lib.dispatch import INOUE, advised, dispatched, smallest_cap
from lib.timeout_batching import timeout_sojourn_time
from lib.timeout_choice import best_timeout

V100 = INOUE["V100"]


def test_the_fits_are_those_of_the_paper():
    """inoue2021, section 3.3, ms: .1438 and 1.8874 for the V100, .5833 and 1.4284 for the P4."""
    assert_allclose(INOUE["V100"], (1.8874e-3, 0.1438e-3))
    assert_allclose(INOUE["P4"], (1.4284e-3, 0.5833e-3))


def test_light_load_is_told_not_to_wait():
    advice = advised(500.0, *V100)
    assert advice.best == advice.greedy
    assert advice.best.timeout == 0
    assert advice.own == advice.best


def test_a_busy_server_is_told_the_best_timeout_and_gains_next_to_nothing():
    rate = 4 / V100.fixed_time
    advice = advised(rate, *V100)
    assert_allclose(advice.best.timeout, best_timeout(rate, V100.fixed_time))
    assert 0 < 1 - advice.best.mean / advice.greedy.mean < 6e-4
    assert_allclose(advice.harmless.mean, 1.01 * advice.greedy.mean, rtol=1e-6)
    assert advice.harmless.busy < advice.greedy.busy


def test_an_operators_own_timeout_is_judged():
    advice = advised(500.0, *V100, timeout=1e-3)
    assert advice.own == dispatched(500.0, *V100, 1e-3)
    assert_allclose(advice.own.mean, timeout_sojourn_time(500.0, *V100, 1e-3))
    assert advice.own.p99 >= advice.greedy.p99


def test_the_smallest_cap_keeps_the_loss_and_one_less_does_not():
    rate = 4 / V100.fixed_time
    cap = smallest_cap(rate, *V100, 0.01)
    allowed = 1.01 * timeout_sojourn_time(rate, *V100, 0)
    times = V100.fixed_time + V100.marginal_time * np.arange(1, cap + 1)
    assert bulk_queue(rate, times).sojourn_time <= allowed < bulk_queue(rate, times[:-1]).sojourn_time
    assert smallest_cap(1.0, *V100, 0.01) == 1


def test_cautions_come_when_their_numbers_say_so():
    assert len(advised(500.0, *V100).cautions) == 2
    near = advised(0.97 / V100.marginal_time, *V100).cautions
    assert any("saturation" in caution for caution in near)
    assert any("beyond the time of a batch of one" in caution for caution in near)


def test_an_unstable_server_is_refused():
    with pytest.raises(ValueError, match="arrival_rate times marginal_time must be below 1"):
        advised(1e4, *V100)
