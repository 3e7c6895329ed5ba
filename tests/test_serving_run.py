"""The command on a bus that is made up, then once in earnest; and what goes wrong before and during a run."""

import json
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import bench, boarding, serving_records, serving_run
from lib import bus as torch_bus
from lib.boarding import POLICIES
from tests.served import SERVED
from tests.test_boarding import timetable

QUICK = ["--quiet", "--slots", "2", "4", "--requests", "16", "--mean", "6", "--longest", "40", "--rounds", "2",
         "--threads", "1"]  # fmt: skip


class MadeUp(boarding.Timetable):
    """A bus whose steps take a known time: 1 s, and 0.1 s for each slot; a prompt 0.5 s."""

    stop_after, began, slower = np.inf, 0, 1.0

    def __init__(self):
        super().__init__(timetable(marginal=0.1, boarding_time=0.5, context=0.001, prompt=8).times)
        self.decoder = type("Decoder", (), {"linear": "packed"})

    def start(self, share, *, seed=0):
        type(self).began += 1
        if self.began > self.stop_after:
            raise KeyboardInterrupt
        self.now, self.filled, self.probes = 0.0, [], []

    def board(self, count):
        before = self.now
        self.probes.append((count, 0, self.slower * (super().board(count) - before)))
        return self.now

    def step(self):
        before, size, longest = self.now, len(self.filled), max(self.filled) + 1
        self.probes.append((size, longest, self.slower * (super().step() - before)))
        return self.now

    def step_time(self, size):
        return 1.5 * size


@pytest.fixture
def made_up(monkeypatch):
    fake = type("Fake", (MadeUp,), {"began": 0})
    monkeypatch.setattr(torch_bus, "bus", lambda *_, **__: fake())
    return fake


def command(tmp_path, *more):
    return [*QUICK, "--output", str(tmp_path / "r.json"), *more]


def test_every_round_serves_every_case_in_a_new_order(tmp_path, made_up, capsys):
    assert serving_run.main(command(tmp_path)) == 0
    record = serving_records.record(tmp_path / "r.json")
    assert record.content["complete"]
    told = [(run.round, run.policy, run.slots, run.load) for run in record.runs]
    rounds = [[one[1:] for one in told if one[0] == at] for at in range(2)]
    assert [len(one) for one in rounds] == [9, 9]
    assert rounds[0] != rounds[1]
    assert sorted(rounds[0]) == sorted(rounds[1])
    assert {slots for _, slots, load in rounds[0] if load} == {2}
    assert "continuous" in capsys.readouterr().out


def test_a_run_is_simulated_from_its_probes_alone(tmp_path, made_up):
    """The made-up bus keeps its timetable, so the replay meets it; its probes twice as long, and it takes twice."""
    serving_run.main(command(tmp_path))
    for run in serving_records.record(tmp_path / "r.json").runs:
        assert_allclose(serving_records.replayed(run).finish, run.ride.finish, rtol=0.03)
        assert_allclose(serving_records.simulated(run).finish, run.ride.finish, rtol=0.03)
        assert run.excess == pytest.approx(0, abs=0.01)
    content = json.loads((tmp_path / "r.json").read_text())
    for one in content["runs"]:
        one["probes"]["time"] = [2 * seconds for seconds in one["probes"]["time"]]
    for run in serving_records.summed_up("r", content).runs:
        assert run.excess == pytest.approx(-0.5, abs=0.01)
        if not run.load:
            twice = 2 * serving_records.makespan(run.ride)
            assert serving_records.makespan(serving_records.replayed(run)) == pytest.approx(twice, rel=0.02)


def test_step_times_are_means_of_neighbouring_sizes_and_one_slope():
    """By hand: 1 s + 0.1 s a slot + 1 ms a slot and token beyond the prompt of 4; boarding 2 s and 5 s."""
    size = [1] * 8 + [3] * 8 + [1, 2]
    longest = [5, 15] * 4 + [5, 25] * 4 + [0, 0]
    time = [1 + 0.1 * n + 1e-3 * n * (length - 4) for n, length in zip(size[:16], longest[:16], strict=True)] + [2, 5]
    times = serving_records.step_times(4, {"size": size, "longest": longest, "time": time}, 4)
    assert times.step_time(2, 14) == pytest.approx(1 + 0.2 + 0.02)
    assert times.step_time(3, 25) == pytest.approx(1.3 + 0.063)
    assert times.step_time(4, 4) == pytest.approx(1.3)
    assert (times.boarding_time(1), times.boarding_time(2)) == (2, 5)
    one_size = {"size": [2] * 4 + [2], "longest": [5, 5, 6, 6, 0], "time": [3.0, 1.0, 3.0, 1.0, 0.5]}
    assert serving_records.step_times(4, one_size, 2).step_time(1, 9) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="probes must be of steps and of boardings, got 1 steps of 1"):
        serving_records.step_times(4, {"size": [1], "longest": [5], "time": [1.0]}, 2)


def test_a_load_is_offered_tokens_over_those_of_all_slots(tmp_path, made_up):
    """Two slots in steps of 3 s: 2 over 3 times the mean length; arrivals as drawn, at that rate."""
    serving_run.main(command(tmp_path))
    content = json.loads((tmp_path / "r.json").read_text())
    mean = np.mean(content["requests"]["output_length"])
    assert content["settings"]["rates"]["0.6"] == pytest.approx(0.6 * 2 / (3 * mean), rel=1e-3)
    run = next(one for one in serving_records.record(tmp_path / "r.json").runs if one.load == 0.6)
    unit = np.array(content["requests"]["unit_arrival_time"])
    assert_allclose(run.arrival_time, unit / content["settings"]["rates"]["0.6"], atol=1e-5)


def test_lengths_vary_as_asked_and_a_seed_gives_the_same(tmp_path, made_up):
    plan = serving_run.plan(slots=(2,))
    lengths = np.array(serving_run._requests(plan)["output_length"])
    assert lengths.std() / lengths.mean() > 0.8
    assert lengths.mean() == pytest.approx(20, rel=0.05)
    assert serving_run._requests(plan) == serving_run._requests(serving_run.plan(slots=(2,)))
    assert serving_run._requests(plan) != serving_run._requests(serving_run.plan(slots=(2,), seed=1))


def test_out_of_time_it_stops_and_the_same_command_goes_on(tmp_path, made_up, capsys):
    assert serving_run.main(command(tmp_path, "--seconds", "1e-9")) == 0
    assert "0 of 18 runs are done; the same command goes on" in capsys.readouterr().out
    made_up.stop_after = made_up.began + 7
    assert serving_run.main(command(tmp_path)) == 130
    kept = serving_records.content_of(tmp_path / "r.part.json")
    assert 0 < len(kept["runs"]) < 18
    made_up.stop_after = np.inf
    assert serving_run.main(command(tmp_path)) == 0
    whole = serving_records.content_of(tmp_path / "r.json")
    assert whole["runs"][: len(kept["runs"])] == kept["runs"]
    assert len(whole["runs"]) == 18
    assert not (tmp_path / "r.part.json").exists()


def test_an_unfinished_run_with_other_settings_is_not_thrown_away(tmp_path, made_up, capsys):
    serving_run.main(command(tmp_path, "--seconds", "1e-9"))
    assert serving_run.main(command(tmp_path, "--seed", "1")) == 2
    assert "output must hold no unfinished run with other settings" in capsys.readouterr().err


def test_a_disk_that_fills_leaves_the_last_good_record(tmp_path, made_up, monkeypatch, capsys):
    write, calls = serving_records.write, []

    def fills(path, content):
        calls.append(path)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(serving_records, "write", fills)
    assert serving_run.main(command(tmp_path)) == 1
    assert "No space left on device; the last good one is kept" in capsys.readouterr().err
    assert len(serving_records.content_of(tmp_path / "r.part.json")["runs"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policies", "greedy"], "policies must be one of padded, early exit, continuous, got 'greedy'"),
        (["--slots", "0"], "slots must be at least 1, got 0"),
        (["--dtype", "fp16"], "dtype must be one of fp32, bf16, got 'fp16'"),
        (["--model", "Llama-3-9B"], "name must be one of"),
        (["--loads", "half"], "loads must be numbers or none, got 'half'"),
        (["--loads", "0"], "loads must be above 0, got 0"),
        (["--requests", "1"], "requests must be at least 2, got 1"),
        (["--mean", "50"], "mean must be at most 40, got 50"),
        (["--longest", "8"], "output lengths must vary by 0.8 of their mean"),
        (["--divisor", "64"], "weights must be at least 10 times the last cache"),
        (["--output", "r.txt"], "output must end in .json, got r.txt"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(options, message, made_up, tmp_path, capsys):
    assert serving_run.main(command(tmp_path, *options)) == 2
    assert f"serving: {message}" in capsys.readouterr().err
    assert not made_up.began


def test_too_little_memory_and_a_place_that_cannot_be_written_are_refused_first(tmp_path, made_up, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    assert serving_run.main([*QUICK, "--output", str(tmp_path / "file" / "r.json")]) == 2
    assert "output must be a place that can be written" in capsys.readouterr().err
    monkeypatch.setattr(bench.machine, "free_memory", lambda: 5e8)
    assert serving_run.main(command(tmp_path)) == 2
    assert "free memory must be 0.8 GB" in capsys.readouterr().err
    assert not made_up.began


def test_few_slots_are_probed_less_often():
    assert [serving_run._probe_share(slots) for slots in (4, 8, 16, 32)] == [0.25, 0.5, 1, 1]


def test_some_policies_alone_may_be_served(tmp_path, made_up):
    serving_run.main(command(tmp_path, "--policies", "padded", "--loads", "none"))
    assert {run.policy for run in serving_records.record(tmp_path / "r.json").runs} == {"padded"}
    assert len(serving_run.cases(serving_run.plan(policies=("padded", "continuous")))) == 10


def test_a_record_must_be_one_and_hold_a_run(tmp_path, made_up):
    serving_run.main(command(tmp_path, "--rounds", "1"))
    content = serving_records.content_of(tmp_path / "r.json")
    with pytest.raises(ValueError, match="content must be a record of schema 1 and kind served"):
        serving_records.write(tmp_path / "x.json", content | {"schema": 2})
    with pytest.raises(ValueError, match="got no requests"):
        serving_records.write(tmp_path / "x.json", {key: value for key, value in content.items() if key != "requests"})
    with pytest.raises(ValueError, match="runs must hold at least one, got none"):
        serving_records.summed_up("x", content | {"runs": []})
    (tmp_path / "broken.json").write_text(json.dumps(content | {"runs": [{}]}))
    with pytest.raises(ValueError, match=r"broken\.json must hold runs of requests"):
        serving_records.record(tmp_path / "broken.json")


def test_only_a_whole_and_steady_record_is_published(tmp_path, made_up):
    serving_run.main([*command(tmp_path), "--rounds", "3"])
    record = serving_records.record(tmp_path / "r.json")
    assert serving_records.publishable(record)
    assert [*serving_records.committed(tmp_path)] == ["r"]
    assert serving_records.own(tmp_path) == {}
    for change in ({"complete": False}, {"runs": [run for run in record.content["runs"] if run["round"] < 1]}):
        assert not serving_records.publishable(serving_records.summed_up("r", record.content | change))
    content = json.loads(json.dumps(record.content))
    for run in content["runs"]:
        run["probes"]["time"] = [1.3 * seconds for seconds in run["probes"]["time"]]
    assert not serving_records.publishable(serving_records.summed_up("r", content))


def test_time_per_token_leaves_out_the_first_token_and_who_has_no_other():
    """First token at .2 s, last at 1.2 s, 11 tokens: .1 s each."""
    made = boarding.Ride(np.zeros(2), np.array([0.2, 0.5]), np.array([1.2, 0.5]), *[np.zeros(1)] * 6)
    assert_allclose(serving_records.time_per_token(made, [11, 1]), [0.1])
    assert serving_records.makespan(made) == 1.2


def test_cases_gather_the_rounds_of_a_policy_and_the_line_is_that_of_its_probes():
    """Steps of 1 s + 0.1 s a slot + 1 ms a token, a prompt 0.5 s: at the mean length of 4 + 22/6 tokens."""
    record = serving_records.summed_up("served", SERVED)
    found = serving_records.cases(record)
    assert [(one.policy, one.slots, len(one.makespan)) for one in found] == [(policy, 2, 3) for policy in POLICIES]
    for one in found:
        assert_allclose(one.replayed_makespan, one.makespan, rtol=0.01)
        assert_allclose(one.simulated_time_per_token, one.time_per_token, rtol=0.02)
    base, slope, *reading = serving_records.line_of(record)
    assert (base + slope, base + 2 * slope) == pytest.approx((1.1077, 1.2153), abs=2e-3)
    assert reading == pytest.approx([0, 0.5], abs=1e-9)


@pytest.mark.parametrize("name", sorted(path.name for path in serving_records.FOLDER.glob("*.json")))
def test_a_committed_run_meets_its_simulation(name):
    """The target: 5 % in makespan and in mean TPOT, static and continuous, at four slot counts."""
    record = serving_records.record(serving_records.FOLDER / name)
    if name.startswith("local"):
        pytest.skip("a record of this machine is the reader's own")
    assert serving_records.publishable(record)
    assert record.content["settings"]["streamed_weight_bytes"] > 10 * record.content["machine"]["last_cache"]
    lengths = np.array(record.content["requests"]["output_length"])
    assert len(lengths) >= 64
    assert lengths.std() / lengths.mean() >= 0.8
    found = serving_records.cases(record)
    assert {one.slots for one in found} >= {4, 8, 16, 32}
    for one in found:
        for made, seen in (
            (one.simulated_makespan, one.makespan), (one.simulated_time_per_token, one.time_per_token),
            (one.replayed_makespan, one.makespan), (one.replayed_time_per_token, one.time_per_token),
        ):  # fmt: skip
            assert abs(made.mean() / seen.mean() - 1) < 0.05, one


# --- in earnest --------------------------------------------------------------------------------


def test_a_real_and_tiny_bus_runs_from_end_to_end(tmp_path, monkeypatch, capsys):
    """The command itself, with a model of half a million parameters: every token is made, and the steps add up."""
    monkeypatch.setattr(serving_run, "TIMES_LAST_CACHE", 0)
    options = ["--divisor", "64", "--rounds", "1", "--prompt", "4"]
    assert serving_run.main(command(tmp_path, *options)) == 0
    assert "steps of a run against its probes" in capsys.readouterr().out
    record = serving_records.record(tmp_path / "r.json")
    assert record.content["versions"]["torch"]
    assert record.content["settings"]["linear"] == ("packed" if bench.decode.packs("fp32") else "plain")
    for run in record.runs:
        simulated = serving_records.replayed(run)
        assert run.ride.step_size.max() <= run.slots
        assert len(run.ride.step_kind) >= len(run.times.sizes)
        if not run.load:
            for name in ("step_kind", "step_size", "step_most"):
                assert getattr(run.ride, name).tolist() == getattr(simulated, name).tolist()
            lasted = run.ride.finish.max() - run.ride.boarded.min()
            assert run.ride.step_time.sum() == pytest.approx(lasted, rel=0.01)


def test_who_moves_into_a_gap_takes_its_tokens_along():
    """Three sequences of different age: after the first leaves, the other two go on as if it had never been."""
    shape = serving_run.stand_in(serving_run.model("Llama-3-8B"), 64)
    whole, other = (torch_bus.bus(shape, 3, 4, 20) for _ in range(2))
    for one, share in ((whole, 0.0), (other, 1.0)):  # and probes leave no trace
        one.start(share)
        one.board(1)
        one.step()
        one.board(2)
        one.step()
    whole.leave(0)
    whole.step()
    other.step()
    assert whole.taken == 2
    assert [probe[:2] for probe in other.probes] == [(1, 0), (1, 5), (2, 0), (3, 6), (3, 7)]
    assert whole.cache.filled[:2] == [other.cache.filled[2], other.cache.filled[1]]
    assert whole.tokens[:2, 0].tolist() == other.tokens[[2, 1], 0].tolist()


def test_a_probe_does_not_count_on_the_clock():
    shape = serving_run.stand_in(serving_run.model("Llama-3-8B"), 64)
    made = torch_bus.bus(shape, 2, 4, 40)
    made.start(1.0)
    before = time.perf_counter()
    made.board(2)
    for _ in range(20):
        now = made.step()
    passed = time.perf_counter() - before
    assert now <= passed - sum(probe[2] for probe in made.probes) + 1e-3
