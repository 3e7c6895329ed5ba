"""What a chapter says: numbers and charts handed to its text by key.

A number reaches a sentence as text that was formatted here, never as a bare float,
so it cannot vanish, and NaN cannot be published.
"""

import os

from myst_nb import glue

from lib import arguments, theme, units

_SAID = {}  # what this notebook has said so far, for the descriptions of its charts


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
    text = arguments.text("value", value) if words else units.quantity(value, unit, digits=digits)
    _SAID[key] = text
    if not _in_book():
        print(f"{key}: {text}")
    # Quoted, because MyST-NB reads a text as Python first: 50,000 would become (50, 0).
    glue(key, HandedOver({"text/plain": repr(text)}), display=False)


def say_range(key, ends, unit="", *, digits=3):
    """Hand a number with its range to the text, as `say` hands a number: "2.00 USD (1.00 to 4.00)".

    Parameters
    ----------
    key : str
        Unique in the chapter.
    ends : sequence of float
        Low, middle and high, in SI base units, in any order of the ends.
    unit, digits
        As `say` takes them.

    Raises
    ------
    ValueError
        If a number is NaN or infinite, or the middle is not between the ends.
    """
    one, middle, other = ends
    say(key, units.quantity_range(min(one, other), middle, max(one, other), unit, digits=digits))


def show(key, chart):
    """Hand a chart to the text, where ``:::{chart} key`` holds its caption.

    Parameters
    ----------
    key : str
        Permanent: figure address, file name and citation.
    chart : altair chart
        Its description may hold ``{key}`` of values that were said before: no number in it is typed.

    Raises
    ------
    ValueError
        If the chart has no description, or it names a value that was not said.
    """
    arguments.text("key", key)
    spec = theme.specification(chart)
    try:
        spec["description"] = spec["description"].format_map(_SAID)
    except KeyError as missing:
        raise ValueError(f"description must name values that were said before, got {missing}") from None
    glue(key, HandedOver(theme.mime_bundle(spec)), display=not _in_book())


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
    table = "\n".join(lines)
    glue(key, HandedOver({"text/markdown": table, "text/plain": table}), display=not _in_book())


class HandedOver:
    """What a key stands for. It shows as exactly this, and the book knows that it came from here.

    No subclass of `str` or `dict`: IPython would show those as it shows any other.
    """

    __slots__ = ("forms",)

    def __init__(self, forms):
        self.forms = forms

    def _repr_mimebundle_(self, **_):
        return self.forms, {"handed_over": True}


def _in_book():
    """Tell whether the book is built: values are then out of sight; in a notebook they show."""
    return bool(os.environ.get("BOOK_BUILD"))
