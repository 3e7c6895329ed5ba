"""Keep the list of public anchors, ``tests/anchors.txt``: what others may link to and cite.

A page#id that was published once never changes. `python scripts/anchors.py` compares the
built book with the list; with ``--write`` it adds what is new, and never removes a line.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "anchors.txt"
ARTICLE = re.compile(r'<article class="bd-article">(.*?)</article>', re.DOTALL)
# Figures, tables, equations, sections, labels and sources; not ids that a program has counted.
ANCHOR = re.compile(r'<(figure|table|section|span|div)\b[^>]*?\bid="([^"]+)"')
COUNTED = re.compile(r"(id|index-|cell-|sd-tab-|footnote-reference-|mjx-|toggle-)\d*[\w-]*\d+|searchbox")


def anchors(built):
    """Return the public anchors of the built book, sorted.

    Parameters
    ----------
    built : Path
        Folder with ``index.html``.

    Returns
    -------
    list of str
        Such as ``chapters/memory_wall.html#fig-decode-roofline``.
    """
    found = set()
    for path in [built / "index.html", *sorted(built.glob("chapters/*.html"))]:
        page = path.relative_to(built).as_posix()
        article = ARTICLE.search(path.read_text(encoding="utf-8"))
        for _, name in ANCHOR.findall(article[1] if article else ""):
            if not COUNTED.fullmatch(name):
                found.add(f"{page}#{name}")
    return sorted(found)


def listed(path=LIST):
    """Return the anchors in the list."""
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def differences(built, known):
    """Return anchors that are gone, and anchors that are new, each sorted."""
    found = set(anchors(built))
    return sorted(set(known) - found), sorted(found - set(known))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="add new anchors to the list")
    parser.add_argument("--built", type=Path, default=ROOT / "_build" / "html")
    options = parser.parse_args()
    gone, new = differences(options.built, listed())
    if options.write:
        LIST.write_text("".join(f"{anchor}\n" for anchor in sorted({*listed(), *new})), encoding="utf-8")
        new = []
    for word, found in (("gone", gone), ("new", new)):
        for anchor in found:
            print(f"{word}: {anchor}")
    return 1 if gone or new else 0


if __name__ == "__main__":
    sys.exit(main())
