"""Chapters executed side by side in warm kernels: the same outputs as from kernels of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_cache import get_cache

from tests.test_build_faults import CHART, NOTEBOOK, SAY, SHOWN, cell, executed, write_book

pytestmark = pytest.mark.slow

SOUND = (
    NOTEBOOK % ("", "Sound")
    + cell("import os\nimport sys\nfrom pathlib import Path\n\nfrom lib import theme")
    + cell("print(Path.cwd().name, [*map(os.path.basename, sys.path)], __name__, hash('seed'))")
    + cell("print('one')\nprint('two', file=sys.stderr)\nos.system('echo three')\n{'b': 1, 'a': (2.5, None)}")
    + cell(SAY % "key")
    + cell(CHART + SHOWN)
    + cell("theme.marks = getattr(theme, 'marks', 0) + 1\ntheme.marks  # those of other chapters are not seen")
)
PAGES = {
    "sound": SOUND,
    "again": SOUND.replace("'one'", "'again'"),
    "faulty": NOTEBOOK % ("", "Faulty") + cell("1 / 0"),
    "dying": NOTEBOOK % ("", "Dying") + cell("import os\nos._exit(1)"),
    "patient": NOTEBOOK % ("mystnb: {execution_timeout: 200}\n", "Patient") + cell("1 + 1"),
}


def execute(folder):
    """Execute what is not kept and return (what was said, executed code cells by page)."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "BOOK_BUILD": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "scripts/execute_chapters.py"], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200, check=True,
    )  # fmt: skip
    cache = get_cache(folder / "_build" / ".executed")
    cells = {Path(one.uri).stem: cache.get_cache_bundle(one.pk).nb.cells for one in cache.list_cache_records()}
    return done.stdout, {page: [{**one, "id": ""} for one in found] for page, found in cells.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    write_book(folder, PAGES)
    return folder


@pytest.fixture(scope="module")
def first(folder):
    """What was said and kept when nothing was."""
    return execute(folder)


def test_what_fails_or_sets_its_own_time_is_left_to_sphinx(first):
    said, kept = first
    assert sorted(executed(said)) == ["again", "dying", "faulty", "sound"]
    assert [*kept] == ["sound", "again"] or [*kept] == ["again", "sound"]
    assert "Traceback" not in said


def test_a_warm_kernel_is_a_copy_that_no_other_chapter_touches(first):
    _, kept = first
    assert [cells[-1]["outputs"][0]["data"]["text/plain"] for cells in kept.values()] == ["1", "1"]


def test_a_changed_chapter_is_executed_alone(folder, first):
    page = folder / "chapters" / "again.md"
    page.write_text(PAGES["again"].replace("'again'", "'changed'"))
    said, kept = execute(folder)
    assert "again" in executed(said) and "sound" not in executed(said)
    assert "changed" in str(kept["again"])


def test_an_import_that_complains_is_heard_in_its_chapter(folder, first):
    """Imported ahead, the module would complain where nobody listens; and a kernel of its own has the same outputs."""
    _, kept = first
    theme = folder / "lib" / "theme.py"
    theme.write_text(theme.read_text() + "\nimport warnings\nwarnings.warn('beware')\n")
    page = folder / "chapters" / "sound.md"
    page.write_text(SOUND.replace("'one'", "'anew'"))
    _, heard = execute(folder)
    assert "beware" in str(heard["sound"][0]["outputs"])
    assert str(heard["sound"][1:]).replace("anew", "one") == str(kept["sound"][1:])
