"""Figures of the book: a numbered chart with a caption, its files, its citation, its permanent link."""

import csv
import html
import io
import json
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from myst_nb.core.variables import RetrievalError
from myst_nb.ext.glue.utils import retrieve_glue_data
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from lib import book, controls, theme

LOGGER = logging.getLogger(__name__)
FOLDER = "figures"
LONG_CELL = 40  # characters; a table with longer ones stacks its cells on a narrow screen


class ChartNode(nodes.General, nodes.Element):
    """Where a chart, or its line of files, or the gallery stands; filled when its number is known."""


class ChartDirective(SphinxDirective):
    """``:::{chart} fig-key`` with a caption whose first sentence, bold, is the finding."""

    required_arguments = 1
    has_content = True

    def run(self):
        key = self.arguments[0]
        glued = _glued(self, key, theme.VEGALITE)
        if glued is None:
            return []
        caption, takeaway = _caption(self, key)
        if caption is None:
            return []
        record = {
            "page": self.env.docname, "spec": glued[theme.VEGALITE], "svg": glued["image/svg+xml"],
            "takeaway": takeaway,
        }
        _records(self.env)[key] = record
        figure = nodes.figure("", ChartNode(kind="plot", key=key), caption, ChartNode(kind="files", key=key))
        self.set_source_info(figure)
        self.options["name"] = key
        self.add_name(figure)
        return [figure]


class TabularDirective(SphinxDirective):
    """``:::{tabular} tab-key`` with a caption: a table that code has written."""

    required_arguments = 1
    has_content = True
    option_spec = {"class": directives.class_option}  # noqa: RUF012 (docutils reads it so)

    def run(self):
        key = self.arguments[0]
        glued = _glued(self, key, "text/markdown")
        if glued is None:
            return []
        caption, _ = _caption(self, key)
        if caption is None:
            return []
        holder = nodes.Element()
        lines = StringList(glued["text/markdown"].splitlines(), source=self.env.docname)
        self.state.nested_parse(lines, self.content_offset, holder)
        table = next(iter(holder.findall(nodes.table)))
        table["classes"] += self.options.get("class", [])
        _label_cells(table)
        table.insert(0, nodes.title("", "", *caption.children))
        self.options["name"] = key
        self.add_name(table)
        return [nodes.container("", table, classes=["table-scroll"])]


def _label_cells(table):
    """Let each cell of a table of texts carry its column's name, for where rows are shown as stacks of cells."""
    head, *rows = [[*row.findall(nodes.entry)] for row in table.findall(nodes.row)]
    if len(head) < 3 or max(len(cell.astext()) for row in rows for cell in row) <= LONG_CELL:
        return
    table["classes"].append("stacked")
    for row in rows:
        for column, cell in zip(head[1:], row[1:], strict=True):
            if cell.astext():
                cell[0].insert(0, nodes.inline("", f"{column.astext()}: ", classes=["cell-label"]))


class GalleryDirective(SphinxDirective):
    """``:::{gallery}``: every figure of the book with number, finding and files."""

    def run(self):
        self.env.metadata[self.env.docname]["gallery"] = "yes"
        return [ChartNode(kind="gallery", key="")]


def _glued(directive, key, kind):
    try:
        data = retrieve_glue_data(directive.state.document, key).data
    except RetrievalError as error:
        return _complain(directive, str(error))
    if kind not in data:
        return _complain(directive, f"{key!r} was glued, but not as {kind}")
    return data


def _caption(directive, key):
    """Return the caption node and its first bold sentence, or complain."""
    holder = nodes.Element()
    directive.state.nested_parse(directive.content, directive.content_offset, holder)
    if len(holder) != 1 or not isinstance(holder[0], nodes.paragraph):
        return _complain(directive, f"{key!r} needs a caption of one paragraph"), None
    first = next((child for child in holder[0].children if child.astext()), None)
    if not isinstance(first, nodes.strong):
        return _complain(directive, f"the caption of {key!r} must begin with its finding, in bold"), None
    caption = nodes.caption(holder[0].rawsource, "", *holder[0].children)
    caption.source, caption.line = holder[0].source, holder[0].line
    return caption, first.astext()


def _complain(directive, message):
    LOGGER.warning(message, location=directive.get_location(), type="book", subtype="chart")


def _records(env):
    if not hasattr(env, "book_charts"):
        env.book_charts = {}
    return env.book_charts


def number(env, key):
    """Return the number of a figure in this edition, such as "4"."""
    page = _records(env)[key]["page"]
    found = env.toc_fignumbers.get(page, {}).get("figure", {}).get(key)
    return ".".join(map(str, found)) if found else "?"


# --- what a figure can be taken as -------------------------------------------------------------


def plotted_rows(spec):
    """Return the rows that a chart draws as CSV text, headers with units.

    A column is called what the chart's axis or legend calls it, ``step time (ms)``; a
    chart of several datasets has them one after another, told apart by column `rows`.
    """
    titles = {}
    _gather_titles(spec, titles)
    datasets = list(spec.get("datasets", {}).values())
    fields = list(dict.fromkeys(field for values in datasets for row in values for field in row))
    several = len(datasets) > 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(["rows"] if several else []), *(titles.get(field, field) for field in fields)])
    for index, values in enumerate(datasets, start=1):
        for row in values:
            writer.writerow([*([index] if several else []), *(row.get(field, "") for field in fields)])
    return text.getvalue()


def _gather_titles(part, titles):
    if isinstance(part, list):
        for item in part:
            _gather_titles(item, titles)
    elif isinstance(part, dict):
        field, title = part.get("field"), part.get("title")
        if isinstance(field, str) and isinstance(title, str) and title:
            titles.setdefault(field, title)
        for key, item in part.items():
            if key != "datasets":
                _gather_titles(item, titles)


def citation(edition, key, number, record):
    """Return the BibTeX and the plain-text citation of one figure.

    Parameters
    ----------
    edition : dict
        From `book.edition`.
    key, number : str
        Permanent slug; number in this edition.
    record : dict
        ``page``, ``spec``, ``takeaway``.
    """
    digest = theme.digest(record["spec"])
    title = record["takeaway"].rstrip(".").replace("\N{NO-BREAK SPACE}", " ")
    address = f"{edition['site']}{record['page']}.html#{key}" if edition["site"] else ""
    place = f"Figure {number} ({key}) in {edition['title']}, version {edition['version']}, data {digest}"
    plain = f"{edition['authors']} ({edition['date'][:4]}). {title}. {place}." + (f" {address}" if address else "")
    fields = {
        "author": f"{{{_tex(edition['authors'])}}}",
        "title": f"{{{_tex(title)}}}",
        "howpublished": _tex(place),
        "year": edition["date"][:4],
        **({"url": address} if address else {}),
    }
    body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{{key},\n{body}}}\n", plain


def _tex(text):
    return re.sub(r"([%&#_$])", r"\\\1", text)


# --- what the page shows -----------------------------------------------------------------------


def _page_html(app, page, node):
    records, env = _records(app.env), app.env
    if node["kind"] == "gallery":
        order = [key for key in records]
        order.sort(key=lambda key: [int(part) if part.isdigit() else 0 for part in number(env, key).split(".")])
        return "".join(_gallery_card(app, page, key, records[key]) for key in order)
    record = records[node["key"]]
    if node["kind"] == "plot":
        return _plot(node["key"], record)
    return _files_line(app, page, node["key"], record)


def _plot(key, record):
    """Return the static picture, with the room that the live chart and its controls will take."""
    spec = {name: value for name, value in record["spec"].items() if name not in ("$schema", "config")}
    svg = re.sub(r'(id="|url\(#)((?:clip|gradient)\w+)', rf"\g<1>{key}-\g<2>", record["svg"])
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)  # the picture as a whole has a description
    label = html.escape(record["spec"]["description"])
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()
    narrow = re.search(r'data-narrow-height="(\d+)"', svg)[1]
    report = '<div class="chart-report"></div>' if "text" in spec.get("usermeta", {}) else ""
    inline = json.dumps(spec, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<div class="chart"><div class="chart-plot" role="img" aria-label="{label}" '
        f'style="--height: {height}px; --narrow-height: {narrow}px">'
        f'<div class="chart-static" style="aspect-ratio: {width} / {height}">{svg}</div></div>'
        f'<div class="chart-controls">{controls.placeholders(spec)}</div>'
        f'<script type="application/json" class="chart-spec">{inline}</script>{report}</div>'
    )


def _files_line(app, page, key, record, link_to_page=False):
    edition = book.edition(app.srcdir)
    up = "../" * page.count("/")
    names = {"svg": "SVG", "png": "PNG", "csv": "CSV", "vl.json": "Vega-Lite"}
    links = [
        f'<a href="{up}{FOLDER}/{key}.{suffix}" download="{key}.{suffix}">{name}</a>' for suffix, name in names.items()
    ]
    bibtex, plain = citation(edition, key, number(app.env, key), record)
    cite = (
        f'<details class="chart-cite"><summary>cite</summary><p>{html.escape(plain)}</p>'
        f'<pre tabindex="0">{html.escape(bibtex)}</pre>'
        f'<a href="{up}{FOLDER}/{key}.bib" download="{key}.bib">BibTeX file</a></details>'
    )
    where = f"{up}{record['page']}.html#{key}" if link_to_page else f"#{key}"
    where = f"{edition['site']}{record['page']}.html#{key}" if edition["site"] else where
    link = f'<a href="{html.escape(where)}">'
    return f'<div class="chart-files">{" ".join(links)} {link}permanent link</a> {cite}</div>'


def _gallery_card(app, page, key, record):
    up = "../" * page.count("/")
    target = f"{up}{record['page']}.html#{key}"
    return (
        f'<div class="gallery-card"><a href="{target}" tabindex="-1" aria-hidden="true"><img loading="lazy" alt="" '
        f'src="{up}{FOLDER}/{key}.svg"></a>'
        f'<p><a href="{target}">Figure {number(app.env, key)}</a>: {html.escape(record["takeaway"])}</p>'
        f"{_files_line(app, page, key, record, link_to_page=True)}</div>"
    )


# --- Sphinx ------------------------------------------------------------------------------------


def register(app):
    """Register directives and events with Sphinx."""
    app.add_directive("chart", ChartDirective)
    app.add_directive("tabular", TabularDirective)
    app.add_directive("gallery", GalleryDirective)
    app.add_node(ChartNode)
    app.connect("env-purge-doc", _forget_page)
    app.connect("env-updated", _pages_with_gallery)
    app.connect("builder-inited", _no_pictures)
    app.connect("doctree-read", _draw_pictures)
    app.connect("env-updated", _draw_pictures)
    app.connect("doctree-resolved", _fill_in)
    app.connect("build-finished", _write_files)


def _forget_page(app, env, page):
    for key in [key for key, record in _records(env).items() if record["page"] == page]:
        del env.book_charts[key]


def _pages_with_gallery(app, env):
    return [page for page, metadata in env.metadata.items() if metadata.get("gallery")]


def _fill_in(app, doctree, page):
    for node in [*doctree.findall(ChartNode)]:
        node.replace_self(nodes.raw("", _page_html(app, page, node), format="html"))


def _no_pictures(app):
    app.pictures = {}


def _draw_pictures(app, read):
    """Have PNGs drawn while Sphinx goes on: those of a page when it is read, and then what else is missing."""
    folder, page = Path(app.outdir) / FOLDER, app.env.docname if isinstance(read, nodes.document) else None
    for key, record in _records(app.env).items() if app.builder.format == "html" else ():
        if page in (None, record["page"]) and key not in app.pictures and not _is_drawn(folder, key, record):
            app.pictures[key] = book.beside(theme.static_png, record["svg"])


def _is_drawn(folder, key, record):
    drawn = folder / f"{key}.svg"
    return (folder / f"{key}.png").exists() and drawn.exists() and drawn.read_text("utf-8") == _marked(key, record)


def _marked(key, record):
    """Return the picture as a file that says of which chart and data it is."""
    return f"<!-- {key}, data {theme.digest(record['spec'])} -->\n" + theme.on_white(record["svg"])


def _write_files(app, error):
    """Write each figure's files beside the pages; a picture is drawn anew only when its chart changed."""
    if error or app.builder.format != "html":
        return
    folder, edition = Path(app.outdir) / FOLDER, book.edition(app.srcdir)
    folder.mkdir(parents=True, exist_ok=True)
    kept = set()
    for key, record in _records(app.env).items():
        bibtex, _ = citation(edition, key, number(app.env, key), record)
        texts = {
            "svg": _marked(key, record), "csv": plotted_rows(record["spec"]), "bib": bibtex,
            "vl.json": json.dumps(record["spec"], indent=1) + "\n",
        }  # fmt: skip
        if key in app.pictures:
            (folder / f"{key}.png").write_bytes(app.pictures[key].result())
        for suffix, text in texts.items():
            (folder / f"{key}.{suffix}").write_text(text, encoding="utf-8")
        kept |= {f"{key}.{suffix}" for suffix in [*texts, "png"]}
    for stale in folder.iterdir():
        if stale.name not in kept:
            stale.unlink()
