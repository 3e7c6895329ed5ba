"""The article: what it claims, the rule that decides each claim, and the numbers that it gives itself.

The claims and their rules are the rows of ``data/claims.csv``.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lib import arguments, footprint, hardware, prices
from lib.units import MILLION

WEIGHT_BYTES, TRANSFER_TIME, ARITHMETIC_TIME = 100e9, 0.03, 0.0001
PASSENGERS = 32  # users in a trip
SHORT_OUTPUT, LONG_OUTPUT = 2, 2000  # tokens of its two users
MACHINE, SERVER = "H100 SXM", 8  # whose numbers it gives, and how many of them make its server


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the article, with the rule that decides it; rule fields are empty while it is open.

    Attributes
    ----------
    id, statement, owner : str
        Permanent name; the claim in our words; the chapter that decides.
    number, unit, edge_number, edge_unit : str
        What the deciding number and the number at the edge are.
    rule : str
        "at least" or "at most".
    threshold, edge_threshold : float or None
    if_holds, if_limited, if_fails : str
        Sentences with ``{fields}`` that the evidence fills.
    """

    id: str
    statement: str
    owner: str
    number: str
    unit: str
    rule: str
    threshold: float | None
    edge_number: str
    edge_unit: str
    edge_threshold: float | None
    if_holds: str
    if_limited: str
    if_fails: str


@cache
def claims():
    """Return the article's claims by id, in order, from ``data/claims.csv``.

    Raises
    ------
    ValueError
        If a row has a rule but not all of its parts.
    """
    text = (files("lib") / "data" / "claims.csv").read_text(encoding="utf-8")
    rows = [_claim(row) for row in csv.DictReader(text.splitlines())]
    return {claim.id: claim for claim in rows}


def _claim(row):
    given = [name for name in ("number", "rule", "threshold", "edge_threshold", "if_holds") if row[name]]
    if given and len(given) != 5:
        raise ValueError(f"claims.csv {row['id']}: a rule needs number, rule, thresholds and sentences, got {given}")
    limits = {name: float(row[name]) if row[name] else None for name in ("threshold", "edge_threshold")}
    return Claim(**{**row, **limits})


def example_times(machine):
    """Return the time to stream the article's 100 GB on a machine, and that of one token's arithmetic.

    Parameters
    ----------
    machine : Hardware

    Returns
    -------
    tuple of float
        Seconds. 100 GB in 16 bit are 50e9 parameters, and each takes part in 2 FLOP.
    """
    parameters = WEIGHT_BYTES / footprint.dtype_bytes("bf16")
    return WEIGHT_BYTES / machine.bandwidth, 2 * parameters / hardware.peak_flop_rate(machine, "bf16")


def token_price(batch_size):
    """Return what a million output tokens cost by the article's own numbers, on a server of 8 at the middle rent.

    Parameters
    ----------
    batch_size : float
        Users in a trip, at least 1; may be infinite.

    Returns
    -------
    float
        USD.

    Raises
    ------
    ValueError
        If there are fewer users.
    """
    batch_size = arguments.number("batch_size", batch_size, least=1, infinite=True)
    each = TRANSFER_TIME / batch_size + ARITHMETIC_TIME
    return MILLION * SERVER * prices.rent(MACHINE).middle * each
