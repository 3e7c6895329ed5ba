"""Bytes and arithmetic per token and per step, against counts that others published."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from lib import footprint
from lib import model as models
from lib.footprint import Precision
from lib.model import model
from tests.test_model import SMALL, SMALL_MOE, batch_sizes, contexts, some_models

# What a step reads


def test_an_8b_model_in_bf16_cannot_step_faster_than_4_48_ms_on_an_h100():
    """8.03e9 parameters less the input table of 128,256 x 4,096, 2 bytes each, at 3.35e12 B/s; 4.79 ms with it."""
    llama = model("Llama-3-8B")
    assert_allclose(footprint.streamed_weight_bytes(llama, 1) / 3.35e12, 4.48e-3, atol=5e-6)
    assert_allclose(footprint.weight_bytes(llama) / 3.35e12, 4.79e-3, atol=5e-6)


def test_learned_positions_and_an_untied_table_are_looked_up_not_streamed():
    assert models.params(SMALL) - footprint.streamed_params(SMALL) == 10 * 8
    assert models.params(model("OPT-13B")) - footprint.streamed_params(model("OPT-13B")) == 2050 * 5120


def test_a_tied_table_is_streamed_as_the_output_head():
    assert footprint.streamed_params(model("Qwen3-4B")) == 4_022_468_096


@pytest.mark.parametrize(("batch_size", "expected"), [(1, 2), (2, 3.5), (3, 4.625), (4, 5.46875)])
def test_a_batch_of_mixtral_meets_a_known_number_of_distinct_experts(batch_size, expected):
    """Exact fractions of 8(1 - (3/4)^B); G-MOE-01 prints 5.47 at B = 4."""
    assert_allclose(footprint.distinct_experts(model("Mixtral-8x7B"), batch_size), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("experts", "experts_per_token", "batch_size", "published", "tolerance"),
    [
        (8, 2, 4, 5.47, 0.006),
        (128, 8, 4, 29.1, 0.06),
        (128, 8, 64, 125.9, 0.06),
        (256, 8, 8, 57.4, 0.06),
        (256, 8, 128, 251.6, 0.06),
        (64, 6, 10, 40.0855625197, 1e-9),
    ],
)
def test_distinct_experts_match_printed_values(experts, experts_per_token, batch_size, published, tolerance):
    """G-MOE-01, 03, 05 (a public course notebook), 06, 08 (a public table) and 09 (50 digits)."""
    mixture = replace(SMALL_MOE, experts=experts, experts_per_token=experts_per_token)
    assert_allclose(footprint.distinct_experts(mixture, batch_size), published, rtol=0, atol=tolerance)


def test_distinct_experts_agree_with_drawing_them():
    """Eight experts, two per token, four tokens: within four standard errors of 20,000 draws."""
    rng = np.random.default_rng(3)
    picks = rng.random((20_000, 4, 8)).argsort(axis=-1)[..., :2].reshape(20_000, 8)
    distinct = np.array([len(set(row)) for row in picks.tolist()])
    expected = footprint.distinct_experts(model("Mixtral-8x7B"), 4)
    assert abs(distinct.mean() - expected) < 4 * distinct.std() / math.sqrt(distinct.size)


def test_a_dense_model_has_no_experts_to_meet():
    assert_array_equal(footprint.distinct_experts(SMALL, [1, 100]), [0, 0])


def test_one_sequence_reads_what_one_token_uses():
    mixtral = model("Mixtral-8x7B")
    table = 32_000 * 4_096
    assert_allclose(footprint.streamed_weight_bytes(mixtral, 1), 2 * (12_879_925_248 - table), rtol=1e-14)


def test_a_huge_batch_reads_every_expert_but_not_the_input_table():
    mixtral = model("Mixtral-8x7B")
    assert_allclose(footprint.streamed_weight_bytes(mixtral, 10**6), 2 * (46_702_792_704 - 32_000 * 4_096))


def test_the_dense_layers_of_a_mixture_are_read_whatever_the_batch():
    """61 layers, 3 of them dense: 58 layers leave 248 of 256 experts of 3 x 7168 x 2048 idle."""
    deepseek = model("DeepSeek-V3")
    idle = footprint.streamed_weight_bytes(deepseek, 10**6) - footprint.streamed_weight_bytes(deepseek, 1)
    assert_allclose(idle, 2 * 58 * 248 * 3 * 7168 * 2048, rtol=1e-12)


@given(some_models, batch_sizes)
def test_a_step_never_reads_more_weights_than_are_stored(subject, batch_size):
    read = footprint.streamed_weight_bytes(subject, batch_size)
    assert read <= footprint.weight_bytes(subject) * (1 + 1e-12)


@given(some_models, batch_sizes)
def test_one_more_sequence_never_reads_fewer_weights_nor_more_than_its_share(subject, batch_size):
    one, two = footprint.streamed_weight_bytes(subject, [batch_size, batch_size + 1])
    assert one <= two * (1 + 1e-12)
    assert two <= one * (batch_size + 1) / batch_size * (1 + 1e-12)


@given(some_models)
def test_counts_nest(subject):
    used = footprint.linear_flop_per_token(subject) / 2
    assert 0 < used <= footprint.streamed_params(subject) <= models.params(subject)
    assert models.active_params(subject) <= models.params(subject)


# The cache


@pytest.mark.parametrize(
    ("name", "published"),
    [("Llama-3-8B", 131_072), ("OPT-13B", 819_200), ("Llama-2-13B", 819_200), ("DeepSeek-V3", 70_272)],
)
def test_a_token_of_cache_has_its_published_size(name, published):
    """kwon2023pagedattention, section 3: 800 KB for OPT-13B (G-KV-01). 2 x 32 x 8 x 128 x 2 and 61 x (512 + 64) x 2."""
    assert footprint.kv_bytes_per_token(model(name)) == published


def test_128_ki_tokens_of_an_8b_model_cache_fill_16_gib():
    """131,072 tokens of 131,072 bytes: 17.18 GB, 16.00 GiB."""
    assert footprint.kv_bytes(model("Llama-3-8B"), 131_072) == 16 * 2**30


def test_a_window_caps_the_cache_of_its_layers_only():
    mistral, gemma = model("Mistral-7B"), model("Gemma-2-9B")
    assert footprint.kv_bytes(mistral, 32_768) == 4096 * 131_072
    assert footprint.kv_bytes(gemma, 8192) == 2 * 8 * 256 * 2 * (21 * 8192 + 21 * 4096)


@given(some_models, contexts)
def test_one_more_token_costs_its_bytes_up_to_the_window_and_less_beyond(subject, context):
    now, then = footprint.kv_bytes(subject, [context, context + 1])
    per_token = footprint.kv_bytes_per_token(subject)
    if context + 1 <= subject.window:
        assert then - now == per_token
    else:
        assert then - now == per_token * (subject.layers - subject.windowed_layers) / subject.layers


def test_weights_and_cache_keep_separate_precisions():
    llama, precision = model("Llama-3-8B"), Precision(weights="int4", kv="fp8")
    assert footprint.weight_bytes(llama, precision) == 8_030_261_248 / 2
    assert footprint.streamed_weight_bytes(llama, 1, precision) == footprint.streamed_params(llama) / 2
    assert footprint.kv_bytes_per_token(llama, precision) == footprint.kv_bytes(llama, 1, precision) == 65_536


def test_formats_take_their_bytes():
    sizes = [footprint.dtype_bytes(dtype) for dtype in ("fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")]
    assert sizes == [4, 2, 2, 1, 1, 0.5, 0.5]


# Arithmetic


def test_one_token_of_llama_3_8b_costs_15_gflop_and_half_a_gflop_per_thousand_tokens_of_context():
    """Two per streamed parameter; 4 x 32 layers x 32 heads x 128 per token of context."""
    llama = model("Llama-3-8B")
    assert footprint.linear_flop_per_token(llama) == 2 * (8_030_261_248 - 128_256 * 4096)
    assert footprint.attention_flop_per_token(llama, 1000) == 524_288_000
    assert footprint.flop_per_token(llama, 1000) == 15_009_849_344 + 524_288_000


@pytest.mark.parametrize(("name", "expected"), [("Llama-3-70B", 8), ("Llama-2-7B", 1), ("Falcon-7B", 71)])
def test_attention_does_one_flop_per_cache_byte_for_each_query_head_that_shares_a_key_head(name, expected):
    """G-KV-03: bf16, 64 query heads on 8 key heads give 8 FLOP/B."""
    subject = model(name)
    assert footprint.attention_flop_per_token(subject, 100) / footprint.kv_bytes(subject, 100) == expected


def test_latent_attention_is_counted_in_absorbed_form():
    """deepseek2024v3, 61 layers of 128 heads: scores over 512 + 64 numbers, sums over 512."""
    flop = footprint.attention_flop_per_token(model("DeepSeek-V3"), 10)
    assert flop == 10 * 61 * 128 * 2 * ((512 + 64) + 512)


def test_a_window_caps_attention_of_its_layers_only():
    """gpt-oss-20b: 12 of 24 layers see 128 tokens; 64 heads of 64."""
    assert footprint.attention_flop_per_token(model("gpt-oss-20b"), 1000) == 4 * 64 * 64 * (12 * 1000 + 12 * 128)


@given(some_models, contexts)
def test_arithmetic_is_linear_plus_attention(subject, context):
    total = footprint.flop_per_token(subject, context)
    assert total == footprint.linear_flop_per_token(subject) + footprint.attention_flop_per_token(subject, context)
    assert footprint.flop_per_token(subject, 0) == footprint.linear_flop_per_token(subject)


def test_arrays_keep_their_shape():
    sizes = np.ones((2, 3))
    for computed in (
        footprint.distinct_experts(SMALL_MOE, sizes), footprint.streamed_weight_bytes(SMALL_MOE, sizes),
        footprint.kv_bytes(SMALL, sizes), footprint.flop_per_token(SMALL, sizes),
    ):  # fmt: skip
        assert computed.shape == (2, 3)


# Bad arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: footprint.distinct_experts(SMALL_MOE, 0), "batch_size must be at least 1, got 0"),
        (lambda: footprint.streamed_weight_bytes(SMALL, [4, 0.5]), "batch_size must be at least 1, got 0.5"),
        (lambda: footprint.streamed_weight_bytes(SMALL, math.nan), "batch_size must be a number, got nan"),
        (lambda: footprint.streamed_weight_bytes(SMALL, math.inf), "batch_size must be finite, got inf"),
        (lambda: footprint.kv_bytes(SMALL, -1), "context must be at least 0, got -1"),
        (lambda: footprint.flop_per_token(SMALL, -1), "context must be at least 0, got -1"),
        (lambda: footprint.streamed_params(None), "model must be a Model, got None"),
        (lambda: footprint.linear_flop_per_token(None), "model must be a Model, got None"),
        (lambda: footprint.attention_flop_per_token(None, 1), "model must be a Model, got None"),
        (lambda: footprint.kv_bytes_per_token(None), "model must be a Model, got None"),
        (lambda: footprint.distinct_experts(None, 1), "model must be a Model, got None"),
        (lambda: footprint.weight_bytes(SMALL, "bf16"), "precision must be a Precision, got 'bf16'"),
        (lambda: footprint.streamed_weight_bytes(SMALL, 1, 2), "precision must be a Precision, got 2"),
        (lambda: footprint.kv_bytes_per_token(SMALL, 2), "precision must be a Precision, got 2"),
        (lambda: footprint.kv_bytes(SMALL, 1, 2), "precision must be a Precision, got 2"),
        (lambda: Precision(kv="int2"), "kv must be one of .*, got 'int2'"),
        (lambda: footprint.dtype_bytes(16), "dtype must be one of .*, got 16"),
    ],
)
def test_a_bad_argument_is_refused_by_name_rule_and_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()
