from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.erlang import (
    birth_death_law,
    erlang_b,
    mmc_wait,
    mmc_wait_probability,
    mmc_wait_tail,
    mmck_law,
    mmck_wait,
)
from lib.queueing import mm1_sojourn_time

few = settings(max_examples=40, deadline=None)
loads = st.floats(0.01, 0.99)
counts = st.integers(1, 30)


@pytest.mark.parametrize(("offered", "servers"), [(0.5, 1), (3, 2), (5, 10), (12, 8)])
def test_erlang_b_is_the_truncated_poisson_law(offered, servers):
    """iversen2001: a^c / c! over the sum of a^k / k!."""
    terms = [offered**k / factorial(k) for k in range(servers + 1)]
    assert_allclose(erlang_b(offered, servers), terms[-1] / sum(terms), rtol=1e-14)


def test_erlang_b_broadcasts_loads_against_servers():
    table = erlang_b([[1.0], [2.0]], [1, 2, 3])
    assert_allclose(table, [[1 / 2, 1 / 5, 1 / 16], [2 / 3, 2 / 5, 4 / 19]])


def test_wait_probability_of_two_servers_at_load_point_nine():
    """adan2015, table 5.1 prints .85; C = 2 rho^2 / (1 + rho)."""
    assert_allclose(mmc_wait_probability(1.8, 1, 2), 2 * 0.81 / 1.9)


@few
@given(load=loads, service_time=st.floats(0.1, 10))
def test_one_server_is_mm1(load, service_time):
    wait = mmc_wait(load / service_time, service_time, 1)
    assert_allclose(wait, mm1_sojourn_time(load / service_time, service_time) - service_time, rtol=1e-9)
    assert_allclose(mmc_wait_probability(load / service_time, service_time, 1), load)


@few
@given(load=loads, servers=counts)
def test_pooling_two_groups_never_waits_longer(load, servers):
    assert mmc_wait(2 * load * servers, 1, 2 * servers) <= mmc_wait(load * servers, 1, servers)


@few
@given(load=loads, servers=counts)
def test_the_tail_integrates_to_the_mean_wait(load, servers):
    wait = mmc_wait(load * servers, 1, servers)
    time = np.linspace(0, 60 / (servers * (1 - load)), 20_001)
    assert_allclose(np.trapezoid(mmc_wait_tail(time, load * servers, 1, servers), time), wait, rtol=1e-5)


def test_the_tail_starts_at_the_wait_probability_and_ends_at_zero():
    assert_allclose(mmc_wait_tail([0, 2, np.inf], 1.8, 0.5, 2),
                    np.array([1, np.exp(-2 * 2.2), 0]) * mmc_wait_probability(1.8, 0.5, 2))


@pytest.mark.parametrize("rate", [2, 2.0001, 1e6])
def test_beyond_the_edge_everybody_waits_for_ever(rate):
    assert mmc_wait(rate, 1, 2) == np.inf
    assert mmc_wait_probability(rate, 1, 2) == 1
    assert mmc_wait_tail(1e9, rate, 1, 2) == 1


def test_near_the_edge_the_wait_is_finite_and_exact():
    """Two servers: W_q = rho^2 / (1 - rho^2)."""
    load = 1 - 2.0**-30
    assert_allclose(mmc_wait(2 * load, 1, 2), load**2 / (2.0**-30 * (1 + load)), rtol=1e-12)


def test_mm1_with_room_for_two_is_uniform_at_load_one():
    assert_allclose(mmck_law(1, 1, 1, 2), [1 / 3] * 3)
    assert_allclose(mmck_wait(1, 1, 1, 2), 1 / 2)


@few
@given(load=st.floats(0.1, 3), servers=st.integers(1, 20))
def test_no_waiting_room_is_erlang_b(load, servers):
    assert_allclose(mmck_law(load * servers, 1, servers, servers)[-1], erlang_b(load * servers, servers), rtol=1e-9)
    assert mmck_wait(load * servers, 1, servers, servers) == 0


def test_endless_waiting_room_is_mmc():
    assert_allclose(mmck_wait([2.4, 1.2], [1, 2], 3, 400), mmc_wait([2.4, 1.2], [1, 2], 3), rtol=1e-9)


def test_overload_fills_the_waiting_room():
    assert_allclose(mmck_wait(1e12, 0.5, 2, 5), 3 * 0.5 / 2)


def test_a_birth_death_law_balances_every_cut():
    birth, death = np.array([3.0, 1, 4, 1]), np.array([2.0, 7, 1, 8])
    law = birth_death_law(birth, death)
    assert_allclose(law[:-1] * birth, law[1:] * death)
    assert_allclose(law.sum(), 1)


def test_a_birth_rate_of_zero_closes_the_states_above():
    assert_allclose(birth_death_law([1, 0, 1], [1, 1, 1]), [1 / 2, 1 / 2, 0, 0])


def test_a_long_steep_chain_does_not_overflow():
    law = birth_death_law(np.full(3000, 1e3), np.ones(3000))
    assert_allclose(law[-2:], [1e-3, 1], rtol=2e-3)


def test_room_below_the_servers_is_refused():
    with pytest.raises(ValueError, match=r"capacity must be at least servers \(3\), got 2"):
        mmck_law(1, 1, 3, 2)
