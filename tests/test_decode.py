"""The decoder against itself in full, against Hugging Face's Llama, and against the shapes it is built from."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from lib import decode, footprint
from lib.decode import cache, decoder, forward
from lib.llama import cache_numbers, stand_in, weight_shapes
from lib.model import catalogue, model, params

TINY = stand_in(model("Llama-3-8B"), 64)


def tokens_of(shape, seed=1):
    return torch.randint(0, TINY.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def shape_with(**changes):
    return replace(TINY, name="test", layers=2, hidden_size=96, head_dim=16, ffn_size=128, vocab_size=192, **changes)


GROUPED = shape_with(query_heads=6, kv_heads=2)


def test_one_token_at_a_time_gives_what_the_whole_sequence_gives():
    for shape in (GROUPED, shape_with(query_heads=4, kv_heads=4), shape_with(query_heads=4, kv_heads=1)):
        tiny, tokens = decoder(shape, dtype="fp64"), tokens_of((3, 9)) % 192
        whole = forward(tiny, cache(tiny, 3, 9), tokens, every=True)
        grown = cache(tiny, 3, 12)
        steps = torch.stack([forward(tiny, grown, tokens[:, at : at + 1]) for at in range(9)], dim=1)
        assert_allclose(steps, whole, atol=1e-13)
        assert grown.filled == [9, 9, 9]


def test_sequences_of_different_age_share_a_batch_and_do_not_see_each_other():
    tiny, tokens = decoder(GROUPED, dtype="fp64"), tokens_of((4, 14)) % 192
    ages = [9, 1, 5, 12]
    shared = cache(tiny, 4, 16)
    for slot, age in enumerate(ages):
        forward(tiny, shared, tokens[slot : slot + 1, :age], slot)
    for move in range(2):
        rows = torch.stack([tokens[slot, age + move] for slot, age in enumerate(ages)]).unsqueeze(1)
        together = forward(tiny, shared, rows)
        for slot, age in enumerate(ages):
            alone = forward(tiny, cache(tiny, 1, 16), tokens[slot : slot + 1, : age + move + 1])
            assert_allclose(together[slot], alone[0], atol=1e-13)
    assert shared.filled == [age + 2 for age in ages]


def test_a_ragged_batch_reads_several_tokens_at_once_too():
    tiny, tokens = decoder(GROUPED, dtype="fp64"), tokens_of((2, 10)) % 192
    shared = cache(tiny, 2, 10)
    forward(tiny, shared, tokens[:1, :5], 0)
    forward(tiny, shared, tokens[1:, :2], 1)
    both = forward(tiny, shared, torch.stack([tokens[0, 5:8], tokens[1, 2:5]]), every=True)
    for slot, end in ((0, 8), (1, 5)):
        alone = forward(tiny, cache(tiny, 1, 10), tokens[slot : slot + 1, :end], every=True)[0]
        assert_allclose(both[slot], alone[-3:], atol=1e-13)


def test_what_a_slot_held_before_and_what_lies_beyond_do_not_matter():
    tiny, tokens = decoder(GROUPED, dtype="fp64"), tokens_of((2, 6)) % 192
    dirty = cache(tiny, 2, 30, storage=torch.randn(cache_numbers(GROUPED, 2, 30), dtype=torch.float64))
    assert_allclose(forward(tiny, dirty, tokens), forward(tiny, cache(tiny, 2, 6), tokens), atol=1e-13)


def test_a_slot_can_be_moved_into_a_gap_and_set_back():
    tiny, tokens = decoder(GROUPED, dtype="fp64"), tokens_of((3, 8)) % 192
    held = cache(tiny, 3, 8)
    forward(tiny, held, tokens[2:, :7], 2)
    decode.move(held, 2, 0)
    moved = forward(tiny, held, tokens[2:, 7:], 0)
    assert_allclose(moved, forward(tiny, held, tokens[2:, 7:], 2), atol=1e-13)
    held.filled[2] = 7
    assert_allclose(moved, forward(tiny, held, tokens[2:, 7:], 2), atol=1e-13)


def test_attention_to_one_token_is_its_value():
    """By hand: with one token cached the softmax is 1, so the mixed heads are the value heads themselves."""
    weights = decode.random_weights(GROUPED, dtype="fp64")
    tiny, token = decoder(GROUPED, weights, dtype="fp64"), torch.tensor([[7]])
    state = weights["embedding"][7]

    def norm(vector, scale):
        return vector / math.sqrt(float((vector**2).mean()) + 1e-5) * scale

    for layer in "01":
        value = (weights[f"{layer}.qkv"] @ norm(state, weights[f"{layer}.attention_norm"]))[-32:].view(2, 16)
        state = state + weights[f"{layer}.output"] @ value.repeat_interleave(3, 0).flatten()
        gate, up = (weights[f"{layer}.gate_up"] @ norm(state, weights[f"{layer}.mlp_norm"])).view(2, 128)
        state = state + weights[f"{layer}.down"] @ (gate / (1 + torch.exp(-gate)) * up)
    by_hand = weights["head"] @ norm(state, weights["norm"])
    assert_allclose(forward(tiny, cache(tiny, 1, 1), token)[0], by_hand, atol=1e-13)


def by_the_paper(shape, weights, tokens, base=500_000.0):
    """Llama written out head by head in numpy: rotations as complex numbers, one query at a time."""
    arrays = {name: values.numpy() for name, values in weights.items()}
    states, size, group = arrays["embedding"][tokens], shape.head_dim, shape.query_heads // shape.kv_heads
    half = size // 2
    turns = np.exp(1j * np.outer(np.arange(len(tokens)), base ** (-np.arange(half) / half)))

    def norm(rows, scale):
        return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * scale

    def turned(rows):
        spun = (rows[:, :half] + 1j * rows[:, half:]) * turns
        return np.concatenate([spun.real, spun.imag], axis=1)

    for layer in range(shape.layers):
        projected = norm(states, arrays[f"{layer}.attention_norm"]) @ arrays[f"{layer}.qkv"].T
        heads = np.split(projected, shape.query_heads + 2 * shape.kv_heads, axis=1)
        mixed = []
        for query in range(shape.query_heads):
            key, value = (heads[shape.query_heads + at * shape.kv_heads + query // group] for at in (0, 1))
            scores = turned(heads[query]) @ turned(key).T / np.sqrt(size)
            shares = np.tril(np.exp(scores))
            mixed.append(shares / shares.sum(1, keepdims=True) @ value)
        states = states + np.concatenate(mixed, axis=1) @ arrays[f"{layer}.output"].T
        gate, up = np.split(norm(states, arrays[f"{layer}.mlp_norm"]) @ arrays[f"{layer}.gate_up"].T, 2, axis=1)
        states = states + (gate / (1 + np.exp(-gate)) * up) @ arrays[f"{layer}.down"].T
    return norm(states, arrays["norm"]) @ arrays["head"].T


def test_it_is_the_llama_of_the_paper():
    """touvron2023llama: pre-norm, SwiGLU, rotary positions; grouped queries as in ainslie2023gqa."""
    weights, tokens = decode.random_weights(GROUPED, dtype="fp64", seed=5), tokens_of((1, 20)) % 192
    tiny = decoder(GROUPED, weights, dtype="fp64")
    computed = forward(tiny, cache(tiny, 1, 20), tokens, every=True)[0]
    assert_allclose(computed, by_the_paper(GROUPED, weights, tokens[0].numpy()), atol=1e-12)


def hugging_face(shape, weights, rope_base):
    """The same model in transformers, with the same weights under its names."""
    transformers = pytest.importorskip(
        "transformers", reason="the reference needs transformers: pip install transformers==5.24.0"
    )
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size, intermediate_size=shape.ffn_size,
        num_hidden_layers=shape.layers, num_attention_heads=shape.query_heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, rms_norm_eps=1e-5, tie_word_embeddings=False, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": rope_base}, max_position_embeddings=256,
    )  # fmt: skip
    reference = transformers.LlamaForCausalLM(config).to(torch.float64).eval()
    renamed = {"model.embed_tokens.weight": weights["embedding"], "model.norm.weight": weights["norm"]}
    renamed["lm_head.weight"] = weights["head"]
    heads = [shape.query_heads * shape.head_dim, *[shape.kv_heads * shape.head_dim] * 2]
    for layer in range(shape.layers):
        parts = dict(zip("qkv", weights[f"{layer}.qkv"].split(heads), strict=True))
        gate, up = weights[f"{layer}.gate_up"].chunk(2)
        theirs = {f"self_attn.{name}_proj": part for name, part in parts.items()} | {
            "self_attn.o_proj": weights[f"{layer}.output"], "mlp.gate_proj": gate, "mlp.up_proj": up,
            "mlp.down_proj": weights[f"{layer}.down"], "input_layernorm": weights[f"{layer}.attention_norm"],
            "post_attention_layernorm": weights[f"{layer}.mlp_norm"],
        }  # fmt: skip
        renamed |= {f"model.layers.{layer}.{name}.weight": values for name, values in theirs.items()}
    reference.load_state_dict(renamed, strict=True)
    return reference


@pytest.mark.parametrize("rope_base", [10_000.0, 500_000.0])
def test_it_is_the_llama_of_hugging_face(rope_base):
    """Same random weights, float64; their rotation is computed in float32, hence 1e-5."""
    weights, tokens = decode.random_weights(GROUPED, dtype="fp64", seed=3), tokens_of((2, 40)) % 192
    reference = hugging_face(GROUPED, weights, rope_base)
    with torch.no_grad():
        theirs = reference(tokens).logits
    tiny = decoder(GROUPED, weights, dtype="fp64", rope_base=rope_base)
    held = cache(tiny, 2, 40)
    whole = forward(tiny, held, tokens[:, :30], every=True)
    steps = [forward(tiny, held, tokens[:, at : at + 1]) for at in range(30, 40)]
    assert_allclose(torch.cat([whole, torch.stack(steps, dim=1)], dim=1), theirs, atol=1e-5)


def test_packed_and_plain_weights_give_the_same():
    if not decode.packs("fp32"):
        pytest.skip("oneDNN cannot pack fp32 weights on this machine")
    tokens = tokens_of((5, 3)) % TINY.vocab_size
    one, other = (decoder(TINY, dtype="fp32", linear=linear) for linear in ("packed", "plain"))
    assert (one.linear, other.linear) == ("packed", "plain")
    for rows in (1, 5):
        logits = [forward(tiny, cache(tiny, rows, 3), tokens[:rows]) for tiny in (one, other)]
        assert_allclose(*logits, atol=2e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-4), ("bf16", 0.2)])
def test_the_dtypes_that_are_timed_compute_the_same_as_float64(dtype, tolerance):
    weights, tokens = decode.random_weights(GROUPED, dtype="fp64"), tokens_of((2, 12)) % 192
    exact, rounded = (decoder(GROUPED, weights, dtype=kind) for kind in ("fp64", dtype))
    one, other = (forward(tiny, cache(tiny, 2, 12), tokens).double() for tiny in (exact, rounded))
    assert_allclose(other, one, atol=tolerance)
    assert rounded.linear == ("packed" if decode.packs(dtype) else "plain")


def test_without_packing_the_plain_path_runs_and_says_so(monkeypatch):
    def refuse(*_):
        raise RuntimeError("bf16 path needs the cpu support avx512bw")

    decode.packs.cache_clear()
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    try:
        assert decoder(GROUPED).linear == "plain"
        with pytest.raises(ValueError, match="linear must be plain for fp32 on this cpu, got 'packed'"):
            decoder(GROUPED, linear="packed")
    finally:
        decode.packs.cache_clear()


def test_packing_that_computes_something_else_is_not_used(monkeypatch):
    decode.packs.cache_clear()
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda rows, weight, *_: rows @ torch.ones(64, 96))
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", lambda weight, _: weight)
    assert not decode.packs("fp32")
    decode.packs.cache_clear()


def test_every_parameter_of_the_shape_is_there():
    """Llama-3-8B: 8,030,261,248 parameters in 3 + 6 x 32 tensors."""
    shapes = weight_shapes(model("Llama-3-8B"))
    assert sum(math.prod(shape) for shape in shapes.values()) == 8_030_261_248
    assert len(shapes) == 3 + 6 * 32
    assert shapes["0.qkv"] == (6144, 4096)
    assert shapes["31.gate_up"] == (28_672, 4096)


def test_a_divided_llama_3_8b_by_hand():
    """4,096 / 4, 32 / 4, 8 / 4, 14,336 / 4, 128,256 / 4; the head keeps 128 and its group of 4."""
    small = stand_in(model("Llama-3-8B"), 4)
    assert (small.hidden_size, small.layers, small.kv_heads, small.query_heads) == (1024, 8, 2, 8)
    assert (small.ffn_size, small.vocab_size, small.head_dim) == (3584, 32_064, 128)
    assert params(small) == sum(math.prod(shape) for shape in weight_shapes(small).values())


@pytest.mark.parametrize("name", catalogue())
def test_any_catalogued_shape_can_run(name):
    original = model(name)
    small = stand_in(original, 64)
    tiny = decoder(small)
    logits = forward(tiny, cache(tiny, 2, 3), torch.zeros(2, 3, dtype=torch.long))
    assert logits.shape == (2, small.vocab_size)
    assert torch.isfinite(logits).all()
    undivided = stand_in(original)
    if not original.windowed_layers:
        assert_allclose(footprint.kv_bytes(undivided, 1000), footprint.kv_bytes(original, 1000))


@pytest.mark.parametrize("name", catalogue())
def test_a_stand_in_reads_about_what_one_token_of_the_original_reads(name):
    """Latent attention differs: with queries of full width DeepSeek-V3 reads 1.57 times as much."""
    original = model(name)
    ratio = footprint.streamed_weight_bytes(stand_in(original), 1) / footprint.streamed_weight_bytes(original, 1)
    assert 0.99 < ratio < (1.6 if name.startswith("DeepSeek") else 1.01)
    if name.startswith("Llama"):
        assert stand_in(original) is original


def test_a_tied_model_uses_its_table_as_head():
    tied = shape_with(query_heads=4, kv_heads=2, tied=True)
    weights = decode.random_weights(tied, dtype="fp64")
    assert "head" not in weights
    untied = shape_with(query_heads=4, kv_heads=2, tied=False)
    one = decoder(tied, weights, dtype="fp64")
    other = decoder(untied, weights | {"head": weights["embedding"]}, dtype="fp64")
    tokens = tokens_of((1, 4)) % 192
    assert_allclose(forward(one, cache(one, 1, 4), tokens), forward(other, cache(other, 1, 4), tokens), atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tiny: forward(tiny, cache(tiny, 2, 4), tokens_of((2, 5))), "tokens must be at most 4"),
        (lambda tiny: forward(tiny, cache(tiny, 2, 4), tokens_of((2, 1)), 1), "first_slot must leave 2"),
        (lambda tiny: cache(tiny, 0, 4), "slots must be at least 1, got 0"),
        (lambda tiny: cache(tiny, 2, 4, storage=torch.zeros(9)), "storage must hold 1024 numbers in fp32, got 9"),
        (lambda tiny: decoder(model("Mixtral-8x7B")), "model must be Llama-style, got Mixtral-8x7B"),
        (lambda tiny: decoder(GROUPED, dtype="fp16"), "dtype must be one of fp32, bf16, fp64, got 'fp16'"),
        (lambda tiny: decoder(GROUPED, {"norm": torch.zeros(1)}), r"norm must be of shape \(96,\), got \(1,\)"),
        (lambda tiny: decoder(GROUPED, {}), "weights must hold 15 tensors, got none for"),
        (lambda tiny: stand_in(GROUPED, 0), "divisor must be at least 1, got 0"),
    ],
)
def test_what_cannot_run_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(decoder(GROUPED))
