"""The protocol on a bench that is made up, then once in earnest; and what goes wrong before and during a run."""

import contextlib
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from lib import bench, measurement, records
from lib.llama import stand_in
from lib.model import model

QUICK = ["--quiet", "--batch", "1", "4", "16", "--context", "16", "64", "--seconds", "0.1", "--threads", "1"]


class MadeUp:
    """A bench whose steps take a known time."""

    linear, amounts = "packed", {"matrix_multiply": 1e9}
    slow = ()
    stop_after = np.inf

    def __init__(self, model, settings, points, *, product_flop=None):
        self.product_flop = product_flop

    def step_time(self, batch_size, context):
        return 10.0 if (batch_size, context) in self.slow else 1e-4

    def visit(self, batch_size, context):
        if len(self.visited) >= self.stop_after:
            raise KeyboardInterrupt
        self.visited.append((batch_size, context))
        seconds = 1e-3 * batch_size + 1e-6 * context
        bandwidths = {"read": [4e10, 4e10], "copy": [3e10, 3e10], "matrix_vector": [3e10, 3e10]}
        return {"time": [seconds] * 2} | bandwidths | {"matrix_multiply": [1e11, 1e11]}


@pytest.fixture
def made_up(monkeypatch):
    fake = type("Fake", (MadeUp,), {"visited": []})
    monkeypatch.setattr(bench, "Bench", fake)
    return fake


def command(tmp_path, *more):
    return [*QUICK, "--output", str(tmp_path / "r.json"), *more]


def test_every_round_visits_every_point_in_a_new_order(tmp_path, made_up):
    assert measurement.main(command(tmp_path)) == 0
    rounds = np.array(made_up.visited).reshape(-1, 6, 2)
    assert len(rounds) >= records.LEAST_VISITS
    orders = [[*map(tuple, one)] for one in rounds.tolist()]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    run = records.run(tmp_path / "r.json")
    assert run.visits.tolist() == [len(rounds)] * 6
    assert run.content["complete"]


def test_a_run_that_is_stopped_keeps_its_rounds_and_goes_on(tmp_path, made_up, capsys):
    made_up.stop_after = 15
    assert measurement.main(command(tmp_path)) == 130
    assert "the same command goes on" in capsys.readouterr().err
    kept = records.content_of(tmp_path / "r.part.json")
    assert [len(point["visits"]) for point in kept["points"]] == [2] * 6
    assert not (tmp_path / "r.json").exists()
    made_up.stop_after = np.inf
    assert measurement.main(command(tmp_path)) == 0
    run = records.run(tmp_path / "r.json")
    assert {visit["round"] for visit in run.content["points"][0]["visits"]} == set(range(run.visits[0]))
    assert run.content["points"][0]["visits"][:2] == kept["points"][0]["visits"]
    assert not (tmp_path / "r.part.json").exists()


def test_an_unfinished_run_with_other_settings_is_not_thrown_away(tmp_path, made_up, capsys):
    made_up.stop_after = 15
    measurement.main(command(tmp_path))
    assert measurement.main(command(tmp_path, "--dtype", "bf16")) == 2
    assert "output must hold no unfinished run with other settings" in capsys.readouterr().err
    assert (tmp_path / "r.part.json").exists()


def test_points_that_would_take_all_the_time_are_left_out_and_named(tmp_path, made_up, capsys):
    made_up.slow = {(4, 64)}
    assert measurement.main(command(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "left out: batch 4, context 64: a step takes 10.0" in said
    assert "left out: batch 16, context 64: a smaller point was too slow" in said
    run = records.run(tmp_path / "r.json")
    assert sorted(zip(run.batch_size, run.context, strict=True)) == [(1, 16), (1, 64), (4, 16), (16, 16)]
    assert len(run.content["left_out"]) == 2


def test_points_that_do_not_fit_in_memory_are_left_out_and_named(monkeypatch):
    """Llama-3-8B / 4 in fp32: 16,384 B of cache a token, so 64 sequences of 4,096 need 4.29 GB."""
    monkeypatch.setattr(bench.machine, "free_memory", lambda: 4e9)
    plan = measurement.plan()
    points, left_out = measurement._fitting(plan, 1e9 / 3, 4e9)
    assert (64, 1024) in points
    assert [(one["batch_size"], one["context"]) for one in left_out] == [(32, 4096), (64, 4096)]
    assert left_out[1]["because"].startswith("its cache needs 4.29\N{NO-BREAK SPACE}GB")


def test_too_little_memory_is_an_error_before_the_work_starts(tmp_path, made_up, monkeypatch, capsys):
    monkeypatch.setattr(bench.machine, "free_memory", lambda: 5e8)
    assert measurement.main(command(tmp_path)) == 2
    assert "free memory must be 2." in (said := capsys.readouterr().err)
    assert "got 0.5 GB; a larger divisor needs less" in said
    assert not made_up.visited
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "device must be cpu where torch finds no CUDA, got 'cuda'"),
        (["--device", "tpu"], "device must be one of cpu, cuda, got 'tpu'"),
        (["--dtype", "fp16"], "dtype must be one of fp32, bf16, got 'fp16'"),
        (["--model", "Llama-3-9B"], "name must be one of"),
        (["--batch", "0"], "batch_sizes must be at least 1, got 0"),
        (["--seconds", "nan"], "seconds must be a number, got nan"),
        (["--threads", "0"], "threads must be at least 1, got 0"),
        (["--output", "record.txt"], "output must end in .json, got record.txt"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(options, message, made_up, capsys, tmp_path):
    assert measurement.main(command(tmp_path, *options)) == 2
    assert f"measurement: {message}" in capsys.readouterr().err
    assert not made_up.visited


def test_packing_that_this_machine_cannot_do_is_refused(monkeypatch, capsys, tmp_path, made_up):
    monkeypatch.setattr(bench.decode, "packs", lambda *_: False)
    assert measurement.main(command(tmp_path, "--linear", "packed")) == 2
    assert "linear must be auto or plain for fp32 on this cpu, got 'packed'" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_refused_before_the_work_starts(tmp_path, made_up, capsys):
    (tmp_path / "file").write_text("")
    assert measurement.main([*QUICK, "--output", str(tmp_path / "file" / "r.json")]) == 2
    assert "output must be a place that can be written" in capsys.readouterr().err
    assert not made_up.visited


def test_a_full_disk_is_refused_before_the_work_starts(tmp_path, made_up, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    assert measurement.main(command(tmp_path)) == 2
    assert "output must have 50 MB of free disk, got 1 MB" in capsys.readouterr().err
    assert not made_up.visited


def test_a_disk_that_fills_during_the_run_leaves_the_last_good_record(tmp_path, made_up, monkeypatch, capsys):
    write, calls = records.write, []

    def fills(path, content):
        calls.append(path)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(records, "write", fills)
    assert measurement.main(command(tmp_path)) == 1
    assert "No space left on device; the last good one is kept" in capsys.readouterr().err
    kept = records.content_of(tmp_path / "r.part.json")
    assert [len(point["visits"]) for point in kept["points"]] == [2] * 6


def test_the_record_is_named_after_what_is_unusual():
    assert measurement.plan().output == records.FOLDER / "local.json"
    assert measurement.plan(dtype="bf16").output == records.FOLDER / "local-bf16.json"


def test_the_plan_for_a_gpu_is_the_real_shape(monkeypatch):
    monkeypatch.setattr(bench, "refuse", lambda *_: None)
    plan = measurement.plan(device="cuda")
    assert plan.model is model("Llama-3-8B")
    assert (plan.dtype, max(plan.batch_sizes), max(plan.contexts)) == ("bf16", 256, 32_768)
    assert plan.seconds < 8 * 60
    assert plan.output.name == "local-cuda.json"
    points, left_out = measurement._fitting(plan, 5e8, 80e9)
    assert (256, 512) in points
    assert (256, 2048) not in points, "68.7 GB of cache beside 16 GB of weights in 80 GB"
    assert len(points) + len(left_out) == 45


# --- the GPU's way of timing, on a CUDA that is made up ----------------------------------------


class FakeCuda:
    """A stream that takes 3 ms a call and forgets to wait."""

    def __init__(self, captures=True):
        self.now, self.synchronised, self.captures, self.replays = 0.0, False, captures, 0

    def Event(self, enable_timing):
        cuda, mark = self, SimpleNamespace(at=None)
        mark.record = lambda: setattr(mark, "at", cuda.now)

        def elapsed_time(other):
            assert cuda.synchronised, "read before the work was done"
            return 1e3 * (other.at - mark.at)

        mark.elapsed_time = elapsed_time
        return mark

    def synchronize(self):
        self.synchronised = True

    def work(self):
        self.now += 3e-3

    class _Stream:
        def wait_stream(self, other):
            pass

    def Stream(self):
        return self._Stream()

    def current_stream(self):
        return self._Stream()

    def stream(self, _):
        return self.graph(None)

    def CUDAGraph(self):
        return SimpleNamespace(replay=lambda: setattr(self, "replays", self.replays + 1))

    def graph(self, made):
        @contextlib.contextmanager
        def entered():
            if made is not None and not self.captures:
                raise RuntimeError("operation not permitted when stream is capturing")
            yield

        return entered()


def test_gpu_times_come_from_events_that_were_waited_for():
    cuda = FakeCuda()
    assert bench._seconds_by_events(cuda.work, 4, cuda) == pytest.approx([3e-3] * 4)


def test_a_step_is_captured_once_and_replayed():
    cuda, ran = FakeCuda(), []
    replay = bench._captured(lambda: ran.append(1), cuda)
    replay()
    assert (len(ran), cuda.replays) == (2, 1)


def test_a_step_that_cannot_be_captured_runs_as_it_is():
    cuda, ran = FakeCuda(captures=False), []
    bench._captured(lambda: ran.append(1), cuda)()
    assert (len(ran), cuda.replays) == (2, 0)


# --- in earnest --------------------------------------------------------------------------------


def test_a_real_and_tiny_measurement_runs_from_end_to_end(tmp_path, monkeypatch, capsys):
    """The command itself, with a model of 6 million parameters and ceilings over 16 MB instead of ten caches."""
    monkeypatch.setattr(measurement, "TIMES_LAST_CACHE", 0)
    monkeypatch.setattr(measurement, "LEAST_WORKING_SET", 16 * 2**20)
    options = ["--divisor", "16", "--batch", "1", "4", "--context", "16", "64", "--seconds", "1", "--threads", "1"]
    assert measurement.main(["--quiet", *options, "--output", str(tmp_path / "local.json")]) == 0
    said = capsys.readouterr().out
    assert "state: " in said
    content = json.loads((tmp_path / "local.json").read_text())
    assert content["settings"]["linear"] == ("packed" if bench.decode.packs("fp32") else "plain")
    assert content["versions"]["torch"] == bench.torch.__version__
    run = records.run(tmp_path / "local.json")
    assert run.model.layers == stand_in(model("Llama-3-8B"), 16).layers
    assert run.visits.min() >= records.LEAST_VISITS
    assert (run.time > 0).all()
    visit = content["points"][0]["visits"][0]
    assert {*visit} == {"round", "time", *records.CEILINGS}
    assert run.content["command"].startswith("python -m lib.measurement --model Llama-3-8B --divisor 16")
    assert [*records.own(tmp_path)] == ["local"]


def test_the_ceilings_count_what_they_move_and_the_step_attends_to_its_context(monkeypatch):
    """16 MiB read, twice that copied, a matrix of 64 MiB, and 2 x 64 x 2,048^2 FLOP in a product of 64 rows."""
    settings = {"dtype": "fp32", "device": "cpu", "linear": "auto", "threads": 1, "working_set": 16 * 2**20}
    tiny = stand_in(model("Llama-3-8B"), 64)
    made = bench.Bench(tiny, settings, [(2, 8), (1, 16)], product_flop=2 * 64 * 2048**2)
    assert made.amounts == {
        "read": 2.0**24, "copy": 2.0**25, "matrix_vector": 4.0 * 8192 * 2048, "matrix_multiply": 2.0 * 64 * 2048**2,
    }  # fmt: skip
    forward, held = bench.decode.forward, []

    def watched(decoder, cache, tokens):
        held.append((tokens.shape, [*cache.filled]))
        return forward(decoder, cache, tokens)

    monkeypatch.setattr(bench.decode, "forward", watched)
    step = made.step(2, 8)
    step()
    step()
    assert held == [((2, 1), [7, 7])] * 2
