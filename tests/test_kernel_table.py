"""An iteration from measured kernels: each part by hand, between the points, and beyond the last."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.kernel_table import KernelTable, kernel_table_in, vllm_graph_sizes
from lib.replica import StepLoad

FOLDER = Path(__file__).parent / "data" / "kernels"
PUBLIC = Path(__file__).resolve().parents[2] / "shared" / "data" / "llmservingsim"
MICRO = 1e-6

with_sources = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public kernel tables are not on this machine")


def attention(prompt_tokens, cached, decoding, context):
    """The law from which the table in ``tests/data/kernels`` was made, s."""
    return MICRO * (4 + 0.5 * prompt_tokens + 0.01 * prompt_tokens * cached + 0.02 * decoding * context)


def linear(tokens, layers):
    return MICRO * (2 + 3 + layers * (2 * 1 + 10 + tokens))


def head(sequences):
    return MICRO * (5 + 0.1 * sequences + 1)


def load(decoding, context, *chunks):
    read = sum(size for size, _ in chunks)
    return StepLoad(decoding, context, read, 0.0, tuple(chunks))


@pytest.fixture(scope="module")
def table():
    return kernel_table_in(FOLDER, 2)


def test_an_iteration_that_only_decodes_is_the_sum_of_its_kernels(table):
    """8 sequences with 64 tokens cached: they attend to 65 each, the one that goes in included."""
    assert_allclose(table(load(8, 8 * 65)), linear(8, 2) + head(8) + 2 * attention(0, 0, 8, 64))


def test_a_layer_norm_counts_twice_in_a_layer_and_the_embedding_once_in_all():
    """From 2 to 3 layers: two norms of 1 us, 10 + 1 us for the token, and the attention of one layer."""
    times = [kernel_table_in(FOLDER, layers)(load(1, 17)) for layers in (2, 3)]
    assert_allclose(times[1] - times[0], MICRO * (2 + 11) + attention(0, 0, 1, 16))


def test_the_first_prompt_shares_its_attention_with_those_who_decode_and_the_others_are_added(table):
    expected = linear(84, 2) + head(6)
    expected += 2 * (attention(64, 64, 4, 40) + attention(16, 0, 0, 0))
    assert_allclose(table(load(4, 4 * 41, (64, 64), (16, 0))), expected)


def test_sequences_of_unequal_length_count_with_their_mean(table):
    assert table(load(2, 17 + 65)) == table(load(2, 41 + 41))


@pytest.mark.parametrize("shape", [(16, 32, 4, 40), (40, 64, 1, 17), (200, 100, 5, 200), (17, 1, 2, 100)])
def test_between_measured_shapes_attention_is_linear_in_each_length(table, shape):
    """The law is: so the table gives it back at any shape between."""
    assert_allclose(table.attention_time(*shape), attention(*shape))


@pytest.mark.parametrize("shape", [(0, 0, 8, 256), (16, 0, 8, 1000), (64, 64, 16, 100), (16, 1000, 0, 0)])
def test_beyond_the_last_measured_shape_it_goes_on_as_before(table, shape):
    assert_allclose(table.attention_time(*shape), attention(*shape))


def test_below_the_first_measured_shape_it_stays(table):
    assert table.attention_time(3, 0, 0, 0) == attention(16, 0, 0, 0)
    assert table.attention_time(0, 0, 1, 0) == attention(0, 0, 1, 16)


def test_an_iteration_is_padded_to_the_next_recorded_graph(table):
    padded = kernel_table_in(FOLDER, 2, graph_sizes=(4, 8, 64))
    assert_allclose(padded(load(5, 5 * 65)) - table(load(5, 5 * 65)), 2 * 3 * MICRO)
    assert padded(load(8, 8 * 65)) == table(load(8, 8 * 65))
    assert padded(load(2, 2 * 65, (64, 0))) == table(load(2, 2 * 65, (64, 0)))  # beyond the last graph


def test_the_host_takes_its_time_only_where_prompts_are_read(table):
    slow = kernel_table_in(FOLDER, 2, prompt_host_time=0.5)
    assert slow(load(7, 7 * 65)) == table(load(7, 7 * 65))
    assert_allclose(slow(load(7, 7 * 65, (16, 0))) - table(load(7, 7 * 65, (16, 0))), 0.5)


def test_more_tokens_than_the_table_has_are_refused(table):
    with pytest.raises(ValueError, match="tokens must be at most 256 in an iteration, where the table ends, got 300"):
        table(load(0, 0, (300, 0)))
    with pytest.raises(ValueError, match="sequences must be at most 8"):
        table(load(9, 90))


def test_a_kind_of_iteration_that_was_not_measured_is_refused(table):
    decoding = {(False, True): table.attention[False, True]}
    poor = KernelTable(
        layers=2, tokens=table.tokens, token_time=table.token_time, sequences=table.sequences,
        sequence_time=table.sequence_time, attention=decoding,
    )  # fmt: skip
    with pytest.raises(ValueError, match="attention must hold iterations of prompts and decoding, got none"):
        poor(load(1, 10, (16, 0)))


def test_vllm_records_graphs_to_twice_its_sequences():
    """vLLM, documentation of `cudagraph_capture_sizes`: 1, 2, 4, by 8 to 256, by 16 to 512."""
    assert vllm_graph_sizes(8) == (1, 2, 4, 8, 16)
    assert vllm_graph_sizes(128)[-3:] == (240, 248, 256)
    assert vllm_graph_sizes(1024)[-2:] == (496, 512)
    assert len(vllm_graph_sizes(256)) == 3 + 31 + 17


def spoiled(tmp_path, part, old, new):
    for file in FOLDER.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    file = tmp_path / f"{part}.csv"
    file.write_text(file.read_text().replace(old, new, 1))
    return tmp_path


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        (
            "attention",
            "0,0,1,16,4.32",
            "0,0,1,16,fast",
            "attention.csv line 2: must hold numbers, got 0, 0, 1, 16, fast",
        ),
        ("dense", "mlp,4,14", "mlp,4,0", "dense.csv line 9: must hold sizes of at least 0 and a time above 0"),
        ("dense", "mlp,4,14", "mlp,,14", "dense.csv line 9: must hold numbers, got mlp, , 14"),
        ("dense", "tokens", "token", "dense.csv must have the column tokens, got layer, token, time_us"),
        ("per_sequence", "lm_head,1,", "lm_head,-1,", "per_sequence.csv line 2: must hold sizes of at least 0"),
    ],
)
def test_a_bad_line_is_named(tmp_path, part, old, new, message):
    with pytest.raises(ValueError, match=message):
        kernel_table_in(spoiled(tmp_path, part, old, new), 2)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="folder must hold one of dense"):
        kernel_table_in(tmp_path, 2)


@with_sources
def test_the_public_tables_give_the_decode_steps_that_the_report_derived_from_them():
    """lib/data/decode_steps.csv: sums of the same kernels, by another road: 64 sequences, 512 tokens, RTX 4090."""
    from lib.measured import table as derived

    kernels = kernel_table_in(PUBLIC / "RTX4090_Llama-3.1-8B", 32)
    steps = derived("decode_steps")
    here = (steps["accelerator"] == "RTX 4090") & (steps["batch_size"] == 64) & (steps["context"] == 512)
    expected = (steps["time"] + steps["head_time"])[here][0]
    assert_allclose(kernels(load(64, 64 * 513)), expected, rtol=1e-3)
    assert np.all(np.diff(kernels.token_time[-20:]) > 0)
