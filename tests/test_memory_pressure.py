"""More board than fit: what paging loses and what reserving never admits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import memory_pressure, pause_record
from lib.memory_pressure import ALLOCATIONS, Pressure, policy_of, pressed, that_fit
from lib.simulation import Run, simulate
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


def test_what_a_run_says_by_hand():
    """One at a time, 4 s each, one more each second: k comes at k, has its first token at 4k + 1, ends at 4k + 4."""
    requests = Trace(np.arange(10.0), np.full(10, 16), np.full(10, 4))
    alone = Pressure(kv_tokens=1024, slots=1, longest=20)
    said = pressed(requests, alone, AffineStep(fixed=1.0, per_sequence=0.0, per_prompt_token=0.0))
    waits = 3 * np.arange(2, 10) + 1.0
    assert_allclose(
        [said[name] for name in ("finished", "ttft", "ttft_p99", "latency")],
        [6 / 24, waits.mean(), waits[-1] - 0.07 * 3, waits.mean() + 3],
    )


def test_finished_is_counted_in_the_order_of_finishing():
    """All at once, the longest answer first: one ends each second, the last to come at first."""
    requests = Trace(np.zeros(10), np.full(10, 16), np.arange(10, 0, -1))
    clock = AffineStep(fixed=1.0, per_sequence=0.0, per_prompt_token=0.0)
    assert_allclose(pressed(requests, Pressure(kv_tokens=1024, slots=10, longest=26), clock)["finished"], 1.0)


def test_what_is_computed_again_and_how_long_readers_halt_is_what_the_run_shows():
    """Prompt tokens read beyond those asked for, counted step by step; the gaps of each request, added by hand."""
    read, halted = [], np.zeros(60)

    def counted(load):
        read.append(load.prompt_tokens)
        return STEP(load)

    run = simulate(FLOOD, policy_of(ROOM), counted, events=True)
    lost = run.events.interruptions
    for request, left, back in zip(lost.request, lost.lost_time, lost.resumed_time, strict=True):
        assert 0 <= run.first_token_time[request] <= left < back < run.finish_time[request]
        halted[request] += back - left
    said = case("paged")
    assert_allclose(said["finished"], 36 / (run.finish_time[48] - run.finish_time[12]))
    assert_allclose(said["computed_again"], sum(read) / 60 - 64)
    assert_allclose(said["stalled_p99"], np.quantile(halted[12:], 0.99))


def test_requests_that_finish_at_once_have_no_rate():
    at_once = Trace(np.zeros(4), np.full(4, 16), np.full(4, 4))
    assert pressed(at_once, ROOM, STEP)["finished"] == np.inf


def test_what_caches_hold_is_weighed_by_time_between_the_first_share_and_the_last_arrival():
    """10 for 1 s and 30 for 3 s: a mean of 25, a variance of (225 + 3 x 25) / 4."""
    run = simulate(FLOOD, policy_of(ROOM), STEP, events=True)
    events = run.events._replace(
        time=np.array([3.0, 4, 5, 7, 9, 10]), duration=np.array([9.0, 9, 1, 3, 9, 9]),
        resident_tokens=np.array([99, 99, 10, 30, 99, 99]),
    )  # fmt: skip
    run = run._replace(arrival_time=np.arange(10.0), events=events)
    assert_allclose(memory_pressure.resident(run, 0.5), [25, np.sqrt(75)])
    with pytest.raises(ValueError, match="share must leave an event, got 1"):
        memory_pressure.resident(run, 1.0)


def test_campbell_by_hand():
    """Answers of 2 and 4 tokens after prompts of 10 and 20: (3 + 6) s for 1 + 3 tokens, two requests a second."""
    run = simulate(FLOOD, policy_of(ROOM), STEP)._replace(
        prompt_length=np.array([10, 20]), output_length=np.array([2, 4]),
        first_token_time=np.array([1.0, 2.0]), finish_time=np.array([4.0, 8.0]),
    )  # fmt: skip
    variance = (200 + 40 + 8 / 3 + 1600 + 320 + 64 / 3) / 2
    found = memory_pressure.resident_by_campbell(run, 2.0)
    assert_allclose(found, [2 * 2.25 * (22 + 88) / 2, np.sqrt(2 * 2.25 * variance)])
    alone = Run(*(part[:1] if isinstance(part, np.ndarray) else part for part in run))
    found = memory_pressure.resident_by_campbell(alone, 2.0)
    assert_allclose(found, [2 * 3 * 22, np.sqrt(2 * 3 * (200 + 40 + 8 / 3))])


@pytest.mark.parametrize("bad", [{"kv_tokens": 15, "longest": 15}, {"slots": 0}, {"longest": 1}, {"longest": 17}])
def test_the_least_case_is_one_block_one_slot_and_two_tokens(bad):
    least = {"kv_tokens": 16, "slots": 1, "longest": 2}
    Pressure(**least)
    with pytest.raises(ValueError, match=next(iter(bad))):
        Pressure(**least | bad)
    short = Trace(np.zeros(1), np.ones(1, int), np.ones(1, int))
    assert that_fit(short, 2).arrival_time.tolist() == [0.0]
    with pytest.raises(ValueError, match="longest must be at least 2"):
        that_fit(short, 1)


def test_requests_too_long_for_the_limit_stay_outside():
    mixed = Trace(np.arange(4.0), np.array([10, 600, 10, 500]), np.array([5, 5, 502, 13]))
    assert that_fit(mixed, 512).arrival_time.tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="longest must leave a request, got 4"):
        that_fit(mixed, 4)


def test_the_longest_request_must_fit():
    with pytest.raises(ValueError, match="longest"):
        replace(ROOM, longest=2048)
    assert policy_of(replace(ROOM, allocation=ALLOCATIONS[2])).memory.allocation == "reserved"
    assert policy_of(ROOM).memory.reuse
    assert policy_of(ROOM).token_budget == 8192


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
