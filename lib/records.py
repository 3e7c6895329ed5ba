"""Runs that `lib.measurement` recorded: written, read, checked and summed up. No torch here.

A record keeps every repeat. Each visit of a point holds the step times, and the ceilings that
were measured right before and right after them: a machine may be faster in one second than in the next.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from lib import arguments, footprint, record_file, roofline
from lib.footprint import Precision
from lib.model import Model

SCHEMA = 2
FOLDER = Path(__file__).resolve().parent.parent / "measurements"
BANDWIDTHS = ("read", "copy", "matrix_vector")
CEILINGS = (*BANDWIDTHS, "matrix_multiply")
KIND = record_file.Kind(
    fields=(
        *("schema", "library", "date", "command", "complete", "machine", "versions", "settings", "points"), "left_out",
    ),
    marks=(("schema", SCHEMA),), same=("machine", "versions", "command"),
)  # fmt: skip
SPREAD_LIMIT = 0.15
STATES_LIMIT = 1.25
LEAST_VISITS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One recorded run, summed up point by point.

    Attributes
    ----------
    name : str
        Of the file.
    content : dict
        All that the file holds.
    model : Model
    dtype, device : str
    batch_size, context : ndarray, shape (n,)
        Sequences; tokens that each attends to.
    time, lower, upper : ndarray, shape (n,)
        Median and quartiles of the visits' step times, seconds.
    visits, steps : ndarray of int, shape (n,)
        How often the point was visited, and how many steps were timed in all.
    bandwidth, flop_rate : ndarray, shape (3, n)
        Ceilings beside each point, B/s and FLOP/s: the median of the visits, and the
        ends of the interval that holds 95 % of them.
    relative, relative_spread : ndarray, shape (n,)
        Step time over its bound, each visit held against its own ceilings: the median,
        and the distance of the quartiles as a share of it.
    """

    name: str
    content: dict = field(repr=False)
    model: Model
    dtype: str
    device: str
    batch_size: np.ndarray
    context: np.ndarray
    time: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    visits: np.ndarray
    steps: np.ndarray
    bandwidth: np.ndarray
    flop_rate: np.ndarray
    relative: np.ndarray
    relative_spread: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Quietness:
    """Whether a run can be trusted, by its own ceilings.

    Attributes
    ----------
    state : {"quiet", "mixed", "noisy"}
        "mixed": the bandwidth stood at several levels, and the steps followed it.
        "noisy": the steps, taken relative to their ceilings, or the arithmetic moved
        by more than `SPREAD_LIMIT`, or a point has fewer than `LEAST_VISITS` visits.
    publishable : bool
        Complete and not noisy.
    bandwidth_spread, arithmetic_spread, step_spread : float
        Distance of the quartiles over the median: of all bandwidth and arithmetic
        ceilings, and of the steps relative to their ceilings (median over the points).
    bandwidth_states : float
        Ratio of the ninth and the first decile of the bandwidth ceilings.
    """

    state: str
    publishable: bool
    bandwidth_spread: float
    arithmetic_spread: float
    step_spread: float
    bandwidth_states: float


def assumed(model, dtype, points, bandwidth, flop_rate):
    """Return a run that nobody measured: every step takes its bound at these ceilings.

    Parameters
    ----------
    model : Model
        Llama-style.
    dtype : {"fp32", "bf16"}
    points : sequence of (int, int)
        Batch size and context of each, at least 1.
    bandwidth, flop_rate : float
        B/s and FLOP/s.

    Returns
    -------
    Run
        Named "assumed", of state "noisy", so that it is never published as a record.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("model", model, Model)
    arguments.choice("dtype", dtype, ("fp32", "bf16"))
    bandwidth = arguments.number("bandwidth", bandwidth, above=0)
    flop_rate = arguments.number("flop_rate", flop_rate, above=0)
    points = arguments.array("points", points, least=1, whole=True)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be pairs of batch size and context, got shape {points.shape}")
    times = roofline.overlapped_time(*_parts(model, dtype, points.T, bandwidth, flop_rate))
    ceilings = {name: [bandwidth] for name in BANDWIDTHS} | {"matrix_multiply": [flop_rate]}
    shape = {name: value for name, value in asdict(model).items() if name not in ("window", "biases")}
    content = dict.fromkeys(KIND.fields, "") | {
        "schema": SCHEMA, "complete": False, "machine": {"name": "an assumed machine", "cores": 0},
        "settings": {"device": "cpu", "dtype": dtype, "linear": "packed", "threads": 0, "model": shape}, "left_out": [],
        "points": [
            {"batch_size": int(size), "context": int(one), "visits": [{"round": 0, "time": [float(time)]} | ceilings]}
            for (size, one), time in zip(points, times, strict=True)
        ],
    }  # fmt: skip
    return summed_up("assumed", content)


def write(path, content):
    """Write a record whole or not at all: a run that is killed leaves the last good one.

    Parameters
    ----------
    path : path
    content : dict
        A record.

    Raises
    ------
    ValueError
        If the content is no record.
    OSError
        If it cannot be written.
    """
    record_file.write(KIND, path, content)


def content_of(path):
    """Return what a record's file holds.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is no JSON, of another schema, or lacks a part; names the file.
    """
    path = Path(path)
    return record_file.checked(KIND, path.name, _upgraded(record_file.json_of(path)))


def _upgraded(content):
    """Return a record of schema 1 as one of this schema: there a visit had one number for each ceiling."""
    if not isinstance(content, dict) or content.get("schema") != 1:
        return content
    points = [
        point | {
            "visits": [
                visit | {key: [visit[key]] for key in CEILINGS if key in visit} for visit in point.get("visits", [])
            ]
        }
        for point in content.get("points", [])
    ]  # fmt: skip
    return content | {"schema": SCHEMA} | ({"points": points} if "points" in content else {})


def run(path):
    """Return a recorded run, summed up.

    Parameters
    ----------
    path : path

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If the file is no record, or holds no visited point; names the file.
    """
    content = content_of(path)
    try:
        return summed_up(Path(path).stem, content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{Path(path).name} must hold visits of points: {error}") from None


def summed_up(name, content):
    """Return the content of a record, summed up.

    Parameters
    ----------
    name : str
    content : dict
        Of one file.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If it is no record, or holds no visited point.
    """
    arguments.text("name", name)
    settings = record_file.checked(KIND, "content", content)["settings"]
    shape = Model(**{**settings["model"], "window": np.inf, "biases": ()})
    points = [point for point in content["points"] if point["visits"]]
    if not points:
        raise ValueError("points must have visits, got none")
    batch_size, context = (np.array([point[key] for point in points], float) for key in ("batch_size", "context"))
    of_visits = [np.array([np.median(visit["time"]) for visit in point["visits"]]) for point in points]
    ceilings = [
        np.array(
            [
                [beside[name] for beside in map(ceilings_of, point["visits"])]
                for name in ("bandwidth", "matrix_multiply")
            ]
        )
        for point in points
    ]
    arguments.array("time", np.concatenate(of_visits), above=0)
    arguments.array("ceilings", np.concatenate(ceilings, axis=1), above=0)
    ratios = [
        times / roofline.overlapped_time(*_parts(shape, settings["dtype"], (size, tokens), *ceiling))
        for times, size, tokens, ceiling in zip(of_visits, batch_size, context, ceilings, strict=True)
    ]
    lower, time, upper = _quantiles(of_visits, (0.25, 0.5, 0.75))
    low, relative, high = _quantiles(ratios, (0.25, 0.5, 0.75))
    bandwidth, flop_rate = (_quantiles([one[row] for one in ceilings], (0.5, 0.025, 0.975)) for row in (0, 1))
    return Run(
        name=name, content=content, model=shape, dtype=settings["dtype"], device=settings["device"],
        batch_size=batch_size, context=context, time=time, lower=lower, upper=upper,
        visits=np.array([len(point["visits"]) for point in points]),
        steps=np.array([sum(len(visit["time"]) for visit in point["visits"]) for point in points]),
        bandwidth=bandwidth, flop_rate=flop_rate, relative=relative, relative_spread=(high - low) / relative,
    )  # fmt: skip


def relative_to(run, ceiling):
    """Return the step over its bound at one ceiling of bandwidth, each visit held against its own.

    Parameters
    ----------
    run : Run
    ceiling : {"bandwidth", "read", "copy", "matrix_vector"}
        What memory is taken to give: "bandwidth" is the largest of the others, as in `Run.relative`.

    Returns
    -------
    tuple of ndarray, each of shape (n,)
        Median of the visits, and the distance of their quartiles as a share of it.

    Raises
    ------
    ValueError
        If the ceiling is unknown.
    """
    arguments.record("run", run, Run)
    arguments.choice("ceiling", ceiling, ("bandwidth", *BANDWIDTHS))
    ratios = []
    for point in (point for point in run.content["points"] if point["visits"]):
        rates = [ceilings_of(visit) for visit in point["visits"]]
        bound = roofline.overlapped_time(
            *_parts(
                run.model, run.dtype, (point["batch_size"], point["context"]),
                *(np.array([beside[name] for beside in rates]) for name in (ceiling, "matrix_multiply")),
            )
        )  # fmt: skip
        ratios.append([np.median(visit["time"]) for visit in point["visits"]] / bound)
    low, middle, high = _quantiles(ratios, (0.25, 0.5, 0.75))
    return middle, (high - low) / middle


def ceilings_of(visit):
    """Return the ceilings beside the steps of one visit, each the mean of its repeats before and after them.

    Parameters
    ----------
    visit : dict
        Of a point of a record.

    Returns
    -------
    dict of str to float
        Each of `CEILINGS`, and "bandwidth": the largest of `BANDWIDTHS`; B/s and FLOP/s.

    Raises
    ------
    ValueError
        If it lacks a ceiling, or a rate is not above 0.
    """
    if missing := [name for name in CEILINGS if name not in arguments.record("visit", visit, dict)]:
        raise ValueError(f"visit must hold {', '.join(CEILINGS)}; got no {missing[0]}")
    rates = {name: float(arguments.array(name, visit[name], above=0).mean()) for name in CEILINGS}
    return rates | {"bandwidth": max(rates[name] for name in BANDWIDTHS)}


def _quantiles(columns, shares):
    return np.array([np.quantile(column, shares) for column in columns]).T


def precision_of(run):
    """Return the number formats of a run: its one dtype for everything.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Precision

    Raises
    ------
    ValueError
        If `run` is no `Run`.
    """
    return _precision(arguments.record("run", run, Run).dtype)


def _precision(dtype):
    return Precision(weights=dtype, kv=dtype, arithmetic=dtype)


def _parts(shape, dtype, points, bandwidth, flop_rate):
    """Return the seconds of a step's four parts at given ceilings."""
    (batch_size, context), precision = points, _precision(dtype)
    return (
        footprint.streamed_weight_bytes(shape, batch_size, precision) / bandwidth,
        batch_size * footprint.kv_bytes(shape, context, precision) / bandwidth,
        batch_size * footprint.linear_flop_per_token(shape) / flop_rate,
        batch_size * footprint.attention_flop_per_token(shape, context) / flop_rate,
    )


def parts_of(run, end="median"):
    """Return the times of each point's parts at the ceilings beside it.

    Parameters
    ----------
    run : Run
    end : {"median", "slow", "fast"}
        Which ceilings: "fast" is the upper end of their interval, so the least time.

    Returns
    -------
    tuple of ndarray, each of shape (n,)
        Weights read, cache read, arithmetic with weights, arithmetic with the cache; seconds.

    Raises
    ------
    ValueError
        If `end` is unknown.
    """
    arguments.record("run", run, Run)
    row = {"median": 0, "slow": 1, "fast": 2}[arguments.choice("end", end, ("median", "slow", "fast"))]
    points = run.batch_size, run.context
    return _parts(run.model, run.dtype, points, run.bandwidth[row], run.flop_rate[row])


def bound_of(run, end="median"):
    """Return the roofline bound of each point at the ceilings beside it; as `parts_of`, seconds."""
    return roofline.overlapped_time(*parts_of(run, end))


def bound_at(run, batch_size, context):
    """Return the roofline bound at the median of all the ceilings of a run.

    Parameters
    ----------
    run : Run
    batch_size, context : array_like
        At least 1; they broadcast together.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If a size breaks its rule.
    """
    arguments.record("run", run, Run)
    points = arguments.together(
        batch_size=arguments.array("batch_size", batch_size, least=1),
        context=arguments.array("context", context, least=0),
    )
    ceilings = np.median(run.bandwidth[0]), np.median(run.flop_rate[0])
    return roofline.overlapped_time(*_parts(run.model, run.dtype, points, *ceilings))


def quietness(run):
    """Return whether a run was quiet, by its own interleaved ceilings.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Quietness
    """
    arguments.record("run", run, Run)
    visits = [visit for point in run.content["points"] for visit in point["visits"]]
    bandwidth, arithmetic = (
        np.array([beside[name] for beside in map(ceilings_of, visits)]) for name in ("bandwidth", "matrix_multiply")
    )
    spreads = [float(np.subtract(*np.quantile(one, (0.75, 0.25))) / np.median(one)) for one in (bandwidth, arithmetic)]
    states = float(np.divide(*np.quantile(bandwidth, (0.9, 0.1))))
    step_spread = float(np.median(run.relative_spread))
    unsteady = max(step_spread, spreads[1]) > SPREAD_LIMIT or run.visits.min() < LEAST_VISITS
    state = "noisy" if unsteady else "mixed" if states > STATES_LIMIT else "quiet"
    return Quietness(
        state=state, publishable=state != "noisy" and run.content["complete"], bandwidth_spread=spreads[0],
        arithmetic_spread=spreads[1], step_spread=step_spread, bandwidth_states=states,
    )  # fmt: skip


def committed(folder=FOLDER):
    """Return the runs that came with the report and can be published, by name; none from this machine."""
    runs = {path.stem: run(path) for path in record_file.files_in(folder)}
    return {name: one for name, one in runs.items() if quietness(one).publishable}


def own(folder=FOLDER):
    """Return the complete runs made on the reader's machine, by name, quiet or not."""
    return {path.stem: run(path) for path in record_file.files_in(folder, own=True)}
