import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.batching import DynamicBatching
from lib.queues import served_by_steps, served_in_batches, served_one_by_one, served_sharing
from tests.replications import lindley_waits

GREEDY = DynamicBatching()
arrivals_and_work = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 9)), min_size=1, max_size=40)


def columns(pairs):
    gaps, work = np.array(pairs).T
    return np.cumsum(gaps), work


# --- one by one ----------------------------------------------------------------------------------


def test_one_server_by_hand():
    """Arrivals 0, 1, 5 with services 3, 1, 1: starts 0, 3, 5."""
    served = served_one_by_one([0, 1, 5], [3, 1, 1])
    assert [*served.start_time] == [0, 3, 5]
    assert [*served.end_time] == [3, 4, 6]


@given(pairs=arrivals_and_work)
def test_one_server_follows_lindleys_recursion(pairs):
    arrivals, work = columns(pairs)
    waits = lindley_waits(np.diff(arrivals, prepend=0)[None], work[None])[0]
    assert_allclose(served_one_by_one(arrivals, work).start_time - arrivals, waits, atol=1e-9)


def test_two_servers_and_no_room_to_wait_by_hand():
    """Arrivals 0, 1, 2, 4 for 3 s each: the third is turned away, the fourth finds the first gone."""
    served = served_one_by_one([0, 1, 2, 4], [3, 3, 3, 3], servers=2, capacity=2)
    assert [*served.start_time] == [0, 1, np.inf, 4]
    assert [*served_one_by_one([0, 1, 2, 4], [3] * 4, servers=2).start_time] == [0, 1, 3, 4]
    assert [*served_one_by_one([0, 1, 2, 4], [3] * 4, servers=2, capacity=3).start_time] == [0, 1, 3, 4]


# --- batches -------------------------------------------------------------------------------------


def test_a_greedy_server_takes_all_that_wait():
    """Arrivals 0, 1, 2, 3, 9; each batch takes 2.5 s: {0}, {1, 2}, {3}, {9}."""
    served = served_in_batches([0, 1, 2, 3, 9], lambda first, last: 2.5, GREEDY)
    assert [*served.start_time] == [0, 2.5, 2.5, 5, 9]
    assert [*served.end_time] == [2.5, 5, 5, 7.5, 11.5]
    assert [*served.batch_size] == [1, 2, 2, 1, 1]


def test_a_cap_leaves_the_rest_and_a_limit_waits():
    """With a cap of 1, first come first served; with a limit of 3, the third arrival starts the first batch."""
    served = served_in_batches([0, 1, 2], lambda first, last: 2.0, DynamicBatching(cap=1))
    assert [*served.start_time] == [0, 2, 4]
    served = served_in_batches([0, 1, 2, 9], lambda first, last: 2.0, DynamicBatching(control_limit=3))
    assert [*served.start_time] == [2, 2, 2, 9]


def test_a_timeout_starts_what_there_is():
    """Four or 1.5 s: the first batch goes at 1.5 with two; the next has waited long enough when the server is free."""
    policy = DynamicBatching(cap=4, control_limit=4, timeout=1.5)
    served = served_in_batches([0, 1, 2, 9], lambda first, last: 3.0, policy)
    assert [*served.start_time] == [1.5, 1.5, 4.5, 9]
    assert [*served.batch_size] == [2, 2, 1, 1]


def test_the_batch_time_is_given_the_requests_of_the_batch():
    seen = []
    served_in_batches([0, 1, 2, 9], lambda first, last: seen.append((first, last)) or 5.0, GREEDY)
    assert seen == [(0, 1), (1, 3), (3, 4)]


@given(pairs=arrivals_and_work, cap=st.integers(1, 6), limit=st.integers(1, 6), timeout=st.floats(0, 5))
def test_batches_never_overlap_exceed_the_cap_or_start_early(pairs, cap, limit, timeout):
    arrivals, work = columns(pairs)
    policy = DynamicBatching(cap=cap, control_limit=min(limit, cap), timeout=timeout)
    served = served_in_batches(arrivals, lambda first, last: work[first], policy)
    heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)
    assert np.all(served.batch_size <= cap)
    assert served.batch_size[heads].sum() == len(arrivals)
    assert np.all(served.start_time >= arrivals)
    assert np.all(served.start_time[heads][1:] >= served.end_time[heads][:-1])
    early = (served.batch_size < policy.control_limit) & (served.start_time - arrivals[0] > 0)
    oldest = arrivals[heads][np.searchsorted(heads, np.arange(len(arrivals)), side="right") - 1]
    in_time = served.start_time >= np.minimum(oldest + timeout, arrivals[-1]) - 1e-9
    assert np.all(in_time[early])


# --- sharing -------------------------------------------------------------------------------------


def test_two_share_equally_by_hand():
    """Work 4 from 0 and 1 from 1, at rate 1 shared: the second ends at 3, the first at 5."""
    served = served_sharing([0, 1], [4, 1], float)
    assert_allclose(served.end_time, [5, 3])
    assert [*served.batch_size] == [1, 2]


def test_a_second_slot_is_free_only_when_the_first_ends():
    served = served_sharing([0, 1, 2], [4, 1, 1], float, slots=1)
    assert_allclose(served.start_time, [0, 4, 5])
    served = served_sharing([0, 1, 9], [4, 1, 1], float, slots=1, waiting=False)
    assert [*served.start_time] == [0, np.inf, 9]


@given(pairs=arrivals_and_work)
def test_one_slot_is_one_by_one(pairs):
    arrivals, work = columns(pairs)
    assert_allclose(
        served_sharing(arrivals, work, float, slots=1).end_time, served_one_by_one(arrivals, work).end_time, atol=1e-9
    )


@given(pairs=arrivals_and_work, slots=st.integers(1, 5))
def test_a_shared_server_of_constant_speed_does_the_same_work_whoever_has_it(pairs, slots):
    arrivals, work = columns(pairs)
    shared, alone = (served_sharing(arrivals, work, float, slots=s).end_time for s in (slots, 1))
    assert_allclose(shared.max(), alone.max(), atol=1e-9)


# --- steps ---------------------------------------------------------------------------------------


def test_steps_by_hand():
    """A step takes 1 s; lengths 3 and 2; the second comes at .5 and joins at 1: it ends at 3, so does the first."""
    served = served_by_steps([0, 0.5], [3, 2], lambda residents, context: 1.0)
    assert [*served.start_time] == [0, 1]
    assert [*served.end_time] == [3, 3]
    served = served_by_steps([0, 0.5], [3, 2], lambda residents, context: 1.0, slots=1)
    assert [*served.start_time] == [0, 3]
    assert [*served.end_time] == [3, 5]


def test_a_step_is_told_the_residents_and_their_context():
    """Prompts of 10 and 20; a token each step."""
    seen = []
    served_by_steps([0, 0.5], [2, 2], lambda *held: seen.append(held) or 1.0, prompt_length=[10, 20])
    assert seen == [(1, 10), (2, 31), (1, 21)]


@given(pairs=arrivals_and_work)
def test_short_steps_share_like_a_fluid(pairs):
    arrivals, work = columns(pairs)
    tokens = np.ceil(work * 50)
    fluid = served_sharing(arrivals, tokens, lambda n: 1e-3 * n).end_time
    steps = served_by_steps(arrivals, tokens, lambda n, context: 1e-3 * n).end_time
    assert_allclose(steps, fluid, atol=1e-3 * (len(arrivals) + 1) ** 2)


# --- policies -------------------------------------------------------------------------------------


def test_a_policy_of_impossible_batches_is_refused():
    with pytest.raises(ValueError, match="control_limit must be at most 4, got 5"):
        DynamicBatching(cap=4, control_limit=5)


def test_a_batch_that_takes_no_time_is_refused():
    with pytest.raises(ValueError, match="batch_time must return more than 0, got 0"):
        served_in_batches([0, 1], lambda first, last: 0, GREEDY)
