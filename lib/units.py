"""Scale a number for a reader: SI inside the library, prefixes only on the page."""

import math
from numbers import Integral

from lib import arguments

KILO, MEGA, GIGA, TERA, PETA = 1e3, 1e6, 1e9, 1e12, 1e15
GB = 1e9
GIB = 2.0**30
HOUR = 3600.0
MILLION = 1e6

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "\N{MICRO SIGN}"), (1e-9, "n"))
_SCALED_BOTH_WAYS = ("s",)
_SCALED_UP = ("B", "B/s", "FLOP", "FLOP/s", "OP/s", "W", "token/s", "B/token", "FLOP/token")
_PLAIN = ("", "FLOP/B", "token", "sequence", "year", "request/s", "USD", "CNY", "USD/h")
UNITS = ("%", "times", *_SCALED_BOTH_WAYS, *_SCALED_UP, *_PLAIN)
_PLURALS = {"token": "tokens", "sequence": "sequences", "request/s": "requests/s", "token/s": "tokens/s"}


def quantity(value, unit, *, digits=3):
    """Return a number with its unit as a reader wants it: ``quantity(0.00448, "s")`` is "4.48 ms".

    Parameters
    ----------
    value : float
        In SI base units; a share for unit ``"%"`` (0.997 becomes "99.7 %").
    unit : str
        One of `UNITS`; ``""`` for a plain number, ``"times"`` for a ratio.
    digits : int, from 1 to 15
        Significant digits. A count, given as an integer without a scaled unit, is shown whole.

    Returns
    -------
    str
        With a no-break space before the unit, and comma-grouped thousands.

    Raises
    ------
    ValueError
        If `value` is NaN or infinite, or `unit` is unknown.
    """
    count = isinstance(value, Integral) and unit in _PLAIN
    value = arguments.number("value", value)
    arguments.choice("unit", unit, UNITS)
    digits = int(arguments.number("digits", digits, least=1, most=15, whole=True))
    if unit == "year":
        return f"{value:.0f}"
    if unit == "%":
        value *= 100
    value, prefix = _scaled(value, unit, digits)
    name = _PLURALS.get(unit, unit)
    suffix = f"\N{NO-BREAK SPACE}{prefix}{name}" if name else ""
    return (f"{value:,.0f}".replace("-", "\N{MINUS SIGN}") if count else grouped(value, digits)) + suffix


def quantity_range(low, middle, high, unit, *, digits=3):
    """Return a number with its range: ``quantity_range(1, 2, 4, "USD")`` is "2.00 USD (1.00 to 4.00)".

    Parameters
    ----------
    low, middle, high : float
        As `quantity` takes them, `low` at most `middle` and `middle` at most `high`.
    unit, digits
        As `quantity` takes them.

    Returns
    -------
    str
        The ends repeat the unit only where its prefix differs. Without the ends where all three read the same.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.number("high", high, least=arguments.number("middle", middle, least=arguments.number("low", low)))
    texts = [quantity(value, unit, digits=digits) for value in (low, middle, high)]
    if len({*texts}) == 1:
        return texts[1]
    bare, _, suffixes = zip(*(text.partition("\N{NO-BREAK SPACE}") for text in texts), strict=True)
    first, _, last = bare if len({*suffixes}) == 1 else texts
    return f"{texts[1]} ({first} to {last})"


def _scaled(value, unit, digits):
    if unit in _SCALED_UP:
        prefixes = _PREFIXES
    elif unit in _SCALED_BOTH_WAYS:
        prefixes = _SMALL_PREFIXES
    else:
        return value, ""
    rounded = abs(significant(value, digits))
    for factor, prefix in prefixes:
        if rounded >= factor * (1 - 1e-12):
            return value / factor, prefix
    return (value / factor, prefix) if rounded else (value, "")


def significant(value, digits):
    """Return a number rounded to significant digits.

    Parameters
    ----------
    value : float
        Finite.
    digits : int
        1 to 15.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `value` is not finite, or `digits` out of range.
    """
    value = arguments.number("value", value)
    digits = int(arguments.number("digits", digits, least=1, most=15, whole=True))
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def grouped(value, digits):
    """Return a plain number as text, to `digits` significant digits, thousands grouped.

    Digits before the decimal point are rounded too: 12,345 to 3 digits is "12,300".

    Parameters
    ----------
    value, digits : float, int
        As in `significant`.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If `value` is not finite, or `digits` out of range.
    """
    rounded = significant(value, digits)
    if rounded == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.replace("-", "\N{MINUS SIGN}")
