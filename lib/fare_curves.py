"""The arrays behind the figures of what a batch costs each of its sequences, under the words of their legends."""

import numpy as np

from lib import layer_shape
from lib.amortisation import CLASSES, batches_to_memory, engine_ratios, kernel_ratios, model_class
from lib.calibration import predict
from lib.footprint import Precision
from lib.measured import table
from lib.model import model
from lib.roofline import decode_step
from lib.units import quantity

DASHES = ([1, 0], [9, 3], [6, 3], [4, 3], [2, 3], [1, 3])
FITS_NOT, NOT_MEASURED, DO_NOT_FIT = "does not fit", "not measured", "32 do not fit"


def measured_fares(accelerator, name, tokens):
    """Return measured batch sizes and cost per token over one alone, on one device; empty where nobody measured."""
    steps = table("decode_steps")
    here = (steps["accelerator"] == accelerator) & (steps["model"] == name) & (steps["context"] == tokens)
    here &= steps["tensor_parallel"] == 1
    at, time = steps["batch_size"][here], steps["time"][here]
    return at, time / time[at == 1] / at if here.any() else time


def predicted_fares(machine, subject, tokens):
    """Return batch sizes to the end of memory and the calibrated cost per token over one alone."""
    sizes = batches_to_memory(machine, subject, tokens)
    made = predict(machine.name, subject.name, sizes, tokens).calibrated
    return sizes, made / made[0] / sizes


def by_context(machine, subject, contexts):
    """Return calibrated curves, measured points, and the measured fare at each batch, by context.

    Parameters
    ----------
    machine, subject : Hardware, Model
    contexts : sequence of float
        Tokens; as many as `DASHES` at most.

    Returns
    -------
    tuple of dict
        Curves and marks of `lib.charts.lines`; context to a dict of batch size to fare.
    """
    lines, points, fares = {}, {}, {}
    for tokens, dash in zip(contexts, DASHES, strict=False):
        lines[f"{quantity(tokens, '')} tokens"] = ("weights", dash, *predicted_fares(machine, subject, tokens))
        at, fare = measured_fares(machine.name, subject.name, tokens)
        if at.size:
            fares[tokens] = dict(zip(at, fare, strict=True))
            points[f"measured, {quantity(tokens, '')}"] = (at, fare)
    return lines, points, fares


def by_key_heads(machine, names, tokens):
    """Return calibrated curves and measured points of models at a context, the last one drawn as the main one.

    Returns
    -------
    tuple of dict
        Curves, marks; and by model the measured fare at each batch.
    """
    lines, points, fares = {}, {}, {}
    for name in names:
        one, meaning = model(name), ("weights", [1, 0]) if name == names[-1] else ("cache", [7, 3])
        lines[f"{name}, {one.kv_heads} key heads"] = (*meaning, *predicted_fares(machine, one, tokens))
        points[f"measured, {name}"] = at, fare = measured_fares(machine.name, name, tokens)
        fares[name] = dict(zip(at, fare, strict=True))
    return lines, points, fares


def _falls(groups, falls, otherwise):
    return [f"1/{round(np.median(falls[one]))} ({falls[one].size})" if falls[one].size else otherwise for one in groups]


def kernel_table(batch_size, contexts):
    """Return the fall of the cost per token by class of model and context, kernels alone, as columns of a table."""
    kernels = kernel_ratios(batch_size)
    classes = np.array([model_class(name) for name in kernels["model"].tolist()])
    columns = {"kernels at a context of": CLASSES}
    for tokens in contexts:
        groups = [(classes == one) & (kernels["context"] == tokens) for one in CLASSES]
        columns[quantity(tokens, "")] = _falls(groups, kernels["fall"], FITS_NOT)
    return columns


def engine_table(batch_size, lengths):
    """Return the same of engines, end to end, by as many tokens in as out; the last row does not fit in memory."""
    engines = engine_ratios(batch_size)
    fit, classes = engines["fits"] == "yes", np.array([model_class(name) for name in engines["model"].tolist()])
    rows = [*(fit & (classes == one) for one in CLASSES), ~fit]
    columns = {"engines, tokens in and as many out": [*CLASSES, DO_NOT_FIT]}
    for tokens in lengths:
        groups = [row & (engines["input_tokens"] == tokens) for row in rows]
        columns[quantity(tokens, "")] = _falls(groups, engines["fall"], NOT_MEASURED)
    return columns


def weight_bits(machine, published):
    """Return what gpt-fast took for a step over its bound, by model and bits, and its share of the bandwidth.

    Parameters
    ----------
    machine : Hardware
        The one it ran on.
    published : dict of str to float
        ``published_results.csv`` by id.

    Returns
    -------
    dict of list
        ``names`` and ``ratios`` of `lib.charts.ratio_dots`.
    dict of (str, str) to float
        By model and format.
    """
    rows, achieved = {"names": [], "ratios": []}, {}
    for short, name in (("7b", "Llama-2-7B"), ("70b", "Llama-2-70B")):
        for dtype in ("bf16", "int8", "int4"):
            key = f"gptfast-{short}-{dtype}"
            if f"{key}-rate" in published:
                bound = decode_step(machine, model(name), 1, 0, precision=Precision(weights=dtype)).time
                rows["names"].append(f"{name}, {dtype} weights")
                rows["ratios"].append(1 / published[f"{key}-rate"] / float(bound))
                achieved[short, dtype] = published[f"{key}-bandwidth"] / machine.bandwidth
    return rows, achieved


def by_devices(machine, subject, batch_size, tokens):
    """Return step times of a group by its size: bound, calibrated kernels, the same with all-reduces, and measured.

    Returns
    -------
    dict of str to (ndarray, ndarray)
        ``bound``, ``kernels``, ``linked``, ``measured``: devices, seconds.
    """
    devices = np.array([1, 2, 4, 8])
    made = [predict(machine.name, subject.name, batch_size, tokens, tensor_parallel=int(n)) for n in devices]
    bounds = [layer_shape.bound(machine, subject, batch_size, tokens, tensor_parallel=int(n)) for n in devices]
    kernels = np.array([float(one.calibrated) for one in made])
    steps = table("decode_steps")
    here = (steps["accelerator"] == machine.name) & (steps["model"] == subject.name)
    here &= (steps["batch_size"] == batch_size) & (steps["context"] == tokens)
    order = np.argsort(steps["tensor_parallel"][here])
    return {
        "bound": (devices, np.array([float(one.time) for one in bounds])), "kernels": (devices, kernels),
        "linked": (devices, kernels + np.array([float(one.all_reduce) for one in made])),
        "measured": (steps["tensor_parallel"][here][order], steps["time"][here][order]),
    }  # fmt: skip
