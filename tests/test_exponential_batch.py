import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.exponential_batch import mmab_batch_size, mmab_idle_probability, mmab_wait
from lib.queueing import ekm1_wait, mm1_sojourn_time

few = settings(max_examples=40, deadline=None)
loads = st.floats(0.01, 0.99)


@few
@given(load=loads, service_time=st.floats(0.1, 10))
def test_batches_of_one_are_mm1(load, service_time):
    rate = load / service_time
    assert_allclose(mmab_wait(rate, service_time, 1, 1), mm1_sojourn_time(rate, service_time) - service_time, rtol=1e-9)
    assert_allclose(mmab_idle_probability(rate, service_time, 1, 1), 1 - load, rtol=1e-9)
    assert_allclose(mmab_batch_size(rate, service_time, 1, 1), 1)


@few
@given(load=loads, cap=st.integers(1, 60))
def test_full_batches_form_first_and_then_queue(load, cap):
    """(b - 1) / 2 lambda to form, then E_b/M/1."""
    rate = load * cap
    assert_allclose(mmab_wait(rate, 1, cap, cap), (cap - 1) / (2 * rate) + ekm1_wait(load, 1, cap), rtol=1e-8)
    assert_allclose(mmab_batch_size(rate, 1, cap, cap), cap, rtol=1e-9)


@few
@given(offered=st.floats(0.01, 50))
def test_without_a_cap_the_greedy_law_is_geometric(offered):
    """r / (1 - r) = lambda S, so r = a / (1 + a) with a = lambda S."""
    root = offered / (1 + offered)
    scale = (1 - root) / (1 + (1 - root) / offered)
    assert_allclose(mmab_wait(offered / 3, 3, 1, np.inf), 3 * scale * root / (1 - root) ** 2 / offered, rtol=1e-9)
    assert_allclose(mmab_idle_probability(offered / 3, 3, 1, np.inf), 1 - scale / (1 - root), atol=1e-12)


@few
@given(load=st.floats(0.01, 0.9), cap=st.integers(2, 30), data=st.data())
def test_the_probabilities_add_up_and_have_that_mean(load, cap, data):
    limit = data.draw(st.integers(1, cap))
    offered = load * cap
    candidates = np.roots([*np.ones(cap), -offered])
    root = candidates[abs(candidates.imag) < 1e-9].real.max()
    waiting, idle = np.arange(4_000), np.arange(limit)
    busy = root**waiting
    forming = (1 - root ** (idle + 1)) / (offered * (1 - root))
    total = busy.sum() + forming.sum()
    assert_allclose(mmab_idle_probability(offered, 1, limit, cap), forming.sum() / total, rtol=1e-6)
    assert_allclose(mmab_wait(offered, 1, limit, cap), (busy @ waiting + forming @ idle) / total / offered, rtol=1e-6)


@pytest.mark.parametrize(("limit", "cap", "rate", "wait"), [
    (3, 3, 2, 1.6390), (1, 3, 2, 1.9539), (5, 8, 4, 1.1135), (1, 8, 4, 1.2917), (32, 32, 24, 1.9022),
    (1, 32, 24, 2.2547), (1, 8, 1, 0.6698), (8, 8, 1, 3.504)])
def test_waiting_pays_when_batch_times_are_exponential(limit, cap, rate, wait):
    """Computed independently: full or nearly full batches wait 14 to 16 % less, except at light load."""
    assert_allclose(mmab_wait(rate, 1, limit, cap), wait, rtol=3e-4)


@pytest.mark.parametrize("rate", [5, 5.001, 1e9])
def test_beyond_the_edge_batches_are_full(rate):
    assert mmab_wait(rate, 1, 2, 5) == np.inf
    assert mmab_idle_probability(rate, 1, 2, 5) == 0
    assert mmab_batch_size(rate, 1, 2, 5) == 5


def test_near_the_edge_the_wait_is_finite_and_follows_heavy_traffic():
    """G/M/1 with gaps of a full batch: (1 / b + 1) / 2 services over the spare share."""
    room = 1e-7
    assert_allclose(mmab_wait(5 * (1 - room), 1, 2, 5) * room, (1 / 5 + 1) / 2, rtol=1e-5)


@pytest.mark.parametrize("offered", [1e-100, 1e-20, 1e-6])
def test_at_light_load_a_greedy_request_waits_for_the_one_before(offered):
    assert_allclose(mmab_wait(offered, 1, 1, [1, 8, np.inf]), offered, rtol=2e-6)


def test_another_unit_of_time_changes_only_the_unit():
    assert_allclose(mmab_wait(0.4, 5, 2, 5), 5 * mmab_wait(2, 1, 2, 5))
    assert_allclose(mmab_batch_size(0.4, 5, 2, 5), mmab_batch_size(2, 1, 2, 5))


def test_a_limit_beyond_the_cap_is_refused():
    with pytest.raises(ValueError, match=r"batch_cap must be at least control_limit \(4\), got 3"):
        mmab_wait(1, 1, 4, 3)
