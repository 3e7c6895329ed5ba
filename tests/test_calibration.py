"""The committed calibration: what it promises, that it follows from the measurements, and its command."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import calibration, layer_fit, layer_shape, left_out
from lib.calibration import OTHERS, predict
from lib.hardware import catalogue as machines
from lib.hardware import hardware
from lib.layer_fit import LAW, chosen
from lib.layer_time import all_reduce_time, head_time
from lib.measured import table
from lib.model import model
from scripts import fit_calibrations as script

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "tests" / "data" / "configurations.csv"
STEPS, MISSED = dict(table("decode_steps")), calibration.left_out()
LARGE = ("A100 SXM 80GB", "H100 SXM")


def error(**where):
    known = calibration.errors()
    rows = np.all([known[name] == value for name, value in ({"group": "all", "regime": "all"} | where).items()], axis=0)
    assert rows.sum() == 1
    return {name: column[rows][0] for name, column in known.items()}


@pytest.mark.parametrize("accelerator", LARGE)
@pytest.mark.parametrize("left_out", ["model", "model, shared attention known", "model: form chosen inside each round"])
def test_a_left_out_model_is_predicted_to_three_per_cent(accelerator, left_out):
    """The aim: a median of 3 % and nine in ten within 10 %, with the whole model out, however strictly."""
    missed = error(accelerator=accelerator, left_out=left_out)
    assert missed["absolute"] <= 0.03
    assert missed["p90"] <= 0.10
    assert abs(missed["signed"]) <= 0.01


def test_the_hard_case_is_below_a_quick_fit():
    """A quick fit erred by 8.6 % (A100) and 7.0 % (H100) on Llama-2-7B left out."""
    for accelerator, quick in zip(LARGE, (0.086, 0.070), strict=True):
        assert error(accelerator=accelerator, left_out="model", group="Llama-2-7B")["absolute"] < 0.65 * quick


def test_no_measured_step_beats_its_bound():
    for name, one, parallel in {*zip(*(STEPS[key].tolist() for key in script.KEYS[:3]), strict=True)}:
        here = np.all(
            [STEPS[key] == value for key, value in zip(script.KEYS, (name, one, parallel), strict=False)], axis=0
        )
        batch, context = STEPS["batch_size"][here], STEPS["context"][here]
        bound = layer_shape.bound(hardware(name), model(one), batch, context, tensor_parallel=parallel)
        assert (STEPS["time"][here] > bound.time).all()


def test_attention_alone_beats_the_datasheet_only_where_a_profile_reads_from_the_chip():
    """TensorRT-LLM at contexts up to 512 tokens, and the RTX 4090 at batch 1: explained in the chapter."""
    beaten = set()
    for name, one, parallel, kernel, batch, context, time in zip(
        *(STEPS[key].tolist() for key in (*script.KEYS[:3], "attention", "batch_size", "context", "attention_time")),
        strict=True,
    ):
        read = layer_shape.cache_read(model(one), batch, context, int(parallel)) * model(one).layers
        if time < read / hardware(name).bandwidth:
            beaten.add((kernel.split()[0], context <= 512))
    assert beaten == {("TensorRT-LLM", True), ("vLLM", False)}


@pytest.mark.parametrize("accelerator", ["H100 SXM", "RTX 4090"])
def test_the_committed_coefficients_follow_from_the_committed_steps(accelerator):
    points = chosen(STEPS, STEPS["accelerator"] == accelerator)
    again, committed = layer_fit.fitted(points, LAW), calibration.catalogue()[accelerator]
    assert_allclose(layer_fit.layers_time(again, points), layer_fit.layers_time(committed, points), rtol=5e-3)


def test_the_committed_predictions_are_of_points_left_out():
    points = chosen(STEPS, STEPS["accelerator"] == "H100 SXM")
    committed = MISSED["predicted"][MISSED["accelerator"] == "H100 SXM"]
    assert_allclose(left_out.left_out_times(points)[0], committed, rtol=5e-3)


def test_the_committed_errors_follow_from_the_committed_predictions():
    with (ROOT / "lib" / "data" / "left_out.csv").open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    again = script.text_of(script.error_rows(rows, nested=False)).splitlines()
    committed = (ROOT / "lib" / "data" / "calibration_errors.csv").read_text(encoding="utf-8").splitlines()
    rivals = ("model:", '"model:', '"model,')
    assert again == [line for line in committed if not line.split(",", 1)[1].startswith(rivals)]


def test_every_measured_step_has_a_prediction_without_its_model():
    assert len(MISSED["time"]) == len(STEPS["time"])
    for name in script.KEYS:
        assert (MISSED[name] == STEPS[name]).all()
    assert_allclose(MISSED["time"], STEPS["time"], rtol=1e-5)


@pytest.mark.parametrize("accelerator", LARGE)
def test_nine_tenths_of_the_steps_of_a_model_lie_in_the_range_of_the_others(accelerator):
    """The range of each model is taken from the other models alone; it must hold nearly what it promises."""
    here = MISSED["accelerator"] == accelerator
    ratio = MISSED["time"] / MISSED["predicted"]
    inside = []
    for name in dict.fromkeys(MISSED["model"][here].tolist()):
        for load in layer_shape.REGIMES:
            mine = here & (MISSED["regime"] == load) & (MISSED["model"] == name)
            others = here & (MISSED["regime"] == load) & (MISSED["model"] != name)
            if mine.any() and others.sum() >= 20:
                low, high = np.quantile(ratio[others], [0.05, 0.95])
                inside += [*((ratio[mine] >= low) & (ratio[mine] <= high))]
    assert np.mean(inside) > 0.75


def test_kinds_of_links_take_the_time_they_were_measured_to_take():
    """Half of the all-reduces within 15 %: the measured times jump between two levels below 1 MB."""
    links = table("all_reduce")
    for accelerator in LARGE:
        here = (links["accelerator"] == accelerator) & (links["message_bytes"] > 2e6)
        times = [
            float(all_reduce_time(calibration.catalogue()[accelerator], hardware(accelerator), size, int(workers)))
            for size, workers in zip(links["message_bytes"][here], links["workers"][here], strict=True)
        ]
        assert np.median(np.abs(np.array(times) / links["time"][here] - 1)) < 0.15


def test_the_output_head_was_not_fitted_and_is_met_to_ten_per_cent():
    for accelerator in ("RTX 4090", "RTX PRO 6000 Blackwell Server"):
        here = STEPS["accelerator"] == accelerator
        times = head_time(
            calibration.catalogue()[accelerator], hardware(accelerator), model("Llama-3-8B"), STEPS["batch_size"][here]
        )
        assert abs(np.median(times / STEPS["head_time"][here]) - 1) < 0.10


def test_an_accelerator_that_nobody_measured_gets_a_wider_range():
    known, unknown = predict("H100 SXM", "Llama-3-8B", 8, 1024), predict("H200 SXM", "Llama-3-8B", 8, 1024)
    assert (known.calibrated_on, unknown.calibrated_on) == ("H100 SXM", OTHERS)
    assert unknown.high / unknown.low > 1.3 * known.high / known.low


@pytest.mark.parametrize("accelerator", [*machines()])
def test_every_accelerator_of_the_catalogue_gets_a_prediction_above_its_bound(accelerator):
    made = predict(accelerator, "Llama-2-7B", [1, 32, 256], [128, 2048, 512])
    assert (made.bound <= made.low).all()
    assert (made.low <= made.calibrated).all() and (made.calibrated < made.high).all()


def test_a_13b_model_on_an_a100_of_40_gb_takes_what_was_published():
    """chen2022arithmetic: 22.0 ms at context 512; ideal 16.2 ms at 1.555e12 B/s. Coefficients: the mean of others."""
    made = predict("A100 SXM 40GB", "Llama-2-13B", 1, 512)
    assert made.low + made.output_head < 22.0e-3 < made.high + made.output_head
    assert made.bound + made.output_head < 22.0e-3


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "lib.calibration", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_adds_a_prediction_to_each_row():
    done = run("predict", str(EXAMPLE))
    rows = [*csv.DictReader(done.stdout.splitlines())]
    assert done.returncode == 0 and len(rows) == 5
    assert rows[0]["note"] == "ours"
    made = predict("H100 SXM", "Llama-3-8B", 32, 1024)
    assert float(rows[0]["calibrated"]) == pytest.approx(float(made.calibrated), rel=1e-5)
    assert all(float(row["bound"]) < float(row["low"]) < float(row["calibrated"]) < float(row["high"]) for row in rows)


@pytest.mark.parametrize(("line", "message"), [
    ("H100,Llama-3-8B,1,32,1024", "line 2: accelerator must be one of .*H100 SXM.*, got 'H100'"),
    ("H100 SXM,Llama-8B,1,32,1024", "line 2: model must be one of .*, got 'Llama-8B'"),
    ("H100 SXM,Llama-3-8B,1,0,1024", "line 2: batch_size must be at least 1, got 0"),
    ("H100 SXM,Llama-3-8B,1,,1024", "line 2: batch_size must be a number, got ''"),
    ("H100 SXM,Llama-3-8B,3,1,1024", "line 2: tensor_parallel must divide the 32 query heads of Llama-3-8B, got 3"),
    ("H100 SXM,Llama-3-8B,1,1,-1", "line 2: context must be at least 0, got -1"),
    ("H100 SXM,DeepSeek-V3,8,1,1024", "line 2: model must cache keys and values by head"),
])  # fmt: skip
def test_a_bad_row_is_named_by_its_line(tmp_path, capsys, line, message):
    file = tmp_path / "mine.csv"
    file.write_text("accelerator,model,tensor_parallel,batch_size,context\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="mine.csv " + message):
        calibration.predictions_for(file)
    assert calibration.main(["predict", str(file)]) == 2
    assert "mine.csv line 2" in capsys.readouterr().err


def test_a_missing_column_or_file_is_named(tmp_path, capsys):
    file = tmp_path / "mine.csv"
    file.write_text("accelerator,model\nH100 SXM,Llama-3-8B\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"line 1: columns must include .*, got none for tensor_parallel, batch_size, context"
    ):
        calibration.predictions_for(file)
    file.write_text("accelerator,model,tensor_parallel,batch_size,context\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold a configuration below its header, got none"):
        calibration.predictions_for(file)
    assert calibration.main(["predict", str(tmp_path / "none.csv")]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_the_result_can_be_written_to_a_file(tmp_path):
    out = tmp_path / "out.csv"
    assert calibration.main(["predict", str(EXAMPLE), "--output", str(out)]) == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 6
