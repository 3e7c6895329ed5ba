"""The accelerator catalogue: published values, nothing sparse, a source for every number."""

import dataclasses
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import hardware as hw

REQUIRED = (
    "A100 SXM 80GB", "A100 SXM 40GB", "A100 PCIe 80GB", "H100 SXM", "H100 PCIe", "H100 NVL", "H200 SXM", "H20",
    "B200 SXM", "L4", "L40S", "RTX 4090", "RTX PRO 6000 Blackwell Server", "RTX PRO 6000 Blackwell Workstation",
    "MI300X", "TPU v5e", "M2 Ultra",
)  # fmt: skip
CATALOGUE = hw.catalogue()
DATA = files("lib") / "data"
ROOT = Path(__file__).resolve().parent.parent
HEADER = "accelerator,quantity,value,unit,source,where,date\n"
ROWS = (
    "X1,year,2024,year,maker2024,table 1,2024-05\n"
    "X1,bf16_flop_rate,1e14,FLOP/s,maker2024,table 1,2024-05\n"
    "X1,bandwidth,1e12,B/s,maker2024,table 1,2024-05\n"
    "X1,capacity,8e10,B,maker2024,table 1,2024-05\n"
)
FACT = hw.Fact(value=1.0, unit="B/s", source="maker2024", where="table 1", date="2024-05")
OURS = {"name": "X1", "year": 2024, "flop_rates": {"bf16": 1e14}, "bandwidth": 1e12, "capacity": 8e10}


def written(tmp_path, text):
    file = tmp_path / "accelerators.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("H100 SXM", 295),  # 989.4 / 3.35
        ("H100 PCIe", 378),  # 756 / 2.0
        ("A100 SXM 80GB", 153),  # 312 / 2.039
        ("A100 SXM 40GB", 201),  # 312 / 1.555
        ("H20", 37),  # 148 / 4
        ("V100 SXM 32GB", 139),  # 125 / 0.9, fp16
    ],
)
def test_the_ridge_point_is_the_peak_over_the_bandwidth(name, ridge):
    assert round(hw.ridge_point(hw.hardware(name))) == ridge


def test_the_ridge_point_of_a_tpu_v5e_is_the_one_of_the_scaling_book():
    """austin2025scaling, part 1 and part 7: 240, from 1.97e14 FLOP/s and 8.2e11 B/s."""
    assert hw.ridge_point(hw.hardware("TPU v5e")) == pytest.approx(240, rel=3e-3)


def test_eight_bits_double_the_ridge_point_of_an_h100():
    h100 = hw.hardware("H100 SXM")
    assert hw.ridge_point(h100, "fp8") == pytest.approx(590.7, rel=1e-3)


def test_h100_and_h200_share_their_peak_and_differ_in_bandwidth():
    h100, h200 = hw.hardware("H100 SXM"), hw.hardware("H200 SXM")
    assert hw.peak_flop_rate(h100, "bf16") == hw.peak_flop_rate(h200, "bf16")
    assert h200.bandwidth / h100.bandwidth == pytest.approx(1.433, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [
        ("H100 SXM", "bf16", 1.979e15),
        ("H100 SXM", "fp8", 3.958e15),
        ("H200 SXM", "bf16", 1.979e15),
        ("H100 NVL", "bf16", 1.671e15),
        ("H100 PCIe", "bf16", 1.513e15),
        ("A100 SXM 80GB", "bf16", 6.24e14),
        ("RTX 4090", "bf16", 3.304e14),
        ("RTX 5090", "fp4", 3.352e15),
        ("L4", "bf16", 2.42e14),
        ("L40S", "bf16", 7.33e14),
        ("RTX PRO 6000 Blackwell Server", "bf16", 1e15),
        ("B200 SXM", "fp4", 1.8e16),
        ("MI300X", "fp8", 5.2298e15),
        ("Cerebras WSE-2", "bf16", 6.25e16),
    ],
)
def test_the_headline_with_sparsity_is_halved_or_less(name, dtype, sparse):
    assert hw.peak_flop_rate(hw.hardware(name), dtype) <= 0.5065 * sparse


def test_no_narrower_type_is_more_than_twice_as_fast_as_the_next():
    """A sparse rate beside a dense one would show as a factor of 4."""
    for accelerator in CATALOGUE.values():
        rates = accelerator.flop_rates
        sixteen = hw.peak_flop_rate(accelerator, "bf16")
        for dtype in ("fp8", "int8"):
            assert rates.get(dtype, 0) <= 4.05 * sixteen, (accelerator.name, dtype)
        assert rates.get("fp8", 0) <= 2.03 * sixteen, accelerator.name


@pytest.mark.parametrize("name", REQUIRED)
def test_every_required_accelerator_is_there(name):
    assert name in CATALOGUE


def test_the_catalogue_spans_2016_to_2025_and_keeps_variants_apart():
    years = {accelerator.year for accelerator in CATALOGUE.values()}
    assert {2016, 2018, *range(2020, 2026)} <= years
    server, workstation = (hw.hardware(f"RTX PRO 6000 Blackwell {edition}") for edition in ("Server", "Workstation"))
    assert (server.bandwidth, workstation.bandwidth) == (1.597e12, 1.792e12)


def test_a_cache_is_counted_in_powers_of_two_and_a_memory_in_powers_of_ten():
    h100 = hw.hardware("H100 SXM")
    assert (h100.on_chip_memory, h100.capacity) == (50 * 2**20, 80e9)


def test_every_number_in_a_record_is_a_fact():
    for accelerator in CATALOGUE.values():
        known = {hw.RATES[dtype]: rate for dtype, rate in accelerator.flop_rates.items()}
        for name in ("year", "bandwidth", "capacity", "on_chip_memory", "link_bandwidth", "power"):
            if getattr(accelerator, name) is not None:
                known[name] = getattr(accelerator, name)
        assert known == {quantity: fact.value for quantity, fact in accelerator.facts.items()}, accelerator.name


def test_the_sources_of_the_facts_and_the_bibliography_are_the_same_set():
    own = (DATA / "accelerators.bib").read_text(encoding="utf-8")
    shared = (ROOT / "references.bib").read_text(encoding="utf-8")
    text = own + next(entry for entry in re.split(r"\n(?=@)", shared) if "{austin2025scaling," in entry)
    entries = re.split(r"^@\w+\{", text, flags=re.M)[1:]
    keys = [entry.split(",", 1)[0] for entry in entries]
    used = {fact.source for accelerator in CATALOGUE.values() for fact in accelerator.facts.values()}
    assert sorted(keys) == sorted(used)
    assert all(re.search(r"^  url = \{https://\S+\},$", entry, flags=re.M) for entry in entries)


def test_a_halved_or_secondary_number_says_so_where_it_is_found():
    for accelerator in ("H100 NVL", "L4"):
        assert "with sparsity, halved" in hw.hardware(accelerator).facts["bf16_flop_rate"].where
    for accelerator in ("H20", "H800"):
        assert all("secondary" in fact.where for fact in hw.hardware(accelerator).facts.values())


@pytest.mark.parametrize(
    ("added", "rule"),
    [
        ("X1,power,700,W,,table 1,2024-05\n", "row 6: source must be"),
        ("X1,power,700,W,maker2024, ,2024-05\n", "row 6: where must be"),
        ("X1,power,700,W,maker2024,table 1,\n", "row 6: date must be"),
        ("X1,power,700,W,maker2024,table 1,May 2024\n", "row 6: date must be an ISO month or day, got 'May 2024'"),
        ("X1,power,700,W,maker2024,table 1,2024-13\n", "row 6: date must be an ISO"),
        ("X1,price,9,USD,maker2024,table 1,2024-05\n", "row 6: quantity must be one of .*, got 'price'"),
        ("X1,power,0.7,kW,maker2024,table 1,2024-05\n", "row 6: unit of power must be one of W, got 'kW'"),
        ("X1,capacity,8e10,B,maker2024,table 1,2024-05\n", "row 6: quantity must be given once for X1, got capacity"),
        ("X1,power,lots,W,maker2024,table 1,2024-05\n", "row 6: value must be a number, got 'lots'"),
        ("X1,power,nan,W,maker2024,table 1,2024-05\n", "row 6: value must be a number, got nan"),
        ("X1,power,inf,W,maker2024,table 1,2024-05\n", "row 6: value must be finite"),
        ("X1,power,-7,W,maker2024,table 1,2024-05\n", "row 6: value must be above 0, got -7"),
        ("X1,power,700,W,maker2024,table 1, p. 2,2024-05\n", "row 6: cells must be 7, got 8"),
        ("\n", "row 6: cells must be 7, got 0"),
        (",power,700,W,maker2024,table 1,2024-05\n", "row 6: accelerator must be a text"),
        ("X2,year,2024,year,maker2024,table 1,2024-05\n", "X2: facts must be one of year, got 'bandwidth'"),
    ],
)
def test_a_planted_fault_is_refused_with_file_row_and_rule(tmp_path, added, rule):
    with pytest.raises(ValueError, match=rf"^accelerators\.csv,? {rule}"):
        hw.accelerators_in(written(tmp_path, HEADER + ROWS + added))


def test_a_wrong_header_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^accelerators\.csv row 1: columns must be"):
        hw.accelerators_in(written(tmp_path, ROWS))


@pytest.mark.parametrize("text", ["", "X1,year,2024.5,year,m,t,2024-05\n"])
def test_an_accelerator_without_a_sixteen_bit_rate_or_with_half_a_year_is_refused(tmp_path, text):
    rows = [row for row in ROWS.splitlines(keepends=True) if "flop_rate" not in row and not (text and ",year," in row)]
    with pytest.raises(ValueError, match=r"^accelerators\.csv, X1: (flop_rates must hold bf16|year must be a whole)"):
        hw.accelerators_in(written(tmp_path, HEADER + text + "".join(rows)))


def test_a_clean_file_is_read_in_order_and_leaves_gaps_open(tmp_path):
    read = hw.accelerators_in(written(tmp_path, HEADER + ROWS + ROWS.replace("X1", "A2")))
    assert [*read] == ["X1", "A2"]
    assert (read["X1"].bandwidth, read["X1"].year, read["X1"].power) == (1e12, 2024, None)


def test_an_unknown_name_is_refused_with_the_closest_ones():
    with pytest.raises(ValueError, match=r"^name must be one of .*H100 SXM.*, got 'H100 SMX'$"):
        hw.hardware("H100 SMX")


def test_a_type_without_a_document_is_refused_with_the_documented_ones():
    with pytest.raises(ValueError, match=r"^dtype must be one of bf16, int8, fp32 for A100 SXM 80GB, got 'fp8'$"):
        hw.peak_flop_rate(hw.hardware("A100 SXM 80GB"), "fp8")
    with pytest.raises(ValueError, match="dtype must be one of"):
        hw.peak_flop_rate(hw.hardware("H100 SXM"), ["bf16"])
    with pytest.raises(ValueError, match="hardware must be a Hardware"):
        hw.ridge_point("H100 SXM")


def test_a_chip_without_bf16_answers_with_its_fp16_rate():
    v100 = hw.hardware("V100 SXM 32GB")
    assert "bf16" not in v100.flop_rates
    assert hw.peak_flop_rate(v100, "bf16") == hw.peak_flop_rate(v100, "fp16") == 1.25e14


def test_the_catalogue_and_its_records_cannot_be_changed():
    h100 = hw.hardware("H100 SXM")
    with pytest.raises(TypeError):
        CATALOGUE["mine"] = h100
    with pytest.raises(TypeError):
        h100.flop_rates["bf16"] = 1.979e15
    with pytest.raises(TypeError):
        h100.facts["power"] = FACT
    with pytest.raises(dataclasses.FrozenInstanceError):
        h100.bandwidth = 4e12
    assert hw.catalogue() is CATALOGUE
    assert {h100: "hashable"}[hw.hardware("H100 SXM")]


def test_a_record_copies_the_mapping_it_was_given():
    rates = {"bf16": 1e14}
    mine = hw.Hardware(**OURS | {"flop_rates": rates})
    rates["bf16"] = 2e14
    assert mine.flop_rates["bf16"] == 1e14


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"name": " "}, "name must be"),
        ({"year": 2024.5}, "year must be a whole number"),
        ({"year": 24}, "year must be at least 1950"),
        ({"bandwidth": 0}, "bandwidth must be above 0, got 0"),
        ({"bandwidth": float("inf")}, "bandwidth must be finite"),
        ({"capacity": float("nan")}, "capacity must be a number"),
        ({"capacity": None}, "capacity must be a number"),
        ({"power": -1}, "power must be above 0"),
        ({"link_bandwidth": 0}, "link_bandwidth must be above 0"),
        ({"on_chip_memory": "50 MB"}, "on_chip_memory must be a number"),
        ({"flop_rates": {"fp8": 1e15}}, "flop_rates must hold bf16 or fp16"),
        ({"flop_rates": {"bf16": 1e14, "tf32": 1e14}}, "dtype must be one of"),
        ({"flop_rates": {"bf16": 0}}, "bf16 rate must be above 0"),
        ({"flop_rates": [1e14]}, "flop_rates must be a Mapping"),
        ({"facts": {"speed": FACT}}, "quantity must be one of"),
        ({"facts": {"bandwidth": 1e12}}, "bandwidth must be a Fact"),
    ],
)
def test_a_record_of_our_own_is_checked_too(change, rule):
    with pytest.raises(ValueError, match=rule):
        hw.Hardware(**OURS | change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"value": 0}, "value must be above 0"),
        ({"unit": "GB/s"}, "unit must be one of"),
        ({"source": ""}, "source must be"),
        ({"where": ""}, "where must be"),
        ({"date": "2024"}, "date must be an ISO month or day"),
    ],
)
def test_a_fact_needs_value_unit_source_place_and_date(change, rule):
    with pytest.raises(ValueError, match=rule):
        dataclasses.replace(FACT, **change)


@given(st.integers(1, 1024), st.sampled_from(sorted(CATALOGUE)))
def test_a_group_multiplies_everything_but_its_ridge_point_and_its_links(count, name):
    one = CATALOGUE[name]
    group = hw.several(one, count)
    assert group.name == f"{count} x {name}"
    assert group.bandwidth == count * one.bandwidth
    assert group.capacity == count * one.capacity
    assert group.power == (one.power and count * one.power)
    assert group.on_chip_memory == (one.on_chip_memory and count * one.on_chip_memory)
    assert group.flop_rates == {dtype: count * rate for dtype, rate in one.flop_rates.items()}
    assert hw.ridge_point(group) == pytest.approx(hw.ridge_point(one))
    assert (group.link_bandwidth, group.facts, group.year) == (one.link_bandwidth, one.facts, one.year)


@pytest.mark.parametrize(("count", "rule"), [(0, "at least 1"), (1.5, "a whole number"), (True, "a number")])
def test_a_group_is_a_whole_number_of_accelerators(count, rule):
    with pytest.raises(ValueError, match=f"count must be {rule}"):
        hw.several(hw.hardware("L4"), count)
