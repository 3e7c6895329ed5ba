"""Fit one law of the engine's step to every closed loop that was measured, and record how far it errs.

Reads ``end_to_end.csv``; writes ``lib/data/engine_step.csv``: the coefficients; for whole models, whole
accelerators and whole engines left out, the error; and for batches of another benchmark, on other
accelerators and models, which no fit has seen, the error too.

    python scripts/fit_engine_step.py           writes the table
    python scripts/fit_engine_step.py --check   compares, writes nothing
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

from lib import engine_step, serving  # noqa: E402
from lib.deployment import Deployment, Traffic, memory_limit, resident_context, scales  # noqa: E402
from lib.hardware import catalogue as accelerators  # noqa: E402
from lib.hardware import hardware  # noqa: E402
from lib.layer_fit import chosen  # noqa: E402
from lib.measured import table  # noqa: E402
from lib.model import catalogue as shapes  # noqa: E402
from lib.model import model  # noqa: E402

OUT = ROOT / "lib" / "data" / "engine_step.csv"
COLUMNS = ("kind", "name", "group", "n", "value", "signed", "absolute", "low", "high")
PULL = serving.PULLS[-1]


def closed_loops():
    """Return the rows of engines in a closed loop, dense models."""
    runs = dict(table("end_to_end"))
    dense = np.array([name in shapes() and not model(name).experts for name in runs["model"].tolist()])
    return chosen(runs, (runs["quantity"] == "tpot") & dense)


def batches():
    """Return the rows of whole batches that fit in memory, on catalogued accelerators."""
    runs = dict(table("end_to_end"))
    known = np.isin(runs["accelerator"], [*accelerators()]) & np.isin(runs["model"], [*shapes()])
    return chosen(runs, (runs["quantity"] == "batch_latency") & (runs["fits"] == "yes") & known)


def batch_prediction(row, coefficients):
    """Return the time of a whole batch: all prompts, then all output tokens."""
    accelerator, name, devices, size, prompt, output = row
    numbers = scales(Deployment(hardware=hardware(accelerator), model=model(name), devices=int(devices)))
    context = resident_context(Traffic(prompt_tokens=prompt, output_tokens=output))
    if size > memory_limit(numbers, context):
        return np.nan
    step = engine_step.decode_time(numbers, size, context, coefficients)
    return float(output * step + size * engine_step.prompt_time(numbers, prompt, coefficients))


def error(kind, name, group, predicted, time):
    """Return a row of errors: median, median size, and what held nine tenths of measured / predicted."""
    miss = predicted / time - 1
    low, high = np.quantile(time / predicted, [0.05, 0.95])
    numbers = {"signed": np.median(miss), "absolute": np.median(np.abs(miss)), "low": low, "high": high}
    return {"kind": kind, "name": name, "group": group, "n": len(time), "value": ""} | {
        key: f"{value:.6g}" for key, value in numbers.items()
    }


def content():
    """Return the table as text."""
    runs = closed_loops()
    ideal, time = serving.terms(runs), runs["value"]
    coefficients = serving.fitted(ideal, time, pull=PULL)
    blank = dict.fromkeys(COLUMNS, "")
    lines = [
        blank | {"kind": "coefficient", "name": term, "value": f"{value:.8g}"}
        for term, value in zip(serving.TERMS, coefficients, strict=True)
    ]
    lines.append(error("in sample", "", "all", ideal @ coefficients, time))
    for left in ("model", "accelerator", "engine"):
        predicted = np.empty(len(time))
        for one in dict.fromkeys(runs[left].tolist()):
            out = runs[left] == one
            predicted[out] = ideal[out] @ serving.fitted(ideal[~out], time[~out], pull=PULL)
            lines.append(error(f"one {left} left out", one, "one", predicted[out], time[out]))
        if left != "engine":
            lines.append(error("left out", left, "all", predicted, time))
    others = batches()
    keys = ("accelerator", "model", "tensor_parallel", "concurrency", "input_tokens", "output_tokens")
    rows = zip(*(others[key].tolist() for key in keys), strict=True)
    predicted = np.array([batch_prediction(row, coefficients) for row in rows])
    fits = ~np.isnan(predicted)
    for one in dict.fromkeys(others["accelerator"].tolist()):
        for name in dict.fromkeys(others["model"].tolist()):
            here = fits & (others["accelerator"] == one) & (others["model"] == name)
            if here.any():
                lines.append(error("never seen", f"{one}, {name}", "one", predicted[here], others["value"][here]))
    lines.append(error("never seen", "", "all", predicted[fits], others["value"][fits]))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def main(words=None):
    """Write or check the table; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args(words).check:
        return int(OUT.read_text(encoding="utf-8") != content())
    OUT.write_text(content(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
