"""Open the book's pages as a reader does, note what is seen, and say what is wrong with it.

`crawl` visits every page in every dress; `look` visits one. The functions under
"what may be wrong" turn what was noted into complaints, an empty list for a good page.
`plotted` reads what a chart shows after its controls were moved.
"""

import os
import re
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
OUTSIDE = re.compile(r"^(?!file:|data:|blob:|about:)")
# Theme, width, scripts of a load. With scripts, the page is then seen in the other theme too.
DRESSES = [(theme, width, scripts) for scripts in (True, False) for theme, width in (("light", 1280), ("dark", 360))]
ALSO_AT = {1280: [], 360: [390, 320]}  # other widths that the same page is pulled to


def chromium():
    """Return the path of Chromium, or none and how to get it."""
    named = os.environ.get("CHROMIUM")
    path = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not path:
        try:
            playwright = start_playwright()
            path = playwright.chromium.executable_path
            playwright.stop()
        except ImportError:
            path = None
    if path and Path(path).exists():
        return path, ""
    return None, (
        "no Chromium: `apt-get install chromium`, or `python -m playwright install chromium`,"
        " or set CHROMIUM to its path"
    )


def start_playwright():
    from playwright.sync_api import sync_playwright

    return sync_playwright().start()


@dataclass
class Visit:
    """One page in one dress, and what was seen there."""

    book: str
    page: str
    theme: str
    width: int
    scripts: bool
    requests: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    charts: list = field(default_factory=list)
    print_charts: list = field(default_factory=list)
    print_ground: str = ""
    ground: str = ""
    sideways: dict = field(default_factory=dict)
    cut_legends: list = field(default_factory=list)
    unnamed_controls: list = field(default_factory=list)
    small_text: list = field(default_factory=list)
    colours: list = field(default_factory=list)
    axe: list = field(default_factory=list)
    other: "Visit | None" = None

    def __str__(self):
        return f"{self.book} {self.page} ({self.theme}, {self.width} px{'' if self.scripts else ', no scripts'})"


def crawl(browser, book, root):
    """Yield a `Visit` for every page under the folder, in every dress."""
    pages = sorted(path for path in [*root.glob("*.html"), *root.glob("chapters/*.html")] if path.stem != "genindex")
    for theme, width, scripts in DRESSES:
        context = open_context(browser, theme, width, scripts)
        for path in pages:
            visit = look(context, path, Visit(book, path.relative_to(root).as_posix(), theme, width, scripts))
            yield visit
            if visit.other:
                yield visit.other
        context.close()


def open_context(browser, theme="light", width=1280, scripts=True):
    """Return a browser context that lets nothing out."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=scripts
    )
    context.set_default_timeout(20_000)
    context.route(OUTSIDE, lambda route: route.abort())
    return context


def look(context, path, visit):
    """Open the page, note what is seen, and close it."""
    page = context.new_page()
    page.on("request", lambda request: visit.requests.append(request.url))
    page.on("console", lambda message: message.type == "error" and visit.errors.append(message.text))
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.goto(f"file://{path}")
    page.evaluate(_OPEN_FOLDED)
    if visit.scripts:
        draw_all(page)
    visit.charts = page.evaluate(_CHARTS)
    visit.ground = page.evaluate(_GROUND)
    visit.unnamed_controls = page.evaluate(_UNNAMED)
    visit.colours = page.evaluate(_COLOURS)
    for width in [visit.width, *ALSO_AT.get(visit.width, [])]:
        if width != visit.width:
            page.set_viewport_size({"width": width, "height": 900})
        if visit.scripts:
            page.evaluate(_SETTLE)
        visit.sideways[width] = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        visit.cut_legends += [f"{figure} at {width} px" for figure in page.evaluate(_CUT_LEGENDS)]
        visit.small_text += page.evaluate(_SMALL_TEXT)
    page.emulate_media(media="print")
    if visit.scripts:
        page.evaluate(_SETTLE)
    visit.print_charts, visit.print_ground = page.evaluate(_CHARTS), page.evaluate(_GROUND)
    if visit.scripts:
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": visit.width, "height": 900})
        visit.other = _in_the_other_theme(page, visit)
        visit.axe = _axe(page)
        page.emulate_media(color_scheme=visit.other.theme)
        visit.other.axe = _axe(page, "color-contrast")
    page.close()
    return visit


def _in_the_other_theme(page, visit):
    """Return what is seen when the system changes its mind, and change it back: no drawing may be needed."""
    other = Visit(visit.book, visit.page, {"light": "dark", "dark": "light"}[visit.theme], visit.width, True)
    other.requests, other.errors = visit.requests, visit.errors
    page.emulate_media(color_scheme=other.theme)
    page.evaluate(_SETTLE)
    other.charts, other.ground = page.evaluate(_CHARTS), page.evaluate(_GROUND)
    other.colours = page.evaluate(_COLOURS)
    other.sideways = {visit.width: page.evaluate("document.documentElement.scrollWidth - innerWidth")}
    other.print_charts, other.print_ground = visit.print_charts, visit.print_ground
    page.emulate_media(color_scheme=visit.theme)
    page.evaluate(_SETTLE)
    return other


def draw_all(page):
    """Bring every chart of the page into view, in closed tabs too, until each is live."""
    page.evaluate(_DRAW_ALL)


def _axe(page, *rules):
    page.evaluate(_axe_script())
    found = page.evaluate(_RUN_AXE, [*rules])
    return [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
        for fault in found["violations"]
    ]


@cache
def _axe_script():
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


# --- what may be wrong -------------------------------------------------------------------------


def outside_requests(visit):
    return [url for url in visit.requests if OUTSIDE.match(url)]


def unseen_charts(visit):
    """Charts that show nothing: neither drawn nor as a static picture; on paper only the static one counts."""
    unseen = [f"{chart['id']} on screen" for chart in visit.charts if not (chart["static"] or chart["live"])]
    if visit.scripts:
        unseen += [f"{chart['id']} is not live" for chart in visit.charts if not chart["live"]]
    return unseen + [
        f"{chart['id']} in print" for chart in visit.print_charts if not chart["static"] or chart["live"]
    ]


def undescribed_charts(visit):
    return [chart["id"] for chart in visit.charts if len(chart["description"].split()) < 6]


def sideways_scroll(visit):
    return [f"{excess} px too wide at {width} px" for width, excess in visit.sideways.items() if excess > 0]


def grave_barriers(visit):
    """What axe-core calls serious or critical."""
    return [fault for fault in visit.axe if fault[1] in ("serious", "critical")]


def foreign_colours(visit, palette):
    """Colours in charts that the dark style sheet does not know."""
    known = {colour.lower() for colour in palette} | {"none", "transparent"}
    return sorted(colour for colour in visit.colours if colour.lower() not in known and not colour.startswith("url("))


def dark_paper(visit):
    return [] if visit.print_ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)") else [visit.print_ground]


# --- what a chart shows ------------------------------------------------------------------------


def plotted(page, figure, column, *, controls=None, where=None):
    """Return the numbers that a live chart plots in one column, after its controls were moved.

    Parameters
    ----------
    page : playwright page
        It shows the figure.
    figure : str
        Slug of the figure, such as ``fig-decode-roofline``.
    column : str
        Field of the specification, computed or given.
    controls : dict, optional
        Name of a control to its value; set as a reader sets it.
    where : dict, optional
        Field to value: only rows that agree.

    Returns
    -------
    list of float
        In the order of the rows. Empty if no row has that column.
    """
    page.locator(f"#{figure} .chart").scroll_into_view_if_needed()
    page.wait_for_function("figure => document.querySelector(`#${figure} .chart`).view", arg=figure)
    return page.evaluate(_PLOTTED, [figure, column, controls or {}, where or {}])


# --- what runs in the page ---------------------------------------------------------------------

# Marks and letters of charts are left out: their contrast follows from the palette, see test_theme.
# Of code the first word in each colour is enough, of a table four rows, of the sources six: axe
# takes half a minute for thousands of words that are all alike. Colours that still change from
# the printed page to the screen are taken to their end.
_RUN_AXE = """(rules) => {
  for (const change of document.getAnimations()) change.finish();
  const seen = new Set();
  for (const word of document.querySelectorAll(".highlight span")) {
    if (seen.has(word.className)) word.replaceWith(word.textContent);
    else seen.add(word.className);
  }
  const alike = "tbody tr:nth-child(n+5), .citation-list > :nth-child(n+7)";
  for (const more of document.querySelectorAll(alike)) more.remove();
  for (const drawing of document.querySelectorAll(".chart-plot svg")) drawing.replaceChildren();
  const only = rules.length ? { runOnly: rules } : {};
  return axe.run(document, { ...only, resultTypes: ["violations"], preload: false, elementRef: false });
}"""

_OPEN_FOLDED = "() => { for (const box of document.querySelectorAll('.bd-article details')) box.open = true; }"

_DRAW_ALL = """async () => {
  const live = async (chart) => {
    chart.scrollIntoView();
    const end = performance.now() + 15000;
    while (chart.dataset.state !== "live" && performance.now() < end) await new Promise(requestAnimationFrame);
  };
  for (const chart of document.querySelectorAll(".chart")) {
    const tab = chart.closest(".sd-tab-content");
    if (tab) tab.previousElementSibling.click();
    if (chart.clientWidth) await live(chart);
  }
  scrollTo(0, 0);
}"""

_SETTLE = """async () => {
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
  const busy = () => [...document.querySelectorAll(".chart")].some((chart) => chart.drawing);
  while (busy()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
}"""

_CHARTS = """() => {
  const seen = (node) => {
    const { width, height } = node?.getBoundingClientRect() ?? { width: 0, height: 0 };
    return width > 50 && height > 50;
  };
  const inOpenTab = (chart) => {
    const tab = chart.closest(".sd-tab-content");
    return !tab || getComputedStyle(tab).display !== "none";
  };
  return [...document.querySelectorAll(".bd-article .chart, .bd-article .vega-embed:not(.chart *)")].map((chart) => ({
    id: chart.closest("[id]")?.id ?? "", open: inOpenTab(chart),
    static: seen(chart.querySelector(".chart-static svg")) || !inOpenTab(chart),
    live: seen(chart.querySelector(".chart-live:not(.chart-pending) svg")) || (!inOpenTab(chart) && !!chart.view),
    description: chart.querySelector(".chart-plot")?.getAttribute("aria-label") ?? "",
  }));
}"""

_GROUND = "() => getComputedStyle(document.body).backgroundColor"

_UNNAMED = """() => [...document.querySelectorAll(".chart-controls :is(input, select)")]
  .filter((control) => !control.getAttribute("aria-label") || control.tabIndex < 0)
  .map((control) => control.closest("figure").id + ": " + control.name)"""

_COLOURS = """() => {
  const found = new Set();
  for (const node of document.querySelectorAll(".chart-plot svg, .chart-plot svg *")) {
    for (const name of ["fill", "stroke"]) {
      if (node.hasAttribute(name)) found.add(node.getAttribute(name));
      if (node.style[name] && node.style[name] !== "none") found.add("style: " + node.style[name]);
    }
  }
  return [...found];
}"""

_CUT_LEGENDS = """() => [...document.querySelectorAll(".chart svg.marks")].filter((drawing) => {
  const box = drawing.getBoundingClientRect();
  return [...drawing.querySelectorAll(".role-legend text")].some((text) => {
    const { left, right, width } = text.getBoundingClientRect();
    return width && (left < box.left - 1 || right > box.right + 1);
  });
}).map((drawing) => drawing.closest("figure").id)"""

_SMALL_TEXT = """() => [...document.querySelectorAll(".chart-live svg text, .chart-live .chart-controls label")]
  .filter((text) => text.getClientRects().length && parseFloat(getComputedStyle(text).fontSize) < 10.5)
  .map((text) => text.closest("figure").id + ": " + text.textContent)"""

_PLOTTED = """async ([figure, column, controls, where]) => {
  const chart = document.querySelector(`#${figure} .chart`);
  for (const [name, value] of Object.entries(controls)) {
    const control = chart.querySelector(`.chart-controls [name="${name}"]`);
    if (!control) throw new Error(`${figure} has no control named ${name}`);
    control.value = value;
    if (control.value !== String(value)) throw new Error(`${name} refuses ${value}: it shows ${control.value}`);
    for (const kind of ["input", "change"]) control.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  await chart.view.runAsync();
  const tables = Object.keys(chart.view.getState({ data: () => true }).data).map((name) => chart.view.data(name) ?? []);
  const agrees = (row) => Object.entries(where).every(([name, value]) => row[name] === value);
  const full = tables.filter((rows) => rows.some((row) => Number.isFinite(row[column]) && agrees(row)));
  return (full.at(-1) ?? []).filter(agrees).map((row) => row[column]);
}"""
