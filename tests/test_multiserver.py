import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import poisson

from lib.erlang import mmc_wait, mmc_wait_probability
from lib.multiserver import halfin_whitt_servers, halfin_whitt_wait_probability, mdc_wait
from lib.queueing import mg1_wait
from tests.replications import assert_mean_is

few = settings(max_examples=40, deadline=None)
loads = st.floats(0.01, 0.99)


@few
@given(load=loads, service_time=st.floats(0.1, 10))
def test_one_constant_server_is_md1(load, service_time):
    rate = load / service_time
    exact = mg1_wait(rate, service_time, service_time**2)
    assert_allclose(mdc_wait(rate, service_time, 1), exact, rtol=1e-9)


@few
@given(load=loads, servers=st.integers(2, 40))
def test_a_constant_time_waits_between_a_half_and_its_light_load_share_of_mmc(load, servers):
    """c / (c + 1) is the ratio at light load: the least of c uniform residues against exponential ones."""
    ratio = mdc_wait(load * servers, 1, servers) / mmc_wait(load * servers, 1, servers)
    assert 0.5 <= ratio <= servers / (servers + 1) + 1e-9


@pytest.mark.parametrize("servers", [2, 5, 12])
def test_at_light_load_the_wait_keeps_its_digits(servers):
    ratio = mdc_wait(1e-3, 1, servers) / mmc_wait(1e-3, 1, servers)
    assert_allclose(ratio, servers / (servers + 1), rtol=1e-3)


@few
@given(load=st.floats(0.05, 0.95), servers=st.integers(1, 12))
def test_the_walk_seen_every_service_time_has_that_queue(load, servers):
    """The chain itself: those present lose up to c and gain a Poisson number; cut where nothing is left."""
    size = 600
    gained = poisson.pmf(np.arange(size)[:, None] - np.maximum(np.arange(size) - servers, 0), load * servers)
    balance = gained - np.eye(size)
    balance[-1] = 1
    present = np.linalg.solve(balance, np.eye(size)[-1])
    queue = present @ np.arange(size) - load * servers
    assert_allclose(mdc_wait(load * servers, 1, servers) * load * servers, queue, rtol=1e-6, atol=1e-11)


def test_near_the_edge_the_wait_is_finite_and_follows_heavy_traffic():
    room = 1e-9
    assert_allclose(mdc_wait(4 * (1 - room), 1, 4) * room, 1 / 8, rtol=1e-6)


def test_unstable_servers_wait_for_ever():
    assert list(mdc_wait([2, 2.5], 1, 2)) == [np.inf] * 2


def test_another_unit_of_time_changes_only_the_unit():
    assert_allclose(mdc_wait([0.1, 0.5], 5, 3), 5 * mdc_wait([0.5, 2.5], 1, 3))


def test_the_halfin_whitt_limit_by_hand():
    """phi / (phi + beta Phi) with tabulated phi and Phi at .5 and 2."""
    table = [0.3520653 / (0.3520653 + 0.5 * 0.6914625), 0.0539910 / (0.0539910 + 2 * 0.9772499)]
    assert_allclose(halfin_whitt_wait_probability([0.5, 2]), table, rtol=1e-5)


def test_square_root_staffing_by_hand():
    assert_allclose(halfin_whitt_servers([100, 400], [1, 0.5]), [110, 410])


def test_the_wait_probability_of_square_root_staffing_is_a_limit_from_above():
    """100 servers wait with probability .2377, not .2234: the load R with 100 = R + sqrt(R)."""
    limit = halfin_whitt_wait_probability(1)
    root = (-1 + np.sqrt(1 + 4 * np.array([100, 10_000]))) / 2
    exact = [mmc_wait_probability(r**2, 1, c) for r, c in zip(root, (100, 10_000), strict=True)]
    assert_allclose(exact[0], 0.2377, atol=5e-5)
    assert limit < exact[1] < limit + (exact[0] - limit) / 9


def test_simulated_md3_agrees():
    """Constant times make service cyclic: request n follows n - 3 on its server."""
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(rng.exponential(1 / 2.4, (60, 15_000)), axis=1)
    ends = np.zeros((60, 3))
    waits = np.zeros(60)
    for n in range(arrivals.shape[1]):
        start = np.maximum(ends[:, n % 3], arrivals[:, n])
        waits += (start - arrivals[:, n]) * (n >= 1_500)
        ends[:, n % 3] = start + 1
    assert_mean_is(mdc_wait(2.4, 1, 3), waits / (arrivals.shape[1] - 1_500))
