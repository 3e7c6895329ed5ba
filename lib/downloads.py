"""Each page as a notebook, executed and clean; and the check that every glued value is used."""

import html
import json
import re
from ast import literal_eval
from contextlib import suppress
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from sphinx.util import logging

from lib import book

LOGGER = logging.getLogger(__name__)
FOLDER = "notebooks"
_GLUED_TEXT = re.compile(r"\{glue:text\}`([^`:]+)`")
_DESCRIBED = re.compile(r"\{([\w-]+)\}")  # in the description of a chart
_GLUED_BLOCK = re.compile(
    r"^(:{3,})\{(chart|tabular)\} *(\S+)\n(?::\w+:.*\n)*\n?(.*?)\n\1 *$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^(`{3,})\{([\w:-]+)\} *([^\n]*)\n(?::[\w-]+:[^\n]*\n)*(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
_OPENING = re.compile(r"^:{3,}\{([\w:-]+)\} *(.*)\n(?::[\w-]+:.*\n)*", re.MULTILINE)
_CLOSING = re.compile(r"^:{3,} *\n?", re.MULTILINE)
_SILENT = {"tab-set", "bibliography", "container", "div"}  # directives without words of their own
_HANDED_OVER = re.compile(r'\b(?:show|tabulate)\(\s*"([^"]+)"')
_ROLE = re.compile(r"\{[\w:]+\}`(?:([^`<]+?) *<[^`>]+>|([^`]+))`")
_LABEL = re.compile(r"^\([\w-]+\)=\n", re.MULTILINE)


def links(app, page):
    """Return the line under a page's title that offers it as a notebook; empty for a page without code."""
    if not _is_notebook(app.env, page):
        return ""
    stem, up = Path(page).name, "../" * page.count("/")
    name = html.escape(stem)
    return (
        f'<p class="page-tools">This page as a notebook: '
        f'<a href="{up}{FOLDER}/{name}.ipynb" download="{name}.ipynb">executed</a>, '
        f'<a href="{up}{FOLDER}/{name}-clean.ipynb" download="{name}-clean.ipynb">clean</a></p>'
    )


def register(app):
    """Register the events with Sphinx."""
    app.connect("env-before-read-docs", _note_what_is_read)
    app.connect("env-check-consistency", _check_glue)
    app.connect("build-finished", _write_notebooks)


def _note_what_is_read(app, env, pages):
    """Keep which pages this build reads: of the others, all was checked and written by the build that read them."""
    app.pages_read = {*pages}


def _is_notebook(env, page):
    return "kernelspec" in env.metadata.get(page, {})


def _check_glue(app, env):
    """Warn, so that the build fails, of a value that was glued and is not used, and of a loose chart."""
    for page in sorted(page for page in app.pages_read if _is_notebook(env, page)):
        source = Path(env.doc2path(page)).read_text(encoding="utf-8")
        used = {*_GLUED_TEXT.findall(source), *_DESCRIBED.findall(source)}
        used |= {match[2] for match in _GLUED_BLOCK.findall(source)}
        for key, stored in sorted(_glued(app, page).items()):
            if not stored["metadata"].get("handed_over"):
                message = "glued value %r may show as nothing or as code: hand it over with say(), show() or tabulate()"
                LOGGER.warning(message, key, location=page, type="book")
            if key not in used:
                LOGGER.warning("glued value %r is not used in the text", key, location=page, type="book")
        for cell in _executed(app, page).cells:
            for output in cell.get("outputs", []):
                if any("vegalite" in kind for kind in output.get("data", {})):
                    message = "a chart needs number and caption: hand it over with show(), place it with {chart}"
                    LOGGER.warning(message, location=page, type="book")


def _executed(app, page):
    """Return the notebook as `_read_executed` reads it, once for the check and the files."""
    if not hasattr(app, "executed_pages"):
        app.executed_pages = {}
    if page not in app.executed_pages:
        app.executed_pages[page] = _read_executed(app, page)
    return app.executed_pages[page]


def _read_executed(app, page):
    """Return the notebook with its outputs; what MyST-NB writes has none where execution was kept from before."""
    notebook = nbformat.read(Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb", as_version=4)
    with suppress(KeyError):  # it failed, so nothing is kept
        _, notebook = get_cache(app.env.mystnb_config.execution_cache_path).merge_match_into_notebook(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # what was glued stands in a file of its own, see _glued
            cell.outputs = [output for output in cell.outputs if "scrapbook" not in output.get("metadata", {})]
    return notebook


def _glued(app, page):
    path = Path(app.outdir).parent / "jupyter_execute" / f"{page}.glue.json"
    recorded = set(app.env.nb_metadata.get(page, {}).get("glue", []))
    if not recorded:
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {key: value for key, value in stored.items() if key in recorded}


def _write_notebooks(app, error):
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(page for page in app.env.found_docs if _is_notebook(app.env, page)):
        stem = Path(page).name
        if page not in app.pages_read and (folder / f"{stem}-clean.ipynb").exists():
            continue
        executed = readable(_executed(app, page), _glued(app, page), book.edition(app.srcdir))
        _write(folder / f"{stem}.ipynb", executed)
        _write(folder / f"{stem}-clean.ipynb", cleaned(executed))


def _write(path, notebook):
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def readable(notebook, glued, edition):
    """Return an executed notebook as a reader wants it outside the book.

    Values stand in the sentences, charts under the cells that draw them, and the first
    cell says how to install what the code imports.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    glued : dict
        Key to stored output, as MyST-NB keeps it.
    edition : dict
        From `book.edition`.
    """
    cells = [nbformat.v4.new_markdown_cell(_how_to_install(edition))]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = _plain_text(cell.source, glued)
            if text.strip():
                cells.append(nbformat.v4.new_markdown_cell(text))
        else:
            handed_over = [_output(glued[key]) for key in _HANDED_OVER.findall(cell.source) if key in glued]
            fresh = nbformat.v4.new_code_cell(cell.source, outputs=[*cell.outputs, *handed_over])
            fresh.execution_count = cell.execution_count
            fresh.metadata.tags = cell.metadata.get("tags", [])
            cells.append(fresh)
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    fresh = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    fresh.metadata["title"] = edition["title"]
    return fresh


def cleaned(notebook):
    """Return the notebook without outputs, to run from the start."""
    fresh = nbformat.from_dict(notebook)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return fresh


def _how_to_install(edition):
    source = edition["repository"] or "a copy of the project"
    return (
        f"*From [{edition['title']}]({edition['site']}), version {edition['version']}.* "
        if edition["site"]
        else f"*From {edition['title']}, version {edition['version']}.* "
    ) + (
        f"To run this notebook, install the project once: get {source}, then `pip install -r requirements.txt` in its "
        "folder (Python 3.11 to 3.13). The numbers in the text are those of this version; the cells compute them."
    )


def _output(stored):
    data = {kind: value for kind, value in stored["data"].items()}
    return nbformat.v4.new_output("display_data", data=data)


def _plain_text(source, glued):
    """Return MyST text as plain Markdown: values in place, directives and roles as words."""
    source = _GLUED_BLOCK.sub(lambda match: f"*{match[3]}*: {match[4]}", source)
    source = _GLUED_TEXT.sub(lambda match: _value(match[1], glued), source)
    source = _FENCED.sub(_unfenced, source)
    source = _CLOSING.sub("", _OPENING.sub(lambda match: _heading(match[1], match[2]), source))
    source = _LABEL.sub("", source)
    return _ROLE.sub(lambda match: match[1] or match[2], source)


def _unfenced(match):
    return f"$$\n{match[4]}$$" if match[2] == "math" else _heading(match[2], match[3]) + match[4]


def _heading(directive, title):
    """Return the words that a directive shows before its content."""
    words = title or ("" if directive in _SILENT else directive.capitalize())
    return f"**{words}**\n\n" if words else ""


def _value(key, glued):
    return literal_eval(glued[key]["data"]["text/plain"]) if key in glued else key
