"""No amount of money in the built book without the day and the source of its prices."""

import re

import pytest
from bs4 import BeautifulSoup

AMOUNT = re.compile(
    r"(?<![\w.,/])\d[\d,.]*\s*(?:USD|CNY|EUR|dollars?|cents?|fen)(?!\w)|\b(?:USD|CNY|EUR)\s*\d|[$€¥]\s?\d"
)
CURRENCY = re.compile(r"\b(?:USD|CNY|EUR)\b")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DAY = re.compile(rf"\b(?:{MONTHS}) \d{{4}}\b|\b\d{{4}}-\d\d-\d\d\b")
SOURCE = ", ".join(
    f'a[href*="{one}"]' for one in ("references.html#", "#tab-rents", "#tab-implied", "#tab-break-even", ".html#fig-")
)
BLOCKS = ("p", "li", "dd", "figcaption", "h1", "h2", "h3", "h4")


def told(part):
    """Return what a part of a page says, in one line, without what only scripts and pictures hold."""
    return re.sub(r"\s+", " ", part.get_text(" ").replace("\N{NO-BREAK SPACE}", " "))


def dated(*parts):
    """Tell whether these parts together name a day and link to a source."""
    return bool(DAY.search(" ".join(map(told, parts)))) and any(part.select_one(SOURCE) for part in parts)


def columns(row):
    return row.find_all(["td", "th"], recursive=False)


def undated(html):
    """Yield every paragraph, caption, list item and row that names an amount of money and no day, or no source."""
    page = BeautifulSoup(html, "html.parser")
    for gone in page.select("script, style, nav, svg, pre, .chart"):
        gone.decompose()
    article = page.find("article") or page
    for table in article.find_all("table"):
        headers = " ".join(told(cell) for cell in table.select("thead th"))
        around = [part for part in (table.find("caption"), table.find_parent("figure")) if part]
        caption = [BeautifulSoup(str(part), "html.parser") for part in around]
        for part in caption:
            for inner in part.find_all(["tbody", "thead"]):
                inner.decompose()
        for row in table.select("tbody tr"):
            paid = AMOUNT.search(told(row)) or (CURRENCY.search(headers) and re.search(r"\d", told(row)))
            if paid and not (dated(row) or any(dated(part) for part in caption)):
                yield told(row)
        table.decompose()
    for block in article.find_all(BLOCKS):
        cited = block.find_parent(class_="chart-cite")  # how to cite a figure: the figure is its source
        fine = DAY.search(told(block)) if cited else dated(block)
        if AMOUNT.search(told(block)) and not block.find(BLOCKS) and not fine:
            yield told(block)


def test_every_amount_in_the_book_has_a_day_and_a_source(books):
    if "real" not in books:
        pytest.skip("the book is not built: make book")
    pages = [*books["real"].glob("*.html"), *books["real"].glob("chapters/*.html")]
    found = [f"{path.stem}: {text}" for path in pages for text in undated(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_money_is_found_on_the_pages_that_speak_of_it(books):
    """The test above would pass on an empty book."""
    if "real" not in books:
        pytest.skip("the book is not built: make book")
    for name, least in (("index", 1), ("chapters/price_of_a_token", 60), ("chapters/your_numbers", 3)):
        text = BeautifulSoup((books["real"] / f"{name}.html").read_text(encoding="utf-8"), "html.parser").get_text(" ")
        assert len(AMOUNT.findall(text.replace("\N{NO-BREAK SPACE}", " "))) >= least, name


CITED = '<a class="reference internal" href="references.html#id1">Garg, 2026</a>'
TABLE = "<table><caption>{}</caption><thead><tr><th>fare{}</th></tr></thead><tbody><tr><td>{}</td></tr></tbody></table>"


@pytest.mark.parametrize(
    "html",
    [
        "<p>It costs 2.50 USD.</p>", "<p>It costs 2.50&nbsp;USD in May 2026.</p>", f"<p>It costs USD 2 [{CITED}].</p>",
        f"<p>It costs 3 cents.</p><p>May 2026 [{CITED}]</p>", "<ul><li>It costs 40 fen.</li></ul>",
        f"<figure><figcaption>It costs $3 [{CITED}].</figcaption></figure>",
        '<details class="chart-cite"><p>It costs 3 USD. Figure 1.</p></details>',
        TABLE.format("Fares.", "", "2 USD"), TABLE.format("Fares of May 2026.", " (USD/h)", "2.00"),
        TABLE.format(f"Fares [{CITED}].", "", "2 USD"),
    ],
)  # fmt: skip
def test_an_amount_without_day_or_source_is_found(html):
    assert len([*undated(f"<article>{html}</article>")]) == 1


@pytest.mark.parametrize(
    "html",
    [
        f"<p>It costs 2.50 USD in May 2026 [{CITED}].</p>", f"<p>It costs 2 USD on 2026-05-01 [{CITED}].</p>",
        '<p>It costs 3 cents in May 2026 (<a href="price.html#tab-rents">Table 1</a>).</p>',
        "<p>A few cents, tens of dollars: words of the article. 32 sequences.</p>", "<p>Column in CNY.</p>",
        TABLE.format(f"Fares of May 2026 [{CITED}].", " (USD/h)", "2.00"),
        TABLE.format("Fares.", "", f"2 USD, 2026-05-01 [{CITED}]"), TABLE.format("Fares in seconds.", "", "2 s"),
        '<details class="chart-cite"><p>In May 2026 it costs 3 USD. Figure 1.</p></details>',
        "<pre>3 USD</pre>", '<div class="chart"><p>3 USD</p></div>',
    ],
)  # fmt: skip
def test_an_amount_with_both_is_let_through(html):
    assert [*undated(f"<article>{html}</article>")] == []
