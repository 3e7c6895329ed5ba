"""Simulate the points that the chapters on static and dynamic batching show, and write them down.

    python scripts/simulate_batching.py                   writes lib/data/simulated.csv
    python scripts/simulate_batching.py --only longest     runs some experiments again, and keeps the rest

Forty independent replications a point, each with a generator of its own; of queues the first fifth
of the requests is left out. The interval is that of their mean, at 95 %. Where theory says
something, it stands beside the point; see tests/test_simulated.py.
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
from scripts.simulations import bus, caps, coach, waiting  # noqa: E402

OUT = ROOT / "lib" / "data" / "simulated.csv"
REPLICATIONS, SEED = 40, 20_261_130
COLUMNS = ("experiment", "series", "x", "mean", "half_width", "expected", "replications", "requests", "seed")
EXPERIMENTS = coach.EXPERIMENTS | waiting.EXPERIMENTS | bus.EXPERIMENTS | caps.EXPERIMENTS


def rows(name, case, rng, *, replications=REPLICATIONS, count=None):
    """Return the rows of the record for one point of an experiment."""
    drawn = [case.draw(count or case.count, child) for child in rng.spawn(replications)]
    for series in drawn[0]:
        mean, half_width = mean_interval(np.array([each[series] for each in drawn]), 0.95)
        yield {
            "experiment": name, "series": series, "x": f"{case.x:.6g}", "mean": f"{mean:.6g}",
            "half_width": f"{half_width:.3g}",
            "expected": f"{case.expected[series]:.6g}" if series in case.expected else "",
            "replications": replications, "requests": count or case.count, "seed": SEED,
        }  # fmt: skip


def committed():
    """Return the rows of the record as it stands."""
    with OUT.open(newline="", encoding="utf-8") as opened:
        return [*csv.DictReader(opened)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of experiments: the record of the others is kept")
    options = parser.parse_args()
    names = options.only or [*EXPERIMENTS]
    known = committed() if options.only and OUT.exists() else []
    record = []
    for index, (name, experiment) in enumerate(EXPERIMENTS.items()):
        if name not in names:
            record += [row for row in known if row["experiment"] == name]
            continue
        began = time.monotonic()
        cases = [*experiment()]
        # A generator for each experiment and point: running some of them changes none of the others.
        for case, seed in zip(cases, np.random.SeedSequence([SEED, index]).spawn(len(cases)), strict=True):
            record += rows(name, case, np.random.default_rng(seed))
        print(f"{name}: {len(cases)} points, {time.monotonic() - began:.1f} s", flush=True)
    with OUT.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record)


if __name__ == "__main__":
    main()
