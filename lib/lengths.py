"""How long prompts and outputs are: by law, or as measured, clipped at a token limit.

Lengths are tokens. A law is its quantile function: a uniform number becomes a length, so
the same generator gives each request a long or a short one under every law alike.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from lib import arguments, measured

LAWS = ("constant", "uniform", "geometric", "exponential", "lognormal", "gamma", "pareto")
WORKLOADS = ("azure-conversation", "azure-code", "servegen-reasoning", "servegen-chat", "arxiv", "mooncake")
QUANTITIES = ("prompt", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthLaw:
    """A law of prompt or output lengths.

    Attributes
    ----------
    law : str
        "constant", "uniform" (from 1 to twice the mean, less 1), "geometric" (from 1), "exponential",
        "lognormal", "gamma" or "pareto".
    mean : float
        Mean before clipping and rounding, tokens, at least 1.
    cv : float
        Standard deviation over mean, above 0: "lognormal", "gamma" and "pareto" only. A Pareto law
        may have an infinite one, which is that of tail index 2.
    longest : float
        Where lengths are clipped, tokens, at least 1; may be infinite.

    Raises
    ------
    ValueError
        If a value leaves its domain, or the law has no use for it.
    """

    law: str
    mean: float
    cv: float | None = None
    longest: float = np.inf

    def __post_init__(self):
        arguments.choice("law", self.law, LAWS)
        arguments.number("mean", self.mean, least=1)
        arguments.number("longest", self.longest, least=1, infinite=True)
        if self.law in ("lognormal", "gamma", "pareto"):
            arguments.number("cv", self.cv, above=0, infinite=self.law == "pareto")
        elif self.cv is not None:
            raise ValueError(f"cv must be left out for {self.law} lengths, got {self.cv!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLengths:
    """Lengths as somebody measured them: a name in ``lib/data/lengths.csv``.

    Attributes
    ----------
    workload : str
        "azure-conversation", "azure-code", "servegen-reasoning", "servegen-chat", "arxiv" or "mooncake".
    quantity : {"prompt", "output"}
    longest : float
        Where lengths are clipped, tokens, at least 1; may be infinite.

    Raises
    ------
    ValueError
        If there is no such workload, or a value leaves its domain.
    """

    workload: str
    quantity: str
    longest: float = np.inf

    def __post_init__(self):
        arguments.choice("workload", self.workload, WORKLOADS)
        arguments.choice("quantity", self.quantity, QUANTITIES)
        arguments.number("longest", self.longest, least=1, infinite=True)


def length_quantile(law, level):
    r"""Return the length that a share of requests does not exceed.

    Parameters
    ----------
    law : LengthLaw or MeasuredLengths
    level : array_like
        Between 0 and 1.

    Returns
    -------
    ndarray
        Whole tokens, at least 1; at level 1 it may be infinite.

    Raises
    ------
    ValueError
        If `law` is no law, or an argument leaves its domain.

    Notes
    -----
    Measured lengths are interpolated between the levels of the table, of which the last are .9999
    and 1, the longest seen. Laws of real numbers are rounded, and so keep their mean within half a
    token where it is not small. Pareto: :math:`P(L > x) = (x_0/x)^a`, :math:`a = 1 + \sqrt{1 + c^{-2}}`.
    """
    if not isinstance(law, (LengthLaw, MeasuredLengths)):
        raise ValueError(f"law must be a LengthLaw or MeasuredLengths, got {law!r}")
    level = arguments.array("level", level, least=0, most=1)
    if isinstance(law, MeasuredLengths):
        exact = np.interp(level, *_table(law.workload, law.quantity))
    else:
        with np.errstate(divide="ignore"):
            exact = _EXACT[law.law](law, level)
    return np.clip(np.rint(exact), 1, law.longest)


def _lognormal(law, level):
    spread = np.sqrt(np.log1p(law.cv**2))
    return law.mean * np.exp(spread * ndtri(level) - spread**2 / 2)


def _geometric(law, level):
    return np.ceil(np.log1p(-level) / np.log1p(-1 / law.mean)) if law.mean > 1 else np.ones(level.shape)


def _pareto(law, level):
    index = 1 + np.sqrt(1 + law.cv**-2)
    return law.mean * (1 - 1 / index) * (1 - level) ** (-1 / index)


_EXACT = {
    "constant": lambda law, level: np.full(level.shape, law.mean),
    "uniform": lambda law, level: np.ceil(level * np.rint(2 * law.mean - 1)),
    "geometric": _geometric,
    "exponential": lambda law, level: -law.mean * np.log1p(-level),
    "lognormal": _lognormal,
    "gamma": lambda law, level: law.mean * law.cv**2 * gammaincinv(law.cv**-2, level),
    "pareto": _pareto,
}


@functools.cache
def _table(workload, quantity):
    """Return levels and quantiles of measured lengths."""
    table = measured.table("lengths")
    chosen = (table["workload"] == workload) & (table["quantity"] == quantity)
    order = np.argsort(table["level"][chosen])
    return table["level"][chosen][order], table["tokens"][chosen][order]


def paired_levels(rank_correlation, count, rng):
    r"""Return pairs of uniform numbers with a given rank correlation, for prompts and outputs.

    Parameters
    ----------
    rank_correlation : float
        Spearman's, between -1 and 1.
    count : int
        Pairs, at least 1.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (2, count)
        Between 0 and 1; each row is uniform.

    Raises
    ------
    ValueError
        If `rng` is no generator, or an argument leaves its domain.

    Notes
    -----
    A Gaussian copula of correlation :math:`2 \sin(\pi r / 6)`: it has the wanted rank correlation,
    and no claim to the rest of the joint law. The first row does not depend on r.
    """
    rank_correlation = arguments.number("rank_correlation", rank_correlation, least=-1, most=1)
    count = int(arguments.number("count", count, least=1, whole=True))
    arguments.record("rng", rng, np.random.Generator)
    first, second = rng.standard_normal((2, count))
    linear = 2 * np.sin(np.pi * rank_correlation / 6)
    return ndtr(np.array([first, linear * first + np.sqrt(max(1 - linear**2, 0)) * second]))
