"""Fit the law of `lib.layer_time` to measured steps.

Points are columns as in `lib.measured`: accelerator, model, tensor_parallel, attention,
batch_size, context, linear_time and attention_time. `lib.left_out` says how far the fit errs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from lib import arguments, layer_shape
from lib import layer_time as layers
from lib.hardware import Hardware, hardware
from lib.layer_shape import KINDS
from lib.layer_time import CACHE_BYTES, CONTEXTS, Coefficients
from lib.model import model

START = (20e-6, 4e-9, 0.9, 0.7, 0.6, 2.0, 0.1)
BOUNDS = ((1e-7, 1e-13, 0.2, 0.1, 0.05, 1.0, 1e-5), (2e-4, 3e-8, 1.0, 1.0, 2.0, 8.0, 2.0))
OUTLIER_SCALE = 0.05
PRIOR_WEIGHT = 0.02
COLUMNS = (
    *("accelerator", "model", "tensor_parallel", "attention", "batch_size", "context"),
    *("linear_time", "attention_time"),
)
SMOOTHNESS, POOLING = 0.02, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One form of the law.

    Attributes
    ----------
    name : str
    by_width : bool
        The fixed part of a layer may grow with the hidden size.
    by_context : bool
        The cache table may depend on the context, not on the bytes alone.
    by_size : bool
        A small matrix may stream more slowly than a large one.
    """

    name: str
    by_width: bool = False
    by_context: bool = False
    by_size: bool = False

    def __post_init__(self):
        arguments.text("name", self.name)
        for name in ("by_width", "by_context", "by_size"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")


# Each adds a reason to the one before; the last is the law of the report, whatever the others score.
CANDIDATES = (
    Candidate(name="fixed overhead, cache by bytes"),
    Candidate(name="overhead by width", by_width=True),
    Candidate(name="cache by context too", by_width=True, by_context=True),
    Candidate(name="streaming by matrix size", by_width=True, by_context=True, by_size=True),
)
LAW = CANDIDATES[-1]
NAMES = (
    *("overhead", "overhead_per_width", "weight_efficiency", "arithmetic_efficiency"),
    *("activation_efficiency", "sharpness", "small_matrix_loss"),
)


def chosen(points, keep):
    """Return the rows of `points` where `keep` is true."""
    return {name: column[keep] for name, column in points.items()}


def checked(points, columns):
    """Return `points` if it is a mapping that holds all of `columns`, as long as each other.

    Raises
    ------
    ValueError
        Names what is missing.
    """
    given = [*arguments.record("points", points, Mapping)]
    missing = [name for name in columns if name not in given]
    if missing:
        raise ValueError(f"points must hold {', '.join(columns)}; missing {', '.join(missing)}, got {given}")
    lengths = {len(column) for column in points.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(f"points must hold columns as long as each other and not empty, got lengths {sorted(lengths)}")
    return points


def fitted(points, candidate):
    """Return the coefficients that fit the steps of one accelerator best.

    Parameters
    ----------
    points : dict of ndarray
        Of one accelerator.
    candidate : Candidate

    Returns
    -------
    Coefficients
        Without an all-reduce.

    Raises
    ------
    ValueError
        If the points are of several accelerators.

    Notes
    -----
    Least squares of the logarithm of the time, with a soft loss beyond 5 %: a single odd
    kernel does not bend the curve. A weak pull to `START` decides what the points cannot, such
    as overhead against efficiency where one model was measured. The cache table is a linear problem: logarithms at the
    knots, smoothed along bytes and context, grouped heads drawn to the table of all.
    """
    checked(points, COLUMNS)
    arguments.record("candidate", candidate, Candidate)
    names = {*points["accelerator"].tolist()}
    if len(names) != 1:
        raise ValueError(f"points must be of one accelerator, got {', '.join(sorted(map(str, names)))}")
    machine = hardware(names.pop())
    table = _cache_table(points, candidate.by_context)
    return _coefficients(_linear(points, machine, candidate), table)


def _coefficients(linear, table, **links):
    return Coefficients(**dict(zip(NAMES, map(float, linear), strict=True)), cache_time=table, **links)


def _linear(points, machine, candidate):
    rows = {}
    for name, parallel, batch, time in zip(
        *(points[c] for c in ("model", "tensor_parallel", "batch_size", "linear_time")), strict=True
    ):
        rows[str(name), int(parallel), float(batch)] = time / model(str(name)).layers
    sizes, works, widths, activations, batches = [], [], [], [], []
    for name, parallel, batch in rows:
        moved, work = layer_shape.matrices(model(name), parallel, np.array([batch]))
        sizes.append(moved[:, 0])
        works.append(work[:, 0])
        widths.append(model(name).hidden_size)
        activations.append(batch * layer_shape.activation_bytes(model(name), parallel))
        batches.append(batch)
    sizes, works, widths, activations = map(np.array, (sizes, works, widths, activations))
    target = np.log([*rows.values()])
    peak = machine.flop_rates["bf16"]
    switches = np.array([1, candidate.by_width, 1, 1, 1, 1, candidate.by_size], float)

    def residual(logs):
        overhead, per_width, weight, arithmetic, activation, sharpness, loss = np.exp(logs) * switches
        transfer = layers.stream_time(sizes, machine.bandwidth, weight, loss)
        products = layers.smooth_maximum(transfer, works / (arithmetic * peak), sharpness).sum(axis=1)
        fixed = overhead + per_width * widths
        time = fixed + products + activations / (activation * machine.bandwidth)
        return np.concatenate([np.log(time) - target, PRIOR_WEIGHT * (logs - np.log(START))])

    best = optimize.least_squares(
        residual, np.log(START), bounds=np.log(BOUNDS), loss="soft_l1", f_scale=OUTLIER_SCALE, xtol=1e-10, ftol=1e-10
    ).x
    return np.exp(best) * switches


def _cache_table(points, by_context):
    """Return seconds at each knot, by ridge regression of the logarithms."""
    grouped, weights, beyond, target = [], [], [], []
    for name, parallel, batch, context, time in zip(
        *(points[c] for c in ("model", "tensor_parallel", "batch_size", "context", "attention_time")), strict=True
    ):
        one = model(str(name))
        knot, more = layers.knots(layer_shape.cache_read(one, batch, context, int(parallel)), context)
        grouped.append(float(layer_shape.kind(one) == "grouped"))
        weights.append(knot)
        beyond.append(more)
        target.append(np.log(time / one.layers))
    weights, grouped = np.array(weights), np.array(grouped)[:, None]
    count = weights.shape[1]
    common = np.vstack([
        np.sqrt(SMOOTHNESS) * _second_differences(),
        np.sqrt(SMOOTHNESS if by_context else 1e6) * _context_differences(),
    ])  # fmt: skip
    apart = np.vstack([
        np.sqrt(POOLING) * _second_differences(),
        np.sqrt(POOLING if by_context else 1e6) * _context_differences(),
        0.3 * np.sqrt(POOLING) * np.eye(count),
    ])  # fmt: skip
    system = np.vstack([
        np.hstack([weights, weights * grouped]),
        np.hstack([common, np.zeros_like(common)]),
        np.hstack([np.zeros_like(apart), apart]),
    ])  # fmt: skip
    known = np.concatenate([np.array(target) - np.array(beyond), np.zeros(len(common) + len(apart))])
    solution = np.linalg.lstsq(system, known, rcond=None)[0]
    times = {"one to one": np.exp(solution[:count]), "grouped": np.exp(solution[:count] + solution[count:])}
    at = [(size, tokens) for size in CACHE_BYTES for tokens in CONTEXTS]
    return {(kind, *knot): float(time) for kind in KINDS for knot, time in zip(at, times[kind], strict=True)}


def _grid():
    return np.eye(len(CACHE_BYTES) * len(CONTEXTS)).reshape(len(CACHE_BYTES), len(CONTEXTS), -1)


def _second_differences():
    grid = _grid()
    return (grid[:-2] - 2 * grid[1:-1] + grid[2:]).reshape(-1, grid.shape[-1])


def _context_differences():
    grid = _grid()
    return (grid[:, :-1] - grid[:, 1:]).reshape(-1, grid.shape[-1])


def carried_over(known, to):
    """Return coefficients for an accelerator that nobody measured: the mean of others.

    Parameters
    ----------
    known : dict of str to Coefficients
        By accelerator.
    to : Hardware

    Returns
    -------
    Coefficients

    Raises
    ------
    ValueError
        If `known` is empty.

    Notes
    -----
    Means, geometric for shares; of the cache table, the time of a small cache as it is (latency), that of
    32 MB and more after scaling by bandwidth. Links: shares and latencies as they are.
    """
    if not arguments.record("known", known, Mapping):
        raise ValueError("known must hold an accelerator, got none")
    arguments.record("to", to, Hardware)
    additive = ("overhead", "overhead_per_width", "small_matrix_loss")
    columns = {name: [getattr(one, name) for one in known.values()] for name in NAMES}
    means = [
        np.mean(column) if name in additive else np.exp(np.mean(np.log(column))) for name, column in columns.items()
    ]
    table = {}
    for knot in next(iter(known.values())).cache_time:
        scale = [hardware(name).bandwidth / to.bandwidth if knot[1] >= 32e6 else 1.0 for name in known]
        times = [one.cache_time[knot] * by for one, by in zip(known.values(), scale, strict=True)]
        table[knot] = float(np.exp(np.mean(np.log(times))))
    linked = [one for one in known.values() if one.link_efficiency]
    links = {}
    if linked:
        links["link_efficiency"] = float(np.exp(np.mean([np.log(one.link_efficiency) for one in linked])))
        links["all_reduce_latency"] = {
            workers: float(np.exp(np.mean([np.log(one.all_reduce_latency[workers]) for one in linked])))
            for workers in layers.WORKERS
        }
    return _coefficients(means, table, **links)


def layers_time(coefficients, points):
    """Return the time of all layers of each step.

    Parameters
    ----------
    coefficients : Coefficients
    points : dict of ndarray, each shape (n,)
        The first six of `COLUMNS`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Raises
    ------
    ValueError
        If `points` lacks a column or `coefficients` is none.
    """
    checked(points, COLUMNS[:6])
    arguments.record("coefficients", coefficients, Coefficients)
    out = np.empty(len(points["model"]))
    pairs = {*zip(*(points[name].tolist() for name in ("accelerator", "model", "tensor_parallel")), strict=True)}
    for accelerator, name, parallel in sorted(pairs):
        here = (
            (points["accelerator"] == accelerator) & (points["model"] == name) & (points["tensor_parallel"] == parallel)
        )
        one, batch = model(name), points["batch_size"][here]
        linear = layers.linear_time(coefficients, hardware(accelerator), one, batch, tensor_parallel=parallel)
        attention = layers.attention_time(coefficients, one, batch, points["context"][here], tensor_parallel=parallel)
        out[here] = one.layers * (linear + attention)
    return out


def fitted_links(points, link_bandwidth):
    """Return latency by number of devices, and the share of the one-way link that all-reduces reach.

    Parameters
    ----------
    points : dict of ndarray
        ``workers``, ``message_bytes``, ``time`` of one accelerator.
    link_bandwidth : float
        Both directions, B/s.

    Returns
    -------
    tuple of (dict of int to float, float)

    Raises
    ------
    ValueError
        If an argument breaks its rule, or `workers` holds none of `layer_time.WORKERS`.
    """
    link_bandwidth = arguments.number("link_bandwidth", link_bandwidth, above=0)
    checked(points, ("workers", "message_bytes", "time"))
    workers, sent = points["workers"], 2 * (points["workers"] - 1) / points["workers"] * points["message_bytes"]
    index = np.searchsorted(layers.WORKERS, workers)

    def residual(logs):
        return np.log(np.exp(logs)[index] + sent / (np.exp(logs[-1]) * link_bandwidth / 2)) - np.log(points["time"])

    start = np.log([3e-5, 3e-5, 3e-5, 0.5])
    best = np.exp(optimize.least_squares(residual, start, loss="soft_l1", f_scale=0.1).x)
    return dict(zip(layers.WORKERS, map(float, best[:-1]), strict=True)), float(best[-1])


def with_links(coefficients, latency, share):
    """Return the coefficients with those of `fitted_links` added."""
    return replace(coefficients, all_reduce_latency=latency, link_efficiency=share)
