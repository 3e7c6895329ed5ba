"""Derive the small tables of measurements in ``lib/data`` from public sources.

The sources lie outside the project (``../shared/data``, or ``--data``); the book and
its tests read the derived tables alone. Medians, sums and selected figures only: no
source file or its raw rows are copied. What is selected is listed, configuration by
configuration, in ``scripts/derive``, so that a fuller copy of a source gives the
same tables; only its row counts in ``measurement_sources.csv`` then differ.

Run it in the project's root:

    python scripts/derive_measurements.py           writes the tables
    python scripts/derive_measurements.py --check   compares, writes nothing
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.derive import (  # noqa: E402
    all_reduce,
    batch_one,
    inference_bench,
    kernels,
    llama_cpp,
    llmservingsim,
    serving,
    splitwise,
    tables,
    traces,
)
from scripts.derive.sources import Sources  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "lib" / "data"
COUNTS = "measurement_sources"


def derive(folder):
    """Return each derived table's name and CSV text.

    Parameters
    ----------
    folder : Path
        The public sources, with their ``MANIFEST.csv``.

    Returns
    -------
    dict of str to str

    Raises
    ------
    FileNotFoundError
        If the sources are not there.
    ValueError
        If a source has no licence, or a row of it has no fate.
    """
    sources = Sources(folder)
    steps = kernels.decode_steps(sources) + llmservingsim.decode_steps(sources)
    served = []
    for module in (splitwise, inference_bench, serving, llama_cpp):
        served += module.end_to_end(sources)
    lengths, arrivals = traces.read(sources)
    rows = {
        "lengths": traces.length_rows(lengths),
        "workloads": traces.workload_rows(sources, lengths),
        "arrivals": traces.arrival_rows(sources, arrivals),
        "decode_steps": steps,
        "end_to_end": served,
        "all_reduce": all_reduce.all_reduce(sources),
        "batch_one": batch_one.batch_one(steps, served),
        COUNTS: sources.accounts.values(),
    }
    return {name: tables.text(name, found) for name, found in rows.items()}


def differing(derived, out):
    """Return the names of derived tables whose committed copy differs or is missing."""
    committed = {name: out / f"{name}.csv" for name in derived}
    return [
        name for name, path in committed.items() if not path.is_file() or path.read_bytes() != derived[name].encode()
    ]


def main(arguments=None):
    """Write the tables, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the public sources")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the derived tables")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args(arguments)
    try:
        derived = derive(options.data)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = differing(derived, options.out)
    if options.check:
        for name in wrong:
            print(f"{name}.csv differs from what the sources give", file=sys.stderr)
        return 1 if wrong else 0
    for name in wrong:
        (options.out / f"{name}.csv").write_text(derived[name], encoding="utf-8", newline="\n")
    print(f"{len(derived)} tables derived, {len(wrong)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
