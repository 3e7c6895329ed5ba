"""The limits that a search found on the simulator: the table, remade in part, and how close the derivation is."""

import numpy as np
import pytest

from lib import engine_step
from lib.batch_limit import batch_limit, load_limit
from lib.deployment import Deployment, scales, traffic_of
from lib.hardware import hardware
from lib.measured import table
from lib.model import model
from lib.operating_point import capped, replica
from lib.replica import StepLoad
from scripts import search_batch_limit as search

TABLE = table("batch_limits")
ROWS = [{name: column[index] for name, column in TABLE.items()} for index in range(len(TABLE["model"]))]


def deployed(row):
    return Deployment(hardware=hardware(str(row["accelerator"])), model=model(str(row["model"])),
                      dtype=str(row["dtype"]), devices=int(row["devices"]))  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} {1e3 * row['time_per_token']:g} ms")
def test_what_is_derived_is_what_the_library_derives_today(row):
    made = replica(deployed(row), traffic_of(str(row["workload"])))
    limit = batch_limit(made, row["time_per_token"])
    assert (limit.slots, int(limit.closed_form)) == (row["slots_derived"], row["slots_closed_form"])
    rate = load_limit(capped(made, limit.slots), row["time_per_token"], row["first_token_time"])
    assert rate == pytest.approx(row["rate_derived"], rel=1e-3)


def test_derivation_and_search_are_close():
    """Slots within a tenth and rates within a tenth, everywhere; the median within a thirtieth."""
    slots = TABLE["slots_derived"] / TABLE["slots_searched"] - 1
    rates = TABLE["rate_derived"] / TABLE["rate_searched"] - 1
    assert np.abs(slots).max() < 0.1
    assert np.abs(rates).max() < 0.1
    assert np.median(np.abs(slots)) < 1 / 30
    assert np.median(np.abs(rates)) < 1 / 30


def test_the_closed_form_is_on_the_safe_side():
    assert np.all(TABLE["slots_closed_form"] <= TABLE["slots_high"])


def test_the_search_was_made_with_every_target_and_seed():
    assert set(TABLE["time_per_token"]) <= {*search.TARGETS}
    assert set(TABLE["seeds"]) == {len(search.SEEDS)}
    assert set(TABLE["requests"]) == {search.REQUESTS}


def test_the_simulator_today_keeps_the_target_with_the_slots_found_and_not_with_more(monkeypatch):
    """The first row, its first seed and a fifth of its requests: the pace crosses the target where the table says."""
    monkeypatch.setattr(search, "REQUESTS", 800)
    row = ROWS[0]
    slow, fast = (
        search.saturated_pace(deployed(row), share * row["slots_searched"], search.SEEDS[0]) for share in (1.2, 0.8)
    )
    assert fast < row["time_per_token"] < slow


def test_the_step_of_the_simulator_is_the_law_of_the_derivation():
    """Sixteen sequences of 1,000 tokens and a prompt of 500: the same time as the law's parts."""
    one = deployed(ROWS[0])
    numbers, law = scales(one), engine_step.law().coefficients
    load = StepLoad(decoding=16, context=16_000, prompt_tokens=500, prompt_pairs=500 * 501 / 2, chunks=((500, 0),))
    alone = engine_step.decode_time(numbers, 16, 1000, law)
    prompt = engine_step.prompt_time(numbers, 500, law)
    assert search.step_of(one)(load) == pytest.approx(float(alone + prompt), rel=1e-6)
