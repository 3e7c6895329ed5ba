"""The tables of measurements arrive as checked, read-only columns."""

import numpy as np
import pytest

from lib.measured import TABLES, table, table_in


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_a_table_has_the_same_length(name):
    lengths = {column.shape for column in table(name).values()}
    assert len(lengths) == 1
    assert lengths.pop()[0] > 1


def test_times_are_numbers_and_names_are_text():
    steps = table("decode_steps")
    assert steps["time"].dtype.kind == "f"
    assert steps["model"].dtype.kind == "U"


def test_a_column_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        table("decode_steps")["time"][0] = 0.0


def test_a_time_that_was_not_measured_is_nan():
    steps = table("decode_steps")
    without_head = ~np.char.startswith(steps["accelerator"], "RTX")
    assert np.array_equal(np.isnan(steps["head_time"]), without_head)


def test_an_unknown_table_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"name must be one of .*decode_steps.*got 'steps'"):
        table("steps")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,time\n", "measured.csv must have rows, got none"),
        ("model,time\na,0.1\nb\n", "measured.csv row 3: must have 2 cells, got 1"),
        ("model,time\na,0.1\nb,fast\n", "measured.csv time must hold numbers, got 'fast'"),
        ("model,time\na,0.1\nb,\n", "measured.csv time must hold numbers, got ''"),
        ("model,time\na,0.1\nb,nan\n", "measured.csv time must be a number, got nan"),
        ("model,time\na,0.1\nb,-1\n", "measured.csv time must be at least 0, got -1"),
        ("model,spread\na,0.1\nb,-1\n", "measured.csv spread must be at least 0, got -1"),
    ],
)
def test_a_bad_cell_is_refused_by_file_and_column(tmp_path, text, message):
    (tmp_path / "measured.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        table_in(tmp_path / "measured.csv")


def test_a_spread_that_nobody_measured_may_be_empty(tmp_path):
    (tmp_path / "measured.csv").write_text("model,spread\na,\n")
    assert np.isnan(table_in(tmp_path / "measured.csv")["spread"]).all()
