"""A fault in a chapter fails the build and is named; a change moves the page; nothing is done twice.

Each test builds a small book with the project's own configuration, library and build script.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts import build_book

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ["lib", "scripts", "_config.yml", "references.bib", "CITATION.cff", "requirements.txt", "constraints.txt"]
NOTEBOOK = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
%s---

# %s

"""
CHART = """import altair as alt
from lib import theme
from lib.prose import show
chart = alt.Chart(theme.rows(x=[1, 2])).mark_line().encode(x="x:Q", y="x:Q")
finished = theme.finished(chart, "The line rises from one to two, evenly.")
"""
SHOWN = 'show("fig", finished)\n'


def cell(code, fence="```"):
    return f"{fence}{{code-cell}} ipython3\n{code.strip()}\n{fence}\n\n"


GLUE = "import numpy as np\nfrom myst_nb import glue\nglue('%s', np.float64(2.5), display=False)"
SAY = "from lib.prose import say\nsay('%s', 1.0)"

# page: (front matter of a notebook, or None for a plain page; text; what the build must say of the page)
FAULTS = {
    "exception": ("", cell("1 / 0"), "ZeroDivisionError: division by zero"),
    "formatted_scalar": ("", cell(GLUE % "bare") + "{glue:text}`bare:.2f`", "'bare'.* hand it over with say"),
    "plain_scalar": ("", cell(GLUE % "bare") + "{glue:text}`bare`", "'bare'.* hand it over with say"),
    "missing_key": ("", cell("1 + 1") + "It takes {glue:text}`nowhere`.", "No key 'nowhere'"),
    "unused_key": ("", cell(SAY % "idle"), "'idle' is not used in the text"),
    "key_said_twice": ("", cell(SAY % "k") + cell(SAY % "k") + "{glue:text}`k`", "glue key 'k' duplicate"),
    "cell_in_dropdown": ("", f":::{{dropdown}} More\n{cell('1 + 1')}:::\n", "code-cell.* it is nested"),
    "cell_in_note": ("", f"::::{{note}}\n{cell('1 + 1', ':::')}::::\n", "code-cell.* it is nested"),
    "cell_on_plain_page": (None, cell("1 + 1"), "header content was missing"),
    "complaining_cell": ("", cell("import warnings\nwarnings.warn('beware')"), "stderr was found"),
    "broken_numref": (None, "See {numref}`fig-none`.", "fig-none"),
    "broken_link": (None, "See [there](nowhere.md).", "nowhere.md"),
    "undefined_citation": (None, "As {cite:t}`nobody1900` says.", "nobody1900"),
    "unknown_directive": (None, ":::{nothing}\n:::\n", "'nothing'"),
    "silent_chart": ("", cell(CHART + 'show("fig-silent", chart)'), "description must say what the chart shows"),
    "bald_chart": ("", cell(CHART + SHOWN) + ":::{chart} fig\n:::\n", "'fig' needs a caption of one paragraph"),
    "dull_caption": ("", cell(CHART + SHOWN) + ":::{chart} fig\nA line.\n:::\n", "begin with its finding, in bold"),
    "unplaced_chart": ("", cell(CHART + SHOWN), "'fig' is not used in the text"),
    "loose_chart": ("", cell(CHART + "finished"), "hand it over with show"),
    "too_slow": ("mystnb: {execution_timeout: 2}\n", cell("import time\ntime.sleep(60)"), "CellTimeoutError"),
}


def write_book(folder, pages):
    """Write a book of these pages, name to text, with everything that a build needs."""
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / "chapters").mkdir()
    (folder / "index.md").write_text("# A small book\n")
    pages = pages | {"references": "# References\n\n```{bibliography}\n```\n"}
    for name, text in pages.items():
        (folder / "chapters" / f"{name}.md").write_text(text)
    listed = "".join(f"  - file: chapters/{name}\n" for name in pages)
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: index\nchapters:\n{listed}")


def build(folder):
    """Build the book in a folder and return (exit status, everything said)."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
    command = [sys.executable, "scripts/build_book.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
    )
    return done.returncode, done.stdout


def about(page, said):
    """Return what a build says of a page: its warnings, and the end of its report."""
    warnings = [line for line in said.splitlines() if f"chapters/{page}.md" in line and "WARNING" in line]
    reports = [part for part in said.split("\nhtml/reports/") if part.startswith(f"chapters/{page}.err.log:")]
    return "\n".join([*warnings, *reports])


def faulty_book(folder):
    """Return (status, what was said) of a book with every fault, each on its page."""
    pages = {}
    for page, (matter, text, _) in FAULTS.items():
        pages[page] = f"# {page}\n\n{text}" if matter is None else NOTEBOOK % (matter, page) + text
    write_book(folder, pages)
    return build(folder)


MACHINE = (
    NOTEBOOK % ("", "Machine")
    + cell(
        "from lib.hardware import hardware\nfrom lib.prose import say\n"
        "say('bandwidth', hardware('H100 SXM').bandwidth, 'B/s')"
    )
    + "It reads {glue:text}`bandwidth`.\n"
)
PRICES = NOTEBOOK % ("", "Prices") + cell("1 + 1") + "It costs USD 3 and USD 4.\n"


def book_with_a_history(folder):
    """Return (status, what was said, the pages) of a sound book, built again after each change, by the change."""
    write_book(folder, {"machine": MACHINE, "prices": PRICES})
    machine, prices = (folder / "chapters" / f"{page}.md" for page in ("machine", "prices"))
    facts = folder / "lib" / "data" / "accelerators.csv"
    steps = {}

    def after(change):
        status, said = build(folder)
        shown = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("_build/html/chapters/*.html")}
        notebook = folder / "_build" / "html" / "notebooks" / "machine.ipynb"
        shown["notebook"] = notebook.read_text(encoding="utf-8") if notebook.exists() else ""
        steps[change] = status, said, shown

    after("none yet")
    after("nothing")
    prices.write_text(PRICES.replace("1 + 1", "1 + 2"))
    after("other page")
    text = facts.read_text(encoding="utf-8")
    facts.write_text(text.replace("H100 SXM,bandwidth,3.35e12", "H100 SXM,bandwidth,3.33e12"), encoding="utf-8")
    after("constant")
    machine.write_text(MACHINE + "\nSee {numref}`fig-none`.\n")
    prices.write_text(PRICES.replace("1 + 1", "1 / 0"))
    after("faults")
    after("nothing after faults")
    return steps


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """Both books, built side by side."""
    folders = [tmp_path_factory.mktemp(name) for name in ("faulty", "sound")]
    with ThreadPoolExecutor() as pool:
        faulty, history = pool.submit(faulty_book, folders[0]), pool.submit(book_with_a_history, folders[1])
    return faulty.result(), history.result()


@pytest.fixture(scope="module")
def faulty(books):
    return books[0]


@pytest.fixture(scope="module")
def history(books):
    return books[1]


def test_faults_fail_the_build(faulty):
    status, said = faulty
    assert status != 0, said


@pytest.mark.parametrize("page", FAULTS)
def test_the_build_names_each_fault_and_its_page(faulty, page):
    _, said = faulty
    assert re.search(FAULTS[page][2], about(page, said)), about(page, said) or said[-4000:]


def executed(said):
    return re.findall(r"chapters/(\w+)\.md: Executing notebook", said)


def test_a_sound_book_is_built(history):
    status, said, _ = history["none yet"]
    assert status == 0, said
    assert sorted(executed(said)) == ["machine", "prices"]


def test_a_number_stands_in_the_sentence_of_page_and_notebook(history):
    _, _, shown = history["none yet"]
    assert ">3.35\N{NO-BREAK SPACE}TB/s<" in shown["machine"]
    assert "It reads 3.35\N{NO-BREAK SPACE}TB/s." in shown["notebook"]


def test_two_prices_in_a_sentence_stay_text(history):
    _, _, shown = history["none yet"]
    assert "It costs USD 3 and USD 4." in shown["prices"]


def test_building_again_executes_nothing(history):
    status, said, _ = history["nothing"]
    assert status == 0, said
    assert executed(said) == []


def test_an_edited_page_executes_alone(history):
    status, said, _ = history["other page"]
    assert status == 0, said
    assert executed(said) == ["prices"]


def test_a_changed_constant_moves_the_number_on_the_page(history):
    status, said, shown = history["constant"]
    assert status == 0, said
    assert ">3.33\N{NO-BREAK SPACE}TB/s<" in shown["machine"]
    assert "3.35" not in shown["machine"]


@pytest.mark.parametrize("change", ["faults", "nothing after faults"])
def test_a_failed_build_fails_again_and_says_why_again(history, change):
    """Sphinx repeats no warning of a page that it has read: without care the second build succeeds."""
    status, said, _ = history[change]
    assert status != 0, said
    assert "fig-none" in about("machine", said)
    assert "ZeroDivisionError" in about("prices", said)


def test_pages_of_a_build_that_did_not_end_are_made_again(tmp_path):
    """An interrupted build has read pages whose warnings nobody saw."""
    now = {"executed": "same", "pages": "same"}
    for _ in range(2):
        (tmp_path / ".executed").mkdir(exist_ok=True)
        (tmp_path / ".doctrees").mkdir(exist_ok=True)
        build_book.drop_stale(tmp_path, now)
    assert not (tmp_path / ".doctrees").exists()
    assert (tmp_path / ".executed").exists()


# --- make --------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    """A copy of the project, as `make book` leaves it: every stamp younger than what it was made from."""
    for name in ["Makefile", "pyproject.toml", *NEEDED]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for name in ("index.md", "_toc.yml", "chapters/one.md", "measurements/one.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1000, 1000))
    for age, stamp in ((2000, ".venv/book.stamp"), (3000, "_build/book.stamp")):
        (tmp_path / stamp).parent.mkdir()
        (tmp_path / stamp).touch()
        os.utime(tmp_path / stamp, (age, age))
    return tmp_path


def wanted(folder):
    """Return what `make book` would do."""
    done = subprocess.run(["make", "-n", "book"], cwd=folder, text=True, capture_output=True, check=True)
    return {step for step in ("pip install", "build_book.py") if step in done.stdout}


def test_a_built_book_wants_nothing(made):
    assert wanted(made) == set()


@pytest.mark.parametrize(
    "name",
    [
        *("lib/data/accelerators.csv", "lib/data/models.bib", "lib/roofline.py", "lib/static/book.css"),
        *("chapters/one.md", "measurements/one.json", "index.md", "_toc.yml", "_config.yml", "references.bib"),
        *("CITATION.cff", "scripts/build_book.py", "scripts/execute_chapters.py"),
    ],
)
def test_a_touched_file_wants_a_new_book(made, name):
    os.utime(made / name, (4000, 4000))
    assert wanted(made) == {"build_book.py"}


@pytest.mark.parametrize("name", ["requirements.txt", "constraints.txt", "pyproject.toml"])
def test_a_touched_lock_wants_a_new_environment_and_a_new_book(made, name):
    os.utime(made / name, (4000, 4000))
    assert wanted(made) == {"pip install", "build_book.py"}
