"""The Sphinx side of the book: who it is by, what each page carries, what makes a build fail."""

import json
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path

import vl_convert
import yaml
from pybtex.plugin import find_plugin, register_plugin
from sphinx.util import logging

from lib import copies, downloads, figures, theme

LOGGER = logging.getLogger(__name__)
STATIC = Path(str(files("lib"))) / "static"
SCRIPT_ORDER = 400  # before the formulas (500), which take longest
TEMPLATES = STATIC.with_name("templates")

# What pybtex looks up for every citation, each time among all installed packages.
CITATION_PLUGINS = (
    ("pybtex.backends", "docutils"), ("pybtex.backends", "plaintext"), ("pybtex.style.formatting", "alpha"),
    ("pybtex.style.labels", "alpha"), ("pybtex.style.names", "plain"), ("pybtex.style.sorting", "author_year_title"),
)  # fmt: skip


@cache
def edition(root):
    """Return title, version, date and authors of the book, from its CITATION.cff.

    Parameters
    ----------
    root : str or Path
        Folder that holds the file.

    Returns
    -------
    dict
        ``title``, ``version``, ``date`` (ISO), ``authors``, ``repository``, ``site``; the
        last two are empty until the project has a public address.
    """
    record = yaml.safe_load((Path(root) / "CITATION.cff").read_text(encoding="utf-8"))
    repository = record.get("repository-code", "")
    return {
        "title": record["title"],
        "version": str(record["version"]),
        "date": str(record["date-released"]),
        "authors": " and ".join(author["name"] for author in record["authors"]),
        "repository": repository,
        "site": site_of(repository),
    }


def site_of(repository):
    """Return the address of the pages that a GitHub repository publishes; empty for an empty address."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)/?", repository)
    if repository and not match:
        raise ValueError(f"repository-code must be https://github.com/OWNER/NAME or absent, got {repository!r}")
    return f"https://{match[1].lower()}.github.io/{match[2]}/" if match else ""


def beside(function, *arguments, **options):
    """Return the future of a call in a second process: drawing takes seconds, and Sphinx uses one processor."""
    return _second_process().submit(function, *arguments, **options)


@cache
def _second_process():
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def setup(app):
    """Register the book with Sphinx."""
    for group, name in CITATION_PLUGINS:
        register_plugin(group, name, find_plugin(group, name), force=True)
    app.connect("config-inited", _describe_book, priority=100)
    app.connect("builder-inited", _write_static_files)
    app.connect("env-updated", _write_vega)
    app.connect("html-page-context", _finish_page, priority=900)
    figures.register(app)
    downloads.register(app)
    copies.register(app)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": False}


def _describe_book(app, config):
    book = edition(app.srcdir)
    config.project = config.html_title = book["title"]
    config.author = book["authors"]
    config.version = config.release = book["version"]
    config.copyright = f"{book['date'][:4]} {book['authors']}"
    config.html_baseurl = book["site"]
    config.html_last_updated_fmt = None
    config.html_show_copyright = False
    # Seen from the book, so that the same book built elsewhere has the same settings.
    config.html_static_path.append(os.path.relpath(STATIC, app.confdir))
    config.templates_path.insert(0, os.path.relpath(TEMPLATES, app.confdir))
    config.html_theme_options["logo"] = {"text": book["title"].partition(":")[0]}
    if book["repository"]:
        config.html_theme_options["repository_url"] = book["repository"]
        config.html_theme_options["use_repository_button"] = True


def _write_static_files(app):
    """Write the dark colours, and have the one bundle of Vega made that all pages share."""
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dark-charts.css").write_text(theme.dark_mode_css(), encoding="utf-8")
    for sheet in ("book.css", "dark-charts.css"):
        app.add_css_file(sheet)
    app.add_js_file("charts.js", loading_method="defer", priority=SCRIPT_ORDER)
    app.add_js_file("copies.js", loading_method="defer", priority=SCRIPT_ORDER)
    app.vega_bundle = None if _is_vega(folder / "vega.js") else beside(bundle_of_vega)


def bundle_of_vega():
    """Return Vega, Vega-Lite and Vega-Embed as one plain script; their names stay inside a function."""
    bundle = vl_convert.javascript_bundle(vl_version=theme.VEGALITE_VERSION)
    settings = json.dumps(_chart_settings())
    return f"{_first_line()}(function () {{\n{bundle}\nObject.assign(window, {settings});\n}})();\n"


def _first_line():
    versions = f"vega {vl_convert.get_vega_version()}, vega-lite {theme.VEGALITE_VERSION}"
    versions += f", vega-embed {vl_convert.get_vega_embed_version()}"
    return f"// {versions}; BSD-3-Clause. {theme.digest(_chart_settings())}\n"


def _chart_settings():
    """Return what charts.js needs to know of the theme."""
    narrow = {"below": theme.NARROW, "label": theme.NARROW_LABEL, "config": theme.NARROW_CONFIG}
    return {"chartConfig": theme.CONFIG, "narrowChart": narrow}


def _is_vega(path):
    return path.exists() and path.open(encoding="utf-8").readline() == _first_line()


def _write_vega(app, env):
    """Write the bundle before the pages, which name it by its content."""
    if app.vega_bundle:
        path = Path(app.outdir) / "_static" / "vega.js"
        path.write_text(app.vega_bundle.result(), encoding="utf-8")


def _finish_page(app, pagename, templatename, context, doctree):
    """Put the notebook links under the title, and give the footer what it says."""
    context["edition"] = edition(app.srcdir)
    if "body" in context and doctree is not None:
        tools = downloads.links(app, pagename)
        if '<div class="chart">' in context["body"]:
            app.add_js_file("vega.js", loading_method="defer", priority=SCRIPT_ORDER - 1)
        if '"ride":' in context["body"]:
            app.add_js_file("boarding.js", loading_method="defer", priority=SCRIPT_ORDER - 1)
        body = context["body"].replace("</h1>", f"</h1>{tools}", 1)
        _defer_scripts(context["script_files"])
        # Sphinx gives a list of sources children that no list may have, and screen readers lose count.
        context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')


def _defer_scripts(files):
    """Let the page be read and painted before any script runs, in the same order as without this.

    A script in the head that is not deferred holds up the reader until all style sheets and
    itself have arrived. What an inline script needs of a deferred one, it needs as late.
    """
    for index, script in enumerate(files):
        if script.filename:
            late = {"defer": "defer"}
        elif "DOCUMENTATION_OPTIONS." in script.attributes.get("body", ""):
            late = {"type": "module"}
        else:
            continue
        files[index] = type(script)(script.filename, priority=script.priority, **(script.attributes | late))
