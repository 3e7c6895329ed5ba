"""Three engines, and for each what the other two do not do.

Worked by hand, so here vLLM and SGLang plan in turn; see test_vllm_rules, and below, for their default.
"""

from functools import partial

import numpy as np
import pytest

from lib import engines
from lib.engines import tgi, vllm
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.trace import Trace

SECOND = AffineStep(fixed=1.0)
ROOMY = 10_000
in_turn = partial(vllm, async_scheduling=False)
sglang = partial(engines.sglang, disable_overlap_schedule=True)
ENGINES = {"vllm": in_turn(ROOMY), "tgi": tgi(ROOMY), "sglang": sglang(ROOMY)}


def run(policy, arrival, prompt, output, **options):
    return simulate(Trace(*map(np.array, (arrival, prompt, output))), policy, SECOND, **options)


def each(arrival, prompt, output, **options):
    return {name: run(policy, arrival, prompt, output, **options) for name, policy in ENGINES.items()}


# --- alike --------------------------------------------------------------------------------------


def test_alone_a_request_takes_an_iteration_for_its_prompt_and_one_for_each_further_token():
    for found in each([0], [100], [5]).values():
        assert [*found.first_token_time, *found.finish_time] == [1, 5]


@pytest.mark.parametrize("policy", ENGINES.values(), ids=[*ENGINES])
def test_each_names_its_source(policy):
    assert " at " in policy.source


# --- vLLM ---------------------------------------------------------------------------------------


def test_vllm_alone_gives_a_token_to_all_inside_while_it_reads_a_prompt():
    """A decodes from 1 on; B comes at 2.5 and is read at 3: A ends at 10, elsewhere an iteration later."""
    found = each([0, 2.5], [10, 10], [10, 1])
    assert {name: r.finish_time[0] for name, r in found.items()} == {"vllm": 10, "tgi": 11, "sglang": 11}


def test_vllm_alone_cuts_a_prompt_to_what_decoding_leaves_of_the_budget():
    """Budget 8. A decodes; B's prompt of 14 is cut into 7 and 7, of 15 into 7, 7 and 1. Alone it would be 8 and 7."""
    policy = in_turn(ROOMY, max_num_seqs=4, max_num_batched_tokens=8)
    assert run(policy, [0, 2.5], [2, 14], [10, 1]).first_token_time[1] == 5
    assert run(policy, [0, 2.5], [2, 15], [10, 1]).first_token_time[1] == 6
    cut_alone = sglang(ROOMY, chunked_prefill_size=8)
    assert run(cut_alone, [0, 2.5], [2, 15], [10, 1]).first_token_time[1] == 5
    assert run(tgi(ROOMY, max_batch_prefill_tokens=8), [0, 2.5], [2, 15], [10, 1]).first_token_time[1] == 4


def test_vllm_alone_sends_the_latest_back_to_the_head_of_the_queue():
    """Room for 12, in blocks of 1. A, B (4 each) fill it. B is sent back, and C, who would fit, may not overtake it:
    it enters when A ends. SGLang takes neither: B waits from the start. Nor does TGI."""
    arrival, prompt, output = [0, 0, 0.5], [4, 4, 1], [8, 8, 1]
    found = run(in_turn(12, max_num_seqs=2, block_size=1), arrival, prompt, output)
    assert [*found.preemptions] == [0, 1, 0]
    assert found.admitted_time[2] == found.finish_time[0] == 8
    assert run(sglang(12, max_running_requests=2), arrival, prompt, output).preemptions.sum() == 0
    assert run(tgi(12), arrival, prompt, output).preemptions.sum() == 0


def test_vllm_alone_finds_the_blocks_again_that_nobody_has_taken():
    """B loses 7 tokens in 1-token blocks; A takes 5 of them before it ends. With the rest found, fewer are read."""
    step = AffineStep(fixed=1.0, per_prompt_token=0.01)
    requests = Trace(*map(np.array, ([0, 0], [4, 4], [8, 8])))
    forgetful = simulate(requests, in_turn(12, block_size=1, enable_prefix_caching=False), step)
    mindful = simulate(requests, in_turn(12, block_size=1), step)
    assert [*forgetful.preemptions] == [*mindful.preemptions] == [0, 1]
    saved = (forgetful.finish_time - mindful.finish_time)[1]
    assert 0 < saved < 0.01 * 8
    assert round(saved / 0.01, 6) == round(saved / 0.01)


# --- TGI ----------------------------------------------------------------------------------------


def test_tgi_alone_keeps_few_newcomers_waiting_on_purpose():
    """Ten decode; three would be enough to interrupt them (0.3 x 10); two wait for the twentieth iteration."""
    arrival, prompt, output = [0] * 10 + [2.5, 2.5], [10] * 12, [60] * 10 + [1, 1]
    found = each(arrival, prompt, output)
    assert {name: r.admitted_time[10] for name, r in found.items()} == {"vllm": 3, "tgi": 20, "sglang": 3}
    assert found["tgi"].first_token_parts.held_back[10] == 17
    three = run(ENGINES["tgi"], [*arrival, 2.5], [*prompt, 10], [*output, 1])
    assert three.admitted_time[10] == 3


def test_tgi_alone_takes_the_memory_for_all_that_may_come():
    """Room for 100. A (10) may ask for 60 and gets 5; B (10, 30) comes at 1.5. 69 + 39 are too many for TGI alone."""
    found = {
        name: run(policy, [0, 1.5], [10, 10], [5, 1], output_limit=[60, 30]).admitted_time[1]
        for name, policy in {"vllm": in_turn(100, block_size=1), "tgi": tgi(100), "sglang": sglang(100)}.items()
    }
    assert found == {"vllm": 2, "tgi": 5, "sglang": 2}


def test_tgi_alone_decodes_between_two_iterations_that_read():
    """A decodes; B and C are read in two iterations (the budget takes one): A gets a token in between."""
    arrival, prompt, output = [0, 2.5, 2.5], [10, 10, 10], [10, 1, 1]
    policies = {"tgi": tgi(ROOMY, max_batch_prefill_tokens=10), "sglang": sglang(ROOMY, chunked_prefill_size=10)}
    found = {name: run(policy, arrival, prompt, output).first_token_time for name, policy in policies.items()}
    assert [*found["tgi"]] == [1, 4, 6]
    assert [*found["sglang"]] == [1, 4, 5]


def test_tgi_alone_never_cuts_a_prompt():
    found = {
        "vllm": run(in_turn(ROOMY, max_num_seqs=4, max_num_batched_tokens=100), [0], [250], [1]),
        "tgi": run(tgi(ROOMY, max_batch_prefill_tokens=100), [0], [250], [1]),
        "sglang": run(sglang(ROOMY, chunked_prefill_size=100), [0], [250], [1]),
    }
    assert {name: r.iterations for name, r in found.items()} == {"vllm": 3, "tgi": 1, "sglang": 3}


# --- SGLang -------------------------------------------------------------------------------------


def test_sglang_alone_lets_prompts_go_first_as_long_as_they_come():
    """A decodes; a prompt comes just before each of the next five iterations: A stands still for all of them."""
    arrival, prompt, output = [0, 1.5, 2.5, 3.5, 4.5, 5.5], [10] * 6, [3] + [1] * 5
    found = each(arrival, prompt, output)
    assert {name: r.finish_time[0] for name, r in found.items()} == {"vllm": 3, "tgi": 4, "sglang": 8}


def test_sglang_alone_guesses_what_is_still_to_come_and_can_be_told_to_guess_more():
    """Room for 100. A (10, may ask for 60) decodes; B (10, 30) comes at 1.5. At 2, 89 are free and A may ask for 58
    more: .7 of that leaves more than the 40 of B, .98 does not, and falls too slowly to do so before A ends."""
    options = {"output_limit": [60, 30]}
    arrival, prompt, output = [0, 1.5], [10, 10], [50, 1]
    default, timid = (
        run(sglang(100, schedule_conservativeness=c), arrival, prompt, output, **options).admitted_time[1]
        for c in (1.0, 1.4)
    )
    assert (default, timid) == (2, 50)
    assert run(in_turn(100, block_size=1), arrival, prompt, output, **options).admitted_time[1] == 2
    assert run(tgi(100), arrival, prompt, output, **options).admitted_time[1] == 50


def test_sglang_counts_what_it_promised_to_the_first_when_it_looks_at_the_second():
    """Room for 100. A (10, 60) and B (10, 50) come together: B would fit beside A's prompt, not beside its promise."""
    bold = sglang(100, schedule_conservativeness=0.1)
    found = run(bold, [0, 0], [10, 10], [5, 5], output_limit=[60, 50])
    assert [*found.admitted_time] == [0, 1]


def test_sglang_alone_expects_more_after_it_has_taken_memory():
    """Room for 60, two slots, A may ask for 60. B is sent back at 41, behind C (2, 6), who waits for a slot. Seven
    hundredths of what A may still ask for would leave C room; 40 + 20 of 60 do not, so C waits for A to end."""
    bold = sglang(60, max_running_requests=2, schedule_conservativeness=0.1)
    found = run(bold, [0, 26.5, 30.5], [4, 4, 2], [50, 20, 6], output_limit=[60, 20, 6])
    assert [*found.preemptions] == [0, 1, 0]
    assert found.admitted_time[2] == found.finish_time[0] == 51
    calm = run(bold, [0, 40.5], [4, 2], [50, 6], output_limit=[60, 6])
    assert calm.admitted_time[1] == 41


def test_sglang_alone_takes_memory_from_the_longest_prompt_of_those_who_have_generated_least():
    """A (6) and B (4) have as many tokens when the room for 22 is out. vLLM takes from B, who was admitted last."""
    arrival, prompt, output = [0, 0], [6, 4], [10, 10]
    hasty = sglang(22, schedule_conservativeness=0.1)
    assert [*run(hasty, arrival, prompt, output).preemptions] == [1, 0]
    assert [*run(in_turn(22, block_size=1), arrival, prompt, output).preemptions] == [0, 1]


def test_sglang_alone_puts_who_lost_memory_behind_all_others():
    """Room for 30 and two slots. B is sent back; C, who came later, enters at once: elsewhere, only when A ends."""
    arrival, prompt, output = [0, 3.5, 4.5], [4, 9, 3], [18, 12, 4]
    found = run(sglang(30, max_running_requests=2, schedule_conservativeness=0.1), arrival, prompt, output)
    assert [*found.preemptions] == [0, 1, 0]
    assert found.admitted_time[2] < found.finish_time[0]
    latest = run(in_turn(30, max_num_seqs=2, block_size=1), arrival, prompt, output)
    assert latest.admitted_time[2] == latest.finish_time[0]


@pytest.mark.parametrize(("overlap", "time"), [(False, 3), (True, 4)])
def test_sglang_plans_while_an_iteration_runs_unless_told_not_to(overlap, time):
    """1 s an iteration. A decodes. B comes at 1.5: in turn its prompt is read at 2, planned ahead at 3."""
    policy = engines.sglang(ROOMY, disable_overlap_schedule=not overlap)
    assert run(policy, [0, 1.5], [10, 10], [10, 1]).first_token_time[1] == time


@pytest.mark.parametrize(("overlap", "time"), [(False, 4), (True, 5)])
def test_sglang_gives_a_slot_on_an_iteration_later_if_the_plan_is_made_ahead(overlap, time):
    """A and B fill both slots; B ends at 3. C is read then, in turn; planned ahead, an iteration later."""
    policy = engines.sglang(ROOMY, max_running_requests=2, disable_overlap_schedule=not overlap)
    found = run(policy, [0, 0, 0], [10, 10, 10], [6, 3, 1])
    assert found.finish_time[1] == 3
    assert found.first_token_time[2] == time
