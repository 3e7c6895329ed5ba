"""The iteration of a real accelerator: it is the calibrated decode step, and prompts add what measured prefills say."""

import numpy as np
import pytest

from lib import calibration, measured, roofline
from lib.calibrated_step import CalibratedStep, kv_tokens
from lib.hardware import hardware
from lib.model import model
from lib.replica import StepLoad

H100 = CalibratedStep(accelerator="H100 SXM", model="Llama-3-8B")
GROUP = CalibratedStep(accelerator="A100 SXM 80GB", model="Llama-3-70B", devices=4)


def reading(*prompts):
    """Return the load of an iteration that reads these prompts and nothing else."""
    pairs = sum(tokens * (tokens + 1) / 2 for tokens in prompts)
    return StepLoad(0, 0, sum(prompts), pairs, tuple((tokens, 0) for tokens in prompts))


@pytest.mark.parametrize("step", [H100, GROUP])
@pytest.mark.parametrize(("batch", "context"), [(1, 128), (1, 3000), (7, 512), (64, 1155), (256, 4096), (2, 40_000)])
def test_an_iteration_without_prompts_is_the_calibrated_decode_step(step, batch, context):
    made = calibration.predict(step.accelerator, step.model, batch, context, tensor_parallel=step.devices)
    whole = float(made.calibrated + made.output_head + made.all_reduce)
    assert step(StepLoad(batch, batch * context, 0, 0.0, ())) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("tokens", [512, 1024, 4096, 16_384])
def test_a_prompt_takes_longer_than_its_bound_and_less_than_twice_that(tokens):
    bound = float(roofline.prefill_step(hardware("H100 SXM"), model("Llama-3-8B"), tokens).time)
    assert bound < H100(reading(tokens)) < 2 * bound


def test_measured_prefills_of_an_8b_take_up_to_a_quarter_longer_than_their_kernels():
    """LLM-Inference-Bench, 16 prompts of 1,024 tokens in one batch: 0.405 s on an H100, 1.05 s on an A100."""
    table = measured.table("end_to_end")
    keep = (table["quantity"] == "prefill_time") & (table["model"] == "Llama-3-8B") & (table["accelerator"] != "MI300X")
    assert keep.sum() == 4
    for name, measured_time in zip(table["accelerator"][keep].tolist(), table["value"][keep], strict=True):
        predicted = CalibratedStep(accelerator=name, model="Llama-3-8B")(reading(*[1024] * 16))
        assert 1.0 < measured_time / predicted < 1.25


def test_attention_makes_a_prompt_of_twice_the_tokens_more_than_twice_as_long():
    one, two, far = (H100(reading(tokens)) for tokens in (4000, 8000, 16_000))
    assert 2 * one < two
    assert two / one < far / two


def test_a_chunk_that_attends_to_what_was_read_before_takes_longer():
    first = H100(StepLoad(0, 0, 512, 512 * 513 / 2, ((512, 0),)))
    later = H100(StepLoad(0, 0, 512, 512 * 8000 + 512 * 513 / 2, ((512, 8000),)))
    assert first < later < 2 * first


def test_beside_decoding_a_small_prompt_is_nearly_free_and_a_large_one_is_not():
    """Arithmetic hides behind the weights as long as there is little of it."""
    alone = H100(StepLoad(16, 16_000, 0, 0.0, ()))
    small = H100(StepLoad(16, 16_000, 16, 136.0, ((16, 0),)))
    large = H100(StepLoad(16, 16_000, 4096, 4096 * 4097 / 2, ((4096, 0),)))
    assert alone < small < 1.05 * alone
    assert large > 5 * alone


def test_beyond_the_table_the_time_grows_in_proportion():
    assert H100(StepLoad(0, 0, 32_768, 0.0, ((32_768, 0),))) == pytest.approx(
        2 * H100(StepLoad(0, 0, 16_384, 0.0, ((16_384, 0),))), rel=0.01
    )


def test_memory_for_caches_is_counted_in_tokens():
    """(0.9 x 80e9 B less 16.06e9 B of weights) over 131,072 B a token."""
    assert kv_tokens("H100 SXM", "Llama-3-8B") == int((0.9 * 80e9 - 2 * 8_030_261_248) / 131_072)


def test_what_nobody_measured_is_refused():
    with pytest.raises(ValueError, match="devices must be 1 or a group whose links were measured, got 3"):
        CalibratedStep(accelerator="H100 SXM", model="Llama-3-70B", devices=3)
    with pytest.raises(ValueError, match="model must attend to its whole context"):
        CalibratedStep(accelerator="H100 SXM", model="gpt-oss-20b")
    assert np.isfinite(GROUP(StepLoad(1, 100, 0, 0.0, ())))
