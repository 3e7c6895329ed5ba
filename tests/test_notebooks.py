"""Each page as a notebook that stands on its own."""

import re
import sys

import nbformat
import pytest

from lib import copies, downloads
from tests.conftest import ROOT

LEFTOVER = re.compile(r"\{[\w:-]+\}`|^:{3,}|^`{3,}\{|^\([\w-]+\)=", re.MULTILINE)


def notebooks(books):
    for root in books.values():
        for path in sorted((root / "notebooks").glob("*.ipynb")):
            yield path, nbformat.read(path, as_version=4)


def test_every_notebook_is_valid_and_comes_executed_and_clean(books):
    found = {path.name: notebook for path, notebook in notebooks(books)}
    assert len(found) >= 2
    for name, notebook in found.items():
        nbformat.validate(notebook)
        assert name.removesuffix(".ipynb").removesuffix("-clean") + ".ipynb" in found
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert bool(outputs) != name.endswith("-clean.ipynb")


def test_every_figure_of_a_page_is_an_output_of_its_notebook(books):
    for root in books.values():
        for page in root.glob("chapters/*.html"):
            figures = len(re.findall(r"<figure\b", page.read_text(encoding="utf-8")))
            if figures:
                notebook = nbformat.read(root / "notebooks" / f"{page.stem}.ipynb", as_version=4)
                outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
                charts = [output for output in outputs if "application/vnd.vegalite.v6+json" in output.get("data", {})]
                assert len(charts) == figures, page.stem
                assert all("image/svg+xml" in chart.data for chart in charts)


def test_words_of_a_notebook_hold_no_markup_of_the_book(books):
    for path, notebook in notebooks(books):
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                assert not LEFTOVER.search(cell.source), f"{path.name}: {cell.source[:300]}"


def test_the_first_cell_says_how_to_install(books):
    for path, notebook in notebooks(books):
        assert notebook.cells[0].cell_type == "markdown"
        assert "pip install" in notebook.cells[0].source, path.name
        assert "version" in notebook.cells[0].source


@pytest.mark.parametrize("text", ["{numref}`fig-a`", ":::{note}", "```{note}", "(label)=\n# Title"])
def test_leftover_markup_is_found(text):
    assert LEFTOVER.search(text)


def test_markup_becomes_words():
    glued = {"step": {"data": {"text/plain": "'4.48 ms'"}}}
    source = "(here)=\n# Wall\n\nA step takes {glue:text}`step`, see {numref}`fig-a` and {doc}`the notes <notation>`."
    assert downloads._plain_text(source, glued) == "# Wall\n\nA step takes 4.48 ms, see fig-a and the notes."


def test_boxes_and_tabs_become_their_words():
    tabs = "::::{tab-set}\n:::{tab-item} One\n:sync: a\nFirst.\n:::\n::::\n\n"
    rest = ":::{note}\nTake care.\n:::\n\n```{math}\nx\n```"
    assert downloads._plain_text(tabs + rest, {}) == "**One**\n\nFirst.\n\n**Note**\n\nTake care.\n\n$$\nx\n$$"


def test_a_clean_notebook_runs_from_another_folder(test_book, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("BOOK_BUILD", raising=False)
    notebook = nbformat.read(test_book / "notebooks" / "pipeline-clean.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert sum("application/vnd.vegalite.v6+json" in data for data in shown) == 6
    assert sys.version_info >= (3, 11)


def test_a_copy_of_a_file_is_a_script_that_hands_it_over():
    assert copies.as_script("a.csv", 'x,"µ"\n'.encode()) == 'saveCopy("a.csv", "x,\\"\\u00b5\\"\\n", false);\n'
    assert copies.as_script("a.png", b"\x89PNG") == 'saveCopy("a.png", "iVBORw==", true);\n'
