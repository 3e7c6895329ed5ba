"""Hold the queueing formulas against simulation, and write down how it went.

    python scripts/validate_theory.py               writes lib/data/theory_validation.csv
    python scripts/validate_theory.py --only mmc     runs some experiments again, and keeps the rest

Every exact result that has a load is simulated at loads .1, .5, .9 and .97: 40 independent
replications, the first fifth of each left out, and the 99.9 % interval of their mean. What has no
load is drawn (Monte Carlo). Bounds must lie on their side of the interval; approximations say
how far off they are. The experiments are also the tests': see tests/test_validation.py.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib.replication import mean_interval  # noqa: E402
from scripts.validation import in_batches, loadless, shared, singly  # noqa: E402

OUT = ROOT / "lib" / "data" / "theory_validation.csv"
LOADS = {0.1: 3_000, 0.5: 6_000, 0.9: 20_000, 0.97: 100_000}  # and requests per replication
REPLICATIONS, SEED = 40, 20_261_130
COLUMNS = (
    *("function", "setting", "load", "requests", "kind"),
    *("expected", "simulated", "half_width", "error", "agrees"),
)
WITH_LOAD = singly.CASES | in_batches.CASES | shared.CASES | in_batches.LATER
WITHOUT_LOAD = loadless.CASES


def outcome(check, mean, half_width):
    """Return whether a check agrees with the interval of its simulation; an approximation always does."""
    if check.kind == "exact":
        return abs(mean - check.expected) <= max(half_width, 1e-9 * abs(check.expected))
    if check.kind == "lower":
        return check.expected <= mean + half_width
    return check.kind == "approximate" or check.expected >= mean - half_width


def rows(experiment, load, count, rng, *, replications=REPLICATIONS):
    """Return the rows of the record for one experiment."""
    drawn = np.array([experiment.draw(count, child) for child in rng.spawn(replications)])
    for column, (function, check) in enumerate(experiment.checks.items()):
        mean, half_width = mean_interval(drawn[:, column])
        if not half_width and mean in (0, 1):  # never seen, or always: its chance may be this far away, at 99.9 %
            half_width = np.log(2000) / (replications * count)
        yield {
            "function": function, "setting": experiment.setting, "load": load, "requests": count, "kind": check.kind,
            "expected": check.expected, "simulated": mean, "half_width": half_width,
            "error": check.expected / mean - 1 if mean else 0.0, "agrees": outcome(check, mean, half_width),
        }  # fmt: skip


def searched():
    """Return the rows of the record for what was searched for."""
    for function, (expected, found) in loadless.searches().items():
        yield {
            "function": function, "setting": "by search, or by another way", "load": "", "requests": "",
            "kind": "exact", "expected": float(expected), "simulated": float(found), "half_width": 0.0,
            "error": float(expected / found - 1), "agrees": bool(abs(expected - found) <= 1e-4 * abs(expected)),
        }  # fmt: skip


def written(row):
    """Return a row as text."""
    return {name: f"{value:.5g}" if isinstance(value, float) else str(value) for name, value in row.items()}


def drawn():
    """Return every experiment with its load and its generator: running some of them changes none of the others."""
    known = [(name, load) for name in WITH_LOAD if name not in in_batches.LATER for load in LOADS]
    known += [(name, "") for name in WITHOUT_LOAD] + [(name, load) for name in in_batches.LATER for load in LOADS]
    seeds = dict(zip(known, np.random.SeedSequence(SEED).spawn(len(known)), strict=True))
    return {name: {load: seeds[name, load] for load in (LOADS if name in WITH_LOAD else [""])}
            for name in WITH_LOAD | WITHOUT_LOAD}  # fmt: skip


def committed():
    """Return the rows of the record as it stands."""
    with OUT.open(newline="", encoding="utf-8") as opened:
        return [*csv.DictReader(opened)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of experiments: the record of the others is kept")
    options = parser.parse_args()
    names = options.only or [*WITH_LOAD, *WITHOUT_LOAD]
    known = committed() if options.only else []
    record = []
    for name, seeds in drawn().items():
        case = (WITH_LOAD | WITHOUT_LOAD)[name]
        for load, seed in seeds.items():
            experiment, began = case(load) if load else case(), time.monotonic()
            if name not in names:
                record += [row for row in known if (row["setting"], row["load"]) == (experiment.setting, str(load))]
                continue
            found = [*rows(experiment, load, LOADS.get(load, 20_000), np.random.default_rng(seed))]
            record += [written(row) for row in found]
            agreeing = sum(row["agrees"] for row in found)
            print(f"{name} {load}: {agreeing} of {len(found)} agree, {time.monotonic() - began:.1f} s", flush=True)
    record += [written(row) for row in searched()]
    with OUT.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record)
    print(f"{sum(row['agrees'] == 'True' for row in record)} of {len(record)} agree")


if __name__ == "__main__":
    main()
