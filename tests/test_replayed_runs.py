"""Two recorded runs of vLLM: how near the simulator comes, what each rule is worth, and that the record is remade."""

import csv
import io

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.measured import table
from scripts import replay_runs

DOCUMENTED = "as documented"
MACHINES = ("RTX 4090", "RTX PRO 6000")

with_runs = pytest.mark.skipif(
    not (replay_runs.DATA / "llmservingsim").is_dir(),
    reason="the recorded runs (../shared/data) are not on this machine",
)


def error(machine, variant, metric, statistic):
    """Return one signed error of the record."""
    runs = table("replayed_runs")
    row = (runs["machine"] == machine) & (runs["variant"] == variant)
    row &= (runs["metric"] == metric) & (runs["statistic"] == statistic)
    (found,) = runs["error"][row]
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("metric", "statistic"), [("makespan", "whole"), ("TPOT", "mean"), ("latency", "mean")])
def test_makespan_mean_tpot_and_mean_latency_are_within_three_per_cent(machine, metric, statistic):
    assert abs(error(machine, DOCUMENTED, metric, statistic)) < 0.03


def test_all_other_figures_are_within_five_per_cent_but_one_which_lies_in_the_interval_of_the_record():
    """The 95th percentile of the TTFT on the RTX 4090 falls into a gap of 12 s between two waves of admission."""
    runs = table("replayed_runs")
    far = (runs["variant"] == DOCUMENTED) & (np.abs(runs["error"]) > 0.05)
    assert [*zip(runs["machine"][far], runs["metric"][far], runs["statistic"][far], strict=True)] == [
        ("RTX 4090", "TTFT", "p95")
    ]
    assert (runs["low"][far] < runs["predicted"][far]).all()
    assert (runs["predicted"][far] < runs["high"][far]).all()


@pytest.mark.parametrize("statistic", ["p50", "p99"])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_first_token_is_within_five_per_cent_in_the_middle_and_in_the_tail(machine, statistic):
    assert abs(error(machine, DOCUMENTED, "TTFT", statistic)) < 0.05


def test_who_forgets_what_a_preempted_request_had_computed_takes_three_per_cent_longer():
    with_reuse, without = (error("RTX 4090", v, "makespan", "whole") for v in (DOCUMENTED, "no blocks found again"))
    assert 0.025 < without - with_reuse < 0.045


def test_the_host_time_of_one_machine_does_not_travel_to_the_other():
    assert error("RTX PRO 6000", "host time of the other run", "TTFT", "p50") < -0.1


def test_every_row_says_where_it_comes_from():
    for name in ("replayed_runs", "replayed_quantiles"):
        assert all("LLMServingSim at 5daddb21a5 (MIT)" in source for source in table(name)["where"])


@with_runs
@pytest.mark.slow
def test_the_record_is_remade():
    for name, rows in replay_runs.tables(replay_runs.DATA).items():
        made = list(csv.DictReader(io.StringIO(replay_runs.text(rows))))
        kept = table(name)
        for column, values in kept.items():
            again = [row[column] for row in made]
            if values.dtype.kind == "f":
                again = [float(cell or "nan") for cell in again]
                assert_allclose(again, values, rtol=1e-3, atol=2e-4, err_msg=f"{name} {column}")
            else:
                assert again == [*values]
