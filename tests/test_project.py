"""One source for each fact about the project itself: version, title, address, pins, places for files."""

import ast
import csv
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from lib.book import site_of

ROOT = Path(__file__).resolve().parent.parent
ALLOWED_AT_THE_TOP = {
    *("_config.yml", "_toc.yml", "index.md", "references.bib", "requirements.txt", "constraints.txt"),
    *("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"),
    *("LICENSE", "LICENSE-TEXT", ".gitignore", ".ci", ".github"),
    *("chapters", "lib", "measurements", "tests", "scripts", "benchmarks", "assets"),
}
# Written in parts, so that this file does not name them.
REGISTRIES = re.compile(
    "|".join(
        [
            *(r"py" r"pi\.org", r"python" r"hosted\.org", r"download\.py" r"torch\.org", r"anaconda" r"\.(?:org|com)"),
            *(r"registry\.(?:npm" r"js|yarn)", r"index-url[ =]+https?" r":", r"://[^\s\"'<>]+/sim" r"ple(?:/|\b)"),
        ]
    )
)  # fmt: skip
HOST = r"(?:git(?:hub|lab)\.com/[\w.<>-]+/|[\w.<>-]+\.github\.io/)"
ADDRESS = re.compile(rf"{HOST}[\w<>-]*one[-_]?trip[-_]?many[-_]?tokens[\w-]*", re.IGNORECASE)
ARCHIVED = re.compile(r"10\.5281/zenodo\.\w+", re.IGNORECASE)
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.!+]+)")

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files():
    """Return the files of the project: those that git has or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("only a git checkout says which files belong to the project")
    return [path for name in done.stdout.splitlines() if (path := ROOT / name).is_file()]


def texts():
    """Return (path, text) of every file of the project that is text."""
    for path in files():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def pages():
    """Return (path, text) of what a reader sees: the sources, and the built book if there is one."""
    built = [*(ROOT / "_build" / "html").rglob("*.html"), *(ROOT / "_build" / "html").rglob("*.ipynb")]
    sources = [ROOT / "README.md", ROOT / "CITATION.cff", ROOT / "pyproject.toml", ROOT / "index.md"]
    for path in [*sources, *(ROOT / "chapters").glob("*.md"), *built]:
        yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def bib_keys():
    """Return every key of every bibliography, as often as it occurs."""
    return [
        key
        for path in [*ROOT.glob("*.bib"), *ROOT.glob("lib/data/*.bib")]
        for key in re.findall(r"^@\w+\{([^,\s]+),", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


# --- version, title, address -------------------------------------------------------------------


def test_the_package_reads_its_version_from_the_citation_file():
    assert "version" not in PROJECT["project"]
    assert "version" in PROJECT["project"]["dynamic"]
    source = PROJECT["tool"]["hatch"]["version"]
    text = (ROOT / source["path"]).read_text(encoding="utf-8")
    assert re.findall(source["pattern"], text) == [str(CITATION["version"])]


def test_no_other_file_repeats_the_version():
    """The change log names versions; a lock may pin a package at the same number."""
    version = re.compile(rf"(?<![\w.=]){re.escape(str(CITATION['version']))}(?![\w.])")
    named = [str(path) for path, text in texts() if version.search(text)]
    elsewhere = {name for name in named if not name.startswith(("lib/data/", "tests/", "benchmarks/", "measurements/"))}
    assert elsewhere <= {"CITATION.cff", "CHANGELOG.md"}


def test_the_book_takes_title_and_author_from_the_citation_file():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert {"title", "author", "copyright"} & {*config} == set()


@pytest.mark.parametrize("page", ["index.md", "README.md"])
def test_front_page_and_readme_carry_the_title_of_the_citation_file(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    heading = re.search(r"^# +(.+?) *$", text, re.MULTILINE)[1]
    assert heading in (CITATION["title"], CITATION["title"].split(":")[0])


def wrong_addresses(text, own):
    """Return the addresses in a text that pretend to be the project's; `own` is the true one, or empty."""
    return [found for found in ADDRESS.findall(text) if not own or found.lower() not in own.lower()]


def test_no_address_is_invented():
    repository = CITATION.get("repository-code", "")
    own = f"{repository} {site_of(repository)}"
    found = {str(path): wrong_addresses(text, own if repository else "") for path, text in pages()}
    assert {path: addresses for path, addresses in found.items() if addresses} == {}


def test_an_invented_address_is_found():
    assert wrong_addresses("see https://github.com/someone/one-trip-many-tokens", "")
    assert wrong_addresses("see https://someone.github.io/one-trip-many-tokens/", "")
    assert wrong_addresses("see https://github.com/a/one-trip-many-tokens", "https://github.com/b/one-trip-many-tokens")
    assert not wrong_addresses("see https://github.com/b/one-trip-many-tokens", "https://github.com/b/one-trip-many-tokens")


def test_no_doi_is_invented():
    """An archive's DOI is shown only if it is the citation file's own or a cited source's."""
    bibliographies = [*ROOT.glob("*.bib"), *ROOT.glob("lib/data/*.bib")]
    known = " ".join(path.read_text(encoding="utf-8") for path in bibliographies) + str(CITATION.get("doi", ""))
    found = {doi for _, text in pages() for doi in ARCHIVED.findall(text)}
    assert {doi for doi in found if doi not in known} == set()


# --- pins --------------------------------------------------------------------------------------


def pins(lines):
    """Return {name: version} of the pinned lines, and the lines that are not pinned."""
    stripped = [line.split("#")[0].strip() for line in lines]
    matches = {line: PIN.fullmatch(line) for line in stripped if line}
    named = {found["name"].lower().replace("_", "-"): found["version"] for found in matches.values() if found}
    return named, [line for line, found in matches.items() if not found]


def lines_of(name):
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


def test_everything_required_is_pinned_and_the_project_itself_comes_last():
    _, loose = pins(lines_of("requirements.txt"))
    assert loose == ["-e ."]
    assert lines_of("requirements.txt")[-1] == "-e ."


def test_the_lock_pins_every_line():
    _, loose = pins(lines_of("constraints.txt"))
    assert loose == []


@pytest.mark.parametrize("wanted", ["requirements.txt", *PROJECT["project"]["optional-dependencies"]])
def test_what_is_asked_for_is_what_the_lock_has(wanted):
    asked = lines_of(wanted) if wanted.endswith(".txt") else PROJECT["project"]["optional-dependencies"][wanted]
    asked, loose = pins(asked)
    locked, _ = pins(lines_of("constraints.txt"))
    assert {name: locked.get(name) for name in asked} == asked
    assert [line for line in loose if line != "-e ."] == []


def test_no_pin_has_a_local_version_tag():
    """No public index has ``2.13.0+cpu``: a lock with it installs nowhere else."""
    locked, _ = pins([*lines_of("requirements.txt"), *lines_of("constraints.txt")])
    assert [name for name, version in locked.items() if "+" in version] == []


def test_no_package_registry_is_named():
    """Where packages come from is the reader's choice."""
    found = {str(path): REGISTRIES.findall(text) for path, text in texts()}
    assert {path: hosts for path, hosts in found.items() if hosts} == {}


def test_a_registry_would_be_found():
    host = "https://" + "py" + "pi.org/" + "simple"
    assert REGISTRIES.search(f"pip install --index-url {host} torch")
    assert REGISTRIES.search("--index-url=https" + "://mirror.example/root")
    assert not REGISTRIES.search("pip install -r requirements.txt, a simple command with an --index-url option")


# --- files and sources -------------------------------------------------------------------------


def test_the_top_level_holds_only_what_belongs_there():
    assert {path.relative_to(ROOT).parts[0] for path in files()} - ALLOWED_AT_THE_TOP == set()


def test_no_bibliography_key_occurs_twice():
    keys = bib_keys()
    assert [key for key in {*keys} if keys.count(key) > 1] == []


def cited(path):
    """Return the bibliography keys that the docstrings of a module name: a word and a year in one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented)]
    return {key for text in texts for key in re.findall(r"(?<![\w/.-])[a-z]+(?:19|20)\d\d(?:[a-z]\w*)?\b", text)}


@pytest.mark.parametrize("path", sorted(ROOT.glob("lib/*.py")), ids=lambda path: path.name)
def test_every_key_that_a_docstring_cites_is_in_a_bibliography(path):
    assert cited(path) - {*bib_keys()} == set()


def test_the_queueing_cites_all_of_its_bibliography():
    keys = re.findall(r"^@\w+\{([^,\s]+),", (ROOT / "lib/data/theory.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert {*keys} - {key for path in ROOT.glob("lib/*.py") for key in cited(path)} == set()


def sources_in(path):
    """Return (line, key) for each key in the columns `source` and `citation` of a table."""
    with path.open(encoding="utf-8", newline="") as opened:
        rows = csv.DictReader(opened)
        columns = ["citation"] if "citation" in rows.fieldnames else ["source"]
        for row in rows:
            for column in columns:
                for key in (row.get(column) or "").split():
                    yield rows.line_num, key


def defined_sources():
    """Return the sources that a table with a citation column defines: names for files of cited works."""
    for path in ROOT.glob("lib/data/*.csv"):
        with path.open(encoding="utf-8", newline="") as opened:
            yield from (row["source"] for row in csv.DictReader(opened) if "citation" in row)


@pytest.mark.parametrize("path", sorted(ROOT.glob("lib/data/*.csv")), ids=lambda path: path.name)
def test_every_source_in_a_table_is_in_a_bibliography(path):
    known = {*bib_keys(), *defined_sources()}
    assert [f"{path.name}:{line}: {key}" for line, key in sources_in(path) if key not in known] == []


def test_the_picture_in_the_readme_is_the_figure_of_the_book():
    """By the digest of its data: fonts may differ between machines. Cure: copy the built file over it."""
    built = ROOT / "_build" / "html" / "figures" / "fig-fare.svg"
    if not built.exists():
        pytest.skip("the book is not built: run `make book`")
    marks = [path.read_text(encoding="utf-8").splitlines()[0] for path in (ROOT / "assets" / "fare.svg", built)]
    assert "data" in marks[0]
    assert marks[0] == marks[1], "cure: cp _build/html/figures/fig-fare.svg assets/fare.svg"
