"""Workload traces: quantiles of the lengths, their means and rank correlation, and how bursty arrivals are.

No request is copied: a table of quantiles on a fixed grid, and a few sums.
"""

import re

import numpy as np
from scipy.stats import spearmanr

from lib.trace import arrival_statistics, index_of_dispersion, trace_in
from scripts.derive.sources import USED

LEVELS = np.concatenate(
    [np.arange(0, 90) / 100, np.arange(900, 1000, 5) / 1000, np.arange(996, 1000) / 1000, [0.9995, 0.9999, 1.0]]
)
# name: (file, citation)
TRACES = {
    "azure-conversation": ("traces/azure_llm_2023_conv.csv.gz", "patel2024splitwise"),
    "azure-code": ("traces/azure_llm_2023_code.csv.gz", "patel2024splitwise"),
    "mooncake": ("traces/mooncake_synthetic.csv", "qin2025mooncake"),
    "arxiv": ("traces/arxiv_summarization_lengths.csv.gz", "agrawal2024vidur"),
}
HISTOGRAMS = {
    "servegen-reasoning": ("traces/servegen_deepseek-r1_length_histogram.csv.gz", "xiang2025servegen"),
    "servegen-chat": ("traces/servegen_m-large_length_histogram.csv.gz", "xiang2025servegen"),
}
CLIENTS = {
    "servegen-reasoning": "traces/servegen_deepseek-r1_client_rates.csv",
    "servegen-chat": "traces/servegen_m-large_client_rates.csv.gz",
}
LENGTH_COLUMNS = {"arxiv": ("num_prefill_tokens", "num_decode_tokens"), "mooncake": ("input_length", "output_length")}


def read(sources):
    """Return each workload's lengths (tokens, weights), its arrivals, and account for every row."""
    lengths, arrivals = {}, {}
    for name, (file, citation) in TRACES.items():
        rows = sources.read(file)
        sources.account(_key(file), file, citation, [USED] * len(rows))
        if name.startswith("azure"):
            arrivals[name], *both = trace_in(sources.folder / file)
        else:
            both = [np.array([float(row[column]) for row in rows]) for column in LENGTH_COLUMNS[name]]
        if name == "mooncake":
            arrivals[name] = np.array([float(row["timestamp_ms"]) / 1000 for row in rows])
        ones = np.ones(len(rows))
        lengths[name] = {q: (values, ones) for q, values in zip(("prompt", "output"), both, strict=True)}
    for name, (file, citation) in HISTOGRAMS.items():
        rows = sources.read(file)
        fates = [USED if row["field"] in ("input_tokens", "output_tokens") else "a ratio, no length" for row in rows]
        sources.account(_key(file), file, citation, fates)
        lengths[name] = {q: _histogram(rows, f) for q, f in (("prompt", "input_tokens"), ("output", "output_tokens"))}
    return lengths, arrivals


def _key(file):
    return file.removeprefix("traces/").partition(".")[0].replace("_", "-")


def _file(name):
    return {**TRACES, **HISTOGRAMS}[name][0]


def _histogram(rows, field):
    chosen = [row for row in rows if row["field"] == field]
    return tuple(np.array([float(row[column]) for row in chosen]) for column in ("tokens", "requests"))


def quantiles(values, weights):
    """Return the value at each level: a request stands at the middle of its share of the weight (Hazen's rule)."""
    order = np.argsort(values, kind="stable")
    middle = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    found = np.rint(np.interp(LEVELS, middle, values[order]))
    return np.where(LEVELS == 0, values.min(), np.where(LEVELS == 1, values.max(), found))


def length_rows(lengths):
    """Return the rows of ``lengths.csv``."""
    return [
        {
            "workload": name,
            "quantity": quantity,
            "level": f"{level:g}",
            "tokens": int(tokens),
            "source": _key(_file(name)),
        }
        for name, both in lengths.items()
        for quantity, (values, weights) in both.items()
        for level, tokens in zip(LEVELS, quantiles(values, weights), strict=True)
    ]


def left_out(sources, name):
    """Return the share of requests that the histogram of a model lacks, as its manifest says."""
    found = re.search(r"(\d+)% of requests", sources.manifest[_file(name)]["change"]) if name in HISTOGRAMS else None
    return int(found[1]) / 100 if found else 0.0


def workload_rows(sources, lengths):
    """Return the rows of ``workloads.csv``."""
    rows = []
    for name, both in lengths.items():
        row = {"workload": name, "source": _key(_file(name)), "left_out": left_out(sources, name)}
        for quantity, (values, weights) in both.items():
            mean = np.average(values, weights=weights)
            spread = np.sqrt(np.average((values - mean) ** 2, weights=weights)) / mean
            row |= {f"{quantity}_mean": float(mean), f"{quantity}_cv": float(spread)}
        joint = name in TRACES
        row["n"] = round(float(both["output"][1].sum()))
        row["rank_correlation"] = float(spearmanr(both["prompt"][0], both["output"][0])[0]) if joint else ""
        rows.append(row)
    return rows


def arrival_rows(sources, arrivals):
    """Return the rows of ``arrivals.csv``: whole traces, and the clients of ServeGen's models."""
    rows = []
    for name, times in arrivals.items():
        found = arrival_statistics(times)
        row = {"workload": name, "scope": "whole trace", "source": _key(_file(name)), "n": found.count}
        row |= {name: getattr(found, name) for name in ("duration", "rate", "cv", "longest_gap")}
        rows.append(row | {f"dispersion_{window}s": index_of_dispersion(times, window) for window in (1, 10, 60)})
    for name, file in CLIENTS.items():
        read = sources.read(file)
        sources.account(_key(file), file, "xiang2025servegen", [USED] * len(read))
        rates, cvs = (np.array([float(row[column]) for row in read]) for column in ("rate_rps", "cv"))
        order = np.argsort(cvs)
        reached = np.cumsum(rates[order]) / rates.sum()
        low, middle, high = (float(cvs[order][np.searchsorted(reached, level)]) for level in (0.25, 0.5, 0.75))
        row = {"workload": name, "scope": "one client", "source": _key(file), "n": len(read)}
        rows.append(row | {"cv": middle, "cv_low": low, "cv_high": high})
    return rows
