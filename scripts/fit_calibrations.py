"""Fit the calibrated step time to the committed measurements, and record how far it errs on what it has not seen.

Reads ``decode_steps.csv``, ``all_reduce.csv`` and ``end_to_end.csv``; writes ``calibrations.csv`` (coefficients),
``left_out.csv`` (every step beside its prediction without its model, and without its
accelerator), ``calibration_errors.csv`` (what follows from those, by load regime) and
``serving_left_out.csv`` (time per output token of engines, without its whole shape).

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

from lib import layer_fit, layer_shape, serving  # noqa: E402
from lib import left_out as left_out_models  # noqa: E402
from lib.hardware import hardware  # noqa: E402
from lib.layer_fit import CANDIDATES, LAW, NAMES, chosen  # noqa: E402
from lib.measured import table  # noqa: E402
from lib.model import model  # noqa: E402

OUT = ROOT / "lib" / "data"
KEYS = ("accelerator", "model", "tensor_parallel", "attention", "batch_size", "context")
SERVING_KEYS = (
    *("accelerator", "model", "engine", "precision", "tensor_parallel"),
    *("concurrency", "input_tokens", "output_tokens"),
)
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
            value = {"value": _short(getattr(one, coefficient)), "unit": _unit(coefficient)}
            rows.append(fixed | {"coefficient": coefficient} | blank | value)
        for (kind, size, tokens), time in one.cache_time.items():
            at = {"attention": kind, "cache_bytes": f"{size:g}", "context": f"{tokens:g}"}
            rows.append(fixed | {"coefficient": "cache_time"} | blank | at | {"value": _short(time), "unit": "s"})
        for workers, time in one.all_reduce_latency.items():
            at = {"workers": str(workers)}
            value = {"value": _short(time), "unit": "s"}
            rows.append(fixed | {"coefficient": "all_reduce_latency"} | blank | at | value)
        if one.link_efficiency:
            value = {"value": _short(one.link_efficiency), "unit": ""}
            rows.append(fixed | {"coefficient": "link_efficiency"} | blank | value)
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
        several = len({left_out_models.shape_of(one) for one in here["model"].tolist()}) > 1
        times = left_out_models.left_out_times(here)[0] if several else _without_each_batch(here)
        others = layer_fit.carried_over({one: fitted for one, fitted in known.items() if one != name}, hardware(name))
        elsewhere, regimes = layer_fit.layers_time(others, here), _regimes(here)
        for index in range(len(times)):
            row = {key: _cell(here[key][index]) for key in KEYS}
            row |= {"regime": regimes[index], "left_out": "model" if several else "batch size"}
            row |= {"time": _cell(here["time"][index]), "predicted": _short(times[index])}
            row |= {"predicted_elsewhere": _short(elsewhere[index])}
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
        layer_shape.regime(
            layer_shape.bound(hardware(where), model(what), batch, context, tensor_parallel=int(parallel))
        )
        for where, what, parallel, _, batch, context in zip(*(points[key].tolist() for key in KEYS), strict=True)
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
    times = left_out_models.left_out_times(here, strict=False)[0]
    rows = [_summary(name, "model, shared attention known", "all", "all", here, times)]
    for candidate in CANDIDATES[:-1]:
        times = left_out_models.left_out_times(here, (candidate,))[0]
        rows.append(_summary(name, f"model: {candidate.name}", "all", "all", here, times))
    times = left_out_models.left_out_times(here, CANDIDATES)[0]
    return [*rows, _summary(name, "model: form chosen inside each round", "all", "all", here, times)]


def _summaries(name, what, points, times, by_model=False):
    loads = {"all": np.full(len(times), True)} | {load: points["regime"] == load for load in layer_shape.REGIMES}
    loads["tensor parallel"] = points["tensor_parallel"] > 1
    rows = [
        _summary(name, what, "all", load, chosen(points, keep), times[keep])
        for load, keep in loads.items()
        if keep.any()
    ]
    if by_model and what == "model":
        for one in dict.fromkeys(points["model"].tolist()):
            mine = points["model"] == one
            rows.append(_summary(name, what, one, "all", chosen(points, mine), times[mine]))
    return rows


def _summary(name, what, group, load, points, times):
    error = times / points["time"] - 1
    low, high = np.quantile(points["time"] / times, [0.05, 0.95])
    keys = np.char.add(points["model"], points["tensor_parallel"].astype(str))
    parts = [np.abs(error[keys == key]) for key in dict.fromkeys(keys.tolist())]
    rng = np.random.default_rng(SEED)
    picks = rng.integers(len(parts), size=(RESAMPLES, len(parts)))
    drawn = [np.median(np.concatenate([parts[index] for index in pick])) for pick in picks]
    spread = np.quantile(drawn, [0.025, 0.975])
    numbers = {
        "n": len(error), "signed": np.median(error), "absolute": np.median(np.abs(error)),
        "absolute_low": spread[0], "absolute_high": spread[1], "p90": np.quantile(np.abs(error), 0.9),
        "low": low, "high": high,
    }  # fmt: skip
    shown = {key: str(value) if key == "n" else f"{value:.4g}" for key, value in numbers.items()}
    return {"accelerator": name, "left_out": what, "group": group, "regime": load} | shown


def serving_rows():
    """Return the rows of ``serving_left_out.csv``: time per output token, predicted without its whole shape."""
    runs = dict(table("end_to_end"))
    here = chosen(runs, runs["quantity"] == "tpot")
    times = serving.without_each_shape(here)
    blind = serving.without_each_shape(here, prefill=False)
    return [
        {key: _cell(here[key][index]) for key in SERVING_KEYS}
        | {
            "time": _cell(here["value"][index]),
            "predicted": _short(times[index]),
            "without_prefill": _short(blind[index]),
        }
        for index in range(len(times))
    ]


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
    pairs = zip((cell for row in one for cell in row), (cell for row in two for cell in row), strict=True)
    return all(_alike(cell, peer, tolerance) for cell, peer in pairs)


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
        "calibration_errors.csv": text_of(error_rows(left_out)), "serving_left_out.csv": text_of(serving_rows()),
    }  # fmt: skip
    differing = []
    for name, text in texts.items():
        if not check:
            (OUT / name).write_text(text, encoding="utf-8", newline="\n")
        elif not same(text, (OUT / name).read_text(encoding="utf-8")):
            differing.append(name)
    print("differs: " + ", ".join(differing) if differing else "as committed" if check else "written")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
