"""Queues of requests that are served one at a time."""

import numpy as np

from lib import erlang, multiserver, queueing
from lib.queues import served_one_by_one
from scripts.validation.experiment import Check, Experiment, exact, later, poisson


def mm1(load):
    level = 0.9
    quantile = queueing.mm1_sojourn_quantile(level, load, 1.0)
    checks = exact(
        queueing__mm1_sojourn_time=queueing.mm1_sojourn_time(load, 1.0), queueing__mm1_sojourn_quantile=level
    )

    def draw(count, rng):
        arrivals = poisson(load, count, rng)
        sojourn = served_one_by_one(arrivals, rng.exponential(1, count)).end_time - arrivals
        return later(sojourn), later(np.where(sojourn <= quantile, 1.0, 0.0))

    return Experiment("M/M/1; share within the .9 quantile", checks, draw)


def mg1(load):
    """Service .5 or 2.5 with probability .75, .25: mean 1, second moment 1.75, third 4."""
    checks = exact(
        queueing__mg1_wait=queueing.mg1_wait(load, 1.0, 1.75),
        queueing__mg1_wait_second_moment=queueing.mg1_wait_second_moment(load, 1.0, 1.75, 4.0),
    )

    def draw(count, rng):
        arrivals = poisson(load, count, rng)
        wait = served_one_by_one(arrivals, rng.choice([0.5, 2.5], count, p=[0.75, 0.25])).start_time - arrivals
        return later(wait), later(wait**2)

    return Experiment("M/G/1, service .5 or 2.5", checks, draw)


def ekm1(load):
    checks = exact(queueing__ekm1_wait=queueing.ekm1_wait(load, 1.0, 3))

    def draw(count, rng):
        arrivals = rng.gamma(3, 1 / (3 * load), count).cumsum()
        return (later(served_one_by_one(arrivals, rng.exponential(1, count)).start_time - arrivals),)

    return Experiment("E3/M/1", checks, draw)


def gg1(load):
    """Gamma gaps of squared variation 2, gamma services of .5."""
    checks = {
        "queueing.kingman_bound": Check("upper", float(queueing.kingman_bound(load, 1.0, 2.0, 0.5))),
        "queueing.gg1_wait": Check("approximate", float(queueing.gg1_wait(load, 1.0, 2.0, 0.5))),
    }

    def draw(count, rng):
        arrivals = rng.gamma(0.5, 2 / load, count).cumsum()
        wait = later(served_one_by_one(arrivals, rng.gamma(2, 0.5, count)).start_time - arrivals)
        return wait, wait

    return Experiment("G/G/1, gamma gaps (2) and services (.5)", checks, draw)


def mmc(load):
    rate, late = 3 * load, 0.3
    checks = exact(
        erlang__mmc_wait_probability=erlang.mmc_wait_probability(rate, 1.0, 3),
        erlang__mmc_wait=erlang.mmc_wait(rate, 1.0, 3),
        erlang__mmc_wait_tail=erlang.mmc_wait_tail(late, rate, 1.0, 3),
    )

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        wait = served_one_by_one(arrivals, rng.exponential(1, count), servers=3).start_time - arrivals
        return later(np.where(wait > 0, 1.0, 0.0)), later(wait), later(np.where(wait > late, 1.0, 0.0))

    return Experiment("M/M/3; tail at .3 services", checks, draw)


def mdc(load):
    checks = exact(multiserver__mdc_wait=multiserver.mdc_wait(3 * load, 1.0, 3))

    def draw(count, rng):
        arrivals = poisson(3 * load, count, rng)
        return (later(served_one_by_one(arrivals, np.ones(count), servers=3).start_time - arrivals),)

    return Experiment("M/D/3", checks, draw)


def mmck(load):
    checks = exact(
        erlang__mmck_law=erlang.mmck_law(2 * load, 1.0, 2, 3)[-1],
        erlang__mmck_wait=erlang.mmck_wait(2 * load, 1.0, 2, 3),
    )

    def draw(count, rng):
        arrivals = poisson(2 * load, count, rng)
        start = served_one_by_one(arrivals, rng.exponential(1, count), servers=2, capacity=3).start_time
        return later(np.where(np.isinf(start), 1.0, 0.0)), later(start - arrivals)

    return Experiment("M/M/2/3: share turned away, wait of the others", checks, draw)


def loss(load):
    """Any service law gives the same loss: constant here."""
    checks = exact(erlang__erlang_b=erlang.erlang_b(2 * load, 2))

    def draw(count, rng):
        start = served_one_by_one(poisson(2 * load, count, rng), np.ones(count), servers=2, capacity=2).start_time
        return (later(np.where(np.isinf(start), 1.0, 0.0)),)

    return Experiment("M/D/2/2: share turned away", checks, draw)

CASES = {
    "mm1": mm1, "mg1": mg1, "ekm1": ekm1, "gg1": gg1, "mmc": mmc, "mdc": mdc, "mmck": mmck, "loss": loss,
}  # fmt: skip
