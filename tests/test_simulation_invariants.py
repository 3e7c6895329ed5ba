"""What holds of every run, whatever the policy: asserted on a thousand small random workloads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.batching import DynamicBatching, static_batching
from lib.simulation import simulate, simulate_closed_loop
from lib.step_time import AffineStep
from tests.workloads import POLICIES, small_workload

STEP = AffineStep(fixed=0.02, per_sequence=2e-4, per_context_token=3e-7, per_prompt_token=5e-5, per_prompt_pair=1e-9)
WORKLOADS = 1_000
ALL = {
    **POLICIES,
    "coach, padded": static_batching(3),
    "coach, early exit": static_batching(3, padded=False),
    "dynamic": DynamicBatching(cap=4, control_limit=3, timeout=0.3),
}


def runs(every=1):
    """Yield a policy, its workload and its run: a thousand, each policy in turn, by the same seed each time."""
    rng = np.random.default_rng(20)
    names = [*ALL]
    for number in range(WORKLOADS):
        policy = ALL[names[number % len(names)]]
        requests, options = small_workload(rng)
        if number % every == 0:
            yield policy, requests, options, simulate(requests, policy, STEP, events=True, **options)


@pytest.fixture(scope="module")
def thousand():
    return [*runs()]


def capacity(policy):
    """Return the blocks, the tokens of a block and what a request must fit into."""
    memory = getattr(policy, "memory", None)
    if memory is None or memory.tokens == np.inf:
        return np.inf, 1
    return memory.tokens // memory.block_size, memory.block_size


def needs(policy, run, options):
    """Return the tokens that each request must be able to hold."""
    reserved = getattr(policy, "memory", None) is not None and policy.memory.allocation == "reserved"
    return run.prompt_length + (options["output_limit"] if reserved else run.output_length) - 1


def test_there_is_something_to_test(thousand):
    assert len(thousand) == 1_000
    assert sum(np.isinf(run.finish_time).any() for *_, run in thousand) > 200
    assert sum(run.preemptions.any() for *_, run in thousand) > 100
    assert sum((run.output_length == 1).any() for *_, run in thousand) > 500
    assert sum((requests.prompt_length == 0).any() for _, requests, _, _ in thousand) > 500


def test_conservation_each_request_gets_all_its_tokens_or_is_refused(thousand):
    for policy, requests, options, run in thousand:
        blocks, size = capacity(policy)
        served = needs(policy, run, options) <= blocks * size
        assert np.array_equal(np.isfinite(run.finish_time), served)
        assert np.array_equal(run.tokens, np.where(served, requests.output_length, 0))


def test_causality_arrival_admission_first_and_last_token_come_in_this_order(thousand):
    for _, requests, _, run in thousand:
        assert np.array_equal(run.arrival_time, requests.arrival_time)
        served = np.isfinite(run.finish_time)
        assert np.all(run.admitted_time[served] >= run.arrival_time[served])
        assert np.all(run.first_token_time[served] >= run.admitted_time[served] + STEP.fixed * (1 - 1e-12))
        steps = run.finish_time[served] - run.first_token_time[served]
        assert np.all(steps >= (run.output_length[served] - 1) * STEP.fixed * (1 - 1e-9))
        assert np.all(steps[run.output_length[served] == 1] == 0)


def test_work_conservation_a_replica_idles_only_until_the_next_arrival(thousand):
    """It begins with an arrival, and again after each gap; in a gap nobody is inside, nobody waits."""
    for policy, _, _, run in thousand:
        events = run.events
        if isinstance(policy, DynamicBatching) or not len(events.time):
            continue
        assert np.all(events.running > 0)
        ends = events.time + events.duration
        after_a_gap = np.append(True, events.time[1:] - ends[:-1] > 1e-9)
        assert np.all(np.isin(events.time[after_a_gap], run.arrival_time))
        for begin, end in zip(np.append(0, ends[:-1])[after_a_gap], events.time[after_a_gap], strict=True):
            here = (run.arrival_time < end - 1e-9) & (run.finish_time > begin + 1e-9) & np.isfinite(run.finish_time)
            assert not here.any()
        assert_allclose(events.duration.sum(), run.busy_time)


def test_limits_of_slots_and_memory_are_never_exceeded(thousand):
    for policy, _, _, run in thousand:
        if isinstance(policy, DynamicBatching):
            assert run.events.running.max() <= policy.cap
            continue
        blocks, size = capacity(policy)
        assert run.events.running.max(initial=0) <= policy.slots
        assert run.events.blocks.max(initial=0) <= blocks
        assert run.events.blocks.min(initial=0) >= 0
        assert np.all(run.events.resident_tokens <= size * run.events.blocks)


def test_the_replica_is_empty_when_all_have_left(thousand):
    """Blocks: those of the last stretch belong to those who end with it."""
    for policy, _, options, run in thousand:
        served = np.isfinite(run.finish_time)
        if isinstance(policy, DynamicBatching) or capacity(policy)[0] == np.inf or not served.any():
            continue
        _, size = capacity(policy)
        last = run.finish_time == run.finish_time[served].max()
        held = -(-needs(policy, run, options)[last] // size)
        assert run.events.blocks[-1] == held.sum()
        assert run.events.running[-1] == last.sum()


def test_littles_law_residents_over_time_are_the_sum_of_their_stays(thousand):
    """Nobody is inside between losing memory and getting it back: so only for runs in which nobody lost it."""
    compared = 0
    for policy, _, _, run in thousand:
        if isinstance(policy, DynamicBatching) or run.preemptions.any():
            continue
        served = np.isfinite(run.finish_time)
        inside = np.sum(run.events.running * run.events.duration)
        assert_allclose(inside, np.sum(run.finish_time[served] - run.admitted_time[served]), rtol=1e-9)
        compared += 1
    assert compared > 500


def test_throughput_never_above_the_bound(thousand):
    """An iteration gives each of those inside a token at most, and takes the fixed time and the least of a token."""
    least = min(STEP.per_sequence, STEP.per_prompt_token)
    for policy, _, _, run in thousand:
        slots = policy.cap if isinstance(policy, DynamicBatching) else policy.slots
        most = min(slots, len(run.tokens))
        assert run.tokens.sum() <= most / (STEP.fixed + most * least) * run.busy_time * (1 + 1e-9)
        assert run.busy_time >= run.iterations * STEP.fixed * (1 - 1e-9)


def test_a_request_larger_than_the_cache_is_refused_at_once_and_holds_up_nobody(thousand):
    for policy, requests, options, run in thousand:
        refused = np.isinf(run.finish_time)
        if not refused.any() or refused.all() or isinstance(policy, DynamicBatching):
            continue
        assert np.all(np.isinf(run.admitted_time[refused]))
        kept = type(requests)(*(column[~refused] for column in requests))
        rest = {name: np.asarray(column)[~refused] for name, column in options.items()}
        without = simulate(kept, policy, STEP, **rest)
        assert_allclose(without.finish_time, run.finish_time[~refused], rtol=1e-12)


def test_the_parts_of_the_first_token_add_up_to_it_exactly(thousand):
    for _, _, _, run in thousand:
        served = np.isfinite(run.finish_time)
        parts = np.array(run.first_token_parts)[:, served]
        waited = (run.first_token_time - run.arrival_time)[served]
        assert_allclose(parts.sum(axis=0), waited, rtol=1e-11, atol=1e-11)
        assert np.all(parts >= -1e-11)


def test_no_part_is_made_up_of_what_the_policy_does_not_do(thousand):
    for policy, _, _, run in thousand:
        parts = run.first_token_parts
        if isinstance(policy, DynamicBatching):
            assert np.all(parts.residual == 0)
            continue
        if policy.slots == np.inf:
            assert np.all(parts.slot <= 1e-12)
        if policy.memory.tokens == np.inf:
            assert np.all(parts.memory <= 1e-12)
        if policy.holding_back is None:
            assert np.all(parts.held_back == 0)
        if policy.prefill == "elsewhere":
            assert np.all(parts.others_prefill <= 1e-12)


def test_determinism_the_same_arguments_give_the_same_run(thousand):
    for (*_, one), (*_, two) in zip(thousand[::7], runs(every=7), strict=True):
        assert np.array_equal(one.finish_time, two.finish_time)
        assert np.array_equal(one.first_token_time, two.first_token_time)


@pytest.mark.parametrize("name", POLICIES)
def test_a_closed_loop_never_has_more_in_flight_than_users(name):
    rng = np.random.default_rng(11)
    for _ in range(10):
        requests, options = small_workload(rng)
        users = int(rng.integers(1, 6))
        lengths = (requests.prompt_length, requests.output_length)
        run = simulate_closed_loop(lengths, POLICIES[name], STEP, users=users, think_time=0.05, **options)
        served = np.isfinite(run.finish_time)
        for time in run.arrival_time:
            here = (run.arrival_time <= time) & (time < run.finish_time) & served
            assert here.sum() <= users
        assert np.array_equal(run.tokens[served], run.output_length[served])
        gaps = np.sort(run.arrival_time[users:])
        ends = np.sort(np.where(served, run.finish_time, run.arrival_time))[: max(len(gaps), 0)]
        assert_allclose(gaps, ends + 0.05, rtol=1e-9)
