"""Recorded arrivals against the same gaps in another order: what the record says, and that it is remade."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.measured import table
from lib.queueing import gg1_wait, kingman_bound
from scripts import replay_traces as script

with_traces = pytest.mark.skipif(
    not (script.DATA / "traces").is_dir(), reason="the traces (../shared/data) are not on this machine"
)


def means(workload, order, quantity="ttft"):
    """Return the means of the record by load."""
    found = table("replayed_traces")
    keep = (found["workload"] == workload) & (found["order"] == order) & (found["quantity"] == quantity)
    return found["mean"][keep]


def column(workload, name):
    """Return a column of the recorded order."""
    found = table("replayed_traces")
    keep = (found["workload"] == workload) & (found["order"] == "recorded") & (found["quantity"] == "ttft")
    return found[name][keep]


def law(workload):
    """Return what Kingman wants to know of the recorded arrivals: rate, service time, variations squared."""
    rate, share, cv = (column(workload, name) for name in ("rate", "share", "cv"))
    return rate, share / rate, cv**2, 1.0


def test_recorded_bursts_wait_longer_than_the_same_gaps_in_another_order_and_than_kingman_says():
    recorded, shuffled, poisson = (means("azure-code", order) for order in ("recorded", "shuffled", "Poisson"))
    assert len(recorded) == 4
    assert np.all(recorded > gg1_wait(*law("azure-code")))
    assert np.all(recorded > shuffled)
    assert np.all(shuffled > poisson)


def test_drift_breaks_the_bound_though_the_variation_of_gaps_is_that_of_poisson():
    recorded, shuffled = (means("azure-conversation", order)[-1] for order in ("recorded", "shuffled"))
    bound = kingman_bound(*law("azure-conversation"))[-1]
    assert shuffled < bound < recorded
    assert column("azure-conversation", "cv")[0] == pytest.approx(1.09, abs=0.01)


def test_the_record_names_where_it_comes_from():
    found = table("replayed_traces")
    assert all("Azure/AzurePublicDataset at b469a113ce (CC-BY-4.0)" in text for text in found["where"].tolist())


@with_traces
def test_a_replication_deals_lengths_anew_and_keeps_the_gaps():
    trace, *_ = script.recorded(str(script.DATA), "azure-code")
    recorded, shuffled = (script.arranged(trace, order, 5.0, 0) for order in ("recorded", "shuffled"))
    assert_allclose(np.sort(np.diff(recorded.arrival_time)), np.sort(np.diff(shuffled.arrival_time)), atol=1e-6)
    assert np.all(recorded.prompt_length == shuffled.prompt_length)
    assert sorted(recorded.output_length.tolist()) == sorted(trace.output_length.tolist())
    assert np.any(recorded.output_length != trace.output_length)


@with_traces
def test_a_replication_of_the_record_is_what_the_code_gives():
    trace, case, most = script.recorded(str(script.DATA), "azure-code")
    found = table("replayed_traces")
    keep = (found["workload"] == "azure-code") & (found["order"] == "recorded") & (found["share"] == 0.8)
    mean, half, rate = (found[name][keep & (found["quantity"] == "ttft")][0] for name in ("mean", "half_width", "rate"))
    assert rate == pytest.approx(0.8 * most, rel=1e-3)
    said = script.waits(trace, case, "recorded", 0.8 * most, 0)
    assert abs(said["ttft"] - mean) < 4.5 * 1.5 * half
