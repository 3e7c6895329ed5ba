"""The look of every chart: colours with a meaning, sizes, fonts, dark mode.

A colour means the same thing in every chapter and never speaks alone: a dash or a
shape says it again. Charts are drawn in the light colours; the dark ones replace
them by style sheet (`dark_mode_css`), so that a toggle needs no redraw.
"""

import copy
import hashlib
import json
import math
import os
import re

import altair as alt
import numpy as np
import vl_convert

from lib import arguments, units

VEGALITE = "application/vnd.vegalite.v6+json"
VEGALITE_VERSION = "6.4"
STATIC_WIDTH = 720
HEIGHT = 340
NARROW = 480  # pixels; a chart that is narrower puts its legend entries one below another
PHONE_WIDTH = 328  # of a chart on a screen of 360 pixels

# name: (on white, on the dark ground). Okabe and Ito's hues, darkened or lightened
# until each has a contrast of 3 to 1 against its ground (text: 4.5 to 1).
COLOURS = {
    "weights": ("#0072B2", "#56B4E9"),
    "cache": ("#A8487C", "#E59AC4"),
    "arithmetic": ("#D55E00", "#F2955A"),
    "simulated": ("#00855F", "#2FC79A"),
    "price": ("#7F6400", "#E3C04A"),
    "on purpose": ("#00798C", "#3CC6DB"),
    "others": ("#7A5BB5", "#B79DE8"),
    "measured": ("#1F2328", "#F0F1F2"),
    "muted": ("#59636E", "#A9B1BA"),
}
TEXT = COLOURS["measured"]
GRID = ("#E4E7EA", "#3A4047")
GROUND = ("#FFFFFF", "#121212")
DASHES = {"weights": [1, 0], "cache": [7, 3], "arithmetic": [2, 3], "muted": [4, 4]}

CONFIG = {
    "background": None,
    "font": "sans-serif",
    "axis": {
        "labelColor": TEXT[0], "titleColor": TEXT[0], "labelFontSize": 12, "titleFontSize": 12.5,
        "titleFontWeight": "normal", "gridColor": GRID[0], "domainColor": COLOURS["muted"][0],
        "tickColor": COLOURS["muted"][0], "titlePadding": 8, "labelFlush": False,
    },
    "legend": {
        "labelColor": TEXT[0], "titleColor": TEXT[0], "labelFontSize": 12, "titleFontSize": 12.5,
        "titleFontWeight": "normal", "orient": "top", "direction": "horizontal", "columns": 3,
        "symbolStrokeWidth": 2.5, "symbolSize": 110, "labelLimit": 260,
        "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
    },
    "header": {"labelColor": TEXT[0], "titleColor": TEXT[0], "labelFontSize": 12, "titleFontSize": 12.5},
    "view": {"stroke": None, "continuousHeight": HEIGHT},
    "line": {"strokeWidth": 2.5},
    "point": {"size": 65, "strokeWidth": 2, "opacity": 1},
    "rule": {"color": COLOURS["muted"][0]},
    "text": {"color": TEXT[0], "fontSize": 12},
}

# What else holds in a narrow chart; names on an axis or in a legend may take so much of its width.
NARROW_CONFIG = {
    "axis": {"labelFontSize": 11, "titleFontSize": 11.5, "labelSeparation": 5},
    "legend": {
        "columns": 1, "direction": "vertical",
        "layout": {"top": {"anchor": "end", "direction": "vertical", "margin": 6}},
    },
}  # fmt: skip
NARROW_LABEL = 0.36


def light(name):
    """Return the colour of that meaning on a white page, as ``#rrggbb``."""
    return COLOURS[arguments.choice("name", name, COLOURS)][0]


def scale(**meaning_of):
    """Return an Altair colour scale: series name to the meaning whose colour it wears."""
    return alt.Scale(domain=[*meaning_of], range=[light(meaning) for meaning in meaning_of.values()])


def rows(*, digits=6, **columns):
    """Return columns as Altair data: one row an element, numbers rounded.

    Parameters
    ----------
    digits : int
        Significant digits that are kept: a page needs no more than it can draw.
    **columns : array_like or scalar
        Shapes that broadcast together; text or numbers. NaN is refused: leave the row out.

    Returns
    -------
    altair.Data

    Raises
    ------
    ValueError
        If a column is empty, holds NaN or infinity, or does not fit the others.
    """
    arrays = arguments.together(**{name: _column(name, values) for name, values in columns.items()})
    flat = [array.ravel().tolist() for array in arrays]
    values = [
        {name: _short(item, digits) for name, item in zip(columns, row, strict=True)}
        for row in zip(*flat, strict=True)
    ]
    return alt.Data(values=values)


def _column(name, values):
    values = np.asarray(values)
    return values if values.dtype.kind in "USb" and values.size else arguments.array(name, values)


def _short(item, digits):
    if not isinstance(item, float):
        return item
    item = units.significant(item, digits)
    return int(item) if item.is_integer() and abs(item) < 1e15 else item


def finished(chart, description, *, height=HEIGHT):
    """Return the chart as wide as its column, with the description that every chart must have.

    Parameters
    ----------
    chart : altair.Chart or altair.LayerChart
    description : str
        The finding, in words, for a reader who cannot see it. At least a sentence.
    height : int
        Pixels.

    Raises
    ------
    ValueError
        If the description says nothing.
    """
    if len(arguments.text("description", description).split()) < 6:
        raise ValueError(f"description must say what the chart shows, got {description!r}")
    return chart.properties(width="container", height=height, description=description.strip())


def specification(chart):
    """Return the chart's Vega-Lite specification: described, and each dataset in it once.

    Parameters
    ----------
    chart : altair chart, or a specification as a dict

    Raises
    ------
    ValueError
        If the chart has no description.
    """
    spec = chart.to_dict() if hasattr(chart, "to_dict") else copy.deepcopy(chart)
    if len(spec.get("description", "").split()) < 6:
        raise ValueError(f"description must say what the chart shows, got {spec.get('description')!r}")
    datasets = spec.setdefault("datasets", {})
    _share_datasets(spec, datasets)
    return spec


def _share_datasets(part, datasets):
    """Move inline rows to `datasets`, so that layers which plot the same rows hold them once."""
    if isinstance(part, list):
        for item in part:
            _share_datasets(item, datasets)
    elif isinstance(part, dict):
        if isinstance(part.get("data"), dict) and "values" in part["data"]:
            values = part["data"]["values"]
            name = f"rows-{digest(values)}"
            datasets[name] = values
            part["data"] = {"name": name}
        for key, item in part.items():
            if key != "datasets":
                _share_datasets(item, datasets)


def static_svg(spec):
    """Return the chart drawn once at its default width: for print, previews and pages without scripts."""
    fixed = copy.deepcopy(spec)
    one_view = not {"hconcat", "vconcat", "concat", "facet", "repeat"} & fixed.keys()
    fixed["width"] = STATIC_WIDTH if one_view else STATIC_WIDTH - 90
    fixed["autosize"] = {"type": "fit-x" if one_view else "pad", "contains": "padding"}
    return _renumbered(vl_convert.vegalite_to_svg(fixed, vl_version=VEGALITE_VERSION))


def _renumbered(svg):
    """Count clips and gradients from 1: the library counts on from one chart that it draws to the next."""
    new = {}
    return re.sub(
        r'(id="|url\(#)(clip|gradient_)(\d+)',
        lambda match: match[1] + match[2] + new.setdefault(match[2] + match[3], str(len(new) + 1)),
        svg,
    )


def narrow_height(spec):
    """Return how tall the chart is on a phone, in pixels: its legends and labels wrap there."""
    limit = NARROW_LABEL * PHONE_WIDTH
    narrow = _limited(spec, limit)
    narrow["config"] = CONFIG | {part: CONFIG[part] | settings for part, settings in NARROW_CONFIG.items()}
    narrow["config"]["axis"]["labelLimit"] = limit
    narrow["width"], narrow["autosize"] = PHONE_WIDTH, {"type": "fit-x", "contains": "padding"}
    drawn = vl_convert.vegalite_to_svg(narrow, vl_version=VEGALITE_VERSION)
    return math.ceil(float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', drawn)[1]))


def _limited(part, limit):
    """Return a copy in which no label is longer than that, in pixels."""
    if isinstance(part, list):
        return [_limited(item, limit) for item in part]
    if isinstance(part, dict):
        return {
            key: min(item, limit) if key == "labelLimit" else _limited(item, limit) for key, item in part.items()
        }
    return part


def on_white(svg):
    """Return the picture with a white ground, as a file that may be shown anywhere."""
    return svg.replace(">", f'><rect width="100%" height="100%" fill="{GROUND[0]}"/>', 1)


def static_png(svg):
    """Return the static picture as PNG bytes at twice its size, on white."""
    return vl_convert.svg_to_png(on_white(svg), scale=2)


def digest(spec):
    """Return twelve hexadecimal digits that name this JSON: same digits, same chart."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]


def mime_bundle(spec, **_):
    """Return every form of a chart that a notebook may need.

    The book takes the specification. JupyterLab, VS Code and Colab take the HTML, which
    holds the static picture and replaces it once Vega has loaded from the network.
    """
    spec = specification(spec)
    # The page keeps as much room free as the live chart takes.
    svg = static_svg(spec).replace("<svg", f'<svg data-narrow-height="{narrow_height(spec)}"', 1)
    bundle = {VEGALITE: spec, "image/svg+xml": svg, "text/plain": spec["description"]}
    if not os.environ.get("BOOK_BUILD"):
        bundle["text/html"] = _live_html(spec, svg)
    return bundle


def _live_html(spec, svg):
    urls = [
        f"https://cdn.jsdelivr.net/npm/{package}"
        for package in ("vega@6.2.0", f"vega-lite@{VEGALITE_VERSION}.1", "vega-embed@7.0.2")
    ]
    script = json.dumps(spec).replace("</", "<\\/")
    name = f"chart-{digest(spec)}"
    return f"""<div id="{name}" style="width:100%;max-width:760px">{svg}</div>
<script type="module">
const box = document.getElementById("{name}");
for (const url of {json.dumps(urls)}) await new Promise((done, fail) => {{
  if (document.querySelector(`script[src="${{url}}"]`)?.dataset.ready) return done();
  const script = Object.assign(document.createElement("script"), {{src: url, onerror: fail}});
  script.onload = () => {{ script.dataset.ready = "yes"; done(); }};
  document.head.append(script);
}});
box.replaceChildren();
vegaEmbed(box, {script}, {{actions: false, renderer: "svg"}});
</script>"""


def dark_mode_css():
    """Return the style sheet that gives each drawn colour its dark twin."""
    pairs = dict([*COLOURS.values(), GRID, GROUND])
    lines = ["/* Written by lib.theme: each colour of a chart and its twin on a dark ground. */"]
    for on_white, on_dark in sorted(pairs.items()):
        for attribute in ("fill", "stroke"):
            lines.append(
                f'html[data-theme="dark"] .chart-plot [{attribute}="{on_white}" i] {{{attribute}: {on_dark};}}'
            )
    return "\n".join(lines) + "\n"


@alt.theme.register("one_trip", enable=True)
def _theme():
    return alt.theme.ThemeConfig({"config": CONFIG})


alt.renderers.register("one_trip", mime_bundle)
alt.renderers.enable("one_trip")
