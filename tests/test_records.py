"""Records: what their sums mean, when a machine was quiet, and that no committed point beats its bound."""

import json
import os
from dataclasses import asdict

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import records, step_laws
from lib.llama import stand_in
from lib.model import model

SMALL = stand_in(model("Llama-3-8B"), 4)
POINTS = [(1, 128), (8, 128), (1, 1024), (8, 1024)]
ALL_COMMITTED = sorted(path for path in records.FOLDER.glob("*.json") if not path.name.startswith("local"))
ALL_COMMITTED += sorted((records.FOLDER / "again").glob("*.json"))


def recorded(time_of, bandwidth_of=lambda round: 40e9, flop_rate_of=lambda round: 100e9, rounds=9, **changes):
    """Return a record in which `time_of(batch, context, round)` was measured beside these ceilings."""
    shape = {name: value for name, value in asdict(SMALL).items() if name not in ("window", "biases")}
    return {
        "schema": 2, "library": "0", "date": "2026-01-01", "command": "test", "complete": True, "seconds": 1.0,
        "machine": {"name": "a machine", "cores": 2}, "versions": {}, "left_out": [], "ceilings": {},
        "settings": {"device": "cpu", "dtype": "fp32", "linear": "packed", "model": shape},
        "points": [
            {
                "batch_size": batch, "context": context,
                "visits": [
                    {
                        "round": at, "time": [time_of(batch, context, at)] * 3, "read": [bandwidth_of(at)] * 2,
                        "copy": [0.8 * bandwidth_of(at)] * 2, "matrix_vector": [0.9 * bandwidth_of(at)] * 2,
                        "matrix_multiply": [flop_rate_of(at)] * 2,
                    }
                    for at in range(rounds)
                ],
            }
            for batch, context in POINTS
        ],
    } | changes  # fmt: skip


def two_states(at):
    return 45e9 if at % 2 else 75e9


def test_each_point_is_summed_up_by_median_and_quartiles():
    run = records.summed_up("r", recorded(lambda batch, context, at: 1e-3 * batch * (1 + at)))
    assert_allclose(run.time, [5e-3, 40e-3, 5e-3, 40e-3])
    assert_allclose(run.lower, [3e-3, 24e-3, 3e-3, 24e-3])
    assert_allclose(run.upper, [7e-3, 56e-3, 7e-3, 56e-3])
    assert run.visits.tolist() == [9] * 4
    assert run.steps.tolist() == [27] * 4


def test_the_bound_of_a_point_adds_up_by_hand():
    """Llama-3-8B / 4: 8 x 13,633,536 in the layers, 1,024 in the norm, 32,833,536 in the head; 4,096 cached a token."""
    run = records.summed_up("r", recorded(lambda *_: 1.0))
    weights, linear = 4 * 141_902_848 / 40e9, 2 * 141_902_848 / 100e9
    cache = 4 * 4096 / 40e9
    expected = [max(weights, batch * linear) + batch * context * cache for batch, context in POINTS]
    assert_allclose(records.bound_of(run), expected, rtol=1e-6)
    assert_allclose(records.bound_at(run, [1, 8], 128), [expected[0], expected[1]], rtol=1e-6)
    assert_allclose(run.relative, 1 / np.array(expected), rtol=1e-6)


def test_an_assumed_run_takes_its_bound_and_is_never_published():
    run = records.assumed(SMALL, "fp32", POINTS, 40e9, 100e9)
    measured = records.summed_up("r", recorded(lambda *_: 1.0))
    assert_allclose(run.time, records.bound_of(measured))
    assert_allclose(run.relative, 1)
    assert not records.quietness(run).publishable


def test_the_fastest_of_the_three_bandwidths_is_the_ceiling():
    content = recorded(lambda *_: 1.0)
    for point in content["points"]:
        for visit in point["visits"]:
            visit["copy"] = 50e9
    assert_allclose(records.summed_up("r", content).bandwidth, 50e9)


def test_the_fast_end_of_the_ceilings_gives_the_lower_bound():
    run = records.summed_up("r", recorded(lambda *_: 1.0, two_states))
    fast, median, slow = (records.bound_of(run, end) for end in ("fast", "median", "slow"))
    assert (fast < slow).all()
    assert (fast <= median).all()
    assert_allclose(run.bandwidth[1:, 0], [45e9, 75e9])


def test_a_steady_machine_is_quiet():
    found = records.quietness(records.summed_up("r", recorded(lambda *_: 20e-3)))
    assert (found.state, found.publishable, found.bandwidth_spread) == ("quiet", True, 0)


def test_a_machine_with_two_levels_of_bandwidth_says_so_and_can_be_published_if_its_steps_follow():
    def follows(batch, context, at):
        return 1e9 / two_states(at)

    def ignores(batch, context, at):
        return 20e-3

    run = records.summed_up("r", recorded(follows, two_states, flop_rate_of=lambda at: 1e13))
    assert_allclose(run.relative_spread[:2], 0, atol=2e-3)
    assert records.quietness(run).state == "mixed"
    assert records.quietness(run).publishable
    run = records.summed_up("r", recorded(ignores, two_states, flop_rate_of=lambda at: 1e13))
    assert records.quietness(run).state == "noisy"
    assert not records.quietness(run).publishable


@pytest.mark.parametrize(
    "content",
    [
        recorded(lambda batch, context, at: 20e-3 * (1 + 0.4 * (at % 3))),
        recorded(lambda *_: 20e-3, flop_rate_of=lambda at: 100e9 * (1 + 0.4 * (at % 3))),
        recorded(lambda *_: 20e-3, rounds=4),
        recorded(lambda *_: 20e-3, complete=False),
    ],
    ids=["steps move", "arithmetic moves", "few visits", "cut off"],
)
def test_what_is_noisy_short_or_cut_off_is_not_published(content):
    assert not records.quietness(records.summed_up("r", content)).publishable


def test_the_readers_own_runs_stand_apart_from_the_committed_ones(tmp_path):
    good, noisy = recorded(lambda *_: 20e-3), recorded(lambda batch, context, at: 20e-3 * (1 + at))
    for name, content in {"box": good, "loud": noisy, "local": noisy, "local-bf16": good, "local.part": good}.items():
        records.write(tmp_path / f"{name}.json", content)
    assert [*records.committed(tmp_path)] == ["box"]
    assert [*records.own(tmp_path)] == ["local", "local-bf16"]
    assert records.committed(tmp_path / "nowhere") == {}


def test_a_record_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path, first = tmp_path / "r.json", recorded(lambda *_: 20e-3)
    records.write(path, first)
    assert records.content_of(path) == first

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        records.write(path, recorded(lambda *_: 30e-3))
    assert records.content_of(path) == first
    assert [found.name for found in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"r\.json must be a record in JSON"),
        ("[1]", r"r\.json must be a record of schema 2, got \[1\]"),
        (json.dumps(recorded(lambda *_: 1.0) | {"schema": 3}), r"r\.json must be a record of schema 2, got 3"),
        ('{"schema": 2}', r"r\.json must hold schema, .*; got no library"),
        (json.dumps(recorded(lambda *_: 1.0, rounds=0)), r"r\.json must hold visits of points: .*got none"),
        (json.dumps(recorded(lambda *_: -1.0)), r"r\.json must hold visits of points: time must be above 0, got -1"),
        (json.dumps(recorded(lambda *_: float("nan"))), r"r\.json must hold visits of points: time must be a number"),
    ],
)
def test_a_broken_record_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        records.run(tmp_path / "r.json")


def test_a_record_of_schema_1_is_read_as_one_with_a_single_repeat_of_each_ceiling(tmp_path):
    new = recorded(lambda *_: 20e-3, two_states)
    old = json.loads(json.dumps(new)) | {"schema": 1}
    for point in old["points"]:
        for visit in point["visits"]:
            visit |= {name: visit[name][0] for name in records.CEILINGS}
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert_allclose(records.run(tmp_path / "old.json").relative, records.summed_up("new", new).relative)


def test_a_ceiling_is_the_mean_of_its_repeats_before_and_after_the_steps():
    visit = {"read": [40e9, 20e9], "copy": [20e9, 20e9], "matrix_vector": [25e9, 35e9], "matrix_multiply": [1e11, 3e11]}
    found = records.ceilings_of(visit)
    assert (found["read"], found["matrix_multiply"], found["bandwidth"]) == (30e9, 2e11, 30e9)
    with pytest.raises(ValueError, match=r"visit must hold .*; got no copy"):
        records.ceilings_of({key: visit[key] for key in visit if key != "copy"})


# --- over every committed record ---------------------------------------------------------------


@pytest.mark.parametrize("path", ALL_COMMITTED, ids=lambda path: path.stem)
def test_no_committed_point_beats_its_bound(path):
    """Taken at the upper end of its ceilings' interval."""
    run = records.run(path)
    faster = run.time < records.bound_of(run, "fast")
    assert not faster.any(), [*zip(run.batch_size[faster], run.context[faster], strict=True)]


@pytest.mark.parametrize("path", ALL_COMMITTED, ids=lambda path: path.stem)
def test_the_calibrated_law_predicts_what_it_has_not_seen(path):
    """At most 5 % in the median and 15 % for 95 % of the points, batches left out whole; quiet records only."""
    run = records.run(path)
    if not records.quietness(run).publishable:
        pytest.skip("too noisy to judge a law by")
    laws = step_laws.judged(run)
    out = laws[step_laws.best(laws)].left_out["batch"]
    assert np.median(np.abs(out.error)) < 0.05
    assert np.quantile(np.abs(out.error), 0.95) < 0.15
    assert out.within.mean() > 0.8


@pytest.mark.parametrize("path", ALL_COMMITTED, ids=lambda path: path.stem)
def test_a_committed_record_names_machine_date_and_command_and_no_place(path):
    content = records.content_of(path)
    assert content["machine"]["name"]
    assert content["command"].startswith("python -m lib.measurement --model")
    assert "/" not in content["command"].replace(content["settings"]["model"]["name"], "")
    assert len(content["date"]) == 10
