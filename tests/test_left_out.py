"""The fit finds what made the points, and a left-out model has no say in its own prediction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import calibration, layer_fit, layer_shape, layer_time, left_out
from lib.hardware import hardware
from lib.layer_fit import CANDIDATES, LAW, chosen
from lib.measured import table
from lib.model import model

STEPS = dict(table("decode_steps"))
H100 = chosen(STEPS, STEPS["accelerator"] == "H100 SXM")
SMALL = chosen(H100, (H100["batch_size"] <= 32) & (H100["context"] <= 1024))


def made_by(coefficients, points):
    """Return the points with times that follow the law exactly."""
    parts = {"linear_time": [], "attention_time": []}
    for name, parallel, batch, context in zip(
        *(points[c].tolist() for c in ("model", "tensor_parallel", "batch_size", "context")), strict=True
    ):
        one, how = model(name), {"tensor_parallel": int(parallel)}
        parts["linear_time"].append(
            one.layers * layer_time.linear_time(coefficients, hardware("H100 SXM"), one, batch, **how)
        )
        parts["attention_time"].append(one.layers * layer_time.attention_time(coefficients, one, batch, context, **how))
    return points | {name: np.array(times, float) for name, times in parts.items()}


def test_the_fit_finds_the_law_that_made_the_points():
    known = calibration.catalogue()["H100 SXM"]
    points = made_by(known, H100)
    again = layer_fit.fitted(points, LAW)
    times = layer_fit.layers_time(again, points)
    assert_allclose(times, points["linear_time"] + points["attention_time"], rtol=0.03)
    assert_allclose(again.arithmetic_efficiency, known.arithmetic_efficiency, rtol=0.02)


def test_a_simpler_form_has_no_say_about_what_it_leaves_out():
    plain = layer_fit.fitted(SMALL, CANDIDATES[0])
    assert plain.overhead_per_width == plain.small_matrix_loss == 0
    at = [plain.cache_time["grouped", 32e6, tokens] for tokens in layer_time.CONTEXTS]
    assert_allclose(at, at[0], rtol=1e-3)


def test_what_is_left_out_cannot_move_its_own_prediction():
    """Times of the left-out model, and those it shares, are made absurd: its prediction stays."""
    out = SMALL["model"] == "Llama-2-7B"
    spoiled = {name: column.copy() for name, column in SMALL.items()}
    for name in ("linear_time", "attention_time"):
        spoiled[name][out] *= 10
    honest = left_out.left_out_times(SMALL)[0]
    fooled = left_out.left_out_times(spoiled)[0]
    assert_allclose(fooled[out], honest[out])
    assert not np.allclose(fooled[~out], honest[~out])


def test_attention_that_another_model_shares_goes_out_too():
    """Qwen-72B over 8 devices has the 8 heads per device of Llama-2-7B over 4: one measurement, two rows."""
    out = H100["model"] == "Llama-2-7B"
    keep = left_out.without(H100, out)
    assert not keep[out].any()
    assert not keep[H100["model"] == "Qwen-72B"].any()
    assert keep[H100["model"] == "internlm-20b"].all() and keep[H100["model"] == "Llama-2-70B"].all()


def test_models_with_the_same_layers_go_out_together():
    assert left_out.shape_of("Llama-2-70B") == left_out.shape_of("Llama-3-70B") != left_out.shape_of("Qwen-72B")


def test_the_form_is_chosen_without_the_left_out_model():
    few = chosen(SMALL, SMALL["batch_size"] <= 4)
    _, names = left_out.left_out_times(few, CANDIDATES[:2])
    assert {*names} == {"Llama-2-70B", "Llama-2-7B", "internlm-20b", "Qwen-72B"}
    assert {*names.values()} <= {one.name for one in CANDIDATES[:2]}


def test_a_mean_of_accelerators_scales_large_caches_by_bandwidth_and_keeps_latency():
    known = {name: calibration.catalogue()[name] for name in ("A100 SXM 80GB",)}
    carried = layer_fit.carried_over(known, hardware("H100 SXM"))
    small, large = ("grouped", 0.25e6, 512.0), ("grouped", 256e6, 512.0)
    assert_allclose(carried.cache_time[small], known["A100 SXM 80GB"].cache_time[small])
    assert_allclose(carried.cache_time[large], known["A100 SXM 80GB"].cache_time[large] * 2039 / 3350)
    assert carried.weight_efficiency == pytest.approx(known["A100 SXM 80GB"].weight_efficiency)


def test_links_are_found_again():
    workers = np.repeat([2.0, 4.0, 8.0], 6)
    size = np.tile([1e4, 1e5, 1e6, 1e7, 3e7, 1e8], 3)
    latency = np.repeat([1e-5, 2e-5, 3e-5], 6)
    time = latency + 2 * (workers - 1) / workers * size / (0.7 * 4.5e11)
    found, part = layer_fit.fitted_links({"workers": workers, "message_bytes": size, "time": time}, 9e11)
    assert_allclose([*found.values()], [1e-5, 2e-5, 3e-5], rtol=1e-3)
    assert part == pytest.approx(0.7, rel=1e-3)


def test_points_of_two_accelerators_or_one_shape_are_refused():
    with pytest.raises(ValueError, match="points must be of one accelerator, got A100 SXM 80GB, H100 SXM"):
        layer_fit.fitted(
            chosen(STEPS, np.char.endswith(STEPS["accelerator"], "B") | (STEPS["accelerator"] == "H100 SXM")), LAW
        )
    with pytest.raises(ValueError, match="at least two layer shapes, got 1"):
        left_out.left_out_times(chosen(STEPS, STEPS["accelerator"] == "RTX 4090"))


def test_the_regimes_of_the_bound_split_the_points():
    loads = layer_shape.regime(
        layer_shape.bound(hardware("H100 SXM"), model("Llama-2-70B"), [1, 256], 128, tensor_parallel=4)
    )
    assert loads.tolist() == ["small batch", "knee"]
