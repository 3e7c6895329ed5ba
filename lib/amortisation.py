"""What a batch costs each of its sequences: measured step times at a batch over those at one.

Cost per token is in proportion to the time of a step over its sequences, as long as the
machine is paid by the hour and always busy.
"""

import numpy as np

from lib import arguments, memory
from lib.footprint import BF16
from lib.measured import table
from lib.model import catalogue, model, params

LARGE = 3e10
CLASSES = ("large, shared key heads", "small, shared key heads", "large, a key head each", "small, a key head each")


def model_class(name):
    """Return which of `CLASSES` a dense model is in: large from 30e9 parameters; GQA or MHA.

    Parameters
    ----------
    name : str
        Of a catalogued model.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the catalogue does not know the model.
    """
    one = model(name)
    size = "large" if params(one) >= LARGE else "small"
    return f"{size}, {'a key head each' if one.kv_heads == one.query_heads else 'shared key heads'}"


def kernel_ratios(batch_size):
    """Return how long the layers' kernels take for a batch, over one sequence at the same context.

    Parameters
    ----------
    batch_size : int
        One that was measured, such as 32.

    Returns
    -------
    dict of ndarray
        ``accelerator``, ``model``, ``tensor_parallel``, ``attention``, ``context``, ``ratio``,
        ``fall`` (what a token costs alone over what it costs in the batch); a row where both were measured.

    Raises
    ------
    ValueError
        If no step of `batch_size` was measured.
    """
    steps = table("decode_steps")
    same = ("accelerator", "model", "tensor_parallel", "attention", "context")
    return _ratios({name: steps[name] for name in (*same, "batch_size", "time")}, same, batch_size)


def engine_ratios(batch_size):
    """Return how long engines take for a whole batch of requests, over one request of the same lengths.

    Parameters
    ----------
    batch_size : int

    Returns
    -------
    dict of ndarray
        ``accelerator``, ``model``, ``engine``, ``tensor_parallel``, ``input_tokens``,
        ``output_tokens``, ``fits`` ("yes" or "no": the batch in memory), ``ratio``,
        ``fall`` (what a token costs alone over what it costs in the batch); dense models.

    Raises
    ------
    ValueError
        If no batch of `batch_size` was measured.

    Notes
    -----
    Prefill included. A batch that does not fit runs in waves.
    """
    runs = table("end_to_end")
    dense = np.array([name in catalogue() and not model(name).experts for name in runs["model"].tolist()])
    keep = (runs["quantity"] == "batch_latency") & dense
    same = ("accelerator", "model", "engine", "tensor_parallel", "input_tokens", "output_tokens")
    points = {name: runs[name][keep] for name in (*same, "fits")}
    points |= {"batch_size": runs["concurrency"][keep], "time": runs["value"][keep]}
    return _ratios(points, same, batch_size, also=("fits",))


def _ratios(points, same, batch_size, also=()):
    batch_size = arguments.number("batch_size", batch_size, least=1, whole=True)
    keys = [*zip(*(points[name].tolist() for name in same), strict=True)]
    alone = {key: time for key, size, time in zip(keys, points["batch_size"], points["time"], strict=True) if size == 1}
    rows = [
        (*key, *(points[name][index] for name in also), points["time"][index] / alone[key])
        for index, key in enumerate(keys)
        if points["batch_size"][index] == batch_size and key in alone
    ]
    if not rows:
        raise ValueError(f"batch_size must be one that was measured, got {batch_size:g}")
    names = (*same, *also, "ratio")
    found = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return found | {"fall": batch_size / found["ratio"]}


def cache_gain(relative_batch, share):
    r"""Return how many times as fast a step becomes when its caches shrink.

    Parameters
    ----------
    relative_batch : array_like
        Batch over the half-saturation batch of the larger caches, above 0.
    share : array_like
        What is left of the time that each sequence adds, above 0 to 1: half for 8 bits in place of 16.

    Returns
    -------
    ndarray
        From 1 to ``1 / share``.

    Raises
    ------
    ValueError
        If an argument breaks its rule, or they do not broadcast.

    Notes
    -----
    .. math:: \frac{a + c B}{a + s c B} = \frac{1 + x}{1 + s x}, \quad x = \frac{B}{a / c}

    A bound: scales stored beside the numbers and the work of unpacking are left out. False where
    arithmetic binds, and for what a step does besides.
    """
    relative_batch = arguments.array("relative_batch", relative_batch, above=0)
    share = arguments.array("share", share, above=0, most=1)
    arguments.together(relative_batch=relative_batch, share=share)
    return (1 + relative_batch) / (1 + share * relative_batch)


def batches_to_memory(hardware, model, context, *, precision=BF16, most=1024):
    """Return batch sizes from 1 to where memory ends, evenly spaced in the logarithm; empty if one does not fit.

    Parameters
    ----------
    hardware : Hardware
        One device or a group (`hardware.several`).
    model : Model
    context : float
        Tokens of each sequence, at least 1.
    precision : Precision
    most : int
        No larger batch is returned, at least 1.

    Returns
    -------
    ndarray
        Whole sequences, rising, the last one what fits or `most`.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    most = arguments.number("most", most, least=1, whole=True)
    context = arguments.number("context", context, least=1)
    full = min(float(memory.largest_batch(hardware, model, context, precision=precision)), most)
    return np.unique(np.geomspace(1, full, 40).round()) if full >= 1 else np.array([])
