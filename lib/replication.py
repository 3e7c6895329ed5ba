"""What independent replications of a simulation say: means without their start, and intervals around them."""

import numpy as np
from scipy.stats import t

from lib import arguments


def without_warm_up(values, share=0.2):
    """Return per-request values without those of the first requests, which found the server empty.

    Parameters
    ----------
    values : array_like, shape (n,)
        One per request, in order of arrival.
    share : float
        Between 0 and 1: left out at the start.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    values = arguments.array("values", values, infinite=True)
    share = arguments.number("share", share, least=0, most=1)
    return values[int(share * len(values)) :]


def mean_interval(replications, level=0.999):
    """Return the mean of independent replications and the half-width of its confidence interval.

    Parameters
    ----------
    replications : array_like, shape (n,)
        One mean per replication, at least 20 of them: fewer say little about their own spread.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Student's t. The replications must be independent, each with its warm-up removed.
    """
    replications = arguments.array("replications", replications)
    if replications.ndim != 1 or replications.size < 20:
        raise ValueError(f"replications must have one axis of at least 20, got shape {replications.shape}")
    level = arguments.number("level", level, least=0, most=1)
    error = replications.std(ddof=1) / np.sqrt(replications.size)
    return float(replications.mean()), float(t.ppf((1 + level) / 2, replications.size - 1) * error)
