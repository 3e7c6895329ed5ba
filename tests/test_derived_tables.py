"""The derived tables: sourced, accounted for, plausible, and the same when derived again."""

import csv
import gzip
import re
import shutil
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.footprint import kv_bytes_per_token, weight_bytes
from lib.hardware import catalogue as accelerators
from lib.measured import table
from lib.model import catalogue, model, params
from scripts import derive_measurements
from scripts.derive import tables
from scripts.derive.sources import USED, Sources

ROOT = Path(__file__).resolve().parents[1]
DATA = derive_measurements.DATA
SOURCED = ("decode_steps", "end_to_end", "all_reduce", "batch_one", "lengths", "workloads", "arrivals")
ROUNDED = 1e-3  # four significant digits

with_sources = pytest.mark.skipif(
    not (DATA / "MANIFEST.csv").is_file(), reason="the public sources (../shared/data) are not on this machine"
)


def where(name, **conditions):
    """Return the columns of a table, only the rows that meet the conditions."""
    columns = table(name)
    keep = np.logical_and.reduce([columns[column] == value for column, value in conditions.items()])
    return {column: values[keep] for column, values in columns.items()}


def only(name, column, **conditions):
    """Return the one value of `column` that the conditions leave."""
    (value,) = where(name, **conditions)[column]
    return value


def per_row(columns, name, fact):
    """Return `fact` of the catalogued thing that each row of a column names."""
    facts = {value: fact(value) for value in {*columns[name]}}
    return np.array([facts[value] for value in columns[name]])


def source_rows(file):
    """Return the rows of one public source."""
    opener = gzip.open if file.endswith(".gz") else open
    with opener(DATA / file, "rt", newline="") as opened:
        return list(csv.DictReader(opened))


@pytest.fixture(scope="module")
def derived():
    return derive_measurements.derive(DATA)


# Where it comes from


@pytest.mark.parametrize("name", SOURCED)
def test_every_row_has_known_sources(name):
    used = {key for cell in table(name)["source"] for key in cell.split(" ")}
    assert used <= set(table("measurement_sources")["source"])


def test_every_source_that_contributes_rows_appears_in_a_table():
    sources = table("measurement_sources")
    used = {key for name in SOURCED for cell in table(name)["source"] for key in cell.split(" ")}
    assert used == set(sources["source"][sources["rows_used"] > 0])


def test_every_source_has_a_repository_a_commit_and_an_open_licence():
    sources = table("measurement_sources")
    assert set(sources["licence"]) == {"MIT", "Apache-2.0", "BSD-3-Clause", "CC-BY-4.0"}
    for column in ("repository", "path", "commit", "citation", "change"):
        assert all(sources[column]), column
    assert all(re.fullmatch("[0-9a-f]{40}|sdist [0-9.]+", commit) for commit in sources["commit"])


def test_every_citation_is_in_a_bibliography():
    files = [ROOT / "references.bib", *(ROOT / "lib" / "data").glob("*.bib")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    keys = Counter(re.findall(r"@\w+\{([^,]+),", text))
    cited = {*table("measurement_sources")["citation"], *table("published_results")["source"]}
    assert cited <= set(keys)
    assert {key: keys[key] for key in cited} == dict.fromkeys(cited, 1)


def test_used_and_dropped_rows_add_up_to_the_file_and_the_reasons_to_the_dropped():
    sources = table("measurement_sources")
    assert np.array_equal(sources["rows_used"] + sources["rows_dropped"], sources["rows_in_file"])
    for dropped, why in zip(sources["rows_dropped"], sources["why_dropped"], strict=True):
        reasons = [int(reason.split(" ", 1)[0]) for reason in why.split("; ")] if why else []
        assert sum(reasons) == dropped


def test_names_are_those_of_the_catalogues():
    for name in ("decode_steps", "end_to_end", "batch_one"):
        assert set(table(name)["model"]) <= set(catalogue())
        assert set(table(name)["accelerator"]) <= {*accelerators(), "DGX Spark"}


# Plausible


def test_no_point_occurs_twice():
    for name in (*SOURCED, "measurement_sources"):
        columns = [column for column in table(name) if column not in tables.MEASURED]
        points = list(zip(*(table(name)[column] for column in columns), strict=True))
        assert len(points) == len(set(points)), name


def test_times_have_the_size_of_their_unit():
    """A step takes milliseconds, an all-reduce microseconds, a batch of requests seconds."""
    limits = {"decode_step": (1e-3, 1), "tpot": (1e-3, 1), "ttft": (1e-3, 1000)}
    limits |= {"prefill_time": (1e-2, 100), "batch_latency": (0.1, 7200)}
    assert set(table("end_to_end")["quantity"]) == set(limits)
    for quantity, (least, most) in limits.items():
        value = where("end_to_end", quantity=quantity)["value"]
        assert np.all((value > least) & (value < most)), quantity
    for name, least, most in (("decode_steps", 1e-3, 1), ("batch_one", 1e-3, 0.1), ("all_reduce", 1e-6, 1e-3)):
        assert np.all((table(name)["time"] > least) & (table(name)["time"] < most)), name


def test_a_step_is_the_sum_of_its_parts():
    steps = table("decode_steps")
    assert_allclose(steps["attention_time"] + steps["linear_time"], steps["time"], rtol=ROUNDED)


def test_every_step_fits_in_nine_tenths_of_the_memory():
    steps = table("decode_steps")
    weights = per_row(steps, "model", lambda name: weight_bytes(model(name)))
    cache = per_row(steps, "model", lambda name: kv_bytes_per_token(model(name)))
    memory = steps["tensor_parallel"] * per_row(steps, "accelerator", lambda name: accelerators()[name].capacity)
    assert np.all(weights + cache * steps["batch_size"] * steps["context"] <= 0.9 * memory)


@pytest.mark.parametrize("kind", ["kernels", "engine"])
def test_no_step_of_a_dense_model_is_faster_than_reading_the_weights(kind):
    """A limit that needs no model of time: the weights of all layers cross the memory bus once a step."""
    steps = table("decode_steps") if kind == "kernels" else engine_steps()
    stored = {"fp16": 2.0, "fp8": 1.0, "fp4": 0.5, "q8_0": 1.0}
    bytes_each = per_row(steps, "precision", stored.get) if kind == "engine" else 2.0
    read = bytes_each * per_row(steps, "model", layer_params)
    assert np.all(steps["time"] * steps["tensor_parallel"] * per_row(steps, "accelerator", bandwidth) > read)


def bandwidth(name):
    """Return the memory bandwidth; that of DGX Spark (GB10) is not catalogued."""
    return 273e9 if name == "DGX Spark" else accelerators()[name].bandwidth


def layer_params(name):
    """Return the parameters of the layers: all but the tables of the vocabulary."""
    return params(model(name)) - 2 * model(name).vocab_size * model(name).hidden_size


def engine_steps():
    """Return the steps of dense models in running engines; a batch of requests has a step per output token."""
    served = table("end_to_end")
    dense = np.isin(served["model"], [name for name, shape in catalogue().items() if not shape.experts])
    kept = dense & np.isin(served["quantity"], ["tpot", "decode_step", "batch_latency"])
    steps = {column: values[kept] for column, values in served.items()}
    per_step = np.where(steps["quantity"] == "batch_latency", steps["output_tokens"], 1)
    return {**steps, "time": steps["value"] / per_step}


def test_no_all_reduce_is_faster_than_its_links():
    """Each of n workers sends 2 (n - 1) / n of the message; the catalogue counts both directions of a link."""
    reduced = table("all_reduce")
    sent = 2 * (reduced["workers"] - 1) / reduced["workers"] * reduced["message_bytes"]
    links = per_row(reduced, "accelerator", lambda name: accelerators()[name].link_bandwidth / 2)
    assert np.all(sent / reduced["time"] < links)


def test_a_first_token_takes_longer_than_the_next_one():
    """aiconfigurator2026: 1,024 tokens in, 4 clients, where nobody queues."""
    chosen = where("end_to_end", load="closed loop", concurrency=4, input_tokens=1024)
    first = chosen["value"][chosen["quantity"] == "ttft"]
    following = chosen["value"][chosen["quantity"] == "tpot"]
    assert first.size == following.size > 0
    assert np.all(first > following)


def test_numbers_carry_four_significant_digits_at_most():
    for name in SOURCED:
        for row in csv.DictReader((ROOT / "lib" / "data" / f"{name}.csv").open(newline="")):
            for column in {"time", "value", "spread"} & set(row):
                assert row[column] == "" or f"{float(row[column]):.4g}" == row[column]


# The same again


@with_sources
def test_deriving_again_gives_the_committed_tables_byte_for_byte(derived):
    assert derive_measurements.differing(derived, ROOT / "lib" / "data") == []


@with_sources
def test_the_check_is_silent_when_nothing_changed_and_names_a_table_that_did(tmp_path, derived, monkeypatch, capsys):
    monkeypatch.setattr(derive_measurements, "derive", lambda folder: derived)
    for name, text in derived.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")
    assert derive_measurements.main(["--check", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", "")
    (tmp_path / "all_reduce.csv").write_text(derived["all_reduce"].replace("e-05", "e-06", 1))
    assert derive_measurements.main(["--check", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "all_reduce.csv differs from what the sources give\n"


@with_sources
def test_a_fuller_copy_of_the_sources_gives_the_same_tables(tmp_path, derived):
    """Rows of other configurations are added to every kind of source; only the row counts may change."""
    fuller = {
        "splitwise_sim/perf_model_shared.csv": {"tensor_parallel": "16"},
        "llm_inference_bench/all_results_shared.csv.gz": {"Num of Hardware": "16"},
        "llm_inference_bench/ttft_itl_shared.csv": {"Framework": "SGLang"},
        "aiconfigurator/e2e_silicon_shared.csv.gz": {"backend_version": "99.0"},
        "llama_cpp/batched_bench_dgx_spark.csv": {"model": "other"},
        "vidur/compute/a100/Llama-2-7b-hf/mlp.csv.gz": {"num_tokens": "3"},
        "aiconfigurator/a100_sxm_vllm-0.14.0_decode_attention.csv.gz": {"num_heads": "3"},
        "vidur/network/h100_dgx/all_reduce.csv.gz": {"num_workers": "16", "devices_per_node": "16"},
        "llmservingsim/RTX4090_Llama-3.1-8B/kernels_dense.csv": {"tokens": "3000"},
    }
    again = derive_measurements.derive(copy_of_sources(tmp_path, fuller))
    assert [name for name in derived if again[name] != derived[name]] == ["measurement_sources"]


def copy_of_sources(folder, added):
    """Copy the public sources, append to some files their last row with cells changed, and recount."""
    shutil.copytree(DATA, folder / "data", copy_function=shutil.copyfile)
    data = folder / "data"
    for path in (data, *data.rglob("*")):
        path.chmod(0o755)
    listed = list(csv.DictReader((data / "MANIFEST.csv").open(newline="")))
    for row in listed:
        if row["file"] in added:
            rows = source_rows(row["file"])
            write_rows(data / row["file"], [*rows, rows[-1] | added[row["file"]]])
            row["rows"] = str(len(rows) + 1)
    write_rows(data / "MANIFEST.csv", listed)
    return data


def write_rows(path, rows):
    """Write dictionaries as CSV, compressed if the name says so."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)


# Planted faults


def test_absent_sources_are_a_clear_message_and_no_traceback(tmp_path, capsys):
    assert derive_measurements.main(["--data", str(tmp_path / "nowhere")]) == 2
    assert "no public sources at" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["repo", "source_path", "commit", "licence"])
def test_a_source_without_provenance_is_refused(tmp_path, column):
    sources = planted(tmp_path, **{column: " "})
    with pytest.raises(ValueError, match=rf"{column} must not be empty, got none for a\.csv"):
        sources.account("a", "a.csv", "somebody2024", [USED, USED])


def test_a_row_without_a_fate_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv must have the 2 rows of MANIFEST\.csv, got 1"):
        planted(tmp_path).account("a", "a.csv", "somebody2024", [USED])


def test_a_file_that_the_manifest_does_not_list_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"file must be listed in MANIFEST\.csv, got b\.csv"):
        planted(tmp_path).read("b.csv")


def test_a_key_used_twice_is_refused(tmp_path):
    sources = planted(tmp_path)
    sources.account("a", "a.csv", "somebody2024", [USED, "too old"])
    assert sources.accounts["a"]["why_dropped"] == "1 too old"
    with pytest.raises(ValueError, match="source key must be new, got a"):
        sources.account("a", "a.csv", "somebody2024", [USED, USED])


def planted(folder, **changed):
    """Return sources of one file with two rows, its manifest changed."""
    listed = {"file": "a.csv", "rows": "2", "repo": "r", "source_path": "p", "commit": "c", "licence": "MIT"}
    write_rows(folder / "MANIFEST.csv", [listed | {"change": "verbatim"} | changed])
    (folder / "a.csv").write_text("x\n1\n2\n")
    return Sources(folder)


# Recomputed by another path


@with_sources
def test_one_step_added_up_by_hand_from_the_source_files():
    """agrawal2024vidur and aiconfigurator2026: A100, Llama-2-7B, one device, batch 32, context 512."""
    (mlp,) = [
        row
        for row in source_rows("vidur/compute/a100/Llama-2-7b-hf/mlp.csv.gz")
        if (row["num_tokens"], row["num_tensor_parallel_workers"]) == ("32", "1")
    ]
    linear = sum(float(cell) for name, cell in mlp.items() if name.endswith(".median") and ".emb." not in name)
    (attention,) = [
        float(row["latency_ms"])
        for row in source_rows("aiconfigurator/a100_sxm_trtllm-1.0.0_decode_attention.csv.gz")
        if [row[c] for c in ("batch_size", "num_heads", "num_key_value_heads", "kv_len")] == ["32", "32", "32", "512"]
    ]
    shown = {"accelerator": "A100 SXM 80GB", "model": "Llama-2-7B", "tensor_parallel": 1}
    shown |= {"batch_size": 32, "context": 512}
    assert_allclose(only("decode_steps", "linear_time", **shown), 32 * linear / 1e3, rtol=ROUNDED)
    assert_allclose(only("decode_steps", "attention_time", **shown), 32 * attention / 1e3, rtol=ROUNDED)


@with_sources
def test_the_attention_of_vidur_by_another_path():
    """agrawal2024vidur: 80 layers of the 70B shape over two A100, all points; some were measured twice."""
    rows = [r for r in source_rows("vidur/attention_a100_gqa64-8_tp2.csv.gz") if r["is_prefill"] == "False"]
    points = np.array([[int(row["batch_size"]), int(row["kv_cache_size"])] for row in rows])
    medians = np.array([float(row["time_stats.attn_decode.median"]) for row in rows])
    steps = where("decode_steps", model="Llama-2-70B", attention="FlashAttention (Vidur)")
    for point in zip(steps["batch_size"], steps["context"], steps["attention_time"], strict=True):
        measured = medians[np.all(points == point[:2], axis=1)]
        assert_allclose(point[2], 80 * np.median(measured) / 1e3, rtol=ROUNDED)


@with_sources
def test_one_workstation_step_added_up_by_hand():
    """llmservingsim2026: RTX 4090, Llama-3.1-8B, batch 16, context 1,024; two norms per layer."""
    folder = "llmservingsim/RTX4090_Llama-3.1-8B/"
    dense = {r["layer"]: float(r["time_us"]) for r in source_rows(folder + "kernels_dense.csv") if r["tokens"] == "16"}
    head = [float(r["time_us"]) for r in source_rows(folder + "kernels_per_sequence.csv") if r["sequences"] == "16"]
    (attention,) = [
        float(row["time_us"])
        for row in source_rows(folder + "kernels_attention.csv.gz")
        if [row[c] for c in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")] == ["0", "0", "16", "1024"]
    ]
    once = dense.pop("embedding") + dense.pop("final_layernorm") + sum(head)
    step = 32 * (sum(dense.values()) + dense["layernorm"] + attention)
    shown = {"accelerator": "RTX 4090", "batch_size": 16, "context": 1024}
    assert_allclose(only("decode_steps", "time", **shown), step / 1e6, rtol=ROUNDED)
    assert_allclose(only("decode_steps", "head_time", **shown), once / 1e6, rtol=ROUNDED)


@with_sources
def test_medians_of_the_serving_sources_by_another_path():
    """patel2024splitwise, H100 at batch 16; chitty2024inferencebench, a point that was run twice."""
    times = [
        float(row["token_time"])
        for row in source_rows("splitwise_sim/perf_model_shared.csv")
        if (row["hardware"], row["tensor_parallel"], row["batch_size"]) == ("h100-80gb", "4", "16")
    ]
    shown = {"source": "splitwise-sim", "accelerator": "H100 SXM", "tensor_parallel": 4, "concurrency": 16}
    found = where("end_to_end", quantity="decode_step", **shown)
    assert_allclose(found["value"], statistics.median(times) / 1e3, rtol=ROUNDED)
    assert_allclose(found["spread"], np.subtract(*np.percentile(times, [75, 25])) / 1e3, rtol=ROUNDED)
    shown = {"accelerator": "H100 SXM", "model": "Llama-2-7B", "engine": "vLLM", "tensor_parallel": 1}
    shown |= {"concurrency": 32, "input_tokens": 1024, "quantity": "batch_latency"}
    assert_allclose(only("end_to_end", "value", **shown), (18.988406570702015 + 19.292556937318295) / 2, rtol=ROUNDED)
    assert only("end_to_end", "n", **shown) == 2


@with_sources
def test_an_all_reduce_window_by_another_path():
    """agrawal2024vidur: 8 H100, messages from 1.41 to 2.83 MB."""
    window = [
        (int(row["size"]), float(row["time_stats.all_reduce.median"]))
        for row in source_rows("vidur/network/h100_dgx/all_reduce.csv.gz")
        if row["num_workers"] == "8" and 2**20.5 < int(row["size"]) < 2**21.5
    ]
    sizes, times = np.array(window).T
    reduced = where("all_reduce", node="DGX H100", workers=8, message_bytes=np.median(sizes))
    assert_allclose(reduced["time"], np.median(times) / 1e3, rtol=ROUNDED)
    assert reduced["n"] == len(window)


# What is known of these sources


@pytest.mark.parametrize(
    ("name", "shape", "tensor_parallel", "ratios"),
    [
        ("A100 SXM 80GB", "Llama-2-7B", 1, {128: 1.11, 512: 1.49, 1024: 1.99, 2048: 2.82}),
        ("H100 SXM", "Llama-2-7B", 1, {128: 1.09, 512: 1.47, 1024: 1.90, 2048: 2.64}),
        ("A100 SXM 80GB", "Llama-2-7B", 2, {128: 1.12, 512: 1.51, 1024: 1.96, 2048: 2.91, 4096: 4.24}),
        ("A100 SXM 80GB", "Llama-3-8B", 1, {128: 1.17, 512: 1.28, 1024: 1.44, 2048: 1.76, 4096: 2.29}),
        ("A100 SXM 80GB", "Llama-2-70B", 4, {128: 1.07, 512: 1.08, 1024: 1.12, 2048: 1.19, 4096: 1.31}),
        ("H100 SXM", "Llama-2-70B", 4, {128: 1.07, 512: 1.08, 1024: 1.10, 2048: 1.18, 4096: 1.28}),
        ("H100 SXM", "Llama-2-70B", 8, {128: 1.11, 512: 1.14, 1024: 1.16, 2048: 1.23, 4096: 1.38}),
    ],
)
def test_a_batch_of_32_costs_little_more_than_one_while_the_cache_is_small(name, shape, tensor_parallel, ratios):
    """t(32) / t(1) of the kernels, as found when the sources were first read (project notes, section 4)."""
    for context, published in ratios.items():
        shown = {"accelerator": name, "model": shape, "tensor_parallel": tensor_parallel, "context": context}
        one, many = (only("decode_steps", "time", batch_size=batch_size, **shown) for batch_size in (1, 32))
        assert many / one == pytest.approx(published, abs=0.006)


def test_a_batch_that_does_not_fit_is_not_listed():
    """Llama-2-7B, batch 32, context 4,096: 68.7 GB of cache and 13.5 GB of weights on one A100."""
    shown = {"accelerator": "A100 SXM 80GB", "model": "Llama-2-7B", "tensor_parallel": 1, "batch_size": 32}
    assert where("decode_steps", **shown)["context"].max() == 2048


def test_one_attention_profile_has_one_outlier_and_it_is_dropped():
    """aiconfigurator2026: A100, 32 query and 4 KV heads, batch 4, context 512 took 3.5 times its neighbours."""
    (why,) = where("measurement_sources", source="aiconfigurator-a100-vllm")["why_dropped"]
    assert "1 outlier" in why
    shown = {"accelerator": "A100 SXM 80GB", "tensor_parallel": 2, "attention": "vLLM 0.14.0"}
    shown |= {"model": "Llama-2-70B", "batch_size": 4}
    assert 512 not in where("decode_steps", **shown)["context"]
    assert {256, 1024} < set(where("decode_steps", **shown)["context"])


def test_two_attention_profiles_of_the_same_shape_agree():
    """agrawal2024vidur against aiconfigurator2026: Llama-2-70B over two A100, the whole step within 3 %."""
    shown = {"accelerator": "A100 SXM 80GB", "model": "Llama-2-70B", "tensor_parallel": 2}
    ours = where("decode_steps", attention="FlashAttention (Vidur)", **shown)
    theirs = where("decode_steps", attention="vLLM 0.14.0", **shown)
    first, second = (
        dict(zip(zip(t["batch_size"], t["context"], strict=True), t["time"], strict=True)) for t in (ours, theirs)
    )
    ratios = np.array([first[point] / second[point] for point in first.keys() & second.keys()])
    assert ratios.size > 25
    assert np.all(abs(ratios - 1) < 0.03)


@pytest.mark.parametrize(("concurrency", "published"), [(1, 0.0449), (64, 0.0716)])
def test_the_splitwise_medians_of_eight_a100(concurrency, published):
    """patel2024splitwise: Llama-2-70B, prompt 512, 128 tokens out."""
    shown = {"accelerator": "A100 SXM 80GB", "tensor_parallel": 8, "concurrency": concurrency}
    shown |= {"input_tokens": 512, "output_tokens": 128, "quantity": "decode_step"}
    assert only("end_to_end", "value", **shown) == pytest.approx(published, abs=6e-5)
    printed = only("published_results", "value", id=f"splitwise-70b-a100-tp8-b{concurrency}")
    assert only("end_to_end", "value", **shown) == pytest.approx(printed, abs=6e-5)


@pytest.mark.parametrize(
    ("name", "shape", "ratios"),
    [
        ("A100 SXM 40GB", "Llama-2-7B", {128: 1.49, 256: 1.64, 512: 1.94, 1024: 2.49, 2048: 2.98}),
        ("A100 SXM 40GB", "Llama-3-8B", {128: 1.36, 256: 1.41, 512: 1.48, 1024: 1.65, 2048: 2.06}),
        ("H100 SXM", "Llama-2-70B", {128: 1.36, 256: 1.38, 512: 1.41, 1024: 1.44, 2048: 1.49}),
        ("H100 SXM", "Llama-2-7B", {128: 1.35, 256: 1.48, 512: 1.68, 1024: 2.07, 2048: 2.37}),
    ],
)
def test_a_whole_batch_of_32_against_one_request(name, shape, ratios):
    """chitty2024inferencebench: median over engines and devices of the cases that fit (project notes, section 4).

    The notes give 2.18 for Llama-2-7B on H100 at 1,024 tokens; the six cases have the median 2.07.
    """
    for length, published in ratios.items():
        shown = {"accelerator": name, "model": shape, "input_tokens": length, "quantity": "batch_latency"}
        one, many = (where("end_to_end", concurrency=n, **shown) for n in (1, 32))
        found = [
            many_s / one_s
            for many_s, one_s, fits in zip(many["value"], one["value"], many["fits"], strict=True)
            if fits == "yes"
        ]
        assert np.median(found) == pytest.approx(published, abs=0.006)


def test_a_batch_beyond_memory_runs_in_waves():
    """chitty2024inferencebench: 32 requests cost 2.3 to 6.5 times one where they do not fit."""
    found = where("end_to_end", quantity="batch_latency", concurrency=32, fits="no")
    columns = ("accelerator", "model", "engine", "tensor_parallel", "input_tokens")
    ratios = []
    for *point, value in zip(*(found[column] for column in (*columns, "value")), strict=True):
        alone = dict(zip(columns, point, strict=True))
        ratios.append(value / only("end_to_end", "value", quantity="batch_latency", concurrency=1, **alone))
    assert min(ratios) > 2
    assert max(ratios) == pytest.approx(6.5, abs=0.05)


@pytest.mark.parametrize(("context", "published"), [(512, 1.58), (4096, 2.50), (8192, 3.37)])
def test_a_dense_model_on_the_spark(context, published):
    """gerganov2025spark: Qwen2.5-7B in 8 bit, batch 32 against 1."""
    shown = {"engine": "llama.cpp", "model": "Qwen2.5-7B", "input_tokens": context}
    one, many = (only("end_to_end", "value", concurrency=n, **shown) for n in (1, 32))
    assert many / one == pytest.approx(published, abs=0.006)


def test_experts_make_a_batch_dearer_than_a_dense_model():
    """gerganov2025spark: at 32 sequences nearly every expert is touched."""
    for context in (512, 4096, 8192):
        shown = {"engine": "llama.cpp", "input_tokens": context}
        dense, sparse = (
            only("end_to_end", "value", concurrency=32, model=name, **shown)
            / only("end_to_end", "value", concurrency=1, model=name, **shown)
            for name in ("Qwen2.5-7B", "gpt-oss-20b")
        )
        assert sparse > 1.5 * dense


def test_the_prefill_of_a_larger_batch_takes_longer():
    """patel2024splitwise: what broke this, batch 64 over two devices, is dropped."""
    for name, devices in (("A100 SXM 80GB", (2, 4, 8)), ("H100 SXM", (2, 4))):
        for tensor_parallel in devices:
            shown = {"source": "splitwise-sim", "accelerator": name, "tensor_parallel": tensor_parallel}
            shown |= {"input_tokens": 512, "output_tokens": 128}
            prefill = where("end_to_end", quantity="prefill_time", **shown)
            assert np.all(np.diff(prefill["value"][np.argsort(prefill["concurrency"])]) > 0)


def test_a_larger_batch_or_a_longer_one_is_never_faster():
    """chitty2024inferencebench, within 3 %: what broke this was start-up on MI300X, and is dropped."""
    served = where("end_to_end", quantity="batch_latency")
    columns = ("accelerator", "model", "engine", "tensor_parallel")
    groups = list(zip(*(served[column] for column in columns), strict=True))
    for group in set(groups):
        chosen = np.array([other == group for other in groups])
        batch_size, length, time = (served[c][chosen] for c in ("concurrency", "input_tokens", "value"))
        larger = (batch_size >= batch_size[:, None]) & (length >= length[:, None])
        assert np.all(np.where(larger, time, np.inf) > 0.97 * time[:, None]), group


def test_batch_one_repeats_the_larger_tables():
    kernels = where("batch_one", kind="kernels", accelerator="A100 SXM 80GB", model="Llama-2-7B")
    shown = {"accelerator": "A100 SXM 80GB", "model": "Llama-2-7B", "tensor_parallel": 1, "batch_size": 1}
    assert kernels["time"] == only("decode_steps", "time", context=128, **shown)
    shown = {"accelerator": "A100 SXM 80GB", "tensor_parallel": 2, "concurrency": 1, "input_tokens": 128}
    engine = where("batch_one", kind="end to end", accelerator="A100 SXM 80GB")
    assert engine["time"] == only("end_to_end", "value", quantity="decode_step", **shown)
    assert 15 <= table("batch_one")["time"].size <= 45


# Published single results


def printed(key):
    """Return one published value."""
    return only("published_results", "value", id=key)


def test_every_published_result_says_where_and_when_and_how_it_was_checked():
    published = table("published_results")
    assert len(set(published["id"])) == published["id"].size
    for column in ("quantity", "conditions", "source", "where"):
        assert all(published[column]), column
    assert all(re.fullmatch(r"20\d\d(-\d\d){0,2}", date) for date in published["date"])
    assert set(published["checked"]) == {"source", "secondary", "notes", "derived"}


def test_gpt_fast_reads_its_weights_once_per_token():
    """pytorch2023gptfast: rate x bytes of Llama-2-7B without the input embedding is the bandwidth it prints."""
    shape = model("Llama-2-7B")
    read = weight_bytes(shape) - 2 * shape.vocab_size * shape.hidden_size
    assert printed("gptfast-7b-bf16-rate") * read == pytest.approx(printed("gptfast-7b-bf16-bandwidth"), rel=0.01)


def test_fewer_bytes_make_gpt_fast_faster_but_not_in_proportion():
    """pytorch2023gptfast: int4 moves under 0.62 of the bf16 bandwidth."""
    kinds = ("bf16", "int8", "int4")
    rates = [printed(f"gptfast-7b-{kind}-rate") for kind in kinds]
    bandwidths = [printed(f"gptfast-7b-{kind}-bandwidth") for kind in kinds]
    assert rates == sorted(rates)
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert bandwidths[-1] < 0.62 * bandwidths[0]


def test_kipply_is_three_quarters_of_the_way_to_the_ideal():
    """chen2022arithmetic prints 76 %, with 1.5e12 B/s; the exact bandwidth makes it 74 %."""
    bytes_read = 2 * 40 * 12 * 5120**2
    assert printed("kipply-13b-ideal-1") == pytest.approx(bytes_read / 1.5e12, abs=5e-5)
    assert printed("kipply-13b-ideal-1555") == pytest.approx(bytes_read / 1.555e12, abs=5e-5)
    assert printed("kipply-13b-ideal-1") / printed("kipply-13b-decode-1") == pytest.approx(0.76, abs=0.005)
    rest = printed("kipply-13b-total-1") - printed("kipply-13b-prefill-1")
    assert rest / 10 == pytest.approx(printed("kipply-13b-decode-1"), rel=0.01)


@pytest.mark.parametrize(("cache", "bytes_per_sequence"), [("mha", 6.7e9), ("gqa", 1.34e9)])
@pytest.mark.parametrize("batch_size", [1, 8, 16, 32, 64, 240])
def test_the_scaling_book_divides_bytes_by_bandwidth(cache, bytes_per_sequence, batch_size):
    """austin2025scaling, part 7: 26e9 B of weights, 8 x 8.2e11 B/s; its rate is batch over step."""
    step = printed(f"scaling-13b-{cache}-b{batch_size}-step")
    assert step == pytest.approx((26e9 + batch_size * bytes_per_sequence) / (8 * 8.2e11), abs=1e-5)
    assert printed(f"scaling-13b-{cache}-b{batch_size}-rate") == pytest.approx(batch_size / step, rel=2e-3)


def test_the_day_of_deepseek_adds_up():
    """deepseek2025inference: nodes x 8 x 24 h x USD 2 is the cost; tokens x prices are the revenue."""
    day = {key: printed(f"deepseek-day-{key}") for key in ("nodes-mean", "gpu-price", "cost", "revenue", "margin")}
    assert day["nodes-mean"] * 8 * 24 * day["gpu-price"] == day["cost"]
    assert (day["revenue"] - day["cost"]) / day["cost"] == pytest.approx(day["margin"], abs=0.006)
    cached, read, written = (printed(f"deepseek-day-{key}") for key in ("input-cached", "input", "output"))
    prices = [printed(f"deepseek-day-price-{key}") for key in ("hit", "miss", "output")]
    assert np.dot(prices, [cached, read - cached, written]) == pytest.approx(day["revenue"], rel=2e-3)


def test_the_rates_of_deepseek_give_its_number_of_nodes():
    """deepseek2025inference: 95.5 nodes that prefill and 131.4 that decode, 226.75 printed."""
    prefill = printed("deepseek-day-input") / 86400 / printed("deepseek-day-prefill-rate")
    decode = printed("deepseek-day-output") / 86400 / printed("deepseek-day-decode-rate")
    assert (prefill, decode) == (pytest.approx(95.5, abs=0.05), pytest.approx(131.4, abs=0.05))
    assert prefill + decode == pytest.approx(printed("deepseek-day-nodes-mean"), rel=1e-3)


def test_the_requests_of_deepseek_share_a_node_as_its_speed_says():
    """deepseek2025inference: 14.8k token/s of a node at 20 to 22 token/s each are 673 to 740 requests."""
    rate = printed("deepseek-day-decode-rate")
    assert rate / printed("deepseek-day-speed-high") == pytest.approx(673, abs=1)
    assert rate / printed("deepseek-day-speed-low") == 740


def test_the_latent_kernel_is_below_the_peaks_of_its_machine():
    """deepseek2025flashmla: 3,000 of 3,350 GB/s, 660 of 989 TFLOP/s."""
    machine = accelerators()["H800"]
    assert printed("flashmla-h800-bandwidth") / machine.bandwidth == pytest.approx(0.896, abs=0.001)
    assert printed("flashmla-h800-arithmetic") / machine.flop_rates["bf16"] == pytest.approx(0.667, abs=0.001)


def test_chunked_prefill_more_than_doubles_the_goodput():
    """holmes2024fastgen prints 2.3 for 1.42 over 0.63 requests/s."""
    ratio = printed("fastgen-splitfuse-goodput") / printed("fastgen-vllm-goodput")
    assert ratio == pytest.approx(printed("fastgen-goodput-ratio"), abs=0.05)


def test_the_cache_of_opt_13b_is_what_paged_attention_prints():
    """kwon2023pagedattention, section 3: 800 KB per token."""
    assert printed("paged-opt13b-kv") == kv_bytes_per_token(model("OPT-13B")) == 800 * 1024
    shares = [printed(f"paged-useful-{kind}") for kind in ("max", "pow2", "oracle", "vllm")]
    assert shares == sorted(shares)


def test_the_fit_of_distserve_gives_seconds():
    """zhong2024distserve: OPT-13B on one A100, batch 16 with 512 tokens each, near its 26e9 B over 2.039e12 B/s."""
    constant, token, sequence = (printed(f"distserve-opt-13b-tp1-small-{i}") for i in range(3))
    step = constant + token * 16 * 512 + sequence * 16
    assert 26e9 / 2.039e12 < step < 3 * 26e9 / 2.039e12


@with_sources
def test_the_throughputs_of_tensorrt_llm_are_those_of_the_transcript():
    """nvidia2025trtllmperf: Llama-3.3-70B, fp8, two H100."""
    for row in source_rows("tensorrt_llm/max_throughput_shared.csv"):
        key = f"trtllm-70b-h100-tp2-{row['isl']}-{row['osl']}"
        selected = (row["model"], row["gpu"]) == ("Llama-3.3-70B", "H100")
        if selected and key in table("published_results")["id"]:
            assert printed(key) == float(row["total_output_tokens_per_s"])
