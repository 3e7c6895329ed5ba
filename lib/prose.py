"""What a chapter says: numbers and charts handed to its text by key.

A number reaches a sentence as text that was formatted here, never as a bare float,
so it cannot vanish, and NaN cannot be published.
"""

import os

from IPython.display import Markdown
from myst_nb import glue

from lib import arguments, theme, units


def say(key, value, unit="", *, digits=3):
    """Hand a number, or a word, to the text as ``{glue:text}`key```.

    Parameters
    ----------
    key : str
        Unique in the chapter.
    value : float or str
        A number in SI base units, or a text that code has chosen.
    unit : str
        One of `units.UNITS`; leave out for a text.
    digits : int
        Significant digits.

    Raises
    ------
    ValueError
        If `value` is NaN, infinite or an empty text.
    """
    arguments.text("key", key)
    words = isinstance(value, str)
    _hand_over(key, Words(arguments.text("value", value) if words else units.quantity(value, unit, digits=digits)))


def show(key, chart):
    """Hand a chart to the text, where ``:::{chart} key`` holds its caption.

    Raises
    ------
    ValueError
        If the chart has no description.
    """
    arguments.text("key", key)
    _hand_over(key, Chart(theme.specification(chart)))


def tabulate(key, columns):
    """Hand a table to the text, where ``:::{tabular} key`` holds its caption.

    Parameters
    ----------
    key : str
        Unique in the chapter.
    columns : dict of str to sequence of str
        Header to cells, all as long. Cells are MyST text: links, citations, roles.

    Raises
    ------
    ValueError
        If there is no column, no row, or the columns differ in length.
    """
    arguments.text("key", key)
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(f"columns must be as long as each other and not empty, got lengths {sorted(lengths)}")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for cells in zip(*columns.values(), strict=True):
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    _hand_over(key, Markdown("\n".join(lines)))


class Words(str):
    """A text that shows as itself, without quotes."""

    def _repr_mimebundle_(self, **_):
        return {"text/plain": str(self)}


class Chart(dict):
    """A specification that shows as a chart."""

    def _repr_mimebundle_(self, **_):
        return theme.mime_bundle(dict(self))


def _hand_over(key, value):
    """Glue the value: out of sight in the book, in view in a notebook."""
    in_book = bool(os.environ.get("BOOK_BUILD"))
    if isinstance(value, Words) and not in_book:
        print(f"{key}: {value}")
        in_book = True
    glue(key, value, display=not in_book)
