"""What was published once can be linked to for ever."""

import pytest

from scripts import anchors
from tests.conftest import ROOT

CURE = "a new public anchor joins the list with `python scripts/anchors.py --write`"
KEEP = "others may link to it: keep it, for a heading by putting (old-name)= above it"


def test_public_anchors_are_those_in_the_list():
    built = ROOT / "_build" / "html"
    if not (built / "index.html").exists():
        pytest.skip("the book has not been built: `make book`")
    gone, new = anchors.differences(built, anchors.listed())
    assert not gone, f"{KEEP}: {gone}"
    assert not new, f"{CURE}: {new}"


@pytest.fixture
def built(tmp_path):
    (tmp_path / "chapters").mkdir()
    section = '<section id="wall"><figure id="fig-a"></figure><div id="id3"></div></section>'
    article = f'<article class="bd-article">{section}</article>'
    for page in ("index.html", "chapters/one.html"):
        (tmp_path / page).write_text(f'<body><div id="frame"></div>{article}</body>')
    return tmp_path


def test_figures_and_sections_are_public_and_what_a_program_counted_is_not(built):
    assert anchors.anchors(built) == [
        "chapters/one.html#fig-a", "chapters/one.html#wall", "index.html#fig-a", "index.html#wall",
    ]


def test_a_changed_anchor_is_gone_and_new(built):
    known = anchors.anchors(built)
    page = built / "chapters" / "one.html"
    page.write_text(page.read_text().replace("fig-a", "fig-b"))
    assert anchors.differences(built, known) == (["chapters/one.html#fig-a"], ["chapters/one.html#fig-b"])
