"""The file of a record: whole or not at all, gone on with where it was cut off, refused where it cannot be."""

import shutil
from types import SimpleNamespace

import pytest

from lib import record_file

KIND = record_file.Kind(fields=("schema", "command", "runs"), marks=(("schema", 7),), same=("command",))
FRESH = {"schema": 7, "command": "run", "runs": []}


def begun(tmp_path, fresh=FRESH):
    return record_file.begun(KIND, tmp_path / "r.json", fresh, started=lambda old: bool(old["runs"]))


def test_a_new_record_is_written_once_before_the_work_starts(tmp_path):
    content, part = begun(tmp_path)
    assert content == FRESH
    assert part == tmp_path / "r.part.json"
    assert record_file.content_of(KIND, part) == FRESH
    assert not (tmp_path / "r.json").exists()


def test_a_record_that_was_cut_off_is_gone_on_with(tmp_path):
    _, part = begun(tmp_path)
    record_file.write(KIND, part, FRESH | {"runs": [1], "date": "yesterday"})
    content, _ = begun(tmp_path, FRESH | {"date": "today"})
    assert (content["runs"], content["date"]) == ([1], "yesterday")


def test_a_record_that_holds_nothing_yet_is_begun_anew(tmp_path):
    begun(tmp_path, FRESH | {"date": "yesterday"})
    content, part = begun(tmp_path, FRESH | {"date": "today"})
    assert content["date"] == record_file.content_of(KIND, part)["date"] == "today"


def test_an_unfinished_record_with_other_settings_stays(tmp_path):
    begun(tmp_path)
    with pytest.raises(ValueError, match="output must hold no unfinished run with other settings"):
        begun(tmp_path, FRESH | {"command": "run faster"})
    assert record_file.content_of(KIND, tmp_path / "r.part.json")["command"] == "run"


def test_a_full_disk_and_a_place_that_cannot_be_written_are_refused_before_the_work_starts(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="output must be a place that can be written"):
        begun(tmp_path / "file")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    with pytest.raises(ValueError, match="output must have 50 MB of free disk, got 1 MB"):
        begun(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_each_part_that_begins_a_line_gets_one_and_no_half_file_stays(tmp_path):
    record_file.write(KIND, tmp_path / "r.json", FRESH | {"runs": [{"round": 0}, {"round": 1}]})
    assert len((tmp_path / "r.json").read_text().splitlines()) == 3
    with pytest.raises(ValueError, match="JSON compliant"):
        record_file.write(KIND, tmp_path / "x.json", FRESH | {"runs": [float("nan")]})
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_kind_names_only_fields_that_it_has():
    with pytest.raises(ValueError, match="same and marks must be of the fields, got date"):
        record_file.Kind(fields=("schema",), marks=(("schema", 1),), same=("date",))
