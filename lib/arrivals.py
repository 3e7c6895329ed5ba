"""When requests arrive: a law of given rate and variation, drawn from a generator that the caller gives.

Rates are 1/s, times s. The gaps are drawn at rate 1 and scaled, so the same generator gives
the same arrivals at every rate: runs at two loads, or under two policies, can be compared
request by request.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from lib import arguments

LAWS = ("poisson", "gamma", "weibull", "deterministic", "on-off")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalLaw:
    """A law of independent gaps between arrivals.

    Attributes
    ----------
    law : {"poisson", "gamma", "weibull", "deterministic", "on-off"}
        Deterministic arrivals come like clockwork; on-off arrivals are Poisson in bursts of exponential
        duration, with exponential silences between them.
    rate : float
        Mean arrivals, 1/s, above 0, silences included.
    cv : float
        Standard deviation over mean of the gaps, 0.05 to 20: "gamma" and "weibull" only.
    on_time, off_time : float
        Mean duration of a burst and of a silence, s, above 0: "on-off" only.

    Raises
    ------
    ValueError
        If a value leaves its domain, or the law has no use for it.
    """

    law: str
    rate: float
    cv: float | None = None
    on_time: float | None = None
    off_time: float | None = None

    def __post_init__(self):
        arguments.choice("law", self.law, LAWS)
        arguments.number("rate", self.rate, above=0)
        wanted = {"gamma": ("cv",), "weibull": ("cv",), "on-off": ("on_time", "off_time")}.get(self.law, ())
        for name in ("cv", "on_time", "off_time"):
            value = getattr(self, name)
            if name not in wanted and value is not None:
                raise ValueError(f"{name} must be left out for {self.law} arrivals, got {value!r}")
        if "cv" in wanted:
            arguments.number("cv", self.cv, least=0.05, most=20)
        for name in wanted:
            arguments.number(name, getattr(self, name), above=0)


def arrival_times(law, count, rng):
    r"""Return the times of the first arrivals.

    Parameters
    ----------
    law : ArrivalLaw
    count : int
        Arrivals, at least 1.
    rng : numpy.random.Generator
        Advanced by the draw; no other generator is touched.

    Returns
    -------
    ndarray, shape (count,)
        Seconds after 0; a gap comes before the first.

    Raises
    ------
    ValueError
        If `law` is no `ArrivalLaw`, `rng` no generator, or an argument leaves its domain.

    Notes
    -----
    With c the variation of the gaps: gamma of shape :math:`c^{-2}`; Weibull of the shape k with
    :math:`\Gamma(1 + 2/k) / \Gamma(1 + 1/k)^2 = 1 + c^2`; and for on-off arrivals

    .. math:: c^2 = 1 + \frac{2 \lambda T_\text{off}^2}{T_\text{on} + T_\text{off}}

    Successive gaps are independent: slow drift, as in a day, is not in any of these laws.
    """
    arguments.record("law", law, ArrivalLaw)
    count = int(arguments.number("count", count, least=1, whole=True))
    arguments.record("rng", rng, np.random.Generator)
    return np.cumsum(_unit_gaps(law, count, rng)) / law.rate


def _unit_gaps(law, count, rng):
    """Return gaps of mean 1."""
    if law.law == "deterministic":
        return np.ones(count)
    if law.law == "gamma":
        return rng.gamma(law.cv**-2, law.cv**2, count)
    if law.law == "weibull":
        shape = _weibull_shape(law.cv)
        return rng.weibull(shape, count) / np.exp(gammaln(1 + 1 / shape))
    gaps = rng.exponential(1.0, count)
    if law.law == "poisson":
        return gaps
    # On the clock that stands still in silences, arrivals and ends of bursts are both Poisson.
    spread = law.on_time + law.off_time
    silences = rng.poisson(gaps / (law.rate * spread))
    return gaps * law.on_time / spread + rng.gamma(silences, law.off_time * law.rate)


def _weibull_shape(cv):
    """Return the shape of a Weibull law of that variation."""

    def excess(shape):
        return gammaln(1 + 2 / shape) - 2 * gammaln(1 + 1 / shape) - np.log1p(cv**2)

    return brentq(excess, 0.1, 100, xtol=1e-14)
