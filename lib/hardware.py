"""Accelerators as their makers document them: every number comes with its source.

Peaks are dense: a rate that needs half the weights to be zero never enters. A
value that no document gives is absent, not guessed.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date as calendar_date
from importlib.resources import files
from types import MappingProxyType

from lib import arguments

DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8", "fp32")
RATES = MappingProxyType({dtype: f"{dtype}_{'op' if dtype == 'int8' else 'flop'}_rate" for dtype in DTYPES})
UNITS = MappingProxyType(
    {"year": "year"}
    | {rate: "OP/s" if dtype == "int8" else "FLOP/s" for dtype, rate in RATES.items()}
    | {"bandwidth": "B/s", "capacity": "B", "on_chip_memory": "B", "link_bandwidth": "B/s", "power": "W"}
)
COLUMNS = ("accelerator", "quantity", "value", "unit", "source", "where", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number, and where a sceptic finds it.

    Attributes
    ----------
    value : float
        Above 0, SI base unit.
    unit : str
        One of the values of `UNITS`.
    source, where, date : str
        Key in ``data/accelerators.bib``; page, table, column and row, and what was
        done to the printed number; ISO month or day of the document or its reading.
    """

    value: float
    unit: str
    source: str
    where: str
    date: str

    def __post_init__(self):
        arguments.number("value", self.value, above=0)
        arguments.choice("unit", self.unit, dict.fromkeys(UNITS.values()))
        for name in ("source", "where", "date"):
            arguments.text(name, getattr(self, name))
        try:
            calendar_date.fromisoformat((self.date + "-01")[:10])
        except ValueError:
            raise ValueError(f"date must be an ISO month or day, got {self.date!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """An accelerator, or an ideal group of them.

    Attributes
    ----------
    name : str
        With its variant: "H100 SXM" and "H100 PCIe" are two accelerators.
    year : int
        First announced.
    flop_rates : mapping of str to float
        Dense peak per dtype, FLOP/s ("int8": OP/s). Keys from `DTYPES`, at least
        one of "bf16" and "fp16". Matrix units, except "fp32": vector units.
    bandwidth : float
        Peak bandwidth of the memory that holds the weights, B/s.
    capacity : float
        Size of that memory, B. A printed GB is 1e9 B, a printed GiB is 2**30 B.
    on_chip_memory, link_bandwidth, power : float or None
        Last cache or scratchpad before that memory, B; all links of one accelerator,
        both directions together, B/s; the maker's limit, W. None if undocumented.
    facts : mapping of str to Fact
        What the numbers rest on, by quantity, a key of `UNITS`; in a group, those of
        one accelerator.
    """

    name: str
    year: int
    flop_rates: Mapping[str, float] = field(hash=False)
    bandwidth: float
    capacity: float
    on_chip_memory: float | None = None
    link_bandwidth: float | None = None
    power: float | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict, hash=False)

    def __post_init__(self):
        arguments.text("name", self.name)
        object.__setattr__(self, "year", int(arguments.number("year", self.year, least=1950, whole=True)))
        for name in ("flop_rates", "facts"):
            given = dict(arguments.record(name, getattr(self, name), Mapping))
            object.__setattr__(self, name, MappingProxyType(given))
        for dtype, rate in self.flop_rates.items():
            arguments.number(f"{arguments.choice('dtype', dtype, DTYPES)} rate", rate, above=0)
        if not {"bf16", "fp16"} & {*self.flop_rates}:
            raise ValueError(f"flop_rates must hold bf16 or fp16, got {[*self.flop_rates]}")
        for name in ("bandwidth", "capacity", "on_chip_memory", "link_bandwidth", "power"):
            if getattr(self, name) is not None or name in ("bandwidth", "capacity"):
                arguments.number(name, getattr(self, name), above=0)
        for quantity, fact in self.facts.items():
            arguments.record(arguments.choice("quantity", quantity, UNITS), fact, Fact)


@functools.cache
def catalogue():
    """Return the accelerators of ``data/accelerators.csv``.

    Returns
    -------
    mapping of str to Hardware
        Read-only, in the order of the file.

    Raises
    ------
    ValueError
        If a row is bad; the message names file, row and rule.
    """
    return accelerators_in(files("lib") / "data" / "accelerators.csv")


def hardware(name):
    """Return the catalogued accelerator called `name`.

    Parameters
    ----------
    name : str
        A key of `catalogue`, such as "H100 SXM".

    Returns
    -------
    Hardware

    Raises
    ------
    ValueError
        If there is none; the message offers the closest names.
    """
    return catalogue()[arguments.choice("name", name, catalogue())]


def peak_flop_rate(hardware, dtype):
    """Return the dense peak for matrix products in `dtype`.

    Parameters
    ----------
    hardware : Hardware
    dtype : str
        One of `DTYPES`. A chip without bf16 (V100, T4) answers "bf16" with its
        fp16 rate: both move 16 bits per weight, so bytes and bounds agree.

    Returns
    -------
    float
        FLOP/s; OP/s for "int8".

    Raises
    ------
    ValueError
        If no document gives a rate for `dtype` on this accelerator.
    """
    rates = arguments.record("hardware", hardware, Hardware).flop_rates
    if dtype == "bf16" and "bf16" not in rates:
        return rates["fp16"]
    if dtype not in [*rates]:
        raise ValueError(f"dtype must be one of {', '.join(rates)} for {hardware.name}, got {dtype!r}")
    return rates[dtype]


def ridge_point(hardware, dtype="bf16"):
    r"""Return the arithmetic intensity at which arithmetic takes as long as reading memory.

    Parameters
    ----------
    hardware : Hardware
    dtype : str
        As `peak_flop_rate` takes it.

    Returns
    -------
    float
        FLOP/B. For a product with 16-bit weights it is also the number of
        sequences: each adds 2 FLOP per weight of 2 B.

    Raises
    ------
    ValueError
        As `peak_flop_rate` raises it.

    Notes
    -----
    .. math:: \text{ridge} = \frac{\pi}{\beta}

    Both are peaks that no program reaches; where the two efficiencies differ, the
    measured ridge lies elsewhere. Source: williams2009roofline.
    """
    return peak_flop_rate(hardware, dtype) / hardware.bandwidth


def several(hardware, count):
    """Return `count` accelerators as one: an ideal group.

    Parameters
    ----------
    hardware : Hardware
    count : int
        At least 1.

    Returns
    -------
    Hardware
        Named "8 x H100 SXM". Peaks, bandwidth, capacity, on-chip memory and power
        are multiplied; link bandwidth and facts stay those of one accelerator.

    Raises
    ------
    ValueError
        If `count` is not a whole number of at least 1.

    Notes
    -----
    Communication is free and the work splits evenly, which is false of any real
    group. So a bound stays a bound: a real group is slower than this one.
    """
    arguments.record("hardware", hardware, Hardware)
    count = int(arguments.number("count", count, least=1, whole=True))
    scaled = {name: getattr(hardware, name) for name in ("bandwidth", "capacity", "on_chip_memory", "power")}
    return replace(
        hardware,
        name=f"{count} x {hardware.name}",
        flop_rates={dtype: count * rate for dtype, rate in hardware.flop_rates.items()},
        **{name: count * value for name, value in scaled.items() if value is not None},
    )


def accelerators_in(file):
    """Return the accelerators of a CSV file: a fact per row, columns `COLUMNS`.

    Parameters
    ----------
    file : path

    Returns
    -------
    mapping of str to Hardware
        Read-only, in the order of the file.

    Raises
    ------
    ValueError
        If a cell is empty, a quantity unknown or given twice, its unit another, a
        value not a positive number, or an accelerator lacks what `Hardware` needs;
        names file, row (the header is row 1) or accelerator, and rule.
    """
    facts = {}
    with file.open(encoding="utf-8", newline="") as opened:
        rows = csv.reader(opened)
        if tuple(header := next(rows, ())) != COLUMNS:
            raise ValueError(f"{file.name} row 1: columns must be {', '.join(COLUMNS)}, got {', '.join(header)}")
        for line, row in enumerate(rows, start=2):
            try:
                accelerator, quantity, fact = _fact(row)
                if quantity in facts.setdefault(accelerator, {}):
                    raise ValueError(f"quantity must be given once for {accelerator}, got {quantity} again")
            except ValueError as error:
                raise ValueError(f"{file.name} row {line}: {error}") from None
            facts[accelerator][quantity] = fact
    return MappingProxyType({name: _hardware(file, name, given) for name, given in facts.items()})


def _fact(row):
    if len(row) != len(COLUMNS):
        raise ValueError(f"cells must be {len(COLUMNS)}, got {len(row)}")
    accelerator, quantity, value, unit, source, where, date = row
    arguments.text("accelerator", accelerator)
    arguments.choice("quantity", quantity, UNITS)
    arguments.choice(f"unit of {quantity}", unit, (UNITS[quantity],))
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"value must be a number, got {value!r}") from None
    return accelerator, quantity, Fact(value=number, unit=unit, source=source, where=where, date=date)


def _hardware(file, name, facts):
    values = {quantity: fact.value for quantity, fact in facts.items()}
    rates = {dtype: values.pop(rate) for dtype, rate in RATES.items() if rate in values}
    try:
        for needed in ("year", "bandwidth", "capacity"):
            arguments.choice("facts", needed, values)
        return Hardware(name=name, flop_rates=rates, facts=facts, **values)
    except ValueError as error:
        raise ValueError(f"{file.name}, {name}: {error}") from None
