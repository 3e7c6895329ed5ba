"""All-reduce inside one node: Vidur's NCCL profile, half an octave around each power of two.

Single profiled sizes are three repeats that scatter by a factor of 2 below 1 MB, so a
row is the median over a window: median size, median time, interquartile range of the
times. NCCL, so an upper bound for engines with an all-reduce of their own.
"""

import math
import statistics
from collections import defaultdict

from scripts.derive.sources import USED
from scripts.derive.tables import spread

NODES = (("a100", "DGX A100", "A100 SXM 80GB"), ("h100", "DGX H100", "H100 SXM"))
WORKERS = (2, 4, 8)


def all_reduce(sources):
    """Return the rows of ``all_reduce.csv``: median seconds by node, workers and bytes."""
    rows = []
    for chip, node, accelerator in NODES:
        file, key = f"vidur/network/{chip}_dgx/all_reduce.csv.gz", f"vidur-{chip}-all-reduce"
        read = sources.read(file)
        sources.account(key, file, "agrawal2024vidur", [_fate(row) for row in read])
        machine = {"node": node, "accelerator": accelerator, "source": key}
        rows += [{**machine, **row} for row in _windows(read)]
    return rows


def _windows(read):
    windows = defaultdict(list)
    for row in read:
        if _fate(row) == USED:
            size, time = int(row["size"]), 1e-3 * float(row["time_stats.all_reduce.median"])
            windows[int(row["num_workers"]), round(math.log2(size))].append((size, time))
    for (workers, _), points in windows.items():
        sizes, times = zip(*points, strict=True)
        yield {
            "workers": workers,
            "message_bytes": round(statistics.median(sizes)),
            "time": statistics.median(times),
            "spread": spread(times),
            "n": len(times),
        }


def _fate(row):
    if row["num_workers"] != row["devices_per_node"]:
        return "spans several nodes"
    return USED if int(row["num_workers"]) in WORKERS else "number of workers not selected"
