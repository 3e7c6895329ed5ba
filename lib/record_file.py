"""The file of a record: JSON written whole or not at all, read, checked, and gone on with where it was cut off."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lib import arguments

DISK = 50e6
LINE_START = '{"round"'  # every part that begins so gets a line of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What makes a record one of its kind.

    Attributes
    ----------
    fields : tuple of str
        What it must hold.
    marks : tuple of (str, int or str)
        What it must say of itself, such as ``("schema", 1)``.
    same : tuple of str
        Fields in which a run that goes on must agree with the one that was cut off.
    """

    fields: tuple
    marks: tuple
    same: tuple

    def __post_init__(self):
        if unknown := {*self.same, *(mark for mark, _ in self.marks)} - {*self.fields}:
            raise ValueError(f"same and marks must be of the fields, got {min(unknown)}")


def write(kind, path, content):
    """Write a record whole or not at all: a run that is killed leaves the last good one.

    Parameters
    ----------
    kind : Kind
    path : path
    content : dict

    Raises
    ------
    ValueError
        If the content is no record of this kind.
    OSError
        If it cannot be written.
    """
    path = Path(path)
    checked(kind, "content", content)
    beside = path.with_name(path.name + ".tmp")
    try:
        text = json.dumps(content, indent=None, separators=(", ", ": "), allow_nan=False)
        beside.write_text(text.replace(LINE_START, "\n" + LINE_START) + "\n")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def content_of(kind, path):
    """Return what a record's file holds.

    Parameters
    ----------
    kind : Kind
    path : path

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is no JSON, of another kind or schema, or lacks a part; names the file.
    """
    path = Path(path)
    return checked(kind, path.name, json_of(path))


def json_of(path):
    """Return what a JSON file holds.

    Parameters
    ----------
    path : path

    Raises
    ------
    ValueError
        If it cannot be read or is no JSON; names the file.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} must be a record in JSON: {error}") from None


def checked(kind, name, content):
    """Return the content of a record, if it is one of this kind.

    Parameters
    ----------
    kind : Kind
    name : str
        Of the file, or of the argument.
    content : dict

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is another kind of record, or lacks a part.
    """
    arguments.text("name", name)
    marks, is_record = dict(arguments.record("kind", kind, Kind).marks), isinstance(content, dict)
    found = {mark: content.get(mark) for mark in marks} if is_record else content
    if found != marks:
        rule = " and ".join(f"{mark} {value}" for mark, value in marks.items())
        got = " and ".join(str(value) for value in found.values()) if is_record else f"{content!r:.60}"
        raise ValueError(f"{name} must be a record of {rule}, got {got}")
    if missing := [part for part in kind.fields if part not in content]:
        raise ValueError(f"{name} must hold {', '.join(kind.fields)}; got no {missing[0]}")
    return content


def files_in(folder, *, own=False):
    """Return the files of finished records in a folder.

    Parameters
    ----------
    folder : path
    own : bool
        Those of the reader's machine, or those that came with the report.

    Returns
    -------
    list of Path
        In the order of their names.
    """
    own = arguments.flag("own", own)
    finished = [path for path in Path(folder).glob("*.json") if not path.name.endswith(".part.json")]
    return sorted((path for path in finished if path.name.startswith("local") == own), key=lambda path: path.stem)


def begun(kind, output, fresh, *, started):
    """Return the record to fill, the one that was cut off or a new one, and where it stands until it is complete.

    Parameters
    ----------
    kind : Kind
    output : path
        Where the complete record will go.
    fresh : dict
        The record to begin with. It is written once, to see that it can be.
    started : callable
        Whether a record that was cut off holds anything to go on with.

    Returns
    -------
    tuple of (dict, Path)

    Raises
    ------
    ValueError
        If an unfinished record with other settings is in its place, it cannot be written
        there, or the disk is full.
    """
    checked(kind, "fresh", fresh)
    arguments.record("started", started, Callable)
    part = Path(output).with_suffix(".part.json")
    if part.exists():
        old = content_of(kind, part)
        if any(old[key] != fresh[key] for key in kind.same):
            raise ValueError(
                f"output must hold no unfinished run with other settings: finish it, or delete it; got {part}"
            )
        if started(old):
            return old, part
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        write(kind, part, fresh)
        free = shutil.disk_usage(part.parent).free
    except OSError as error:
        raise ValueError(f"output must be a place that can be written, got {output}: {error}") from None
    if free < DISK:
        part.unlink()
        raise ValueError(f"output must have {DISK / 1e6:.0f} MB of free disk, got {free / 1e6:.0f} MB at {part.parent}")
    return fresh, part


def version():
    """Return the version of this library, as it is installed.

    Returns
    -------
    str
        "not installed" if it runs from its folder alone.
    """
    try:
        return metadata.version("one-trip-many-tokens")
    except metadata.PackageNotFoundError:
        return "not installed"
