"""Decode steps of two decoders on one shape, timed in turn: ours and vLLM's, as ``benchmarks/vllm_decode.py`` recorded.

Processes alternate, because two engines in one process would share its threads and its memory. What a round
compares ran within minutes, and a machine that changes its speed shows in the distance between rounds.
"""

from dataclasses import dataclass

import numpy as np

from lib import arguments, record_file, records

FILE = records.FOLDER / "engines" / "vllm-decode.json"
OURS, THEIRS = "ours", "vLLM"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Race:
    """Both decoders in one dtype.

    Attributes
    ----------
    dtype : str
    batch_size, context : ndarray of int, shape (n,)
        Rising sizes; tokens that each sequence attends to.
    ours, theirs : ndarray, shape (n,)
        Median over the rounds of the median step, model alone, seconds.
    whole : ndarray, shape (n,)
        The same of their engine's whole step, seconds: planning and drawing a token included.
    ratio, low, high : ndarray, shape (n,)
        Ours over theirs, model alone: median of the rounds, and the least and the largest of them.
    whole_ratio : ndarray, shape (n,)
        Ours over their whole step: median of the rounds.
    rounds : int
    """

    dtype: str
    batch_size: np.ndarray
    context: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray
    whole: np.ndarray
    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    whole_ratio: np.ndarray
    rounds: int


def races(content):
    """Return the races of a record, by dtype.

    Parameters
    ----------
    content : dict
        As ``benchmarks/vllm_decode.py`` writes it.

    Returns
    -------
    dict of str to Race
        A dtype without a whole round has none.

    Raises
    ------
    ValueError
        If a part is missing, or a time is not above 0.
    """
    arguments.record("content", content, dict)
    if missing := [key for key in ("sizes", "context", "runs") if key not in content]:
        raise ValueError(f"content must hold sizes, context and runs, got no {missing[0]}")
    order = np.argsort(content["sizes"])
    sizes, context = (np.array(content[key])[order] for key in ("sizes", "context"))
    found = {}
    for dtype in dict.fromkeys(run["dtype"] for run in content["runs"]):
        runs = {(run["who"], run["round"]): run for run in content["runs"] if run["dtype"] == dtype}
        rounds = [at for who, at in runs if who == OURS and (THEIRS, at) in runs]
        if not rounds:
            continue
        ours, theirs, whole = (
            np.array([_medians(runs[who, at], sizes, part) for at in rounds])
            for who, part in ((OURS, "model"), (THEIRS, "model"), (THEIRS, "step"))
        )
        ratios = ours / theirs
        found[dtype] = Race(
            dtype=dtype, batch_size=sizes, context=context, ours=np.median(ours, axis=0),
            theirs=np.median(theirs, axis=0), whole=np.median(whole, axis=0), ratio=np.median(ratios, axis=0),
            low=ratios.min(axis=0), high=ratios.max(axis=0), whole_ratio=np.median(ours / whole, axis=0),
            rounds=len(rounds),
        )  # fmt: skip
    return found


def _medians(run, sizes, part):
    times = {one["size"]: one[part] for one in run["times"]}
    return [np.median(arguments.array("times", times[size], above=0)) for size in sizes.tolist()]


def recorded(path=FILE):
    """Return the committed record of the race; none where there is no file.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict or None

    Raises
    ------
    ValueError
        If the file is no JSON; names it.
    """
    return record_file.json_of(path) if path.exists() else None
