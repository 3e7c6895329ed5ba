"""The frontier: dominance by hand, the grid against the parts it is made of, the cheapest at a speed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import frontier, prices
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware
from lib.model import model
from lib.operating_point import replica

CHAT = traffic_of("azure-conversation")
SMALL = frontier.points(CHAT, models=("Llama-3-8B", "Llama-3-70B"), accelerators=("H100 SXM", "L40S", "RTX 4090"))


def test_dominance_by_hand():
    """(2, 2) is beaten by (1, 2); (3, 1) and (1, 2) are not; a twin beats nobody."""
    assert frontier.pareto([2, 1, 3, 3], [2, 2, 1, 1]).tolist() == [False, True, True, True]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_what_is_left_out_is_beaten_by_what_is_kept(rows):
    table = np.array(rows, float)
    kept = frontier.pareto(*table.T)
    assert kept.any()
    for row in table[~kept]:
        assert np.any(np.all(table[kept] <= row, axis=1) & np.any(table[kept] < row, axis=1))


def test_a_point_is_the_replica_at_its_batch():
    row = np.flatnonzero((SMALL["model"] == "Llama-3-8B") & (SMALL["accelerator"] == "H100 SXM")
                         & (SMALL["dtype"] == "fp8") & (SMALL["devices"] == 2) & (SMALL["batch"] == 64))  # fmt: skip
    (row,) = row
    one = replica(Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-8B"), dtype="fp8", devices=2), CHAT)
    assert SMALL["time_per_token"][row] == pytest.approx(one.step_time[63])
    assert SMALL["first_token_time"][row] == pytest.approx(
        one.step_time[63] / 2 + one.prompt_time + one.decode_time[63]
    )
    rate = 64 / one.step_time[63] / CHAT.output_tokens
    tokens = CHAT.prompt_tokens + CHAT.output_tokens
    assert SMALL["blended_cost"][row] == pytest.approx(2 * prices.rent("H100 SXM").middle / rate / tokens)
    of_input, of_output = SMALL["input_cost"][row] * CHAT.prompt_tokens, SMALL["output_cost"][row] * CHAT.output_tokens
    assert of_input / of_output == pytest.approx(one.prompt_time / (CHAT.output_tokens * one.decode_time[63] / 64))


def test_the_range_of_cost_joins_rent_and_time():
    assert np.all(SMALL["blended_low"] < SMALL["blended_cost"])
    assert np.all(SMALL["blended_high"] > SMALL["blended_cost"])
    for end in ("low", "high"):
        rent = SMALL[f"rent_{end}"] / SMALL["rent"]
        time = SMALL[f"time_{end}"] / SMALL["time_per_token"]
        assert SMALL[f"blended_{end}"] / SMALL["blended_cost"] == pytest.approx(rent * time)


def test_no_group_without_a_link_and_no_format_without_a_peak():
    assert set(SMALL["devices"][SMALL["accelerator"] == "RTX 4090"]) == {1}
    ampere = frontier.points(CHAT, models=("Llama-3-8B",), accelerators=("A100 SXM 80GB",))
    assert set(ampere["dtype"]) == {"bf16"}
    with pytest.raises(ValueError, match="name must be one of"):
        frontier.points(CHAT, models=("Llama-9",))


def test_the_cheapest_at_a_speed_is_fast_enough_and_nothing_cheaper_is():
    for speed in (10, 40, 120):
        found = frontier.cheapest_at(SMALL, "Llama-3-8B", speed)
        fast = (SMALL["model"] == "Llama-3-8B") & (SMALL["time_per_token"] <= 1 / speed)
        assert found["time_per_token"] <= 1 / speed
        assert found["blended_cost"] == SMALL["blended_cost"][fast].min()
    assert frontier.cheapest_at(SMALL, "Llama-3-70B", 1e5) is None


def test_a_stretch_ends_where_another_group_becomes_cheaper():
    speeds = np.geomspace(5, 400, 60)
    found = frontier.choices(SMALL, "Llama-3-8B", speeds)
    assert found[0][2] == pytest.approx(5)
    for before, after in pairwise(found):
        assert before[3] == after[2]
        assert before[:2] != after[:2]
        assert before[4] <= after[4]
    fastest = 1 / SMALL["time_per_token"][SMALL["model"] == "Llama-3-8B"].min()
    assert found[-1][3] == speeds[speeds <= fastest][-1]
    assert frontier.choices(SMALL, "Llama-3-8B", [1e6]) == []


def test_more_speed_never_costs_less():
    costs = [frontier.cheapest_at(SMALL, "Llama-3-70B", speed)["blended_cost"] for speed in (5, 10, 20, 40)]
    assert costs == sorted(costs)


def test_the_best_hold_the_cheapest_and_the_fastest_of_every_model():
    kept = frontier.best(SMALL)
    for name in ("Llama-3-8B", "Llama-3-70B"):
        for column in ("blended_cost", "time_per_token", "first_token_time"):
            mine = SMALL["model"] == name
            assert kept[column][kept["model"] == name].min() == SMALL[column][mine].min()


def test_what_only_strangers_rent_out_and_what_the_law_misses_stay_out():
    assert "RTX 5090" not in frontier.covered()
    assert "MI300X" not in frontier.covered()
    assert "MI300X" in prices.rented(("on demand",))


def test_the_command_writes_every_point(capsys, monkeypatch):
    monkeypatch.setattr(frontier, "MODELS", ("Llama-3-8B",))
    monkeypatch.setattr(frontier, "points", lambda traffic: SMALL)
    assert frontier.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model,accelerator,dtype,devices,batch,time_per_token")
    assert len(lines) == len(SMALL["model"]) + 1


def test_the_ranking_takes_the_cheapest_group_of_each_accelerator():
    rows = frontier.ranked_at(SMALL, "Llama-3-8B", 40)
    assert {row["accelerator"] for row in rows} <= set(SMALL["accelerator"])
    assert rows[0]["blended_cost"] == frontier.cheapest_at(SMALL, "Llama-3-8B", 40)["blended_cost"]
    for row in rows:
        mine = (SMALL["model"] == "Llama-3-8B") & (SMALL["accelerator"] == row["accelerator"])
        assert row["blended_cost"] == SMALL["blended_cost"][mine & (SMALL["time_per_token"] <= 1 / 40)].min()
    assert [row["accelerator"] for row in frontier.ranked_at(SMALL, "Llama-3-70B", 200)] == []


def test_grids_agree_with_themselves_and_not_where_one_machine_becomes_free():
    speeds = [10, 40, 80]
    assert frontier.agreement(SMALL, SMALL, speeds) == 1
    free = SMALL | {"blended_cost": np.where(SMALL["accelerator"] == "H100 SXM", 0.0, SMALL["blended_cost"])}
    choose = [frontier.cheapest_at(SMALL, name, speed) for name in set(SMALL["model"]) for speed in speeds]
    groups = [frontier.cheapest_at(free, name, speed) for name in set(SMALL["model"]) for speed in speeds]
    same = [
        (one["accelerator"], one["devices"]) == (two["accelerator"], two["devices"])
        for one, two in zip(choose, groups, strict=True) if one and two
    ]  # fmt: skip
    assert frontier.agreement(SMALL, free, speeds) == pytest.approx(np.mean(same))
    assert np.mean(same) < 1


def test_stretches_that_are_too_dear_are_left_out():
    speeds = np.geomspace(5, 300, 20)
    every, cut = (frontier.choices(SMALL, "Llama-3-8B", speeds, dearest=most) for most in (np.inf, 2))
    assert cut == [one for one in every if one[4] <= 2 * every[0][4]]
    assert len(cut) < len(every)


def test_an_end_of_the_grid_has_its_time_and_its_cost():
    assert all(np.array_equal(frontier.at_end(SMALL)[key], SMALL[key]) for key in SMALL)
    for end in ("low", "high"):
        found = frontier.at_end(SMALL, time=end, rent=end)
        assert np.array_equal(found["time_per_token"], SMALL[f"time_{end}"])
        assert found["blended_cost"] == pytest.approx(SMALL[f"blended_{end}"])
    with pytest.raises(ValueError, match="rent must be one of"):
        frontier.at_end(SMALL, rent="free")


def test_strangers_machines_are_covered_on_their_own_terms_and_what_the_law_misses_on_none():
    assert "RTX 5090" in frontier.covered(prices.OPEN_TERMS)
    assert "RTX 5090" not in frontier.covered()
    assert "MI300X" in prices.rented()
    assert "MI300X" not in frontier.covered(prices.OPEN_TERMS)
    with pytest.raises(ValueError, match="terms must be one of"):
        frontier.covered(("borrowed",))
