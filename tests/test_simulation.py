"""The replica by hand, and the ways of running it against each other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.batching import ContinuousBatching, DynamicBatching, Estimate, KVMemory, one_by_one, static_batching
from lib.queues import served_by_steps, served_in_batches
from lib.simulation import simulate, simulate_closed_loop
from lib.step_time import AffineStep
from lib.trace import Trace
from tests.workloads import POLICIES, small_workload

SECOND = AffineStep(fixed=1.0)
STEP = AffineStep(fixed=0.02, per_sequence=2e-4, per_context_token=3e-7, per_prompt_token=5e-5, per_prompt_pair=1e-9)


def trace(arrival, prompt, output):
    return Trace(*(np.array(column) for column in (arrival, prompt, output)))


def plain(load):
    return STEP(load)


def same(one, other, **tolerance):
    for name in ("arrival_time", "admitted_time", "first_token_time", "finish_time", "tokens", "preemptions"):
        assert_allclose(getattr(one, name), getattr(other, name), err_msg=name, **tolerance)
    for name, one_part in one.first_token_parts._asdict().items():
        assert_allclose(one_part, getattr(other.first_token_parts, name), err_msg=name, **tolerance)
    assert one.iterations == other.iterations


# --- by hand ------------------------------------------------------------------------------------


def test_a_prompt_is_read_alone_while_others_stand_still():
    """1 s an iteration. A reads at 0, shows 1 at 1; B comes at .5, reads at 1; then both decode at 2, 3."""
    run = simulate(trace([0, 0.5], [10, 20], [3, 2]), ContinuousBatching(prefill="whole"), SECOND)
    assert [*run.admitted_time] == [0, 1]
    assert [*run.first_token_time] == [1, 2]
    assert [*run.finish_time] == [4, 3]


def test_a_prompt_that_is_piggybacked_stops_nobody():
    """The same, but A gets its second token at 2, in the iteration that reads B."""
    run = simulate(trace([0, 0.5], [10, 20], [3, 2]), ContinuousBatching(prefill="piggybacked"), SECOND)
    assert [*run.first_token_time] == [1, 2]
    assert [*run.finish_time] == [3, 3]


def test_a_prompt_is_cut_to_the_budget_that_decoding_leaves():
    """Budget 5. A (4 tokens) reads at 0 beside 1 token of B; then A decodes and B reads 4 an iteration, 9 in 3."""
    policy = ContinuousBatching(prefill="chunked", slots=2, token_budget=5)
    run = simulate(trace([0, 0], [4, 10], [6, 1]), policy, SECOND)
    assert [*run.first_token_time] == [1, 4]
    assert [*run.finish_time] == [6, 4]


def test_prompts_cut_alone_keep_decoders_waiting():
    """Budget 5: the same work in iterations of prompts only: 5, 5, 4; A decodes from 3 on."""
    policy = ContinuousBatching(prefill="chunked alone", slots=2, token_budget=5)
    run = simulate(trace([0, 0], [4, 10], [6, 1]), policy, SECOND)
    assert [*run.first_token_time] == [1, 3]
    assert [*run.finish_time] == [8, 3]


def test_each_part_of_an_iteration_costs_what_it_says():
    """1 + .1 a sequence + .01 a context token + .001 a prompt token + .0001 a pair; prompts 3, 2, outputs 3, 2."""
    step = AffineStep(
        fixed=1.0, per_sequence=0.1, per_context_token=0.01, per_prompt_token=0.001, per_prompt_pair=0.0001
    )
    run = simulate(trace([0, 0.5], [3, 2], [3, 2]), ContinuousBatching(prefill="piggybacked"), step)
    first = 1 + 0.003 + 0.0006
    second = 1 + 0.1 + 0.01 * 4 + 0.002 + 0.0003
    third = 1 + 0.2 + 0.01 * (5 + 3)
    assert_allclose(run.first_token_time, [first, first + second])
    assert_allclose(run.finish_time, [first + second + third] * 2)


def test_reserved_memory_holds_prompt_and_limit_and_lets_the_next_wait():
    """Room for 20. A takes 5 + 5 - 1 = 9, B 8 + 6 - 1 = 13: B waits for A to end at 5; C fits but may not overtake."""
    memory = KVMemory(tokens=20, block_size=1, allocation="reserved")
    run = simulate(trace([0, 0, 0], [5, 8, 1], [5, 6, 1]), ContinuousBatching(memory=memory), SECOND)
    assert [*run.admitted_time] == [0, 5, 5]
    assert_allclose(run.first_token_parts.memory, [0, 5, 5])
    asked = simulate(trace([0, 0], [5, 8], [5, 6]), ContinuousBatching(memory=memory), SECOND, output_limit=[12, 6])
    assert [*asked.admitted_time] == [0, 5]


def test_paged_memory_takes_a_block_when_the_last_is_full_and_sends_the_latest_back():
    """6 blocks of 2. A (4) and B (4) take 2 each at 0; both take a third at 1 and are full at 3: B is sent back."""
    memory = KVMemory(tokens=12, block_size=2, allocation="paged")
    run = simulate(trace([0, 0], [4, 4], [6, 6]), ContinuousBatching(memory=memory, prefill="piggybacked"), SECOND)
    assert [*run.preemptions] == [0, 1]
    assert [*run.finish_time] == [6, 9]
    assert [*run.first_token_time] == [1, 1]


def test_a_request_larger_than_memory_is_refused_at_once_and_stops_nobody():
    for allocation in ("reserved", "paged"):
        memory = KVMemory(tokens=16, block_size=16, allocation=allocation)
        run = simulate(trace([0, 0, 0], [10, 15, 5], [7, 3, 2]), ContinuousBatching(memory=memory), SECOND)
        assert [*np.isinf(run.finish_time)] == [False, True, False]
        assert [*run.tokens] == [7, 0, 2]
        assert run.admitted_time[1] == np.inf


def test_estimated_memory_expects_less_with_every_iteration():
    """Room for 100. A (10, may ask for 60) decodes from 1 on; B (10, 50) comes at 1.5. The share is .9 and falls by .08
    an iteration. At 6 there are 85 - .5 x 54 = 58 for its 60, at 7 there are 84 - .42 x 53 = 61.7."""
    memory = KVMemory(tokens=100, block_size=1, allocation="estimated")
    policy = ContinuousBatching(memory=memory, estimate=Estimate(start=0.9, least=0.1, steps=10))
    run = simulate(trace([0, 1.5], [10, 10], [40, 1]), policy, SECOND, output_limit=[60, 50])
    assert run.admitted_time[1] == 7


def test_prefix_hits_are_not_read_again():
    step = AffineStep(fixed=1.0, per_prompt_token=0.1)
    run = simulate(trace([0], [10], [1]), ContinuousBatching(), step, cached_length=[8])
    assert_allclose(run.finish_time, [1.2])
    assert_allclose(simulate(trace([0], [10], [1]), ContinuousBatching(), step, cached_length=[10]).finish_time, [1.1])


def test_the_shortest_goes_first_and_so_does_the_most_important():
    requests = trace([0, 0, 0, 0], [1] * 4, [3, 9, 2, 5])
    run = simulate(requests, ContinuousBatching(slots=1, order="shortest"), SECOND)
    assert [*np.argsort(run.finish_time)] == [2, 0, 3, 1]
    run = simulate(requests, ContinuousBatching(slots=1, order="priority"), SECOND, priority=[4, 1, 3, 2])
    assert [*np.argsort(run.finish_time)] == [1, 3, 2, 0]


def test_a_closed_loop_asks_again_after_it_has_thought():
    """One user, answers of 2 s, 1 s of thought: asks at 0, 3, 6. Two users share a replica of one slot."""
    lengths = ([1, 1, 1], [2, 2, 2])
    run = simulate_closed_loop(lengths, ContinuousBatching(), SECOND, users=1, think_time=1.0)
    assert [*run.arrival_time] == [0, 3, 6]
    assert [*run.finish_time] == [2, 5, 8]
    run = simulate_closed_loop(lengths, one_by_one(), SECOND, users=2)
    assert [*run.arrival_time] == [0, 0, 2]
    assert [*run.finish_time] == [2, 4, 6]


def test_a_static_batch_waits_for_its_last_member_and_ends_with_its_longest():
    """Batches of 2: the first leaves at 1 and is back at 5; the second has waited for it, and the last for nobody."""
    run = simulate(trace([0, 1, 2, 2, 9], [1] * 5, [2, 4, 1, 1, 3]), static_batching(2), SECOND)
    assert [*run.admitted_time] == [1, 1, 5, 5, 9]
    assert [*run.finish_time] == [3, 5, 6, 6, 12]
    assert [*run.first_token_parts.held_back] == [1, 0, 0, 0, 0]
    assert [*run.first_token_parts.slot] == [0, 0, 3, 3, 0]


def test_a_padded_batch_computes_for_all_to_the_end_and_an_early_exit_does_not():
    step = AffineStep(fixed=1.0, per_sequence=0.1, per_context_token=0.01, per_prompt_token=0.001)
    requests = trace([0, 0], [3, 1], [3, 2])
    padded = simulate(requests, static_batching(2), step)
    assert_allclose(padded.finish_time, [1.006 + (1.2 + 0.08) + (1.2 + 0.1), 1.006 + 1.28])
    early = simulate(requests, static_batching(2, padded=False), step)
    assert_allclose(early.finish_time, [1.004 + (1.2 + 0.06) + (1.1 + 0.05), 1.004 + 1.26])


# --- one way of running it against another ------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_stretches_in_closed_form_equal_iterations_one_by_one(name):
    rng = np.random.default_rng(7)
    for _ in range(12):
        requests, options = small_workload(rng)
        closed = simulate(requests, POLICIES[name], STEP, **options)
        one_by_one = simulate(requests, POLICIES[name], plain, **options)
        same(closed, one_by_one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["padded", "early exit", "dynamic"])
def test_batches_in_closed_form_equal_iterations_one_by_one(name):
    rng = np.random.default_rng(8)
    policy = {
        "padded": static_batching(3), "early exit": static_batching(3, padded=False),
        "dynamic": DynamicBatching(cap=4, control_limit=3, timeout=0.3, prefill="elsewhere"),
    }[name]  # fmt: skip
    for _ in range(20):
        requests, _ = small_workload(rng)
        same(simulate(requests, policy, STEP), simulate(requests, policy, plain), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_the_compiled_loop_equals_the_plain_one_to_the_last_bit(name):
    pytest.importorskip("numba", reason="the compiled loop is an optional extra")
    rng = np.random.default_rng(9)
    for _ in range(12):
        requests, options = small_workload(rng)
        runs = [simulate(requests, POLICIES[name], STEP, compiled=way, **options) for way in (True, False)]
        same(*runs, rtol=0, atol=0)


def test_without_prefill_and_memory_it_is_the_queue_of_steps():
    rng = np.random.default_rng(3)
    requests, _ = small_workload(rng, count=200)
    run = simulate(requests, ContinuousBatching(slots=5, prefill="elsewhere"), STEP)
    prompt = np.maximum(requests.prompt_length, 1)
    served = served_by_steps(
        requests.arrival_time, requests.output_length, lambda n, held: 0.02 + 2e-4 * n + 3e-7 * held,
        prompt_length=prompt, slots=5,
    )  # fmt: skip
    assert_allclose(run.finish_time, served.end_time, rtol=1e-9)
    assert_allclose(run.admitted_time, served.start_time, rtol=1e-9)


def test_batches_of_one_token_are_the_queue_of_batches():
    rng = np.random.default_rng(4)
    requests, _ = small_workload(rng, count=100)
    requests = requests._replace(output_length=np.ones(100))
    policy = DynamicBatching(cap=4, control_limit=2, timeout=0.05, prefill="elsewhere")
    run = simulate(requests, policy, AffineStep(fixed=0.02, per_sequence=0.01))
    served = served_in_batches(requests.arrival_time, lambda first, last: 0.02 + 0.01 * (last - first), policy)
    assert_allclose(run.finish_time, served.end_time)


def test_a_run_is_the_same_twice_and_leaves_its_arguments_alone():
    requests, options = small_workload(np.random.default_rng(5))
    before = [column.copy() for column in requests]
    one, two = (simulate(requests, POLICIES["paged"], STEP, **options) for _ in range(2))
    same(one, two, rtol=0, atol=0)
    assert all(np.array_equal(*pair) for pair in zip(before, requests, strict=True))


def test_a_bar_changes_nothing(capfd):
    requests, options = small_workload(np.random.default_rng(6))
    same(simulate(requests, POLICIES["paged"], STEP, progress=True, **options),
         simulate(requests, POLICIES["paged"], STEP, **options), rtol=0, atol=0)  # fmt: skip


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_a_step_that_takes_no_time_is_refused(wrong):
    with pytest.raises(ValueError, match="step_time must return a finite time above 0, got"):
        simulate(trace([0], [1], [1]), ContinuousBatching(), lambda load: wrong)
