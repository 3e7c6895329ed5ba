"""What a chapter may not say by hand: results, figure numbers, prices in dollars, code that belongs in lib.

`prose` blanks everything but sentences and keeps every offset, so a fault is named with its line.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest
import yaml

from lib import price_tables

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "index.md", *sorted((ROOT / "chapters").glob("*.md"))]
ORDER = ["Question", "Model", "Measurement", "Verdict"]
MOST_VISIBLE_CELLS = 12
OUT_OF_SIGHT = {"remove-cell", "remove-input", "hide-cell", "hide-input"}

FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
FENCED = re.compile(r"^(?P<fence>`{3,}|:{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL)
CODE_CELL = re.compile(r"\{code-cell\}")
NO_PROSE = re.compile(r"\{(code-cell|code|code-block|literalinclude|math|bibliography|toctree|mermaid)\}|[^{]")
OPTION = re.compile(r"^ *:[\w-]+:.*$", re.MULTILINE)
BLOCK_MATH = re.compile(r"\$\$.*?\$\$", re.DOTALL)
INLINE_MATH = re.compile(r"(?<![\\$])\$(?!\s)(?:[^$\n]|\n(?!\n))+?(?<!\s)\$")
CITED = re.compile(r"\{cite(?::\w+)?\}`[^`]*`")
ROLE_OR_CODE = re.compile(r"(?:\{[\w:-]+\})?(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
TARGET = re.compile(r"\]\([^)\s]*\)|<https?:[^>]*>|https?:\S+|<!--.*?-->", re.DOTALL)
COMMENT = re.compile(r"^%.*$", re.MULTILINE)
SENTENCE_END = re.compile(
    r"(?<=[.!?:])[*_)\"]*\s+(?=[A-Z*_(\"\[{])(?!\{cite(?::p)?\})"  # a source in brackets belongs to what it follows
    r"|\n\s*\n|\n(?= *(?:[-*|#>]|\d+\.|:{3}) ?)|(?<=\|)"
)

NUMBER = r"(?<![\w.,/^])(?<!\w-)[~±+]?\d[\d,.]*(?:e[+-]?\d+)?"
SCALED = r"[kKMGTPE]?i?(?:B|bytes?|FLOP|OP|W|Hz)(?:/(?:s|h|B|token|byte|FLOP))?"
TIME = r"(?:n|µ|μ|u|m)?s|(?:nano|micro|milli)?seconds?|min|minutes?|h|hours?"
RATIO = r"(?:%|percent)(?!\s+(?:confidence\s+)?interval)|times|×|x|-?fold"  # the 95 % interval is a convention
RATE = r"(?:tokens?|requests?|sequences?)(?:/(?:s|h|USD)| per (?:second|hour|dollar))"
MONEY = r"USD(?:/\w+)?|EUR|CNY|dollars?|cents?"
UNIT = rf"(?:{RATE}|{MONEY}|{SCALED}|{TIME}|{RATIO})"
RESULT = re.compile(rf"{NUMBER}(?!B\b)[\s-]?{UNIT}(?![\w/])|\b(?:USD|EUR|CNY)\s?\d[\d,.]*")  # 8B is a name
NUMBERED = re.compile(r"\b(?:Fig(?:ure)?s?\.?|Tab(?:\.|les?)|Eqs?\.|Equations?|Listings?|Sections?)\s\(?\d[\d.]*")


def blank(pattern, text):
    """Return the text with every match turned into spaces; lines stay lines."""
    return pattern.sub(lambda match: _spaces(match[0]), text)


def _spaces(text):
    return re.sub(r"[^\n]", " ", text)


def without_code(text):
    """Return the text without front matter, code and math blocks; directives keep what they hold."""

    def keep_what_is_said(match):
        if NO_PROSE.match(match["info"].strip() or "text"):
            return _spaces(match[0])
        first, last = len(match["fence"]) + len(match["info"]), len(match["fence"])
        held = FENCED.sub(keep_what_is_said, match["body"])
        closing = match[0][match.end("body") - match.start() :]
        return " " * first + "\n" + blank(OPTION, held) + " " * last + closing[last:]

    return FENCED.sub(keep_what_is_said, blank(FRONT_MATTER, text))


def prose(text):
    """Return what the text says in sentences, everything else blank; citations stay."""
    text = without_code(text)
    for pattern in (COMMENT, BLOCK_MATH, INLINE_MATH, TARGET):
        text = blank(pattern, text)
    return ROLE_OR_CODE.sub(lambda match: match[0] if CITED.fullmatch(match[0]) else _spaces(match[0]), text)


def sentences(text):
    """Return (offset, sentence) for each sentence, heading, list item and table cell of a text in prose."""
    found, start = [], 0
    for end in [*SENTENCE_END.finditer(text), None]:
        stop = end.start() if end else len(text)
        if text[start:stop].strip():
            found.append((start, text[start:stop]))
        start = end.end() if end else stop
    return found


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def typed_results(text):
    """Find a number with a unit that is neither glued nor followed by its source in the same sentence."""
    text = prose(text)
    for offset, sentence in sentences(text):
        for match in RESULT.finditer(sentence):
            if not CITED.search(sentence, match.end()):
                cure = "hand it over with say() and glue it, or cite its source after it in the same sentence"
                yield line_of(text, offset + match.start()), f"{match[0].strip()!r} is typed by hand: {cure}"


def typed_numbers(text):
    """Find the number of a figure or table, unless it is a cited work's own: "Table 2 of {cite}`...`"."""
    text = prose(text)
    for match in NUMBERED.finditer(text):
        if re.match(r"[a-z]?,? (?:of|in|from) \{cite", text[match.end() :]):
            continue
        if re.search(r"\{cite(?::\w+)?\}`[^`]*`,\s(?:[\w ]+,\s)?$", text[: match.start()]):
            continue
        yield line_of(text, match.start()), f"{match[0]!r} will drift: write {{numref}}`its-label`"


def dollars(text):
    """Find a dollar sign before a digit: two of them in a paragraph turn into a formula."""
    text = blank(ROLE_OR_CODE, without_code(text))
    for match in re.finditer(r"(?<!\$)\$\d[\d.,]*", text):
        cure = "write USD for a price, and a formula that begins with a digit as {math}`2 N`"
        yield line_of(text, match.start()), f"{match[0]!r} may turn into a formula: {cure}"


def flops(text):
    """Find the word that means both an amount and a rate."""
    for match in re.finditer(r"\b[kMGTPE]?FLOPS\b", blank(re.compile(r"`[^`\n]+`"), text)):
        yield line_of(text, match.start()), f"{match[0]!r} has two meanings: write FLOP or FLOP/s"


def code_cells(text):
    """Return (offset, options, code) of each code cell."""
    found = []
    for match in FENCED.finditer(text):
        if CODE_CELL.match(match["info"].strip()):
            options = re.match(r"(?:---\n.*?\n---\n|(?::[\w-]+:[^\n]*\n)*)", match["body"], re.DOTALL)
            found.append((match.start("body"), options[0], match["body"][options.end() :]))
    return found


def definitions(text):
    """Find a function or class that a chapter defines."""
    for match in FENCED.finditer(text):
        if CODE_CELL.match(match["info"].strip()):
            for line in re.finditer(r"^[ \t]*(?:async +)?(def|class)\b", match["body"], re.MULTILINE):
                cure = "a chapter calls lib; move it there, with a test"
                yield line_of(text, match.start("body") + line.start(1)), f"{line[1]!r} in a cell: {cure}"


def too_many_cells(text):
    """Find the first visible cell that is one too many."""
    shown = [offset for offset, options, _ in code_cells(text) if not OUT_OF_SIGHT & {*re.findall(r"[\w-]+", options)}]
    if len(shown) > MOST_VISIBLE_CELLS:
        cure = "hide plotting with hide-input, plumbing with remove-cell"
        message = f"{len(shown)} visible cells, at most {MOST_VISIBLE_CELLS}: {cure}"
        yield line_of(text, shown[MOST_VISIBLE_CELLS]), message


def headings_out_of_order(text):
    """Find the parts of an argument that are missing, added or misplaced."""
    text = without_code(text)
    found = [(match.start(), match[1]) for match in re.finditer(r"^## +([\w-]+)", text, re.MULTILINE)]
    names = [name for _, name in found]
    if names not in (ORDER, [*ORDER, "Exercises"]):
        offset = next((at for (at, name), due in zip(found, ORDER, strict=False) if name != due), 0)
        cure = f"write {', '.join(ORDER)}, then Exercises if there are any"
        yield line_of(text, offset), f"second-level headings are {', '.join(names) or 'missing'}: {cure}"


GLUED = re.compile(r"\{glue:text\}`([\w-]+)`")
SOURCED = re.compile(r"\{cite(?::\w+)?\}`|\{numref\}`tab-")
DATED = re.compile(r"\{glue:text\}`[\w-]*(?:-read|-when)`")
CURRENCIES = ("USD", "USD/h", "CNY")


def money(text):
    """Return (keys said in a currency, keys of tables with money, those of them whose columns give day and source)."""
    said, tables, dated = set(), set(), set()
    for _, _, code in code_cells(text):
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            units = [argument.value for argument in node.args[1:] if isinstance(argument, ast.Constant)]
            key = node.args[0].value if isinstance(node.args[0], ast.Constant) else "a key that is put together"
            if node.func.id in ("say", "say_range") and {*CURRENCIES} & {*units}:
                said.add(key)
            source = ast.get_source_segment(code, node)
            for made in re.findall(r"\bprice_tables\.(\w+)\(", source):
                source += inspect.getsource(getattr(price_tables, made))
            if node.func.id == "tabulate" and re.search(r"\b(?:USD|CNY)\b", source):
                tables.add(key)
                if re.search(r"\{\{cite|_cited\(", source) and re.search(r"[\"']read[\"']", source):
                    dated.add(key)
    return said, tables, dated


def undated_money(text):
    """Find a paragraph, caption or table with an amount of money but without the day or the source of its prices."""
    said, tables, dated = money(text)
    prose_only = without_code(text)
    for match in re.finditer(r"(?:(?!\n\s*\n).)+", prose_only, re.DOTALL):
        shown = sorted({*GLUED.findall(match[0])} & said)
        where = line_of(text, match.start() + len(match[0]) - len(match[0].lstrip()))
        for needed, what in ((DATED, "day"), (SOURCED, "source")):
            if shown and not needed.search(match[0]):
                cure = "glue a key that ends in -read, and cite the list or {numref} its table"
                yield where, f"{shown[0]!r} is money without its {what}: {cure}"
    if "a key that is put together" in said:
        yield 1, "a key of money is put together: write it out, or no test can find it"
    for match in FENCED.finditer(text):
        name = re.match(r"\{tabular\} *([\w-]+)", match["info"].strip())
        if name and name[1] in tables - dated and not (DATED.search(match["body"]) and SOURCED.search(match["body"])):
            yield line_of(text, match.start()), f"{name[1]!r} holds money: its caption needs day and source"


RULES = [typed_results, typed_numbers, dollars, flops, definitions, too_many_cells, undated_money]


def argument_pages():
    """Return the pages of the numbered parts in the table of contents: each argues one question."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [ROOT / f"{entry['file']}.md" for part in toc["parts"] if part.get("numbered") for entry in part["chapters"]]


def complaints(rule, pages):
    return [
        f"{page.relative_to(ROOT)}:{line}: {message}"
        for page in pages
        for line, message in rule(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_page_breaks_a_rule(rule):
    found = complaints(rule, PAGES)
    assert not found, "\n".join(found)


def test_each_argument_goes_from_question_to_verdict():
    found = complaints(headings_out_of_order, argument_pages())
    assert not found, "\n".join(found)


# --- the guard itself: each fault is found, each right way is let through ------------------------


def first(rule, text):
    """Return (line, message) of the first fault, or None."""
    return next(rule(text), None)


@pytest.mark.parametrize(
    "result",
    [
        *("4.48 ms", "4.48\u00a0ms", "3 s", "12 µs", "0.5 seconds", "2 hours", "40ms", "1,024 GB", "80 GB", "16 GiB"),
        *("3.35 TB/s", "989 TFLOP/s", "2e9 FLOP", "295 FLOP/B", "131 kB/token", "700 W", "850 tokens/s"),
        *("850 tokens per second", "30 requests/s", "99.7 %", "99.7%", "12 percent", "23 times", "23x", "23 ×"),
        *("10-fold", "USD 2.50", "2.50 USD", "2.50 USD/h", "3 dollars", "40 cents", "an 80-GB card", "about ~5 ms"),
    ],
)
def test_a_result_typed_by_hand_is_found(result):
    line, message = first(typed_results, f"# Title\n\nIt takes {result}, which is long.\n")
    assert line == 3
    assert "typed by hand: hand it over with say()" in message


@pytest.mark.parametrize(
    "text",
    [
        "It takes {glue:text}`step` and costs {glue:text}`price`.",
        "The maker gives 3.35 TB/s {cite}`nvidia2023h100`.",
        "A server with 80 GB, says\n{cite:t}`nvidia2023h100`, is enough.",
        "A batch of 256 sequences of 2,048 tokens in 16-bit numbers, in 2023.",
        "It doubles three times.",
        "The key is `step-4 ms` and the code `sleep(4 s)`.",
        "With $t = 4 s$ and $$ t = 4 s $$ too.",
        "See [the page](https://example.org/4 ms).",
        "```{code-cell} ipython3\nprint('4 ms')\n```",
        "```{math}\n4 s\n```",
        "---\ntitle: 4 ms\n---\n",
        "% a note of 4 ms to ourselves\n",
        "Llama-3-8B is an 8B model in 16-bit numbers, with its 95 % interval.",
        "- **C03** Streaming takes 0.03 s; the rest 0.0001 s. {cite:p}`yunfan2025batching`\n- **C04** Next.",
        "In 2024 systems changed; 3 simple steps follow.",
    ],
)
def test_what_is_glued_sourced_or_no_prose_is_let_through(text):
    assert first(typed_results, text) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{cite:t}`a2020` measures much. It takes 4 ms.", 1),
        ("It takes 4 ms. So says {cite:t}`a2020`.", 1),
        ("It takes 4 ms.\n\n{cite:t}`a2020` agrees.", 1),
        ("- A {cite}`a2020`\n- takes 4 ms\n- B {cite}`a2020`", 2),
        ("| a | b |\n|---|---|\n| 4 ms | {cite}`a2020` |", 3),
        ("```{note}\n:class: 4 ms\nIt takes 4 ms.\n```", 3),
        ("::::{dropdown} More\n:::{chart} fig\n:name: f\n\n**It takes 4 ms.** Line.\n:::\n::::", 5),
        ("```{code-cell}\nx = 1\n```\n\nIt takes 4 ms.", 5),
        ("---\na: 1\n---\n\n# It takes 4 ms", 5),
    ],
)
def test_a_result_is_found_wherever_it_stands_and_only_its_own_sentence_sources_it(text, line):
    assert first(typed_results, text)[0] == line


@pytest.mark.parametrize("reference", ["Figure 3", "Fig. 2", "Figures 1 and 2", "Table 1", "Table 1.2", "Eq. (4)"])
def test_a_figure_number_typed_by_hand_is_found(reference):
    line, message = first(typed_numbers, f"# Title\n\nAs {reference} shows.\n")
    assert line == 3
    assert "write {numref}" in message


@pytest.mark.parametrize(
    "text",
    [
        "See {numref}`fig-step` and {numref}`Figure %s <fig-step>`.",
        "From Table 2 of {cite:t}`kwon2023`, and from {cite:t}`austin2025`, part 7, Table 1.",
        "The table 1 is set for.",
    ],
)
def test_a_numref_and_a_table_of_a_cited_work_are_let_through(text):
    assert first(typed_numbers, text) is None


@pytest.mark.parametrize("text", ["It costs $3 and $4.", "It costs $3.", "A formula $2 x$.", "**$0.50** each"])
def test_a_dollar_before_a_digit_is_found(text):
    line, message = first(dollars, f"\n{text}\n")
    assert line == 2
    assert "write USD" in message


@pytest.mark.parametrize("text", ["USD 3 and USD 4", "$x = 2$", "$$2 x$$", "`$3`", "```{code-cell}\n'$3'\n```"])
def test_usd_and_formulas_are_no_dollars(text):
    assert first(dollars, text) is None


@pytest.mark.parametrize("text", ["It has 3 TFLOPS.", "FLOPS", "```{code-cell}\n# FLOPS\n```"])
def test_flops_is_found(text):
    assert "write FLOP or FLOP/s" in first(flops, text)[1]


def test_flop_per_second_is_let_through():
    assert first(flops, "989 TFLOP/s, FLOPs of a step, and never `FLOPS`") is None


@pytest.mark.parametrize("code", ["def f():\n    1", "class A:\n    1", "if x:\n    def f(): 1", "async def f(): 1"])
@pytest.mark.parametrize("fence", ["```", ":::"])
def test_a_definition_in_a_cell_is_found(code, fence):
    text = f"# Title\n\n{fence}{{code-cell}} ipython3\n:tags: [remove-cell]\n{code}\n{fence}\n"
    line, message = first(definitions, text)
    assert line == (6 if code.startswith("if") else 5)
    assert "move it there" in message


def test_a_call_and_a_listing_are_no_definition():
    text = "```{code-cell}\ndefault = classify(x)\n```\n\n```python\ndef f(): pass\n```\n"
    assert first(definitions, text) is None


def cells(count, tags=""):
    return f"```{{code-cell}} ipython3\n{tags}x = 1\n```\n\n" * count


def test_the_thirteenth_visible_cell_is_found():
    line, message = first(too_many_cells, cells(13))
    assert line == 12 * 4 + 2
    assert message.startswith("13 visible cells, at most 12")


@pytest.mark.parametrize("tags", [":tags: [hide-input]\n", ":tags: [remove-cell]\n", "---\ntags: [hide-cell]\n---\n"])
def test_hidden_cells_do_not_count(tags):
    assert first(too_many_cells, cells(12) + cells(9, tags)) is None
    assert first(too_many_cells, cells(12) + cells(1, tags.replace("hide", "show").replace("remove-cell", "b")))


WHOLE = "# T\n\n## Question\n\n## Model\n\n### Part\n\n## Measurement\n\n## Verdict\n"


@pytest.mark.parametrize("text", [WHOLE, WHOLE + "\n## Exercises\n", WHOLE.replace("Question", "Question: which?")])
def test_an_argument_in_order_is_let_through(text):
    assert first(headings_out_of_order, text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("# T\n", WHOLE.replace("## Model\n", ""), WHOLE + "\n## Notes\n", WHOLE.replace("Question", "Answer")),
        WHOLE.replace("Model", "X").replace("Measurement", "Model").replace("X", "Measurement"),
    ],
)
def test_an_argument_out_of_order_is_found(text):
    assert "write Question, Model, Measurement, Verdict" in first(headings_out_of_order, text)[1]


def test_a_complaint_gives_file_and_line():
    found = complaints(lambda _: typed_results("\nIt takes 4 ms."), PAGES[:1])
    assert found[0].startswith("index.md:2: '4 ms' is typed by hand")


TYPED = re.compile(rf"{NUMBER}(?![\w/-])")


def typed_in_descriptions(text):
    """Return the numbers that chart descriptions in code cells hold as digits; ``{key}`` holds a said value."""
    found = []
    for match in FENCED.finditer(text):
        if CODE_CELL.match(match["info"].strip()):
            code = OPTION.sub("", match["body"])
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.keyword) and node.arg == "description":
                    words = re.sub(r"\{[\w-]+\}", "", ast.literal_eval(node.value))
                    found += TYPED.findall(words)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_number_in_the_description_of_a_chart_is_typed(page):
    """Cure: say() the value before show(), and write {key} in the description."""
    assert typed_in_descriptions(page.read_text(encoding="utf-8")) == []


def test_a_typed_number_in_a_description_is_found():
    call = 'show("fig", charts.lines(x, description="An 8B model takes %s on an H100."))'
    cell = f"```{{code-cell}} ipython3\n{call}\n```\n"
    assert typed_in_descriptions(cell % "{step}") == []
    assert typed_in_descriptions(cell % "4.5 ms") == ["4.5"]


TABLED = """```{code-cell}
tabulate("tab-a", {"x": [quantity(1, "USD")]%s})
```

:::{tabular} tab-a
Money.
:::"""
PAID = """```{code-cell} ipython3
:tags: [remove-cell]
say("fare", 2.0, "USD")
say_range("toll", [1.0, 2.0, 4.0], "USD")
say("fare-read", "May 2026")
```

"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("It costs {glue:text}`fare`.", "without its day"),
        ("It costs {glue:text}`fare` {cite:p}`a2020`.", "without its day"),
        ("It costs {glue:text}`toll` {cite:p}`a2020`.", "without its day"),
        ("It costs {glue:text}`fare` in {glue:text}`fare-read`.", "without its source"),
        ("In {glue:text}`fare-read` {cite:p}`a2020`.\n\nIt costs {glue:text}`fare`.", "without its day"),
        (":::{chart} fig-a\n**It costs {glue:text}`fare`.** Line.\n:::", "without its day"),
        (TABLED % "", "day and source"),
        ("```{code-cell}\nsay(f\"a-{b}\", 1, \"USD\")\n```", "put together"),
        ("```{code-cell}\nsay_range(f\"a-{b}\", ends, \"USD\")\n```", "put together"),
    ],
)
def test_money_without_its_day_or_source_is_found(text, fault):
    assert any(fault in message for _, message in undated_money(PAID + text))


@pytest.mark.parametrize(
    "text",
    [
        "It costs {glue:text}`fare` in {glue:text}`fare-read` {cite:p}`a2020`.",
        "It costs {glue:text}`fare` in {glue:text}`fare-read` ({numref}`tab-rents`).",
        "It took {glue:text}`step`.",
        TABLED % ', "read": [f"{{cite:p}}`a`"]',
    ],
)
def test_money_with_day_and_source_is_let_through(text):
    assert first(undated_money, PAID + text) is None
