"""Public closed loops: the crowd, the queue for memory, and what an engine holds back when it is told to."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import closed_loop, footprint, memory
from lib.closed_loop import ClosedLoop, first_tokens, gathers, held_back, policy_of, regime
from lib.deployment import Deployment, kv_tokens, precision
from lib.hardware import hardware, several
from lib.model import catalogue, model
from lib.simulation import simulate_closed_loop

SERVED = Deployment(hardware=hardware("H200 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=2)
RUN = ClosedLoop(deployment=SERVED, engine="vLLM", users=4, input_tokens=1024, output_tokens=64)
LAW = (1.7e-5, 1.6e-5, 1.5, 1.9, 2.0, 2.0, 1.5, 1.7e-5)


def drawn():
    return np.random.default_rng(1)


def test_a_lone_user_waits_for_the_prompt_alone():
    made = first_tokens(replace(RUN, users=1), LAW, drawn())
    assert made.after == pytest.approx(made.crowd, rel=0.2)
    assert made.whole == pytest.approx(0.1 * made.crowd + 0.9 * made.after)


def test_the_first_request_of_each_user_waits_in_a_crowd():
    made = first_tokens(replace(RUN, users=32), LAW, drawn())
    assert made.crowd > 3 * made.after


def test_whoever_finds_the_memory_full_waits_for_an_answer_to_end():
    """64 users of whom half fit: the first token waits about as long as an answer takes."""
    narrow = replace(SERVED, devices=1)
    full = ClosedLoop(deployment=narrow, engine="vLLM", users=64, input_tokens=16_384, output_tokens=64)
    assert regime(replace(full, input_tokens=8192, output_tokens=1024)) == "memory full"
    ample = first_tokens(replace(full, users=8), LAW, drawn())
    assert first_tokens(full, LAW, drawn()).after > 5 * ample.after


@pytest.mark.parametrize(("users", "out"), [(1, 64), (7, 1024)])
def test_a_clock_that_ticks_alike_gives_each_token_a_tick(users, out):
    """Host time alone, 80 layers of 10 us: every iteration takes 0.8 ms, so a token does too."""
    made = first_tokens(replace(RUN, users=users, output_tokens=out), (1e-5, *[0.0] * 7), drawn())
    assert made.time_per_token == pytest.approx(8e-4)
    assert made.after >= 0.99 * 8e-4
    assert made.whole == pytest.approx(0.1 * made.crowd + 0.9 * made.after)


def test_lengths_lie_between_eight_tenths_of_what_is_asked_for_and_all_of_it(monkeypatch):
    seen = []

    def kept(lengths, policy, step, users):
        seen.append(lengths)
        return simulate_closed_loop(lengths, policy, step, users=users)

    monkeypatch.setattr(closed_loop, "simulate_closed_loop", kept)
    first_tokens(replace(RUN, users=64, input_tokens=10, output_tokens=5), LAW, drawn())
    first_tokens(replace(RUN, users=1, input_tokens=1, output_tokens=2), LAW, drawn())
    assert [(part.min(), part.max(), part.size) for part in seen[0]] == [(8, 10, 192), (4, 5, 192)]
    assert [(part.min(), part.size) for part in seen[1]] == [(1, 3), (1, 3)]


def test_the_memory_is_full_where_mean_contexts_leave_less_than_a_tenth():
    """Users of nine tenths of the prompt and half the answer on nine tenths of the cache: the tenths cancel."""
    most = int(kv_tokens(SERVED) / (8192 + 1024 / 2))
    run = replace(RUN, input_tokens=8192, output_tokens=1024)
    assert regime(replace(run, users=most)) == "many users, long prompts"
    assert regime(replace(run, users=most + 1)) == "memory full"


def test_nothing_fits_beside_weights_that_do_not_fit():
    assert kv_tokens(replace(SERVED, dtype="bf16", devices=1)) == 0


def test_the_crowd_waits_for_nothing_if_it_fills_nine_tenths_of_the_budget():
    """16 prompts of 921.6 tokens are 0.9 x 16,384; 15 are fewer."""
    told = replace(RUN, engine="TensorRT-LLM", output_tokens=1024)
    for users, share in ((15, 1.0), (16, 0.9)):
        more = 20 * users / 921.6
        assert_allclose(held_back(replace(told, users=users), 1.0), share * 20 * (1 + more / 2) / (1 + more))
    assert gathers(replace(told, deployment=replace(SERVED, devices=4)))


@pytest.mark.parametrize("name", ["users", "input_tokens", "output_tokens"])
def test_the_least_run_is_one_user_one_token_in_and_two_out(name):
    least = replace(RUN, users=1, input_tokens=1, output_tokens=2)
    with pytest.raises(ValueError, match=name):
        replace(least, **{name: getattr(least, name) - 1})


def test_the_cache_is_what_the_weights_leave():
    group, formats = several(SERVED.hardware, 2), precision(SERVED)
    expected = memory.cache_capacity(group, SERVED.model, precision=formats)
    assert kv_tokens(SERVED) == int(expected / footprint.kv_bytes_per_token(SERVED.model, formats))


def test_a_window_has_no_cache_of_so_many_tokens():
    windowed = next(one for one in catalogue().values() if np.isfinite(one.window))
    with pytest.raises(ValueError, match="whole context"):
        kv_tokens(replace(SERVED, model=windowed))


def test_limits_are_those_of_the_scripts():
    assert (policy_of(RUN).slots, policy_of(RUN).token_budget) == (4, 8192)
    assert policy_of(replace(RUN, engine="TensorRT-LLM")).token_budget == 16_384
    assert policy_of(replace(RUN, engine="SGLang")).prefill == "chunked alone"
    assert policy_of(replace(RUN, engine="SGLang")).token_budget == 8192


def test_tensorrt_llm_is_told_to_gather_in_one_shape_only():
    told = replace(RUN, engine="TensorRT-LLM", output_tokens=1024)
    assert gathers(told)
    assert not gathers(replace(told, engine="vLLM"))
    assert not gathers(replace(told, output_tokens=8192))
    assert not gathers(replace(told, deployment=replace(SERVED, devices=8)))


def test_what_is_held_back_is_twenty_iterations_less_what_others_bring():
    """By hand: 4 users, 1,024 tokens out: 80 / 921.6 more come in 20 iterations, and wait half as long."""
    told = replace(RUN, engine="TensorRT-LLM", output_tokens=1024)
    more = 80 / 921.6
    assert_allclose(held_back(told, 0.01), 0.2 * (1 + more / 2) / (1 + more))
    assert held_back(RUN, 0.01) == 0
    crowd = replace(told, users=64)  # 64 prompts fill the budget at once: one request in ten waits for nothing
    more = 1280 / 921.6
    assert_allclose(held_back(crowd, 0.01), 0.9 * 0.2 * (1 + more / 2) / (1 + more))


def test_what_is_held_back_is_part_of_the_whole():
    told = replace(RUN, engine="TensorRT-LLM", output_tokens=1024)
    one = first_tokens(told, LAW, drawn())
    assert_allclose(one.whole - one.held_back, 0.1 * one.crowd + 0.9 * one.after)
    assert_allclose(one.held_back, held_back(told, one.time_per_token))


@pytest.mark.parametrize(("users", "into", "out", "expected"), [
    (4, 1024, 1024, "few users, short prompts"), (8, 8192, 1024, "few users, long prompts"),
    (16, 1024, 8192, "many users, short prompts"), (64, 8192, 1024, "many users, long prompts"),
    (64, 2000, 500, "client not documented"),
])  # fmt: skip
def test_regimes(users, into, out, expected):
    wide = replace(SERVED, devices=8)
    run = ClosedLoop(deployment=wide, engine="vLLM", users=users, input_tokens=into, output_tokens=out)
    assert regime(run) == expected


def test_a_run_that_gathers_is_its_own_regime():
    assert regime(replace(RUN, engine="TensorRT-LLM", output_tokens=1024)) == "told to gather"
