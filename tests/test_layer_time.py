"""The law of one layer: each term by hand, its limits, and the shapes it is fed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib import calibration, footprint, layer_shape, layer_time, roofline
from lib.hardware import hardware, several
from lib.layer_time import CACHE_BYTES, CONTEXTS, Coefficients
from lib.model import model

H100, LLAMA = hardware("H100 SXM"), model("Llama-3-8B")
KNOTS = {(kind, size, tokens): size / 1e12 + 1e-5
         for kind in layer_shape.KINDS for size in CACHE_BYTES for tokens in CONTEXTS}  # fmt: skip
IDEAL = Coefficients(
    overhead=0, overhead_per_width=0, weight_efficiency=1, arithmetic_efficiency=1, activation_efficiency=1e9,
    sharpness=500, small_matrix_loss=0, cache_time=KNOTS,
)  # fmt: skip
DENSE = ("Llama-2-7B", "Llama-3-8B", "Llama-2-70B", "internlm-20b", "Qwen-72B", "phi-2", "OPT-13B")


@pytest.mark.parametrize("name", DENSE)
def test_the_four_matrices_are_the_streamed_parameters_of_a_layer(name):
    """Summed over the layers they are all that a step streams, but for the head, norms, biases."""
    one = model(name)
    moved, work = layer_shape.matrices(one, 1, np.array([1.0]))
    rest = footprint.streamed_params(one) - one.vocab_size * one.hidden_size
    assert_allclose(one.layers * moved.sum(), 2 * rest, rtol=2e-3)
    assert_allclose(work, moved)


def test_the_matrices_of_a_7b_layer_by_hand():
    """Llama-2-7B: 4096 x 12288, 4096 x 4096, 4096 x 22016, 11008 x 4096, halved by two devices."""
    moved, work = layer_shape.matrices(model("Llama-2-7B"), 2, np.array([10.0]))
    sizes = np.array([4096 * 12288, 4096 * 4096, 4096 * 22016, 11008 * 4096])
    assert_allclose(moved[:, 0], sizes)
    assert_allclose(work[:, 0], 10 * sizes)


def test_experts_in_use_are_read_and_only_the_picked_ones_compute():
    """Mixtral: 2 of 8 experts at batch 1, 3.5 at batch 2; each token computes with 2."""
    moved, work = layer_shape.matrices(model("Mixtral-8x7B"), 1, np.array([1.0, 2.0]))
    expert = 3 * 4096 * 14336
    assert_allclose(moved[2:].sum(axis=0), [2 * 2 * expert, 2 * 3.5 * expert])
    assert_allclose(work[2:].sum(axis=0), [2 * 2 * expert, 2 * 2 * 2 * expert])


@pytest.mark.parametrize("batch", [1, 4096])
def test_without_losses_the_linear_part_is_the_bound(batch):
    """One side of the maximum each: all transfer at batch 1, all arithmetic at 4,096."""
    bound = layer_shape.bound(H100, LLAMA, batch, 0)
    assert_allclose(LLAMA.layers * layer_time.linear_time(IDEAL, H100, LLAMA, batch), bound.time, rtol=1e-3)


def test_each_loss_adds_what_it_says():
    plain = layer_time.linear_time(IDEAL, H100, LLAMA, 1)
    fixed = replace(IDEAL, overhead=2e-5, overhead_per_width=1e-9)
    assert_allclose(layer_time.linear_time(fixed, H100, LLAMA, 1) - plain, 2e-5 + 4096e-9)
    assert_allclose(layer_time.linear_time(replace(IDEAL, weight_efficiency=0.5), H100, LLAMA, 1), 2 * plain, rtol=1e-3)
    moved = replace(IDEAL, activation_efficiency=0.5)
    added = layer_time.linear_time(moved, H100, LLAMA, 100) - layer_time.linear_time(IDEAL, H100, LLAMA, 100)
    assert_allclose(added, 100 * 2 * (10 * 4096 + 2 * 40 * 128 + 3 * 14336) / (0.5 * 3.35e12))
    small = replace(IDEAL, small_matrix_loss=0.2)
    sizes = 2 * np.array([4096 * 6144, 4096 * 4096, 4096 * 28672, 14336 * 4096])
    lost = layer_time.linear_time(small, H100, LLAMA, 1) - plain
    assert_allclose(lost, (0.2 * sizes / (1 + sizes / 1e9)).sum() / 3.35e12, rtol=1e-3)


def test_arithmetic_below_its_peak_moves_the_knee():
    half = replace(IDEAL, arithmetic_efficiency=0.5)
    assert_allclose(
        layer_time.linear_time(half, H100, LLAMA, 4096), 2 * layer_time.linear_time(IDEAL, H100, LLAMA, 4096)
    )


def test_a_slice_of_a_layer_keeps_its_fixed_part():
    """Why slices are the hard case: eight devices divide the bytes, not the overhead."""
    fixed = replace(IDEAL, overhead=3e-5)
    whole, eighth = (layer_time.linear_time(fixed, H100, LLAMA, 1, tensor_parallel=n) for n in (1, 8))
    assert_allclose(eighth, 3e-5 + (whole - 3e-5) / 8)


def test_attention_takes_its_table_at_the_knots_and_grows_with_the_bytes_beyond():
    context = 512
    for size in CACHE_BYTES[1:]:
        batch = size / (context * 4096)
        assert_allclose(layer_time.attention_time(IDEAL, LLAMA, batch, context), size / 1e12 + 1e-5, rtol=1e-9)
    batch = 8 * CACHE_BYTES[-1] / (context * 4096)
    assert_allclose(layer_time.attention_time(IDEAL, LLAMA, batch, context), 8 * (CACHE_BYTES[-1] / 1e12 + 1e-5))


@given(st.floats(1, 1e12), st.floats(1, 1e6))
def test_the_knots_share_each_point(size, context):
    weights, beyond = layer_time.knots(np.array([size]), np.array([context]))
    assert_allclose(weights.sum(), 1)
    assert (weights >= 0).all() and beyond >= 0


def test_key_heads_are_split_until_each_device_has_one():
    """Llama-2-70B has 8 key heads; Qwen2.5-7B has 4, so 7 devices would read some twice."""
    large = model("Llama-2-70B")
    read = [layer_shape.cache_read(large, 1, 1000, devices) for devices in (1, 2, 8, 16)]
    assert_allclose(np.array(read) / read[-1], [8, 4, 1, 1])


def test_a_latent_cache_has_no_measured_kernel():
    with pytest.raises(ValueError, match="caches a latent vector"):
        layer_time.attention_time(IDEAL, model("DeepSeek-V3"), 1, 1)


def test_heads_that_do_not_split_are_refused():
    with pytest.raises(ValueError, match=r"tensor_parallel must divide the 28 query heads of Qwen2.5-7B, got 8"):
        layer_shape.share(model("Qwen2.5-7B"), 8)


def test_the_bound_of_the_layers_is_the_roofline_without_the_head():
    """Llama-3-8B on 2 H100: 6,979,584,000 parameters and norms less the head of 128,256 x 4096."""
    step, whole = (
        layer_shape.bound(H100, LLAMA, 4, 1000, tensor_parallel=2),
        roofline.decode_step(several(H100, 2), LLAMA, 4, 1000),
    )
    head = 128_256 * 4096
    assert step.weight_bytes == whole.weight_bytes - 2 * head
    assert step.linear_flop == whole.linear_flop - 2 * 4 * head
    assert_allclose(step.time, whole.time - 2 * head / 6.7e12)


def test_the_regimes_are_named_by_what_takes_longest():
    steps = layer_shape.bound(H100, LLAMA, [1, 128, 512, 256], [100, 128, 0, 16_384])
    assert layer_shape.regime(steps).tolist() == ["small batch", "knee", "knee", "long context"]


def test_an_all_reduce_is_latency_and_a_ring():
    """8 devices, 64 MiB at 80 % of 450 GB/s: 2 x 7/8 of the bytes, plus 30 us."""
    linked = replace(IDEAL, all_reduce_latency={8: 3e-5}, link_efficiency=0.8)
    size = 2.0**26
    assert_allclose(layer_time.all_reduce_time(linked, H100, size, 8), 3e-5 + 1.75 * size / 3.6e11)
    assert layer_time.all_reduce_time(linked, H100, size, 1) == 0
    assert np.isnan(layer_time.all_reduce_time(IDEAL, H100, size, 8))


def test_communication_caps_what_eight_devices_gain():
    """Pitfall: the speed-up of tensor parallelism over 8 devices is below 8."""
    one, eight = (calibration.predict("H100 SXM", "Llama-3-8B", 1, 1024, tensor_parallel=n) for n in (1, 8))
    gain = (one.calibrated + one.output_head) / (eight.calibrated + eight.output_head + eight.all_reduce)
    assert gain < 4
