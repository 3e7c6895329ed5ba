"""More board than fit: what paging loses and what reserving never admits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import memory_pressure, pause_record
from lib.memory_pressure import ALLOCATIONS, Pressure, policy_of, pressed, that_fit
from lib.step_time import AffineStep
from lib.trace import Trace
from scripts import simulate_first_token as script

STEP = AffineStep(fixed=0.01, per_sequence=1e-4, per_prompt_token=1e-5)
FLOOD = Trace(np.zeros(60), np.full(60, 64), np.full(60, 192))
ROOM = Pressure(kv_tokens=1024, slots=60, longest=512)


def case(allocation, **changed):
    return pressed(FLOOD, replace(ROOM, allocation=allocation, **changed), STEP)


def test_ample_memory_loses_nothing():
    said = case("paged", kv_tokens=60 * 256)
    assert said["preempted"] == said["computed_again"] == said["stalled_p99"] == 0


def test_a_lost_bet_is_computed_again_and_halts_somebody():
    said = case("paged")
    assert said["preempted"] > 0.5
    assert said["computed_again"] > 20
    assert said["stalled_p99"] > 0.1


def test_what_is_found_again_need_not_be_computed():
    assert case(ALLOCATIONS[1])["computed_again"] > case(ALLOCATIONS[0])["computed_again"]


def test_reserving_never_loses_a_cache_and_admits_fewer():
    """By hand: 1,024 tokens hold 4 requests of 256 at once, and 2 of 512."""
    known, longest, bet = case(ALLOCATIONS[2]), case(ALLOCATIONS[3]), case(ALLOCATIONS[0])
    assert known["preempted"] == longest["preempted"] == 0
    assert_allclose(known["finished"], 4 / (192 * (0.01 + 4e-4)), rtol=0.02)
    assert_allclose(longest["finished"], 2 / (192 * (0.01 + 2e-4)), rtol=0.02)
    assert bet["finished"] > known["finished"] > longest["finished"]


def test_fewer_slots_than_fit_lose_nothing_either():
    assert case("paged", slots=4)["preempted"] == 0


def test_requests_too_long_for_the_limit_stay_outside():
    mixed = Trace(np.arange(3.0), np.array([10, 600, 10]), np.array([5, 5, 502]))
    assert that_fit(mixed, 512).arrival_time.tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="longest must leave a request, got 4"):
        that_fit(mixed, 4)


def test_the_longest_request_must_fit():
    with pytest.raises(ValueError, match="longest"):
        replace(ROOM, longest=2048)
    assert policy_of(replace(ROOM, allocation=ALLOCATIONS[2])).memory.allocation == "reserved"
    assert policy_of(ROOM).memory.reuse


def test_the_record_of_pressure_is_what_the_code_gives():
    where = {"experiment": "pressure", "policy": ALLOCATIONS[2], "load": 0.0}
    room = int(script.QUARTER * script.kv_tokens("H100 SXM", "Llama-3-8B"))
    requests = script.drawn(script.REASONING, 1.0, script.SWEPT, 0)._replace(arrival_time=np.zeros(script.SWEPT))
    said = pressed(requests, Pressure(kv_tokens=room, slots=script.MANY, allocation=ALLOCATIONS[2]), script.H100)
    slots, means, half = pause_record.curve("finished", "setting", **where)
    assert slots[-1] == script.MANY
    assert abs(said["finished"] - means[-1]) < 4.5 * 1.5 * half[-1]


def test_the_bet_pays_in_the_record():
    flood = {"experiment": "pressure", "load": 0.0, "setting": float(script.MANY)}
    finished = [pause_record.value("finished", policy=policy, **flood) for policy in ALLOCATIONS]
    assert finished[0] > finished[1] > finished[2] > finished[3]
    assert memory_pressure.ALLOCATIONS[0] == "paged"
