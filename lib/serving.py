r"""Time per output token of a running engine: what it adds to the roofline, and what its prefills take away.

In a closed loop every decoder waits for the prompts of the others: a step of B sequences
carries, on average, B / OSL prompts of ISL tokens. So the time per output token holds a
prefill term in B ISL / OSL, which a law of batch and context alone cannot have.
"""

import numpy as np
from scipy import optimize

from lib import arguments, memory, roofline
from lib import hardware as machines
from lib import model as models
from lib.footprint import Precision
from lib.layer_fit import checked

TERMS = (
    "host and kernels, a layer", "the same, for each doubling of devices", "weights and their arithmetic",
    "cache", "prefill, weights", "prefill, attention", "all-reduce, bytes", "a sequence",
)  # fmt: skip
TYPICAL = (1e-5, 1e-5, 1.3, 1.5, 2.0, 2.0, 1.5, 1e-5)
PULLS = (0.01, 0.1, 1.0)
CONFIGURATION = ("accelerator", "model", "engine", "precision")


def effective_batch(hardware, model, concurrency, context, precision):
    """Return how many of `concurrency` sequences decode together: no more than fit in memory, at least 1.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    concurrency : array_like
        Requests in the closed loop, at least 1. Broadcasts with `context`.
    context : array_like
        Tokens cached for each, at least 1.
    precision : Precision

    Returns
    -------
    ndarray
        Sequences.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    concurrency = arguments.array("concurrency", concurrency, least=1)
    room = memory.largest_batch(hardware, model, context, precision=precision)
    arguments.together(concurrency=concurrency, context=room)
    return np.minimum(concurrency, np.maximum(room, 1))


def terms(points):
    """Return what each term of the law would take on an ideal machine.

    Parameters
    ----------
    points : dict of ndarray
        Closed-loop rows of ``end_to_end``: ``accelerator``, ``model``, ``precision``,
        ``tensor_parallel``, ``concurrency``, ``input_tokens``, ``output_tokens``.

    Returns
    -------
    ndarray, shape (n, len(TERMS))
        Seconds; for terms without a roofline a count, to be multiplied by seconds.

    Raises
    ------
    ValueError
        If a point names an unknown accelerator, model or precision.

    Notes
    -----
    The cache is taken at the mean context, ISL + OSL / 2, in the precision of the weights
    if that is 8 bit or less (fp4 deployments cache in fp8). Attention of a prompt runs in 16 bit.
    """
    columns = ("accelerator", "model", "precision", "tensor_parallel", "concurrency", "input_tokens", "output_tokens")
    checked(points, columns)
    return np.array([_terms(*row) for row in zip(*(points[name].tolist() for name in columns), strict=True)])


def _terms(accelerator, name, dtype, parallel, concurrency, input_tokens, output_tokens):
    single, model = machines.hardware(accelerator), models.model(name)
    group = machines.several(single, int(parallel))
    precision = Precision(weights=dtype, kv="bf16" if dtype in ("bf16", "fp16") else "fp8", arithmetic=dtype)
    context = input_tokens + output_tokens / 2
    batch = float(effective_batch(group, model, concurrency, context, precision))
    step = roofline.decode_step(group, model, batch, context, precision=precision)
    prompt = roofline.prefill_step(group, model, input_tokens, precision=precision)
    attention = roofline.prefill_step(group, model, input_tokens).attention_time
    prompts = batch / output_tokens
    reduced = 4 * model.layers * model.hidden_size * 2 * (parallel - 1) / parallel / (single.link_bandwidth or np.inf)
    weights = (step.weight_time**4 + (2 * step.linear_time) ** 4) ** 0.25
    return (
        model.layers, model.layers * np.log2(parallel), float(weights), float(step.cache_time),
        float(prompts * prompt.linear_time), float(prompts * attention),
        reduced * (batch + prompts * input_tokens), batch,
    )  # fmt: skip


def fitted(ideal, time, *, pull=PULLS[1], prefill=True):
    """Return the coefficient of each term, none negative.

    Parameters
    ----------
    ideal : array_like, shape (n, len(TERMS))
        From `terms`.
    time : array_like, shape (n,)
        Measured seconds per output token.
    pull : float
        Weight of the pull to `TYPICAL`, above 0: few shapes cannot tell all terms apart.
    prefill : bool
        Leave out to see what the law is worth without the prompts of others.

    Returns
    -------
    ndarray, shape (len(TERMS),)

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Least squares of the relative error, with a ridge.
    """
    time = arguments.array("time", time, above=0)
    pull = arguments.number("pull", pull, above=0)
    ideal = arguments.array("ideal", ideal, least=0)
    if ideal.shape != (*time.shape, len(TERMS)):
        raise ValueError(f"ideal must have a row of {len(TERMS)} for each time, got shape {ideal.shape}")
    ideal = ideal * (np.ones(len(TERMS)) if _flag(prefill) else _WITHOUT_PREFILL)
    ridge = np.sqrt(pull) * np.diag(1 / np.array(TYPICAL))
    system = np.vstack([ideal / time[:, None], ridge])
    return optimize.nnls(system, np.concatenate([np.ones(len(time)), np.sqrt(pull) * np.ones(len(TERMS))]))[0]


def _flag(prefill):
    if not isinstance(prefill, bool):
        raise ValueError(f"prefill must be true or false, got {prefill!r}")
    return prefill


_WITHOUT_PREFILL = np.array([0.0 if term.startswith("prefill") else 1.0 for term in TERMS])


def without_each_shape(points, *, prefill=True):
    """Return the time per output token of each point, predicted without its whole (input, output) shape.

    Parameters
    ----------
    points : dict of ndarray
        As `terms` takes it, with ``engine`` and ``value``, the measured seconds.
    prefill : bool
        As `fitted` takes it.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Raises
    ------
    ValueError
        If a configuration has a single shape.

    Notes
    -----
    One law for an accelerator, model, engine and precision, over all its degrees of tensor
    parallelism. The pull is chosen among `PULLS` inside each round, by leaving the remaining
    shapes out in turn: the left-out shape has no say in it.
    """
    ideal, time = terms(points), checked(points, ("engine", "value"))["value"]
    if not _flag(prefill):
        ideal = ideal * _WITHOUT_PREFILL
    owner = np.array(["|".join(row) for row in zip(*(points[name].tolist() for name in CONFIGURATION), strict=True)])
    shape = np.array([f"{i:g}/{o:g}" for i, o in zip(points["input_tokens"], points["output_tokens"], strict=True)])
    predicted = np.empty(len(time))
    for one in dict.fromkeys(owner.tolist()):
        mine = owner == one
        shapes = [*dict.fromkeys(shape[mine].tolist())]
        if len(shapes) < 2:
            raise ValueError(f"points must hold at least two (input, output) shapes of {one}, got {len(shapes)}")
        for left in shapes:
            rest, out = mine & (shape != left), mine & (shape == left)
            pull = min(PULLS, key=lambda each: _inner_error(ideal[rest], time[rest], shape[rest], each))
            predicted[out] = ideal[out] @ fitted(ideal[rest], time[rest], pull=pull)
    return predicted


def _inner_error(ideal, time, shape, pull):
    missed = []
    for left in dict.fromkeys(shape.tolist()):
        rest = shape != left
        if rest.any():
            missed.append(np.abs(ideal[~rest] @ fitted(ideal[rest], time[rest], pull=pull) / time[~rest] - 1))
    return float(np.median(np.concatenate(missed))) if missed else pull
