"""What a batch costs each of its sequences: measured ratios, and where memory ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import amortisation, footprint, memory, roofline
from lib.batch_law import half_saturation_batch
from lib.expressions import Expression
from lib.footprint import Precision
from lib.hardware import hardware, peak_flop_rate, several
from lib.measured import table
from lib.model import model
from tests.test_expressions import in_vega


@pytest.mark.parametrize(
    ("accelerator", "name", "parallel", "context", "published"),
    [
        ("A100 SXM 80GB", "Llama-2-7B", 1, 128, 1.11),
        ("A100 SXM 80GB", "Llama-2-7B", 1, 2048, 2.82),
        ("H100 SXM", "Llama-2-7B", 1, 512, 1.47),
        ("A100 SXM 80GB", "Llama-3-8B", 1, 4096, 2.29),
        ("H100 SXM", "Llama-2-70B", 4, 2048, 1.18),
        ("H100 SXM", "Llama-2-70B", 8, 4096, 1.38),
    ],
)
def test_thirty_two_ride_as_long_as_a_first_look_at_the_same_sources_found(
    accelerator, name, parallel, context, published
):
    """An independent reading of Vidur's and AIConfigurator's kernels, to two decimals."""
    ratios = amortisation.kernel_ratios(32)
    row = (ratios["accelerator"] == accelerator) & (ratios["model"] == name) & (ratios["context"] == context)
    row &= (ratios["tensor_parallel"] == parallel) & (ratios["attention"] != "FlashAttention (Vidur)")
    assert_allclose(ratios["ratio"][row], published, rtol=0.02)


def test_a_batch_that_does_not_fit_runs_in_waves():
    """Where 32 requests exceed memory, they take about four times as long as one; the first look found 1.3 to 6.5."""
    ratios = amortisation.engine_ratios(32)
    waves = ratios["ratio"][ratios["fits"] == "no"]
    assert np.median(waves) == pytest.approx(4.0, rel=0.05)
    assert waves.min() > 1.3 and waves.max() == pytest.approx(6.5, rel=0.02)


def test_seventy_billion_end_to_end_on_four_h100_matches_a_first_look():
    """Medians over two engines: 1.36, 1.38, 1.41, 1.44, 1.49 for 128 to 2,048 tokens in and out."""
    ratios = amortisation.engine_ratios(32)
    row = (ratios["accelerator"] == "H100 SXM") & (ratios["model"] == "Llama-2-70B") & (ratios["tensor_parallel"] == 4)
    found = [np.median(ratios["ratio"][row & (ratios["input_tokens"] == n)]) for n in (128, 256, 512, 1024, 2048)]
    assert_allclose(found, [1.36, 1.38, 1.41, 1.44, 1.49], rtol=0.03)


def test_an_old_stack_is_bound_by_overhead():
    """patel2024splitwise: 70B on 8 A100, 44.9 ms alone and 71.6 ms for 64: 43.5 + 0.413 B ms within 7 %."""
    runs = table("end_to_end")
    row = (
        (runs["accelerator"] == "A100 SXM 80GB") & (runs["quantity"] == "decode_step") & (runs["tensor_parallel"] == 8)
    )
    row &= (runs["input_tokens"] == 512) & (runs["output_tokens"] == 128)
    batch, time = runs["concurrency"][row], runs["value"][row]
    assert_allclose(time[batch == 1], 44.9e-3, rtol=0.005)
    assert_allclose(time[batch == 64], 71.6e-3, rtol=0.005)
    assert_allclose(43.5e-3 + 0.413e-3 * batch, time, rtol=0.07)
    assert half_saturation_batch(43.5e-3, 0.413e-3) == pytest.approx(105, abs=1)


def test_whole_batches_of_a_70b_model_grow_as_a_line_at_last():
    """A run of Llama-3.3-70B, 2,035 tokens in and 300 out: from 64 requests on, twice as many take 1.8 to 2 times."""
    size = 2.0 ** np.arange(10)
    seconds = np.array([5.57, 5.83, 6.58, 7.51, 8.97, 12.41, 19.93, 36.81, 66.85, 129.6])
    assert seconds[5] / seconds[0] == pytest.approx(2.23, abs=0.01)
    assert 32 * seconds[0] / seconds[5] == pytest.approx(14.4, abs=0.1)
    slope, fixed = np.polyfit(size[5:], seconds[5:], 1)
    assert half_saturation_batch(fixed, slope) == pytest.approx(20, abs=3)


def test_a_fall_is_the_batch_over_its_ratio():
    for ratios in (amortisation.kernel_ratios(32), amortisation.engine_ratios(32)):
        assert_allclose(ratios["fall"] * ratios["ratio"], 32)


def test_a_shorter_cache_gains_between_nothing_and_the_ratio_of_the_bits():
    """At the half-saturation batch half of the step is cache: 2 / 1.5 with half of it, 2 / 1.25 with a quarter."""
    assert_allclose(amortisation.cache_gain([1e-12, 1, 1e12], 0.5), [1, 2 / 1.5, 2])
    assert_allclose(amortisation.cache_gain(1, [0.25, 1]), [2 / 1.25, 1])


def test_a_shorter_cache_gains_what_the_bound_on_the_step_gains():
    h100, llama = hardware("H100 SXM"), model("Llama-3-8B")
    kinds = (Precision(kv="bf16"), Precision(kv="fp8"))
    long, short = (roofline.decode_step(h100, llama, 40, 8192, precision=kind) for kind in kinds)
    assert_allclose(amortisation.cache_gain(long.cache_time / long.weight_time, 0.5), long.time / short.time)


def test_four_bits_gain_as_much_as_the_gain_of_eight_foretells_with_shared_key_heads_and_less_without():
    """lmdeploy2024kv, Performance: 1.27 and 1.39 for Llama-2-7B, 1.05 and 1.07 for InternLM2-7B."""
    found = table("published_results")
    rate = dict(zip(found["id"], found["value"], strict=True))
    for name, eight, four, foretold in (("7b", 1.27, 1.39, 1.466), ("internlm2-7b", 1.05, 1.07, 1.074)):
        gains = [rate[f"lmdeploy-{name}-kv{bits}-rate"] / rate[f"lmdeploy-{name}-kv16-rate"] for bits in (8, 4)]
        assert_allclose(gains, [eight, four], atol=0.005)
        relative = (gains[0] - 1) / (1 - gains[0] / 2)
        assert_allclose(amortisation.cache_gain(relative, 1 / 2), gains[0])
        assert_allclose(amortisation.cache_gain(relative, 1 / 4), foretold, atol=0.002)


def test_models_are_classed_by_size_and_key_heads():
    assert amortisation.model_class("Llama-3-70B") == "large, shared key heads"
    assert amortisation.model_class("Llama-2-7B") == "small, a key head each"
    assert amortisation.model_class("Qwen-72B") == "large, a key head each"
    assert amortisation.model_class("Llama-3-8B") == "small, shared key heads"


def test_batches_end_where_memory_does():
    h100, llama = hardware("H100 SXM"), model("Llama-3-8B")
    sizes = amortisation.batches_to_memory(h100, llama, 4096)
    assert (sizes[0], sizes[-1]) == (1, memory.largest_batch(h100, llama, 4096)) == (1, 104)
    assert (np.diff(sizes) > 0).all()
    assert amortisation.batches_to_memory(h100, model("Llama-3-70B"), 4096).size == 0
    assert amortisation.batches_to_memory(several(h100, 8), llama, 100, most=64)[-1] == 64
    with pytest.raises(ValueError, match="batch_size must be one that was measured, got 33"):
        amortisation.kernel_ratios(33)


def test_the_sliders_compute_the_bound_and_the_end_of_memory():
    """The parts that the page is given, against decode_step and largest_batch for the same deployment."""
    names = ("riders", "context", "bandwidth", "peak", "room", "held", "read", "cached", "linear", "attention")
    size, context, bandwidth, peak, room, held, read, cached, linear, attention = map(Expression, names)
    step = roofline.overlapped_time(
        read / bandwidth, size * context * cached / bandwidth, size * linear / peak, size * context * attention / peak
    )
    full = np.floor((room - held) / (context * cached))
    for name, machine in (("Llama-3-8B", "A100 SXM 80GB"), ("Llama-2-7B", "L40S")):
        one, box = model(name), hardware(machine)
        values = {
            "riders": 48, "context": 3000, "bandwidth": box.bandwidth, "peak": peak_flop_rate(box, "bf16"),
            "room": memory.USABLE_SHARE * box.capacity, "held": footprint.weight_bytes(one),
            "read": float(footprint.streamed_weight_bytes(one, 1)), "cached": footprint.kv_bytes_per_token(one),
            "linear": footprint.linear_flop_per_token(one),
            "attention": float(footprint.attention_flop_per_token(one, 1)),
        }  # fmt: skip
        assert in_vega(step, **values) == pytest.approx(float(roofline.decode_step(box, one, 48, 3000).time), rel=1e-12)
        assert in_vega(full, **values) == memory.largest_batch(box, one, 3000)
