"""Fit the calibrated step time to the committed measurements, and record how far it errs on what it has not seen.

Reads ``decode_steps.csv`` and ``all_reduce.csv``; writes ``calibrations.csv`` (coefficients),
``left_out.csv`` (every step beside its prediction without its model, and without its
accelerator) and ``calibration_errors.csv`` (what follows from those, by load regime).

Run it in the project's root; it takes about two minutes:

    python scripts/fit_calibrations.py           writes the tables
    python scripts/fit_calibrations.py --check   compares, writes nothing
"""

import argparse
import csv
import io
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib import layer_fit, layer_time  # noqa: E402
from lib.hardware import hardware  # noqa: E402
from lib.layer_fit import CANDIDATES, LAW, NAMES, chosen  # noqa: E402
from lib.measured import table  # noqa: E402
from lib.model import model  # noqa: E402

OUT = ROOT / "lib" / "data"
KEYS = ("accelerator", "model", "tensor_parallel", "attention", "batch_size", "context")
RESAMPLES, SEED = 400, 20260101
DIGITS = 6


def coefficients():
    """Return the coefficients of each accelerator, fitted to all of its steps."""
    steps, links = dict(table("decode_steps")), dict(table("all_reduce"))
    known = {}
    for name in dict.fromkeys(steps["accelerator"].tolist()):
        fitted = layer_fit.fitted(chosen(steps, steps["accelerator"] == name), LAW)
        here = links["accelerator"] == name
        if here.any():
            latency, share = layer_fit.fitted_links(chosen(links, here), hardware(name).link_bandwidth)
            fitted = layer_fit.with_links(fitted, latency, share)
        known[name] = fitted
    return known


def coefficient_rows(known):
    """Return the rows of ``calibrations.csv``."""
    rows, blank = [], dict.fromkeys(("attention", "cache_bytes", "context", "workers"), "")
    for name, one in known.items():
        fixed = {"accelerator": name}
        for coefficient in NAMES:
            rows.append(fixed | {"coefficient": coefficient} | blank | {"value": _short(getattr(one, coefficient)), "unit": _unit(coefficient)})
        for (kind, size, tokens), time in one.cache_time.items():
            at = {"attention": kind, "cache_bytes": f"{size:g}", "context": f"{tokens:g}"}
            rows.append(fixed | {"coefficient": "cache_time"} | blank | at | {"value": _short(time), "unit": "s"})
        for workers, time in one.all_reduce_latency.items():
            at = {"workers": str(workers)}
            rows.append(fixed | {"coefficient": "all_reduce_latency"} | blank | at | {"value": _short(time), "unit": "s"})
        if one.link_efficiency:
            rows.append(fixed | {"coefficient": "link_efficiency"} | blank | {"value": _short(one.link_efficiency), "unit": ""})
    return rows


def _unit(coefficient):
    return "s" if coefficient.startswith("overhead") else ""


def _short(value):
    return f"{value:.{DIGITS}g}"


def left_out_rows(known):
    """Return the rows of ``left_out.csv``."""
    steps = dict(table("decode_steps"))
    rows = []
    for name in known:
        here = chosen(steps, steps["accelerator"] == name)
        several = len({layer_fit.shape_of(one) for one in here["model"].tolist()}) > 1
        times = layer_fit.left_out_times(here)[0] if several else _without_each_batch(here)
        others = layer_fit.carried_over({one: fitted for one, fitted in known.items() if one != name}, hardware(name))
        elsewhere, regimes = layer_fit.layers_time(others, here), _regimes(here)
        for index in range(len(times)):
            row = {key: _cell(here[key][index]) for key in KEYS}
            row |= {"regime": regimes[index], "left_out": "model" if several else "batch size"}
            row |= {"time": _cell(here["time"][index]), "predicted": _short(times[index]), "predicted_elsewhere": _short(elsewhere[index])}
            rows.append(row)
    return rows


def _without_each_batch(points):
    times = np.empty(len(points["batch_size"]))
    for size in np.unique(points["batch_size"]):
        out = points["batch_size"] == size
        times[out] = layer_fit.layers_time(layer_fit.fitted(chosen(points, ~out), LAW), chosen(points, out))
    return times


def _regimes(points):
    steps = [
        layer_time.regime(layer_time.bound(hardware(where), model(what), batch, context, tensor_parallel=int(parallel)))
        for where, what, parallel, batch, context in zip(
            *(points[key].tolist() for key in ("accelerator", "model", "tensor_parallel", "batch_size", "context")), strict=True
        )
    ]
    return [str(step) for step in steps]


def _cell(value):
    return f"{value:g}" if isinstance(value, float) else str(value)


def error_rows(left_out, *, nested=True):
    """Return the rows of ``calibration_errors.csv``.

    Parameters
    ----------
    left_out : list of dict
        Rows of ``left_out.csv``.
    nested : bool
        Also try the simpler forms of the law, and the choice among them inside each round.
    """
    points = {key: np.array([row[key] for row in left_out]) for key in left_out[0]}
    for key in ("tensor_parallel", "batch_size", "context", "time", "predicted", "predicted_elsewhere"):
        points[key] = points[key].astype(float)
    rows = []
    for name in dict.fromkeys(points["accelerator"].tolist()):
        here = chosen(points, points["accelerator"] == name)
        rows += _summaries(name, here["left_out"][0], here, here["predicted"], by_model=True)
        rows += _summaries(name, "accelerator", here, here["predicted_elsewhere"])
        if nested and here["left_out"][0] == "model":
            rows += _rivals(name)
    return rows


def _rivals(name):
    steps = dict(table("decode_steps"))
    here = chosen(steps, steps["accelerator"] == name)
    rows = [_summary(name, "model, shared attention known", "all", "all", here, layer_fit.left_out_times(here, strict=False)[0])]
    for candidate in CANDIDATES[:-1]:
        times = layer_fit.left_out_times(here, (candidate,))[0]
        rows.append(_summary(name, f"model: {candidate.name}", "all", "all", here, times))
    times = layer_fit.left_out_times(here, CANDIDATES)[0]
    return [*rows, _summary(name, "model: form chosen inside each round", "all", "all", here, times)]


def _summaries(name, what, points, times, by_model=False):
    loads = {"all": np.full(len(times), True)} | {load: points["regime"] == load for load in layer_time.REGIMES}
    loads["tensor parallel"] = points["tensor_parallel"] > 1
    rows = [_summary(name, what, "all", load, chosen(points, rows), times[rows]) for load, rows in loads.items() if rows.any()]
    if by_model and what == "model":
        for one in dict.fromkeys(points["model"].tolist()):
            mine = points["model"] == one
            rows.append(_summary(name, what, one, "all", chosen(points, mine), times[mine]))
    return rows


def _summary(name, what, group, load, points, times):
    error = times / points["time"] - 1
    low, high = np.quantile(points["time"] / times, [0.05, 0.95])
    keys = np.array([f"{one} {parallel}" for one, parallel in zip(points["model"], points["tensor_parallel"], strict=True)])
    parts = [np.abs(error[keys == key]) for key in dict.fromkeys(keys.tolist())]
    rng = np.random.default_rng(SEED)
    drawn = [np.median(np.concatenate([parts[i] for i in rng.integers(len(parts), size=len(parts))])) for _ in range(RESAMPLES)]
    spread = np.quantile(drawn, [0.025, 0.975])
    numbers = {
        "n": len(error), "signed": np.median(error), "absolute": np.median(np.abs(error)),
        "absolute_low": spread[0], "absolute_high": spread[1], "p90": np.quantile(np.abs(error), 0.9), "low": low, "high": high,
    }  # fmt: skip
    shown = {key: str(value) if key == "n" else f"{value:.4g}" for key, value in numbers.items()}
    return {"accelerator": name, "left_out": what, "group": group, "regime": load} | shown


def text_of(rows):
    """Return rows as CSV text."""
    opened = io.StringIO()
    writer = csv.DictWriter(opened, fieldnames=[*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return opened.getvalue()


def same(text, other, tolerance=2e-3):
    """Return whether two CSV texts agree: text exactly, numbers to `tolerance` (other machines round otherwise)."""
    one, two = (list(csv.reader(io.StringIO(each))) for each in (text, other))
    if [len(row) for row in one] != [len(row) for row in two]:
        return False
    return all(_alike(a, b, tolerance) for row, peer in zip(one, two, strict=True) for a, b in zip(row, peer, strict=True))


def _alike(one, two, tolerance):
    try:
        return abs(float(one) - float(two)) <= tolerance * max(abs(float(two)), 0.05 if abs(float(two)) > 1e-2 else 0)
    except ValueError:
        return one == two


def main(words=None):
    """Run the command; return 0, or 1 if the check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed tables, write nothing")
    check = parser.parse_args(words).check
    known = coefficients()
    left_out = left_out_rows(known)
    texts = {
        "calibrations.csv": text_of(coefficient_rows(known)), "left_out.csv": text_of(left_out),
        "calibration_errors.csv": text_of(error_rows(left_out)),
    }  # fmt: skip
    differing = [name for name, text in texts.items() if check and not same(text, (OUT / name).read_text(encoding="utf-8"))]
    for name, text in texts.items():
        if not check:
            (OUT / name).write_text(text, encoding="utf-8", newline="\n")
    print("differs: " + ", ".join(differing) if differing else "as committed" if check else "written")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
