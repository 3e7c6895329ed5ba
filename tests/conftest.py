"""What page tests share: the built books, and one browser that opens their pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from tests import browsing

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault of lib
settings.load_profile("unhurried")

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "tests" / "pages"
LEFT_OUT = shutil.ignore_patterns("_build", ".*", "chapters", "tests", "__pycache__", "*.egg-info")


def pytest_collection_modifyitems(items):
    """What builds a book or opens a browser takes longest, so it comes first."""
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("slow", "browser")))


def build_test_book(folder):
    """Build, from a clean copy of the project, a book whose one chapter holds every kind of thing."""
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    (folder / "chapters").mkdir()
    for page in ("figures.md", "references.md"):
        shutil.copy(ROOT / "chapters" / page, folder / "chapters")
    for page in ("index.md", "_toc.yml"):
        shutil.copy(PAGES / page, folder)
    shutil.copy(PAGES / "pipeline.md", folder / "chapters")
    run = subprocess.run(
        [sys.executable, "scripts/build_book.py"], cwd=folder, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return folder / "_build" / "html"


@pytest.fixture(scope="session")
def books(tmp_path_factory):
    """Folder of HTML by name: the book for the tests, and the real one if it has been built."""
    here = tmp_path_factory.getbasetemp()
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here  # whoever comes first builds it for all
    with FileLock(shared / "book.lock"):
        built = shared / "book" / "_build" / "html"
        found = {"test": built if built.exists() else build_test_book(shared / "book")}
    if (ROOT / "_build" / "html" / "index.html").exists():
        found["real"] = ROOT / "_build" / "html"
    return found


@pytest.fixture(scope="session")
def test_book(books):
    """Folder of HTML of the book for the tests."""
    return books["test"]


@pytest.fixture(scope="session")
def browser():
    """Chromium, headless; the test is skipped where there is none."""
    path, reason = browsing.chromium()
    if not path:
        pytest.skip(reason)
    with browsing.chromium_running() as opened:
        yield opened


@pytest.fixture(scope="session")
def visits(books):
    """What was seen on every page of every book, in every dress."""
    path, reason = browsing.chromium()
    if not path:
        pytest.skip(reason)
    return browsing.crawl(books)
