"""What machines rent for and what tokens sell for: every price with its seller, its source and its day.

Prices move; a table of them is old the day after. A price that no document gives is
absent. Rents are of one accelerator with its share of a host, before tax and discount.
"""

import csv
import functools
import statistics
from dataclasses import dataclass
from datetime import date as calendar_date
from importlib.resources import files

from lib import arguments
from lib.units import HOUR, MILLION

KINDS = ("rental", "input", "cached input", "output", "exchange")
UNITS = {"USD/h": 1 / HOUR, "USD/Mtoken": 1 / MILLION, "CNY/USD": 1.0}
UNIT_OF = {kind: "USD/Mtoken" for kind in KINDS} | {"rental": "USD/h", "exchange": "CNY/USD"}
TERMS = ("on demand", "marketplace", "reserved", "assumed", "list", "central parity")
OPEN_TERMS = ("on demand", "marketplace")
COLUMNS = ("kind", "item", "seller", "terms", "low", "high", "unit", "source", "where", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One line of a price list, as it was read.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    item, seller : str
        Accelerator, model or currency; who asks that price.
    terms : str
        One of `TERMS`: a marketplace is a stranger's machine, without a promise.
    low, high : float
        Above 0, in the unit of the list; equal unless the list itself gives a range.
    unit : str
        "USD/h", "USD/Mtoken" or "CNY/USD".
    source, where, date : str
        Key in ``data/prices.bib`` or another bibliography; the row; ISO day it was read.
    """

    kind: str
    item: str
    seller: str
    terms: str
    low: float
    high: float
    unit: str
    source: str
    where: str
    date: str

    def __post_init__(self):
        arguments.choice("kind", self.kind, KINDS)
        arguments.choice("terms", self.terms, TERMS)
        arguments.choice("unit", self.unit, (UNIT_OF[self.kind],))
        for name in ("item", "seller", "source", "where", "date"):
            arguments.text(name, getattr(self, name))
        arguments.number("low", self.low, above=0)
        arguments.number("high", self.high, least=self.low)
        try:
            calendar_date.fromisoformat(self.date)
        except ValueError:
            raise ValueError(f"date must be an ISO day, got {self.date!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRange:
    """What several lists ask for the same thing.

    Attributes
    ----------
    low, middle, high : float
        Lowest, median and highest, in SI: USD/s of a rent, USD/token of a token, CNY/USD.
    sellers : tuple of str
    oldest, newest : str
        ISO days between which the lists were read.
    sources : tuple of str
        Bibliography keys.
    """

    low: float
    middle: float
    high: float
    sellers: tuple
    oldest: str
    newest: str
    sources: tuple


@functools.cache
def listings():
    """Return the lines of ``data/prices.csv``.

    Returns
    -------
    tuple of Listing

    Raises
    ------
    ValueError
        If a line is bad; names file, row and rule.
    """
    return listings_in(files("lib") / "data" / "prices.csv")


def listings_in(file):
    """Return the lines of a CSV file with the columns `COLUMNS`.

    Parameters
    ----------
    file : path

    Returns
    -------
    tuple of Listing

    Raises
    ------
    ValueError
        If a cell is not what its column holds; names file, row (the header is row 1) and rule.
    """
    with file.open(encoding="utf-8", newline="") as opened:
        rows = csv.reader(opened)
        if tuple(header := next(rows, ())) != COLUMNS:
            raise ValueError(f"{file.name} row 1: columns must be {', '.join(COLUMNS)}, got {', '.join(header)}")
        return tuple(_listing(f"{file.name} row {line}", row) for line, row in enumerate(rows, start=2))


def _listing(label, row):
    try:
        if len(row) != len(COLUMNS):
            raise ValueError(f"cells must be {len(COLUMNS)}, got {len(row)}")
        cells = dict(zip(COLUMNS, row, strict=True))
        return Listing(**cells | {end: _number(end, cells[end]) for end in ("low", "high")})
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _number(name, text):
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def asked(kind, item, *, terms=None, seller=None):
    """Return what the lists ask for one thing.

    Parameters
    ----------
    kind, item : str
        One of `KINDS`; an accelerator, a model or a currency that the table names.
    terms : tuple of str, optional
        Only lines on these terms.
    seller : str, optional
        Only this seller's.

    Returns
    -------
    PriceRange
        The middle is the median over the lines, each at the middle of its own range.

    Raises
    ------
    ValueError
        If no line fits.
    """
    arguments.choice("kind", kind, KINDS)
    lines = [line for line in listings() if line.kind == kind]
    arguments.choice("item", item, dict.fromkeys(line.item for line in lines))
    lines = [line for line in lines if line.item == item]
    if terms is not None:
        lines = [line for line in lines if line.terms in terms]
    if seller is not None:
        lines = [line for line in lines if line.seller == seller]
    if not lines:
        raise ValueError(f"item must have a price of kind {kind} on terms {terms} by {seller or 'anyone'}, got {item}")
    scale = UNITS[lines[0].unit]
    dates = sorted(line.date for line in lines)
    return PriceRange(
        low=scale * min(line.low for line in lines),
        middle=scale * statistics.median((line.low + line.high) / 2 for line in lines),
        high=scale * max(line.high for line in lines),
        sellers=tuple(dict.fromkeys(line.seller for line in lines)), oldest=dates[0], newest=dates[-1],
        sources=tuple(dict.fromkeys(line.source for line in lines)),
    )  # fmt: skip


def rent(accelerator):
    """Return what an accelerator rents for, by the hour and without a term, in USD/s.

    Parameters
    ----------
    accelerator : str
        One of `rented`.

    Returns
    -------
    PriceRange

    Raises
    ------
    ValueError
        If no list has it.
    """
    return asked("rental", arguments.choice("accelerator", accelerator, rented()), terms=OPEN_TERMS)


def rented(terms=OPEN_TERMS):
    """Return the accelerators that somebody rents out, in the order of the table.

    Parameters
    ----------
    terms : tuple of str
        Those of `TERMS` that count.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If a term is unknown.
    """
    for term in terms:
        arguments.choice("terms", term, TERMS)
    return tuple(dict.fromkeys(line.item for line in listings() if line.kind == "rental" and line.terms in terms))


def days(kinds=KINDS):
    """Return the oldest and the newest day on which prices of these kinds were read.

    Parameters
    ----------
    kinds : tuple of str

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If there are none.
    """
    read = sorted(line.date for line in listings() if line.kind in kinds)
    if not read:
        raise ValueError(f"kinds must name prices of the table, got {kinds}")
    return read[0], read[-1]


def in_words(price_range):
    """Return when the lines of a range were read, for a sentence: "August to November 2026".

    Parameters
    ----------
    price_range : PriceRange

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("price_range", price_range, PriceRange)
    first, last = (calendar_date.fromisoformat(day) for day in (price_range.oldest, price_range.newest))
    if (first.year, first.month) == (last.year, last.month):
        return f"{last:%B %Y}"
    return f"{first:%B} to {last:%B %Y}" if first.year == last.year else f"{first:%B %Y} to {last:%B %Y}"
