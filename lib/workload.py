"""What a replica is asked to do: when requests come, how long their prompts are, how much they want back.

Rates are 1/s, times s, lengths tokens. Arrivals and lengths are drawn from generators of
their own, spawned from the caller's: another law of one leaves the others as they were.
"""

from dataclasses import dataclass, replace

import numpy as np

from lib import arguments, measured
from lib.arrivals import ArrivalLaw, arrival_times
from lib.lengths import WORKLOADS, LengthLaw, MeasuredLengths, length_quantile, paired_levels
from lib.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A stream of requests.

    Attributes
    ----------
    arrivals : ArrivalLaw
    prompt, output : LengthLaw or MeasuredLengths
    rank_correlation : float
        Spearman's, of prompt with output, between -1 and 1.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    arrivals: ArrivalLaw
    prompt: LengthLaw | MeasuredLengths
    output: LengthLaw | MeasuredLengths
    rank_correlation: float = 0.0

    def __post_init__(self):
        arguments.record("arrivals", self.arrivals, ArrivalLaw)
        for name in ("prompt", "output"):
            if not isinstance(getattr(self, name), (LengthLaw, MeasuredLengths)):
                raise ValueError(f"{name} must be a LengthLaw or MeasuredLengths, got {getattr(self, name)!r}")
        arguments.number("rank_correlation", self.rank_correlation, least=-1, most=1)


def measured_workload(name, arrival_rate):
    """Return a workload with measured lengths and Poisson arrivals.

    Parameters
    ----------
    name : str
        One of `lib.lengths.WORKLOADS`.
    arrival_rate : float
        1/s, above 0.

    Returns
    -------
    Workload
        Rank correlation as measured, 0 where the source does not publish it.

    Raises
    ------
    ValueError
        If there is no such workload, or an argument leaves its domain.

    Notes
    -----
    Arrivals as measured are in ``arrivals.csv``; no law here has their slow drift. Of ServeGen's chat
    model, 37 % of the requests are missing in the table: the source's largest client files.
    """
    arguments.choice("name", name, WORKLOADS)
    arrival_rate = arguments.number("arrival_rate", arrival_rate, above=0)
    table = measured.table("workloads")
    correlation = float(table["rank_correlation"][table["workload"] == name][0])
    return Workload(
        arrivals=ArrivalLaw(law="poisson", rate=arrival_rate),
        prompt=MeasuredLengths(workload=name, quantity="prompt"),
        output=MeasuredLengths(workload=name, quantity="output"),
        rank_correlation=0.0 if np.isnan(correlation) else correlation,
    )


def requests(workload, count, rng):
    """Return the first requests of a workload.

    Parameters
    ----------
    workload : Workload
    count : int
        Requests, at least 1.
    rng : numpy.random.Generator
        Two generators are spawned from it; draw once, and give the same requests to every policy.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        If `workload` is no `Workload`, `rng` no generator, or an argument leaves its domain.
    """
    arguments.record("workload", workload, Workload)
    count = int(arguments.number("count", count, least=1, whole=True))
    arguments.record("rng", rng, np.random.Generator)
    for_arrivals, for_lengths = rng.spawn(2)
    levels = paired_levels(workload.rank_correlation, count, for_lengths)
    laws = workload.prompt, workload.output
    lengths = [length_quantile(law, level).astype(int) for law, level in zip(laws, levels, strict=True)]
    return Trace(arrival_times(workload.arrivals, count, for_arrivals), *lengths)


def at_rate(workload, arrival_rate):
    """Return the workload with another arrival rate: the same generator then gives the same requests, closer or wider.

    Parameters
    ----------
    workload : Workload
    arrival_rate : float
        1/s, above 0.

    Returns
    -------
    Workload

    Raises
    ------
    ValueError
        If `workload` is no `Workload`, or an argument leaves its domain.

    Notes
    -----
    Bursts and silences keep their duration in seconds.
    """
    arguments.record("workload", workload, Workload)
    arrival_rate = arguments.number("arrival_rate", arrival_rate, above=0)
    return replace(workload, arrivals=replace(workload.arrivals, rate=arrival_rate))
