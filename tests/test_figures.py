"""What a reader can take away from a figure: its rows, its pictures, its citation."""

import csv
import io
import json
import re

import pytest
from pybtex.database import parse_string

from lib import book, figures
from tests.conftest import build_test_book

EDITION = {
    "title": "A Book: of figures", "version": "1.2.0", "date": "2026-11-30", "authors": "the writers & co",
    "repository": "", "site": "",
}
RECORD = {"page": "chapters/one", "spec": {"mark": "line"}, "takeaway": "It costs 5 % more & takes USD 3."}
UNIT = re.compile(r".+ \(.+\)$|^year|.+ over .+")  # a year and a ratio have none


def specifications(root):
    for path in sorted((root / "figures").glob("*.vl.json")):
        yield path.name.removesuffix(".vl.json"), json.loads(path.read_text(encoding="utf-8"))


def test_every_figure_on_a_page_has_all_its_files(books):
    for root in books.values():
        paths = [*root.glob("*.html"), *root.glob("chapters/*.html")]
        pages = "".join(path.read_text(encoding="utf-8") for path in paths)
        declared = set(re.findall(r'<figure[^>]* id="([^"]+)"', pages))
        files = {path.name for path in (root / "figures").iterdir()}
        suffixes = ("svg", "png", "csv", "bib", "vl.json")
        assert files == {f"{key}.{suffix}" for key in declared for suffix in suffixes}
        assert declared


def test_the_rows_in_the_file_are_the_rows_in_the_chart(books):
    for root in books.values():
        for key, spec in specifications(root):
            rows = [row for values in spec["datasets"].values() for row in values]
            header, *written = csv.reader(io.StringIO((root / "figures" / f"{key}.csv").read_text(encoding="utf-8")))
            assert len(written) == len(rows), key
            first = 1 if len(spec["datasets"]) > 1 else 0
            fields = list(dict.fromkeys(field for row in rows for field in row))
            for line, row in zip(written, rows, strict=True):
                assert line[first:] == [str(row.get(field, "")) for field in fields], key
            assert len(header) == first + len(fields)


def test_columns_of_an_axis_carry_its_words_and_unit(test_book):
    header = (test_book / "figures" / "fig-plain.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "batch size (sequences),step time (ms)"


def test_every_quantity_on_an_axis_has_a_unit(books):
    for root in books.values():
        for key, spec in specifications(root):
            for title in axis_titles(spec):
                assert UNIT.match(title), f"{key}: {title!r} has no unit"


def axis_titles(part):
    """Return the titles of quantitative axes anywhere in a specification."""
    if isinstance(part, list):
        return [title for item in part for title in axis_titles(item)]
    if not isinstance(part, dict):
        return []
    titles = [title for key, item in part.items() if key != "datasets" for title in axis_titles(item)]
    for channel in ("x", "y"):
        encoding = part.get(channel)
        if isinstance(encoding, dict) and encoding.get("type") == "quantitative" and encoding.get("title"):
            titles.append(encoding["title"])
    return titles


def test_every_citation_is_bibtex_and_names_the_figure_and_the_version(books):
    for root in books.values():
        for path in (root / "figures").glob("*.bib"):
            entry = parse_string(path.read_text(encoding="utf-8"), "bibtex").entries[path.stem]
            assert f"({path.stem})" in entry.fields["howpublished"].replace("\\", "")
            assert "version" in entry.fields["howpublished"]
            assert entry.persons["author"]
            assert entry.fields["title"]


def test_a_citation_has_an_address_only_where_the_book_has_one():
    bibtex, plain = figures.citation(EDITION, "fig-a", "1.2", RECORD)
    assert "http" not in bibtex + plain
    placed = {**EDITION, "site": "https://writers.github.io/book/"}
    bibtex, plain = figures.citation(placed, "fig-a", "1.2", RECORD)
    address = "https://writers.github.io/book/chapters/one.html#fig-a"
    assert parse_string(bibtex, "bibtex").entries["fig-a"].fields["url"] == address
    assert plain.endswith(address)


def test_a_citation_keeps_percent_and_ampersand_from_tex():
    bibtex, plain = figures.citation(EDITION, "fig-a", "1.2", RECORD)
    assert r"5 \% more \& takes USD 3" in bibtex
    assert r"the writers \& co" in bibtex
    assert "5 % more & takes USD 3." in plain


def test_pages_name_one_version(books):
    for root in books.values():
        version = book.edition(str(root.parent.parent))["version"]
        for path in [root / "index.html", *root.glob("chapters/*.html")]:
            page = path.read_text(encoding="utf-8")
            assert set(re.findall(r"version (\d+\.\d+\.\d+)", page)) == {version}, path.name


@pytest.mark.slow
def test_two_builds_are_the_same_to_the_byte(test_book, tmp_path):
    again = build_test_book(tmp_path / "another place")
    one, other = (
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (test_book, again)
    )
    assert one.keys() == other.keys()
    assert {name for name in one if one[name] != other[name]} == set()
