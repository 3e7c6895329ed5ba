"""Public times to the first token beside what the models say of them, by what decides over them.

Two kinds: prefills of a whole batch, nobody in the way, against summed kernels; and closed loops of users,
against the simulation of `lib.closed_loop`, recorded by ``scripts/predict_first_tokens.py``.
"""

import functools
from typing import NamedTuple

import numpy as np

from lib import arguments, measured
from lib.calibrated_step import CalibratedStep
from lib.closed_loop import REGIMES
from lib.replica import StepLoad

ALONE = ("a batch alone, one device", "a batch alone, several devices")


class Prefills(NamedTuple):
    """Prefills of whole batches.

    Attributes
    ----------
    time, predicted : ndarray, shape (n,)
        Seconds.
    group : ndarray of bool, shape (n,)
        Whether several devices shared the work.
    """

    time: np.ndarray
    predicted: np.ndarray
    group: np.ndarray


class Regime(NamedTuple):
    """Public first tokens of one kind.

    Attributes
    ----------
    name : str
        One of `ALONE` or of `lib.closed_loop.REGIMES`.
    time, predicted : ndarray, shape (n,)
        Seconds.
    seen : ndarray of bool, shape (n,)
        Whether the fit of the prompts' speed saw first tokens of this shape and load: on other accelerators, or, for
        `at_home`, these themselves.
    at_home, bound : ndarray, shape (n,)
        Seconds: from the accelerator, engine and precision itself, the shape left out; the roofline of the prompt
        alone. NaN where it was not predicted.
    """

    name: str
    time: np.ndarray
    predicted: np.ndarray
    seen: np.ndarray
    at_home: np.ndarray
    bound: np.ndarray


@functools.cache
def prefills():
    """Return every public prefill on an accelerator whose kernels were measured, and the sum of its kernels.

    Returns
    -------
    Prefills
        No engine had a say in the prediction; `summed_kernels` made it.
    """
    served = measured.table("served_first_tokens")
    keep = np.isin(served["regime"], ALONE)
    return Prefills(served["time"][keep], served["predicted"][keep], served["regime"][keep] == ALONE[1])


def summed_kernels(step, batch, prompt_tokens):
    """Return what the kernels of a prefill take together, for a whole batch of equal prompts in one iteration.

    Parameters
    ----------
    step : CalibratedStep
    batch, prompt_tokens : int
        At least 1.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("step", step, CalibratedStep)
    batch = int(arguments.number("batch", batch, least=1, whole=True))
    prompt = int(arguments.number("prompt_tokens", prompt_tokens, least=1, whole=True))
    pairs = batch * prompt * (prompt + 1) / 2
    return step(StepLoad(0, 0, batch * prompt, pairs, ((prompt, 0),) * batch))


@functools.cache
def by_regime():
    """Return public first tokens, measured and predicted, by what decides over them.

    Returns
    -------
    tuple of Regime
    """
    served, found = measured.table("served_first_tokens"), []
    seen = (served["input_tokens"] == 8192) & (served["concurrency"] == 4)
    for name in (*ALONE, *REGIMES):
        keep = served["regime"] == name
        columns = (served[column][keep] for column in ("at_home", "bound"))
        found.append(Regime(name, served["time"][keep], served["predicted"][keep], seen[keep], *columns))
    return tuple(found)
