"""The roofline against values that others published, its limits, and its properties."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib import footprint, memory, roofline
from lib.expressions import Expression
from lib.footprint import Precision
from lib.hardware import catalogue, hardware, several
from lib.model import catalogue as models
from lib.model import model
from tests.test_expressions import in_vega

H100, A100 = hardware("H100 SXM"), hardware("A100 SXM 80GB")
LLAMA_8B, LLAMA_13B = model("Llama-3-8B"), model("Llama-2-13B")
V5E_X8 = several(hardware("TPU v5e"), 8)

machines = st.sampled_from([*catalogue().values()])
subjects = st.sampled_from([*models().values()])
batches, contexts = st.integers(1, 4096), st.integers(0, 131_072)


def test_decode_step_matches_the_scaling_book():
    """austin2025scaling, part 7, table for LLaMA-2-13B on 8 TPU v5e at 8,192 tokens.

    The book streams 26e9 B, the shape less its input table is 25.7e9; it rounds the
    bandwidth to 8.2e11 B/s where Google prints 8.19e11. Hence 1.2 %.
    """
    published = np.array([4.98, 12.13, 20.30, 36.65, 69.33, 249.09]) * 1e-3
    step = roofline.decode_step(V5E_X8, LLAMA_13B, [1, 8, 16, 32, 64, 240], 8192)
    assert_allclose(step.time, published, rtol=0.012)


def test_with_the_books_own_bytes_the_match_is_to_its_last_digit():
    """austin2025scaling, part 7: 26e9 B of weights, 6.7e9 B of cache a sequence, 8 x 8.2e11 B/s, 8 x 1.97e14 FLOP/s."""
    published = np.array([4.98, 12.13, 20.30, 36.65, 69.33, 249.09]) * 1e-3
    batch = np.array([1, 8, 16, 32, 64, 240])
    bandwidth, flop_rate = 8 * 8.2e11, 8 * 1.97e14
    time = roofline.overlapped_time(26e9 / bandwidth, batch * 6.7e9 / bandwidth, 2 * 13e9 * batch / flop_rate, 0.0)
    assert_allclose(time, published, atol=6e-6)


def test_an_8b_model_on_an_h100_needs_at_least_4_48_ms_per_token():
    """Pitfall of calculators: 4.79 ms if the input table, which is looked up, is counted as streamed."""
    assert_allclose(roofline.decode_step(H100, LLAMA_8B, 1, 0).time, 4.48e-3, atol=5e-6)


@pytest.mark.parametrize(("name", "published"), [("TPU v5e", 240), ("A100 SXM 80GB", 153), ("H100 SXM", 295)])
def test_the_ridge_batch_of_a_dense_model_in_bf16_is_the_ridge_point(name, published):
    """austin2025scaling, parts 1 and 7: 240 on v5e; 153 and 295 from the datasheets."""
    assert_allclose(roofline.ridge_batch(hardware(name), LLAMA_13B), published, rtol=0.01)


def test_eight_bit_weights_halve_the_ridge_batch_while_arithmetic_stays_16_bit():
    """austin2025scaling, part 7: B > 120 on v5e with int8 weights and bf16 arithmetic."""
    mixed = Precision(weights="int8")
    assert_allclose(roofline.ridge_batch(hardware("TPU v5e"), LLAMA_13B, precision=mixed), 120, rtol=0.01)


def test_the_ideal_decode_step_of_a_13b_model_on_an_a100_is_16_ms():
    """chen2022arithmetic: 12.6e9 parameters without tables, 16.8 ms at 1.5e12 B/s, so 16.2 ms at 1.555e12.

    Ours adds the output head.
    """
    time = roofline.decode_step(hardware("A100 SXM 40GB"), LLAMA_13B, 1, 0).time
    assert_allclose(time, 16.2e-3, rtol=0.03)


def test_prefill_of_a_70b_model_matches_the_scaling_book():
    """austin2025scaling, part 7: 0.91 s for 8,192 tokens at 40 % of 16 v5e; attention is left out there.

    The book multiplies by 70e9; the shape streams 68.7e9 and uses the output head once: 2.2 % less.
    """
    step = roofline.prefill_step(several(hardware("TPU v5e"), 16), model("Llama-2-70B"), 8192)
    used = 68_976_648_192 - 2 * 32_000 * 8192
    assert_allclose(step.linear_time / 0.4 * 70e9 / used, 0.91, rtol=1e-3)


def test_each_term_of_a_decode_step_adds_up_by_hand():
    """Llama-3-8B: 7,504,924,672 streamed parameters, 131,072 B and 524,288 FLOP per token of context."""
    step = roofline.decode_step(H100, LLAMA_8B, 10, 3000)
    assert step.weight_bytes == 2 * 7_504_924_672
    assert step.cache_bytes == 10 * 3000 * 131_072
    assert step.linear_flop == 10 * 2 * 7_504_924_672
    assert step.attention_flop == 10 * 3000 * 524_288
    weights, cache = 15_009_849_344 / 3.35e12, 3_932_160_000 / 3.35e12
    linear, attention = 150_098_493_440 / 9.894e14, 15_728_640_000 / 9.894e14
    assert_allclose(step.time, weights + cache)
    assert_allclose(roofline.decode_step(H100, LLAMA_8B, 10, 3000, overlap="none").time,
                    weights + cache + linear + attention)  # fmt: skip
    assert_allclose(roofline.intensity(step), (150_098_493_440 + 15_728_640_000) / (15_009_849_344 + 3_932_160_000))
    assert_allclose(roofline.idle_share(step), 1 - (linear + attention) / (weights + cache))


def test_a_prompt_costs_each_token_and_half_the_square():
    """Llama-3-8B, 1,000 tokens: 6,979,588,096 parameters a token, the head once, 500,500 pairs."""
    step = roofline.prefill_step(H100, LLAMA_8B, 1000, 2)
    head = 128_256 * 4096
    assert step.linear_flop == 2 * 2 * (1000 * (7_504_924_672 - head) + head)
    assert step.attention_flop == 2 * 500_500 * 524_288
    assert step.cache_bytes == 2 * 1000 * 131_072


def test_a_prompt_of_one_token_is_a_decode_step_with_itself_as_context():
    for name in ("Llama-3-8B", "gpt-oss-20b", "Mixtral-8x7B"):
        prefill = roofline.prefill_step(H100, model(name), 1)
        decode = roofline.decode_step(H100, model(name), 1, 1)
        assert_allclose(prefill.time, decode.time)
        assert_allclose(prefill.attention_flop, decode.attention_flop)


def test_a_windowed_prompt_stops_growing_by_squares_at_the_window():
    """Mistral-7B v0.1: window 4,096 in each of 32 layers; 32 heads of 128."""
    pairs = 4096 * 4097 / 2 + (10_000 - 4096) * 4096
    assert footprint.prompt_attention_flop(model("Mistral-7B"), 10_000) == 4 * 32 * 32 * 128 * pairs


def test_latent_attention_reads_a_prompt_in_expanded_form():
    """deepseek2024v3: 128 heads in 61 layers, keys of 192 and values of 128."""
    assert footprint.prompt_attention_flop(model("DeepSeek-V3"), 7) == 2 * 61 * 128 * (192 + 128) * 28


def test_a_huge_batch_without_cache_is_bound_by_arithmetic():
    step = roofline.decode_step(H100, LLAMA_8B, 1e6, 0)
    assert_allclose(step.time, 1e6 * 2 * 7_504_924_672 / 9.894e14)
    assert roofline.regime(step) == "arithmetic"
    assert_allclose(roofline.idle_share(step), 0, atol=1e-12)


def test_the_regime_names_the_longest_part():
    steps = roofline.decode_step(H100, LLAMA_8B, [1, 256, 2048], [100, 16_384, 0])
    assert roofline.regime(steps).tolist() == ["weights", "cache", "arithmetic"]


@given(machines, subjects, batches, contexts)
def test_more_overlap_is_never_slower_and_no_overlap_at_most_twice_as_slow(machine, subject, batch, context):
    full, kernels, none = (
        roofline.decode_step(machine, subject, batch, context, overlap=overlap).time
        for overlap in ("full", "kernels", "none")
    )
    assert full <= kernels * (1 + 1e-12) <= none * (1 + 2e-12) <= 2 * full * (1 + 3e-12)


@given(machines, subjects, batches, contexts)
def test_one_more_sequence_never_costs_more_per_sequence(machine, subject, batch, context):
    sizes = np.array([batch, batch + 1])
    one, two = roofline.decode_step(machine, subject, sizes, context).time
    assert one <= two * (1 + 1e-12)
    assert two / sizes[1] <= one / sizes[0] * (1 + 1e-12)


@given(machines, subjects, batches, contexts)
def test_the_idle_share_is_a_share(machine, subject, batch, context):
    step = roofline.decode_step(machine, subject, batch, context)
    assert -1e-12 <= roofline.idle_share(step) < 1


@given(machines, subjects)
def test_at_the_ridge_batch_reading_and_arithmetic_take_equally_long(machine, subject):
    ridge = roofline.ridge_batch(machine, subject)
    step = roofline.decode_step(machine, subject, ridge, 0)
    if ridge > 1:
        assert_allclose(step.weight_time, step.linear_time, rtol=1e-6)
    else:
        assert step.linear_time >= step.weight_time


def test_a_group_of_eight_is_eight_times_as_fast_and_has_the_same_ridge():
    alone, group = (roofline.decode_step(machine, LLAMA_8B, [1, 500], 500) for machine in (H100, several(H100, 8)))
    assert_allclose(alone.time / group.time, 8)
    assert_allclose(roofline.ridge_batch(several(H100, 8), LLAMA_8B), roofline.ridge_batch(H100, LLAMA_8B))


def test_an_undocumented_arithmetic_is_refused():
    with pytest.raises(ValueError, match=r"dtype must be one of .* for A100 SXM 80GB, got 'fp8'"):
        roofline.decode_step(A100, LLAMA_8B, 1, 1, precision=Precision(arithmetic="fp8"))


def test_the_page_gets_the_same_formula():
    for overlap in roofline.OVERLAPS:
        traced = roofline.decode_step(H100, LLAMA_8B, Expression("batch"), Expression("tokens"), overlap=overlap).time
        for batch, context in ((1, 100), (77, 30_000), (900, 0)):
            exact = roofline.decode_step(H100, LLAMA_8B, batch, context, overlap=overlap).time
            assert in_vega(traced, batch=batch, tokens=context) == pytest.approx(float(exact), rel=1e-12)


def test_104_sequences_of_4096_tokens_fit_beside_an_8b_model_on_an_h100():
    """0.9 x 80e9 B less 16.06e9 B of weights, over 4,096 x 131,072 B."""
    assert memory.largest_batch(H100, LLAMA_8B, 4096) == 104


def test_a_model_that_does_not_fit_has_a_largest_batch_of_zero():
    assert memory.cache_capacity(H100, model("Llama-3-70B")) == 0
    assert_allclose(memory.largest_batch(H100, model("Llama-3-70B"), [1, 1000]), 0)


@given(machines, subjects, st.integers(1, 131_072))
def test_the_largest_batch_fits_and_one_more_does_not(machine, subject, context):
    batch = memory.largest_batch(machine, subject, context)
    room = memory.cache_capacity(machine, subject)
    one = footprint.kv_bytes(subject, context)
    assert batch * one <= room * (1 + 1e-12)
    assert (batch + 1) * one > room * (1 - 1e-12)


def test_weights_of_four_bits_leave_room_for_more():
    four = Precision(weights="int4")
    more = memory.largest_batch(H100, LLAMA_8B, 4096, precision=four) - memory.largest_batch(H100, LLAMA_8B, 4096)
    assert more == pytest.approx(1.5 * 8_030_261_248 / (4096 * 131_072), abs=1)
    assert memory.largest_batch(replace(H100, capacity=160e9), LLAMA_8B, 4096) == 238
