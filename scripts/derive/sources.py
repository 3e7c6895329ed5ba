"""Read the public files, and account for every row of them.

A source is one file. Its key stands in the ``source`` column of each derived row,
and its repository, commit and licence in ``measurement_sources.csv``. A row is
either used or dropped for a stated reason; a file with a row of unknown fate is
refused, and so is one without a licence.
"""

import csv
import gzip
from collections import Counter

USED = ""
REQUIRED = ("repo", "source_path", "commit", "licence")


class Sources:
    """The public files below one folder, with what became of their rows.

    Attributes
    ----------
    accounts : dict of str to dict
        For each source key, a row of ``measurement_sources.csv``.
    """

    def __init__(self, folder):
        manifest = folder / "MANIFEST.csv"
        if not manifest.is_file():
            raise FileNotFoundError(
                f"no public sources at {folder} (MANIFEST.csv is missing); the derived tables"
                " in lib/data do not need them, only deriving them again does"
            )
        self.folder = folder
        self.accounts = {}
        with open(manifest, newline="", encoding="utf-8") as opened:
            self.manifest = {row["file"]: row for row in csv.DictReader(opened)}

    def read(self, file):
        """Return the rows of one file as dictionaries of text."""
        if file not in self.manifest:
            raise ValueError(f"file must be listed in MANIFEST.csv, got {file}")
        opener = gzip.open if file.endswith(".gz") else open
        with opener(self.folder / file, "rt", newline="", encoding="utf-8") as opened:
            return list(csv.DictReader(opened))

    def account(self, key, file, citation, fates):
        """Record what became of each row of `file`.

        Parameters
        ----------
        key : str
            The source key of derived rows.
        file : str
            Path below the folder of public sources.
        citation : str
            Key in ``measurements.bib``.
        fates : list of str
            One per row of the file: `USED`, or the reason for dropping it.

        Raises
        ------
        ValueError
            If the manifest lacks repository, commit or licence, counts another
            number of rows, or the key is taken.
        """
        listed = self.manifest[file]
        for column in REQUIRED:
            if not listed[column].strip():
                raise ValueError(f"{column} must not be empty, got none for {file} in MANIFEST.csv")
        if int(listed["rows"]) != len(fates):
            raise ValueError(f"{file} must have the {listed['rows']} rows of MANIFEST.csv, got {len(fates)}")
        if key in self.accounts:
            raise ValueError(f"source key must be new, got {key}")
        dropped = Counter(fate for fate in fates if fate != USED)
        self.accounts[key] = {
            "source": key,
            "citation": citation,
            "repository": listed["repo"],
            "path": listed["source_path"],
            "commit": listed["commit"],
            "licence": listed["licence"],
            "file": file,
            "change": listed["change"],
            "rows_in_file": len(fates),
            "rows_used": len(fates) - dropped.total(),
            "rows_dropped": dropped.total(),
            "why_dropped": "; ".join(f"{count} {reason}" for reason, count in sorted(dropped.items())),
        }
