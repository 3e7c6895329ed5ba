import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.schedule import continuous_schedule, idle_share, static_schedule

outputs = st.lists(st.integers(1, 50), min_size=1, max_size=60)


def test_a_coach_by_hand():
    """Groups (3, 1), (2, 5), (4): the first ends at 3, the second at 8, the last at 12."""
    coach = static_schedule([3, 1, 2, 5, 4], slots=2)
    assert [*coach.slot] == [0, 1, 0, 1, 0]
    assert [*coach.start] == [0, 0, 3, 3, 8]
    assert [*coach.end] == [3, 1, 5, 8, 12]
    assert [*coach.freed] == [3, 3, 8, 8, 12]
    assert_allclose(idle_share(coach), 1 - 15 / (3 + 3 + 5 + 5 + 4))


def test_a_loop_bus_by_hand():
    """The third takes the slot of the second at 1; the fourth that of the first, at 3, before the third ends."""
    bus = continuous_schedule([3, 1, 4, 5], slots=2)
    assert [*bus.slot] == [0, 1, 1, 0]
    assert [*bus.start] == [0, 0, 1, 3]
    assert [*bus.end] == [3, 1, 5, 8]
    assert idle_share(bus) == 0


def test_the_articles_pair_wastes_half_of_its_slots():
    """2 and 2,000 tokens in two slots: 2,002 of 4,000 slot-steps make a token."""
    assert_allclose(idle_share(static_schedule([2, 2000], slots=2)), 1 - 2002 / 4000)


@given(lengths=outputs, slots=st.integers(1, 9))
def test_no_slot_holds_two_and_the_bus_is_never_later(lengths, slots):
    for schedule in (static_schedule(lengths, slots), continuous_schedule(lengths, slots)):
        for slot in range(slots):
            mine = np.flatnonzero(schedule.slot == slot)
            assert np.all(schedule.start[mine][1:] >= schedule.freed[mine][:-1])
        assert_allclose(schedule.end - schedule.start, lengths)
    assert continuous_schedule(lengths, slots).end.max() <= static_schedule(lengths, slots).end.max()


@given(lengths=outputs)
def test_one_slot_wastes_nothing(lengths):
    assert idle_share(static_schedule(lengths, 1)) == 0
    assert static_schedule(lengths, 1).end.max() == sum(lengths)


def test_lengths_in_a_table_are_refused():
    with pytest.raises(ValueError, match=r"output_length must have one axis, got shape \(1, 2\)"):
        static_schedule([[1, 2]], 1)
