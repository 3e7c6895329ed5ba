"""Mutants that compute the same, with the reason: ``module.function: before -> after``, see equivalent.csv."""

import csv
from pathlib import Path

with (Path(__file__).parent / "equivalent.csv").open(newline="", encoding="utf-8") as opened:
    EQUIVALENT = {row["mutant"]: row["reason"] for row in csv.DictReader(opened)}
