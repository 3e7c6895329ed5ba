"""Predict a decode step of a real accelerator: bound, calibrated time, and how far it has erred before.

    python -m lib.calibration predict FILE.csv

reads a CSV of configurations (accelerator, model, tensor_parallel, batch_size, context) and
writes it back with a prediction on every row. ``scripts/fit_calibrations.py`` made the two
tables that this module reads: the coefficients, and the errors on models left out.
"""

import argparse
import csv
import functools
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from lib import arguments, layer_shape
from lib import layer_time as layers
from lib.hardware import catalogue as hardware_catalogue
from lib.hardware import hardware
from lib.layer_fit import NAMES, carried_over
from lib.layer_time import Coefficients
from lib.model import catalogue as model_catalogue
from lib.model import model as model_named

INPUTS = ("accelerator", "model", "tensor_parallel", "batch_size", "context")
OUTPUTS = ("bound", "calibrated", "low", "high", "output_head", "all_reduce", "regime", "calibrated_on")
TEXTS = ("accelerator", "model", "attention", "group", "regime", "left_out", "engine", "precision")
OTHERS = "other accelerators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The layers of one decode step, in seconds; each an array of shape (n,).

    Attributes
    ----------
    bound : ndarray
        Roofline of the layers. Nothing measured should be faster.
    calibrated, low, high : ndarray
        Sum of the layers' kernels, and the range that held nine tenths of the steps of
        models that the fit had not seen.
    output_head, all_reduce : ndarray
        To be added for a whole step: the head; two all-reduces a layer, timed alone (NaN if
        not known for this accelerator). Host work and sampling are not modelled.
    regime : ndarray of str
        One of `layer_shape.REGIMES`.
    calibrated_on : str
        The accelerator, or `OTHERS` if nobody measured this one.
    """

    bound: np.ndarray
    calibrated: np.ndarray
    low: np.ndarray
    high: np.ndarray
    output_head: np.ndarray
    all_reduce: np.ndarray
    regime: np.ndarray
    calibrated_on: str


@functools.cache
def catalogue():
    """Return the fitted coefficients by accelerator, from ``data/calibrations.csv``.

    Returns
    -------
    dict of str to Coefficients

    Raises
    ------
    ValueError
        If an accelerator lacks a coefficient.
    """
    with (files("lib") / "data" / "calibrations.csv").open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    return {name: _coefficients(name, rows) for name in dict.fromkeys(row["accelerator"] for row in rows)}


def _coefficients(accelerator, rows):
    plain, caches, latencies = {}, {}, {}
    for row in rows:
        if row["accelerator"] != accelerator:
            continue
        value = float(row["value"])
        if row["coefficient"] == "cache_time":
            caches[row["attention"], float(row["cache_bytes"]), float(row["context"])] = value
        elif row["coefficient"] == "all_reduce_latency":
            latencies[int(row["workers"])] = value
        else:
            plain[row["coefficient"]] = value
    missing = [name for name in NAMES if name not in plain]
    if missing or len(caches) != len(layer_shape.KINDS) * len(layers.CACHE_BYTES) * len(layers.CONTEXTS):
        lacking = ", ".join(missing) or "cache_time"
        raise ValueError(f"calibrations.csv must hold every coefficient of {accelerator}, got none for {lacking}")
    return Coefficients(**plain, cache_time=caches, all_reduce_latency=latencies)


@functools.cache
def errors():
    """Return what the law missed on what it had not seen, from ``data/calibration_errors.csv``.

    Returns
    -------
    mapping of str to ndarray
        ``accelerator``, ``left_out``, ``group``, ``regime``; ``n``; ``signed`` (median),
        ``absolute`` (median), ``p90`` of predicted / measured - 1; ``absolute_low`` and
        ``absolute_high``, 95 % by resampling configurations; ``low`` and ``high``, between
        which lie nine tenths of measured / predicted.
    """
    return _columns("calibration_errors.csv")


@functools.cache
def left_out():
    """Return every measured step beside its prediction without its model, and without its accelerator.

    Returns
    -------
    mapping of str to ndarray
        The keys of ``decode_steps``; ``regime``, ``time``, ``predicted`` without what the
        column ``left_out`` names, and ``predicted_elsewhere`` from `OTHERS` alone. Seconds.
    """
    return _columns("left_out.csv")


@functools.cache
def serving_left_out():
    """Return the time per output token of engines beside its prediction without its whole shape.

    Returns
    -------
    mapping of str to ndarray
        The keys of ``end_to_end``; ``time``, ``predicted`` and ``without_prefill``. Seconds.
    """
    return _columns("serving_left_out.csv")


def _columns(name):
    """Columns of a committed table: text, or floats with NaN where a cell is empty."""
    with (files("lib") / "data" / name).open(encoding="utf-8", newline="") as opened:
        rows = [*csv.DictReader(opened)]
    columns = {}
    for column in rows[0]:
        cells = [row[column] for row in rows]
        columns[column] = np.array(cells if column in TEXTS else [float(cell or "nan") for cell in cells])
    return columns


def coefficients(accelerator):
    """Return the coefficients for an accelerator, and what they were fitted on.

    Parameters
    ----------
    accelerator : str
        Any accelerator of the catalogue: one without measurements gets the mean of the others.

    Returns
    -------
    tuple of (Coefficients, str)

    Raises
    ------
    ValueError
        If the catalogue does not know it.
    """
    machine = hardware(arguments.choice("accelerator", accelerator, hardware_catalogue()))
    if accelerator in catalogue():
        return catalogue()[accelerator], accelerator
    return carried_over(catalogue(), machine), OTHERS


def error_range(calibrated_on, regime):
    """Return the range of measured / predicted that held nine tenths of the left-out steps.

    Parameters
    ----------
    calibrated_on : str
        An accelerator of `catalogue`, or `OTHERS`.
    regime : str
        One of `layer_shape.REGIMES`.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If an argument is unknown.

    Notes
    -----
    Where only one model was measured, none could be left out: then the widest range of the
    accelerators where it could stands in.
    """
    arguments.choice("calibrated_on", calibrated_on, (*catalogue(), OTHERS))
    known = errors()
    rows = (known["regime"] == arguments.choice("regime", regime, layer_shape.REGIMES)) & (known["group"] == "all")
    if calibrated_on == OTHERS:
        rows &= known["left_out"] == "accelerator"
    else:
        rows &= known["left_out"] == "model"
        if np.any(rows & (known["accelerator"] == calibrated_on)):
            rows &= known["accelerator"] == calibrated_on
    return float(known["low"][rows].min()), float(known["high"][rows].max())


def predict(accelerator, model, batch_size, context, *, tensor_parallel=1):
    """Return the prediction for decode steps of one deployment, weights and cache in 16 bit.

    Parameters
    ----------
    accelerator, model : str
        Of the catalogues.
    batch_size, context : array_like
        They broadcast together.
    tensor_parallel : int

    Returns
    -------
    Prediction

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    No prediction falls below the bound. Whether the batch fits in memory is another
    question: `memory.largest_batch`.
    """
    machine = hardware(arguments.choice("accelerator", accelerator, hardware_catalogue()))
    one = model_named(arguments.choice("model", model, model_catalogue()))
    fitted, calibrated_on = coefficients(accelerator)
    batch_size, context = arguments.together(
        batch_size=arguments.array("batch_size", batch_size, least=1, whole=True),
        context=arguments.array("context", context, least=0),
    )
    step = layer_shape.bound(machine, one, batch_size, context, tensor_parallel=tensor_parallel)
    linear = layers.linear_time(fitted, machine, one, batch_size, tensor_parallel=tensor_parallel)
    attention = layers.attention_time(fitted, one, batch_size, context, tensor_parallel=tensor_parallel)
    calibrated = np.maximum(one.layers * (linear + attention), step.time)
    regime = layer_shape.regime(step)
    ranges = {load: error_range(calibrated_on, load) for load in {*np.ravel(regime).tolist()}}
    low, high = (np.vectorize(lambda load, end=end: ranges[load][end])(regime) for end in (0, 1))
    message = batch_size * one.hidden_size * layer_shape.SIXTEEN_BIT
    timed = tensor_parallel in (1, *layers.WORKERS)
    reduced = (
        layers.all_reduce_time(fitted, machine, message, tensor_parallel) if timed else np.full_like(message, np.nan)
    )
    return Prediction(
        bound=step.time, calibrated=calibrated, low=np.maximum(calibrated * low, step.time), high=calibrated * high,
        output_head=layers.head_time(fitted, machine, one, batch_size, tensor_parallel=tensor_parallel),
        all_reduce=2 * one.layers * reduced, regime=regime, calibrated_on=calibrated_on,
    )  # fmt: skip


def predictions_for(file):
    """Return the rows of a CSV of configurations, each with its prediction.

    Parameters
    ----------
    file : Path
        Columns `INPUTS`, in any order; others are kept.

    Returns
    -------
    list of dict

    Raises
    ------
    ValueError
        If a column is missing or a row is bad; names file, line and rule.
    """
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.DictReader(opened)
        missing = [name for name in INPUTS if name not in (reader.fieldnames or ())]
        if missing:
            needed = ", ".join(INPUTS)
            raise ValueError(f"{file.name} line 1: columns must include {needed}, got none for {', '.join(missing)}")
        rows = []
        for row in reader:
            try:
                rows.append(row | _prediction_of(row))
            except ValueError as error:
                raise ValueError(f"{file.name} line {reader.line_num}: {error}") from None
    if not rows:
        raise ValueError(f"{file.name} must hold a configuration below its header, got none")
    return rows


def _prediction_of(row):
    numbers = {}
    for name in INPUTS[2:]:
        try:
            numbers[name] = float(row[name] or "")
        except ValueError:
            raise ValueError(f"{name} must be a number, got {row[name]!r}") from None
    made = predict(row["accelerator"], row["model"], numbers["batch_size"], numbers["context"],
                   tensor_parallel=numbers["tensor_parallel"])  # fmt: skip
    times = {name: float(getattr(made, name)) for name in OUTPUTS if name not in ("regime", "calibrated_on")}
    shown = {name: "" if np.isnan(time) else f"{time:.6g}" for name, time in times.items()}
    return shown | {"regime": str(made.regime), "calibrated_on": made.calibrated_on}


HELP = """\
Predict decode steps for a CSV of configurations and print the CSV with these columns added
(seconds): bound, the roofline of the layers; calibrated, the sum of the layers' kernels, with
low and high, the range that held nine tenths of the measured steps of models left out of the
fit; output_head and all_reduce, to be added for a whole step (all_reduce empty: not known);
regime; calibrated_on. Columns needed: accelerator, model, tensor_parallel, batch_size,
context. Other columns are kept. Compare `calibrated` with a sum of kernel times: an engine
adds the head, communication, host work and sampling. Weights and cache in 16 bit."""


def main(words=None):
    """Run the command; return 0, or 2 after a message about what was wrong with the file."""
    parser = argparse.ArgumentParser(prog="python -m lib.calibration", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("predict", help="predict step times for a CSV of configurations", description=HELP)
    one.add_argument("file", type=Path, help="CSV with the columns " + ", ".join(INPUTS))
    one.add_argument("--output", type=Path, help="write here instead of to the screen")
    given = parser.parse_args(words)
    try:
        rows = predictions_for(given.file)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    opened = given.output.open("w", encoding="utf-8", newline="") if given.output else sys.stdout
    writer = csv.DictWriter(opened, fieldnames=[*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if given.output:
        opened.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
