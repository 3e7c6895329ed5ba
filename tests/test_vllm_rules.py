"""The fast replica against a plain one that shares no code with it: the same rules, the same times."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.engines import vllm
from lib.simulation import simulate
from lib.trace import Trace
from tests.vllm_rules import served


def plain(shapes):
    return 1 + sum(0.05 + 0.01 * (cached + 1) if decodes else 0.1 * size for size, cached, decodes in shapes)


def fast(load):
    return 1 + 0.05 * load.decoding + 0.01 * load.context + 0.1 * load.prompt_tokens


def workload(seed):
    """A random workload with queues, bursts and a memory that runs out; prompts are cut only where it does not."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    arrival = np.round(np.cumsum(rng.exponential(rng.choice([0.05, 0.5, 3.0]), count)), 3)
    prompt, output = rng.integers(1, 60, count), rng.integers(1, 40, count)
    block = int(rng.choice([1, 4, 16]))
    tight = rng.random() < 0.7
    tokens = int(max((prompt + output).max() + block, rng.integers(60, 400))) if tight else 1_000_000
    slots = int(rng.integers(1, 12))
    budget = 10_000 if tight else max(slots, int(rng.integers(8, 64)))
    return Trace(arrival, prompt, output), slots, budget, tokens, block


@pytest.mark.parametrize("ahead", [False, True], ids=["in turn", "ahead"])
def test_a_plain_scheduler_gives_every_token_at_the_same_time(ahead):
    lost = 0
    for seed in range(200):
        requests, slots, budget, tokens, block = workload(seed)
        policy = vllm(
            tokens, max_num_seqs=slots, max_num_batched_tokens=budget, block_size=block, async_scheduling=ahead
        )
        run = simulate(requests, policy, fast)
        first, last = served(
            list(zip(*(column.tolist() for column in requests), strict=True)), plain,
            slots=slots, budget=budget, blocks=tokens // block, block_size=block, ahead=ahead,
        )  # fmt: skip
        assert_allclose(run.first_token_time, first, atol=1e-9, err_msg=f"seed {seed}")
        assert_allclose(run.finish_time, last, atol=1e-9, err_msg=f"seed {seed}")
        lost += run.preemptions.sum()
    assert lost > 300  # memory did run out


def test_a_newcomer_waits_for_the_iteration_that_was_planned_before_it_came():
    """1 s an iteration. A decodes. B comes at 1.5: in turn it is read at 2, planned ahead at 3."""
    requests = Trace(np.array([0, 1.5]), np.array([10, 10]), np.array([9, 1]))
    times = [
        simulate(requests, vllm(10_000, async_scheduling=ahead), lambda load: 1.0).first_token_time[1]
        for ahead in (False, True)
    ]
    assert times == [3, 4]


def test_a_slot_is_given_on_an_iteration_later_if_the_plan_is_made_ahead():
    """One slot, 1 s an iteration: A ends at 3. B is read at 3, or at 4 where the plan for 3 still counted A."""
    requests = Trace(np.zeros(2), np.array([10, 10]), np.array([3, 1]))
    for ahead, time in ((False, 4), (True, 4)):
        run = simulate(requests, vllm(10_000, max_num_seqs=1, async_scheduling=ahead), lambda load: 1.0)
        assert run.first_token_time[1] == time  # nothing runs beside A, so the plan waits for it
    requests = Trace(np.zeros(3), np.array([10, 10, 10]), np.array([3, 9, 1]))
    ends = [
        simulate(requests, vllm(10_000, max_num_seqs=2, async_scheduling=ahead), lambda load: 1.0).first_token_time[2]
        for ahead in (False, True)
    ]
    assert ends == [4, 5]
