"""Reading a recorded run, and the table of a replay beside it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.batching import ContinuousBatching
from lib.recorded_run import latency_table, recorded_run, save_table
from lib.simulation import simulate
from lib.step_time import AffineStep

FILE = Path(__file__).parent / "data" / "kernels" / "requests.csv"


def written(tmp_path, text):
    file = tmp_path / "run.csv"
    file.write_text(text)
    return file


def test_requests_are_put_in_order_of_arrival_with_all_that_is_known_of_them():
    run = recorded_run(FILE)
    assert [*run.requests.arrival_time] == [0.0, 0.5, 2.0]
    assert [*run.requests.prompt_length] == [9, 8, 10]
    assert [*run.last_token_time] == [0.6, 0.9, 2.7]
    assert [*run.cached_length] == [0, 0, 0]


def test_the_names_of_llmservingsim_will_do_and_what_was_not_recorded_is_none(tmp_path):
    run = recorded_run(written(tmp_path, "arrival_s,input_toks,output_toks\n0,5,7\n"))
    assert [*run.requests.output_length] == [7]
    assert run.first_token_time is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arrival_time,prompt_length\n0,1\n", "run.csv must have the column output_length or output_toks, got arrival"),
        ("arrival_time,prompt_length,output_length\n", "run.csv must hold requests, got none"),
        ("arrival_time,prompt_length,output_length\n0,1,1\nsoon,1,1\n", "line 3: arrival_time must be a number of at"),
        ("arrival_time,prompt_length,output_length\n0,1.5,1\n", "line 2: prompt_length must be a whole number of at"),
        (
            "arrival_time,prompt_length,output_length\n0,1,0\n",
            "line 2: output_length must be a whole number of at least 1",
        ),
        ("arrival_time,prompt_length,output_length\n0,1\n", "line 2: output_length must be .* got None"),
        ("arrival_time,prompt_length,output_length\n-1,1,1\n", "line 2: arrival_time must be a number of at least 0"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        recorded_run(written(tmp_path, text))


def test_the_table_holds_what_the_two_runs_say():
    """1 s an iteration, one by one: A 0 to 5, B 5 to 9, C 9 to 15; recorded: .6, .4 and .7 s from arrival to end."""
    run = recorded_run(FILE)
    rows = latency_table(run, simulate(run.requests, ContinuousBatching(slots=1), AffineStep(fixed=1.0)))
    found = {(row.metric, row.statistic): row for row in rows}
    assert found["makespan", "whole"][2:4] == (15, 2.7)
    assert_allclose(found["latency", "mean"][2:4], [(5 + 8.5 + 13) / 3, (0.6 + 0.4 + 0.7) / 3])
    assert_allclose(found["TTFT", "p50"][2:4], [5.5, 0.1])
    assert_allclose(found["TPOT", "p99"][2:4], [1, 0.125])
    assert found["TTFT", "p99"].high == np.inf  # three requests say nothing about it


def test_a_table_without_a_record_has_predictions_alone(tmp_path):
    run = recorded_run(written(tmp_path, "arrival_s,input_toks,output_toks\n0,5,7\n1,5,7\n"))
    rows = latency_table(run, simulate(run.requests, ContinuousBatching(), AffineStep(fixed=1.0)))
    assert all(np.isnan(row.recorded) and row.predicted > 0 for row in rows)
    save_table(rows, tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "metric,statistic,predicted,recorded,low,high,error"
    assert lines[1] == "makespan,whole,8,,,,"


def test_a_replay_of_other_requests_is_refused(tmp_path):
    run = recorded_run(FILE)
    other = recorded_run(written(tmp_path, "arrival_s,input_toks,output_toks\n0,5,7\n"))
    with pytest.raises(ValueError, match="replayed must be of the requests of run"):
        latency_table(run, simulate(other.requests, ContinuousBatching(), AffineStep(fixed=1.0)))
