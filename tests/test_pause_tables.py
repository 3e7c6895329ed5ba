"""Tables of what requests wait for say what the records say."""

import numpy as np
import pytest

from lib import bursts, memory_pressure, pause_record, pause_tables
from lib.token_load import token_slots
from lib.units import quantity


def test_a_row_of_first_tokens_is_that_of_the_record():
    cells = pause_tables.first_tokens()
    assert len(cells["load"]) == 12
    at = [*zip(cells["lengths, machine"], cells["load"], strict=True)].index(("code, H100", "half load"))
    where = {"experiment": "parts", "workload": "azure-code", "accelerator": "H100 SXM", "load": 0.5}
    p50, p99 = (pause_record.value(name, policy="tgi", **where) for name in ("ttft_p50", "ttft_p99"))
    assert cells["TGI"][at] == f"{quantity(p50, 's', digits=2)} / {quantity(p99, 's', digits=2)}"
    own, whole = (pause_record.value(name, policy="vllm", **where) for name in ("own_prefill", "ttft"))
    assert cells["own prompt, vLLM"][at] == quantity(own / whole, "%", digits=2)
    held = pause_record.value("held_back", policy="tgi", **where)
    assert cells["held back by TGI"][at] == quantity(held, "s", digits=2)


def test_useful_shares_stand_beside_the_published_ones():
    """kwon2023pagedattention, figure 2: 20.4, 26.8 and 38.2 %."""
    cells = pause_tables.useful_shares("azure-conversation")
    assert [cell.split()[0] for cell in cells["published"]] == ["20.4", "26.8", "38.2"]
    ours = [float(cell.split()[0]) for cell in cells["ours"]]
    assert ours == sorted(ours)
    rounded = [float(cell.split()[0]) for cell in cells["ours, rounded up"]]
    assert rounded[0] == ours[0]  # 2,048 is a power of two already
    assert all(less < more for less, more in zip(rounded[1:], ours[1:], strict=True))


def test_boarding_is_the_median_of_the_runs_of_a_shape_and_their_number(monkeypatch):
    runs = [(8, 1024, 8192, 0.1), (8, 1024, 1024, 0.2), (16, 1024, 1024, 0.4), (8, 8192, 1024, 0.5)]
    runs += [(users, *shape, 0.6) for users in (64, 128) for shape in pause_tables.SHAPES.values()]
    names = ("concurrency", "input_tokens", "output_tokens", "share")
    columns = {name: np.array(column) for name, column in zip(names, zip(*runs, strict=True), strict=True)}
    monkeypatch.setattr(pause_tables, "boarding_shares", lambda: columns)
    found = pause_tables.boarding()["4 to 16 at once"]
    assert [cell.replace("\xa0", " ") for cell in found] == ["10 % (1)", "30 % (2)", "50 % (1)"]


def test_users_are_counted_from_the_first_to_the_last_of_a_column(monkeypatch):
    runs = [(users, *shape, 0.1 * at) for at, users in enumerate((4, 16, 17, 64, 65, 512, 3, 513))
            for shape in pause_tables.SHAPES.values()]  # fmt: skip
    names = ("concurrency", "input_tokens", "output_tokens", "share")
    columns = {name: np.array(column) for name, column in zip(names, zip(*runs, strict=True), strict=True)}
    monkeypatch.setattr(pause_tables, "boarding_shares", lambda: columns)
    _, *found = pause_tables.boarding().values()
    expected = [quantity(share, "%", digits=2) for share in (0.05, 0.25, 0.45)]
    assert [cells[0] for cells in found] == [f"{share} (2)" for share in expected]


def test_useful_shares_by_hand(monkeypatch):
    """The second fills the context to the last token, the third goes beyond it and counts for nothing."""
    lengths = {"prompt": np.array([10.0, 1000, 1500]), "output": np.array([5.0, 1048, 600])}
    monkeypatch.setattr(pause_tables, "length_quantile", lambda law, at: lengths[law.quantity])
    held = token_slots(lengths["prompt"][:2], lengths["output"][:2]).sum()
    rooms = {"max": (2048, 2048), "pow2": (18, 2048), "oracle": (15, 2048)}
    rounded = {"max": (2048, 2048), "pow2": (32, 2048), "oracle": (16, 2048)}
    cells = pause_tables.useful_shares("azure-conversation")
    for title, given in (("ours", rooms), ("ours, rounded up", rounded)):
        expected = [held / (short * 5 + long * 1048) for short, long in given.values()]
        assert cells[title] == [quantity(share, "%") for share in expected]


def test_a_row_of_pressure_is_that_of_the_record():
    case = (memory_pressure.ALLOCATIONS[3], 1024.0)
    cells = pause_tables.pressure([case])
    where = {"experiment": "pressure", "load": 0.0, "policy": case[0], "setting": case[1]}
    assert cells["finished (1/s)"] == [quantity(pause_record.value("finished", **where), "")]
    assert cells["slots"] == ["1,024"]
    with pytest.raises(ValueError, match="allocation must be one of"):
        pause_tables.pressure([("borrowed", 8.0)])


def test_a_target_that_no_load_meets_says_so():
    _, one, _, two, share = pause_tables.targets([1.0, 4.0, 13.0]).values()
    assert one[-1] == "none"
    load = bursts.bearable_load(4.0, 2.0).load
    assert two[1].startswith(quantity(load, "%", digits=2))
    assert share[0] == quantity(1.0, "%", digits=2)
    assert share[1] == quantity(load / bursts.bearable_load(1.0, 2.0).load, "%", digits=2)
