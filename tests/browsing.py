"""Open the book's pages as a reader does, note what is seen, and say what is wrong with it.

`crawl` visits every page in every dress; `look` visits one. The functions under
"what may be wrong" turn what was noted into complaints, an empty list for a good page.
`plotted` reads what a chart shows after its controls were moved.
"""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
# The shell has the same engine as the browser and needs half its time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
OUTSIDE = re.compile(r"^(?!file:|data:|blob:|about:)")
# Theme, width, scripts of a load. With scripts, the page is then seen in the other theme too.
DRESSES = [(theme, width, scripts) for scripts in (True, False) for theme, width in (("light", 1280), ("dark", 360))]
ALSO_AT = {1280: [], 360: [390, 320]}  # other widths that the same page is pulled to


@cache
def chromium():
    """Return the path of Chromium, or none and how to get it."""
    named = os.environ.get("CHROMIUM")
    path = named or next(filter(None, map(shutil.which, NAMES)), None)
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
        "no Chromium: `apt-get install chromium-headless-shell` (or `chromium`),"
        " or `python -m playwright install chromium`, or set CHROMIUM to its path"
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
    pale: list = field(default_factory=list)
    moved: list = field(default_factory=list)
    axe: list = field(default_factory=list)
    other: "Visit | None" = None

    def __str__(self):
        return f"{self.book} {self.page} ({self.theme}, {self.width} px{'' if self.scripts else ', no scripts'})"


def crawl(books):
    """Return a `Visit` for every page, in every dress.

    Parameters
    ----------
    books : dict of str to Path
        Name to folder; of a page that two of them have, the last one's is taken. A browser for each processor takes
        the pages from one queue.
    """
    found = {path.relative_to(root): (name, root, path) for name, root in books.items() for path in pages(root)}
    queue = SimpleQueue()
    for one in sorted(found.values(), key=lambda one: -one[2].stat().st_size):
        queue.put(one)
    crews = min(2, os.cpu_count())
    with ThreadPoolExecutor(crews) as pool:
        seen = [*pool.map(lambda _: _visit_what_is_left(queue), range(crews))]
    return [*chain(*seen)]


def pages(root):
    """Return the pages of a book that readers meet, as paths."""
    return sorted(path for path in [*root.glob("*.html"), *root.glob("chapters/*.html")] if path.stem != "genindex")


def _visit_what_is_left(queue):
    visits = []
    with chromium_running() as browser:
        contexts = {dress: open_context(browser, *dress) for dress in DRESSES}
        while True:
            try:
                name, root, path = queue.get_nowait()
            except Empty:
                return visits
            for dress, context in contexts.items():
                visit = look(context, path, Visit(name, path.relative_to(root).as_posix(), *dress))
                visits += [visit, visit.other] if visit.other else [visit]


@contextmanager
def chromium_running():
    """Give a browser of one's own, and end it afterwards. Each thread needs its own."""
    playwright = start_playwright()
    opened = playwright.chromium.launch(executable_path=chromium()[0], args=FLAGS)
    try:
        yield opened
    finally:
        opened.close()
        playwright.stop()


def open_context(browser, theme="light", width=1280, scripts=True):
    """Return a browser context that lets nothing out."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=scripts
    )
    context.set_default_timeout(60_000)
    context.add_init_script(_MEASURE_ROOM)
    context.route(OUTSIDE, lambda route: route.abort())
    return context


def look(context, path, visit):
    """Open the page, note what is seen, and close it."""
    page = context.new_page()
    page.on("request", lambda request: visit.requests.append(request.url))
    page.on("console", lambda message: message.type in ("error", "warning") and visit.errors.append(message.text))
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.goto(f"file://{path}")
    page.evaluate(_OPEN_FOLDED)
    if visit.scripts:
        visit.moved = page.evaluate(_DRAW_ALL)
    _note_what_is_seen(page, visit)
    visit.unnamed_controls = page.evaluate(_UNNAMED)
    if visit.scripts:
        page.evaluate(_MARK_EACH_LOOK)
    for width in [visit.width, *ALSO_AT.get(visit.width, [])]:
        if width != visit.width:
            page.set_viewport_size({"width": width, "height": 900})
        if visit.scripts:
            page.evaluate(_SETTLE)
        visit.sideways[width] = page.evaluate(_SIDEWAYS)
        visit.cut_legends += [f"{figure} at {width} px" for figure in page.evaluate(_CUT_LEGENDS)]
        visit.small_text += page.evaluate(_SMALL_TEXT)
    page.emulate_media(media="print")
    if visit.scripts:
        page.evaluate(_SETTLE)
    visit.print_charts, visit.print_ground = page.evaluate(_CHARTS), page.evaluate(_GROUND)
    if visit.scripts:
        visit.other = _in_the_other_theme(page, visit)
        page.evaluate(_MARK_EACH_LOOK)
        page.evaluate(_TAKE_APART)
        page.evaluate(_axe_script())
        visit.other.axe = _axe(page, _AXE_CONTRAST, _AXE_OTHER)
        page.emulate_media(media="screen", color_scheme=visit.theme)
        page.evaluate(_SETTLE)
        visit.axe = _axe(page, _AXE_CONTRAST)
    page.close()
    return visit


def _note_what_is_seen(page, visit):
    visit.charts, visit.ground = page.evaluate(_CHARTS), page.evaluate(_GROUND)
    visit.colours, visit.pale = page.evaluate(_COLOURS), page.evaluate(_PALE)


def _in_the_other_theme(page, visit):
    """Return what is seen when the system changes its mind, from paper back on the screen: no drawing may be needed."""
    other = Visit(visit.book, visit.page, {"light": "dark", "dark": "light"}[visit.theme], visit.width, True)
    other.requests, other.errors = visit.requests, visit.errors
    page.set_viewport_size({"width": visit.width, "height": 900})
    page.emulate_media(media="screen", color_scheme=other.theme)
    page.evaluate(_SETTLE)
    _note_what_is_seen(page, other)
    other.sideways = {visit.width: page.evaluate(_SIDEWAYS)}
    other.print_charts, other.print_ground = visit.print_charts, visit.print_ground
    return other


def draw_all(page):
    """Bring every chart of the page into view, in closed tabs too, until each is live."""
    page.evaluate(_DRAW_ALL)


def _axe(page, *checks):
    """Return what axe-core finds; it is slow, so the page has been taken apart before."""
    return [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
        for check in checks
        for fault in page.evaluate(check)
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


def pale_words(visit):
    """Words that have too little contrast with the ground behind them, in each theme and at each width."""
    return visit.pale


def restless_figures(visit):
    """Charts and formulas that take more or less room in the end than was kept for them: what follows would move."""
    return visit.moved


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

# One word of each look: axe takes half a minute for thousands of words that are all alike.
_EACH_LOOK = """
  for (const change of document.getAnimations()) change.finish();
  const looks = new Map();
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let word = words.nextNode(); word; word = words.nextNode()) {
    const holder = word.parentElement;
    if (!word.data.trim() || holder.closest(".chart-plot, script, noscript, :disabled")) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(holder);
    const look = [color, fontSize, fontWeight, holder.className, holder.parentElement.className].join();
    if (looks.has(look) || !holder.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    looks.set(look, word);
  }
"""

_MARK_EACH_LOOK = """() => {
  {EACH_LOOK}
  window.marked ??= new Set();
  for (const word of looks.values()) window.marked.add(word.parentElement);
}""".replace("{EACH_LOOK}", _EACH_LOOK)

# axe asks for every element, again at each rule. What stays is one word of each look in either theme; marks and
# letters of charts are for test_theme; of code the first word in each colour is enough, of a table four rows, of
# the sources six.
_TAKE_APART = """() => {
  const marked = [...window.marked];
  for (const drawing of document.querySelectorAll(".chart-plot svg")) drawing.replaceChildren();
  const seen = new Set();
  for (const word of document.querySelectorAll(".highlight span")) {
    if (seen.has(word.className) && !window.marked.has(word)) word.replaceWith(word.textContent);
    else seen.add(word.className);
  }
  const alike = "tbody tr:nth-child(n+5), .citation-list > :nth-child(n+7)";
  for (const more of document.querySelectorAll(alike)) {
    if (!marked.some((word) => more.contains(word))) more.remove();
  }
}"""

_AXE_OPTIONS = '{ resultTypes: ["violations"], preload: false, elementRef: false, selectors: false, '

# Contrast, the one rule that asks for the theme.
_AXE_CONTRAST = """async () => {
  for (const change of document.getAnimations()) change.finish();
  const include = [...window.marked].filter((word) => word.isConnected);
  return (await axe.run({ include }, {OPTIONS} runOnly: ["color-contrast"] })).violations;
}""".replace("{OPTIONS}", _AXE_OPTIONS)

_AXE_OTHER = """async () => {
  return (await axe.run(document, {OPTIONS} rules: { "color-contrast": { enabled: false } } })).violations;
}""".replace("{OPTIONS}", _AXE_OPTIONS)

_OPEN_FOLDED = "() => { for (const box of document.querySelectorAll('.bd-article details')) box.open = true; }"

_MEASURE_ROOM = """document.addEventListener("readystatechange", () => {
  const boxes = document.querySelectorAll(".chart, div.math");
  window.roomKept ??= new Map([...boxes].map((box) => [box, box.offsetHeight]));
});"""

_DRAW_ALL = """async () => {
  const moved = [];
  const until = async (done) => {
    const end = performance.now() + 15000;
    while (!done() && performance.now() < end) await new Promise(requestAnimationFrame);
  };
  const compare = (box, name) => {
    const kept = window.roomKept?.get(box), change = box.offsetHeight - kept;
    if (kept && Math.abs(change) > 4) moved.push(`${name} by ${change} px`);
  };
  const live = async (chart) => {
    chart.scrollIntoView();
    await until(() => chart.dataset.state === "live");
    compare(chart, chart.closest("figure").id);
  };
  for (const chart of document.querySelectorAll(".chart")) {
    const tab = chart.closest(".sd-tab-content");
    if (tab) tab.previousElementSibling.click();
    if (chart.clientWidth) await live(chart);
  }
  const formulas = [...document.querySelectorAll("div.math")];
  await until(() => formulas.every((formula) => formula.querySelector("mjx-container")));
  for (const formula of formulas) compare(formula, formula.id || formula.textContent.slice(0, 40));
  scrollTo(0, 0);
  return moved;
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

_SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"

# axe measures contrast in one theme at each width; this does in both, for one word of each look.
_PALE = """() => {
  {EACH_LOOK}
  const parts = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return colour.startsWith("color(") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = ([r, g, b, a = 1], ground) => [r, g, b].map((value, at) => a * value + (1 - a) * ground[at]);
  const light = (colour) => {
    const linear = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    if (!node) return [255, 255, 255];
    const colour = parts(getComputedStyle(node).backgroundColor);
    return colour[3] === 0 ? ground(node.parentElement) : over(colour, ground(node.parentElement));
  };
  const pale = [];
  for (const word of looks.values()) {
    const holder = word.parentElement, { color, fontSize, fontWeight } = getComputedStyle(holder);
    const behind = ground(holder), size = parseFloat(fontSize);
    const [less, more] = [light(over(parts(color), behind)), light(behind)].sort((one, two) => one - two);
    const needed = size >= 24 || (size >= 18.66 && fontWeight >= 700) ? 3 : 4.5;
    const contrast = (more + 0.05) / (less + 0.05);
    if (contrast < needed) pale.push(`${contrast.toFixed(2)}: ${word.data.trim().slice(0, 40)}`);
  }
  return pale;
}""".replace("{EACH_LOOK}", _EACH_LOOK)

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
