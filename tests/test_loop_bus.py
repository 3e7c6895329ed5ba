"""One workload under three engines' rules, and what a full bus makes of its machine."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import footprint, loop_bus
from lib.calibration import predict
from lib.model import model
from lib.simulation import simulate
from lib.trace import Trace


def test_a_token_of_a_small_batch_uses_hardly_any_of_the_arithmetic():
    """Llama-3-8B at 32 sequences of 1,024 tokens: its FLOP over the calibrated step and 989.4e12 FLOP/s."""
    made = predict("H100 SXM", "Llama-3-8B", 32, 1024)
    flop = 32 * float(footprint.flop_per_token(model("Llama-3-8B"), 1024))
    expected = flop / float(made.calibrated + made.output_head) / 9.894e14
    assert float(loop_bus.arithmetic_used(32, 1024)) == pytest.approx(expected, rel=2e-3)
    shares = loop_bus.arithmetic_used([1, 8, 64, 256], 1024)
    assert np.all(np.diff(shares) > 0)
    assert np.all(shares < 1)


def test_longer_contexts_use_less_of_the_arithmetic():
    assert loop_bus.arithmetic_used(32, 8192) < loop_bus.arithmetic_used(32, 1024)


def test_only_one_engine_holds_prompts_back_on_purpose():
    """TGI waits for enough prompts or for twenty steps; the other two board whoever fits."""
    found = {engine: loop_bus.served(engine) for engine in loop_bus.ENGINES}
    assert found["vLLM"].held_back == found["SGLang"].held_back == 0
    assert found["TGI"].held_back > 1
    assert found["TGI"].first_token > 3 * found["vLLM"].first_token
    assert all(one.preempted == 0 for one in found.values())


def test_prompts_first_is_sooner_and_rougher():
    found = {engine: loop_bus.served(engine, loop_bus.BUSY) for engine in ("vLLM", "SGLang")}
    assert found["SGLang"].first_token < found["vLLM"].first_token
    assert found["SGLang"].time_per_token > found["vLLM"].time_per_token


def test_a_busier_bus_is_slower_for_everybody():
    calm, busy = (loop_bus.served("vLLM", load) for load in (0.2, 0.8))
    assert busy.time_per_token > 1.5 * calm.time_per_token
    assert busy.first_token > calm.first_token > loop_bus.alone_first_token()


def test_the_gain_is_tokens_of_all_over_tokens_of_one():
    """256 residents in the time of a step with them, over one in the time of a step alone."""
    times = loop_bus._replica().step_time
    assert loop_bus.gains() == pytest.approx(256 * times[0] / times[255])
    assert 10 < loop_bus.gains() < 256


def test_the_step_is_the_chord_of_the_law_of_engines():
    made, step = loop_bus._replica(), loop_bus.step()
    assert_allclose(step.fixed + step.per_sequence, made.decode_time[0])
    assert_allclose(step.fixed + 256 * step.per_sequence, made.decode_time[255])
    assert_allclose(step.per_prompt_token * made.traffic.prompt_tokens, made.prompt_time)


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="engine must be one of vLLM, TGI, SGLang, got 'Orca'"):
        loop_bus.policy("Orca")


def test_a_lone_prompt_is_read_in_one_step():
    prompt = round(loop_bus.traffic_of(loop_bus.WORKLOAD).prompt_tokens)
    run = simulate(Trace([0.0], [prompt], [1]), loop_bus.policy("SGLang"), loop_bus.step())
    assert float(run.first_token_time[0]) == pytest.approx(loop_bus.alone_first_token(), rel=1e-3)


def test_an_engine_has_the_memory_that_weights_leave():
    """80 GB less a tenth less 16 GB, at 131,072 B a token: some 427,000 tokens."""
    assert loop_bus.policy("vLLM").memory.tokens == pytest.approx((0.9 * 80e9 - 16.06e9) / 131_072, rel=2e-3)
