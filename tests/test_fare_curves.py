"""What the figures of a batch's fare draw: the calibrated model, the measured steps, the medians by class."""

import re

import numpy as np
import pytest

from lib import fare_curves, layer_shape, memory
from lib.amortisation import CLASSES, engine_ratios, kernel_ratios, model_class
from lib.calibration import predict
from lib.footprint import Precision
from lib.hardware import hardware
from lib.measured import table
from lib.model import model
from lib.roofline import decode_step

A100, LLAMA = hardware("A100 SXM 80GB"), model("Llama-3-8B")
PUBLISHED = dict(zip(table("published_results")["id"], table("published_results")["value"], strict=True))


def test_a_curve_starts_at_one_and_ends_where_memory_is_full():
    lines, points, fares = fare_curves.by_context(A100, LLAMA, (128, 8192, 32768))
    assert [*lines] == ["128 tokens", "8,192 tokens", "32,768 tokens"]
    for tokens, (*_, sizes, fare) in zip((128, 8192, 32768), lines.values(), strict=True):
        assert fare[0] == 1
        assert sizes[-1] == min(memory.largest_batch(A100, LLAMA, tokens), 1024)
    made = predict(A100.name, LLAMA.name, [1, 32], 8192).calibrated
    at, fare = lines["8,192 tokens"][2:]
    assert np.interp(32, at, fare) == pytest.approx(made[1] / made[0] / 32, rel=0.02)
    assert [*points] == ["measured, 128", "measured, 8,192"], "nobody measured 32,768"
    assert fares[128][1] == 1
    assert fares[8192][32] > fares[128][32] > 1 / 32


def test_a_measured_fare_is_the_share_of_a_step_over_a_step_alone():
    """Read from the table by hand: the step of 32 over that of 1, over 32."""
    steps = table("decode_steps")
    here = (steps["accelerator"] == A100.name) & (steps["model"] == LLAMA.name) & (steps["tensor_parallel"] == 1)
    here &= steps["context"] == 2048
    alone, many = (steps["time"][here & (steps["batch_size"] == size)][0] for size in (1, 32))
    at, fare = fare_curves.measured_fares(A100.name, LLAMA.name, 2048)
    assert fare[at == 32] == pytest.approx(many / alone / 32)
    assert at.size == np.count_nonzero(here)


def test_a_cell_is_the_median_fall_of_its_class_and_its_number():
    found = kernel_ratios(32)
    mine = np.array([model_class(name) == CLASSES[0] for name in found["model"].tolist()]) & (found["context"] == 512)
    cell = fare_curves.kernel_table(32, (512,))["512"][0]
    assert cell == f"1/{round(np.median(found['fall'][mine]))} ({mine.sum()})"


def test_what_does_not_fit_in_memory_is_in_the_last_row_alone():
    found = engine_ratios(32)
    here, fits = found["input_tokens"] == 512, found["fits"] == "yes"
    counts = [re.search(r"\((\d+)\)$", cell) for cell in fare_curves.engine_table(32, (512,))["512"]]
    assert [int(one[1]) if one else 0 for one in counts] == [
        *(sum(model_class(name) == kind for name in found["model"][here & fits]) for kind in CLASSES),
        np.count_nonzero(here & ~fits),
    ]


def test_a_key_head_each_costs_more_than_shared_ones():
    lines, points, fares = fare_curves.by_key_heads(A100, ("Llama-2-7B", "Llama-3-8B"), 2048)
    assert [*lines] == ["Llama-2-7B, 32 key heads", "Llama-3-8B, 8 key heads"]
    assert [meaning for meaning, *_ in lines.values()] == ["cache", "weights"], "the last is the main one"
    assert fares["Llama-2-7B"][32] > 1.5 * fares["Llama-3-8B"][32]
    assert dict(zip(*points["measured, Llama-3-8B"], strict=True)) == fares["Llama-3-8B"]


@pytest.mark.parametrize(
    ("made", "found", "column"),
    [(fare_curves.kernel_table, kernel_ratios(32), "context"),
     (fare_curves.engine_table, engine_ratios(32), "input_tokens")],
)  # fmt: skip
def test_every_case_at_a_length_is_counted_once(made, found, column):
    head, *lengths = made(32, (128, 512)).items()
    assert head[1][: len(CLASSES)] == (CLASSES if made is fare_curves.kernel_table else [*CLASSES])
    for tokens, (_, cells) in zip((128, 512), lengths, strict=True):
        counted = sum(int(match[1]) for cell in cells if (match := re.search(r"\((\d+)\)$", cell)))
        assert counted == np.count_nonzero(found[column] == tokens)


def test_the_fewer_bits_the_further_above_the_bound():
    rows, achieved = fare_curves.weight_bits(A100, PUBLISHED)
    mine = [ratio for name, ratio in zip(rows["names"], rows["ratios"], strict=True) if name.startswith("Llama-2-7B")]
    assert mine == sorted(mine)
    bound = decode_step(A100, model("Llama-2-7B"), 1, 0, precision=Precision(weights="int8")).time
    assert mine[1] == pytest.approx(1 / PUBLISHED["gptfast-7b-int8-rate"] / float(bound))
    assert achieved["7b", "bf16"] == pytest.approx(1397e9 / A100.bandwidth, rel=1e-3)


def test_devices_are_slower_than_ideal_and_slower_still_with_their_links():
    found = fare_curves.by_devices(A100, LLAMA, 32, 1024)
    devices, bound = found["bound"]
    assert devices.tolist() == [1, 2, 4, 8]
    assert np.all(bound < found["kernels"][1])
    assert found["linked"][1][0] == found["kernels"][1][0], "one device has nobody to talk to"
    assert np.all(found["linked"][1][1:] > found["kernels"][1][1:])
    assert np.all(np.diff(found["measured"][1]) < 0)
    steps = table("decode_steps")
    here = (steps["accelerator"] == A100.name) & (steps["model"] == LLAMA.name) & (steps["tensor_parallel"] == 4)
    (time,) = steps["time"][here & (steps["batch_size"] == 32) & (steps["context"] == 1024)]
    assert dict(zip(*found["measured"], strict=True))[4] == time
    four = predict(A100.name, LLAMA.name, 32, 1024, tensor_parallel=4)
    times = [found[name][1][2] for name in ("bound", "kernels", "linked")]
    ideal = layer_shape.bound(A100, LLAMA, 32, 1024, tensor_parallel=4).time
    assert times == pytest.approx([float(ideal), float(four.calibrated), float(four.calibrated + four.all_reduce)])
