"""Agreement of a simulation with a formula: an interval from independent replications."""

import numpy as np
from scipy.stats import t


def assert_mean_is(expected, replications, *, precision=0.05):
    """Fail unless `expected` lies in the 99.9 % interval of the replications' mean, no wider than `precision`."""
    replications = np.asarray(replications, float)
    half_width = t.ppf(0.9995, len(replications) - 1) * replications.std(ddof=1) / np.sqrt(len(replications))
    assert half_width < precision * abs(expected), "too few replications to tell anything"
    assert abs(replications.mean() - expected) < half_width


def lindley_waits(gaps, services):
    """Return the waits before service of a first-come, first-served server, one row per replication."""
    steps = services[:, :-1] - gaps[:, 1:]
    walk = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    return walk - np.minimum.accumulate(walk, axis=1)
