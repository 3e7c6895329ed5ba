"""Waiting on purpose: timeouts and control limits for forward passes and for static batches of outputs."""

import numpy as np

from lib.batching import DynamicBatching
from lib.bulk import bulk_queue, timeout_queue
from lib.dispatch import INOUE
from lib.queues import served_in_batches
from lib.replication import without_warm_up
from lib.rigid_batch import StepLaw, rigid_batch, step_law
from lib.timeout_batching import (
    timeout_batch_size,
    timeout_busy_fraction,
    timeout_sojourn_quantile,
    timeout_sojourn_time,
)
from lib.timeout_choice import harmless_timeout
from scripts.simulations.case import Case, lengths_of, mean_and_tail, poisson, waiting_for
from scripts.simulations.coach import CONTEXTS, MACHINE, MODEL
from scripts.simulations.outputs import output_timeout

V100 = INOUE["V100"]
ARRIVALS = (0.5, 2.0, 4.0)  # in the fixed time of a batch
SLOPES = (0.0, 0.0762, 0.4084)  # of nothing, the V100 and the P4, over the fixed time
LIMITS = (1, 2, 3, 4, 5, 6, 8)


def forward_pass(law):
    """Return the time of a batch, as the simulation asks for it."""
    return lambda first, last: law.fixed_time + (last - first) * law.marginal_time


def timeout():
    """Mean, tail, batch and busy share of the V100's forward pass against the timeout, s, without a cap."""
    for arrivals in ARRIVALS:
        rate = arrivals / V100.fixed_time
        for wait in (0, 0.5e-3, 1e-3, 1.5e-3, 2e-3):

            def draw(count, rng, rate=rate, wait=wait, arrivals=arrivals):
                times = poisson(rate, count, rng)
                served = served_in_batches(times, forward_pass(V100), waiting_for(wait))
                heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)[count // 50 : -1]
                span = served.start_time[heads[-1]] - served.start_time[heads[0]]
                values = (*mean_and_tail(times, served), served.batch_size[heads].mean(),
                          (served.end_time - served.start_time)[heads[:-1]].sum() / span)  # fmt: skip
                return dict(zip(names(arrivals), values, strict=True))

            setting = (rate, *V100, wait)
            said = (timeout_sojourn_time(*setting), timeout_sojourn_quantile(0.99, *setting),
                    timeout_batch_size(*setting), timeout_busy_fraction(*setting))  # fmt: skip
            yield Case(wait, 20_000, draw, dict(zip(names(arrivals), map(float, said), strict=True)))


def names(arrivals):
    """Return the series of one arrival rate."""
    return [f"{arrivals:g} {quantity}" for quantity in ("mean", "p99", "batch", "busy")]


def timeout_loss():
    """What a timeout adds to the mean, in shares of the greedy mean, against the arrivals in a fixed time."""
    for arrivals in 2.0 ** np.arange(-3, 3.5):
        rate = arrivals / V100.fixed_time

        def draw(count, rng, rate=rate):
            times = poisson(rate, count, rng)
            mean = {
                part: without_warm_up(
                    served_in_batches(times, forward_pass(V100), waiting_for(part * V100.fixed_time)).end_time - times
                ).mean()
                for part in (0, 0.25, 0.5, 1)
            }
            return {f"{part:g}": mean[part] / mean[0] - 1 for part in (0.25, 0.5, 1)}

        greedy = timeout_sojourn_time(rate, *V100, 0)
        said = {
            f"{part:g}": float(timeout_sojourn_time(rate, *V100, part * V100.fixed_time) / greedy - 1)
            for part in (0.25, 0.5, 1)
        }
        yield Case(arrivals, 20_000, draw, said)


def timeout_cap():
    """Mean latency of the V100's forward pass at 4 arrivals in a fixed time, with a cap, against the timeout, s."""
    rate = 4 / V100.fixed_time
    for cap in (6, 8, 16):
        times_of = V100.fixed_time + V100.marginal_time * np.arange(1, cap + 1)
        for wait in (0, 0.5e-3, 1e-3, 1.5e-3, 2e-3):

            def draw(count, rng, cap=cap, wait=wait):
                times = poisson(rate, count, rng)
                served = served_in_batches(times, forward_pass(V100), waiting_for(wait, cap))
                return {f"cap {cap}": mean_and_tail(times, served)[0]}

            yield Case(wait, 20_000, draw, {f"cap {cap}": float(timeout_queue(rate, times_of, wait).sojourn_time)})


def control_limit():
    """The mean latency of a control limit over that of the greedy server, for three kinds of batch times.

    All have a cap of 8 and half of the greatest load: constant and exponential times of any batch, and static
    batches of measured outputs.
    """
    law = step_law(MACHINE, MODEL, CONTEXTS[0])
    lengths = lengths_of("azure-conversation")
    outputs = rigid_batch(lengths, law, 8)
    kinds = {
        "constant": (np.ones(8), np.zeros(8)), "exponential": (np.ones(8), np.ones(8)),
        "static batch": (outputs.mean_time, outputs.cv2),
    }  # fmt: skip
    for kind, (times, cv2) in kinds.items():
        rate = 0.5 * 8 / times[-1]
        greedy = bulk_queue(rate, times, service_cv2=cv2).sojourn_time
        for limit in LIMITS:

            def draw(count, rng, kind=kind, rate=rate, limit=limit):
                arrivals = poisson(rate, count, rng)
                drawn = lengths[rng.integers(0, lengths.size, count)].tolist()
                noise = rng.exponential(1.0, count).tolist()
                batch_time = {
                    "constant": lambda first, last: 1.0, "exponential": lambda first, last: noise[first],
                    "static batch": lambda first, last: (law.fixed_time + (last - first) * law.marginal_time)
                    * max(drawn[first:last]),
                }[kind]  # fmt: skip
                mean = [
                    without_warm_up(
                        served_in_batches(arrivals, batch_time, DynamicBatching(cap=8, control_limit=each)).end_time
                        - arrivals
                    ).mean()
                    for each in (1, limit)
                ]
                return {kind: mean[1] / mean[0]}

            queue = bulk_queue(rate, times, control_limit=limit, service_cv2=cv2)
            yield Case(limit, 20_000, draw, {kind: float(queue.sojourn_time / greedy)})


def harmless():
    """What the timeout that should add 1 % to the mean adds, against the arrivals in the fixed time, by slope."""
    for slope in SLOPES:
        for arrivals in (0.25, 0.5, 1.0, 2.0, 3.0):
            wait = 0.0 if slope * arrivals >= 1 else harmless_timeout(arrivals, 1.0, slope, 0.01)
            if not 0 < wait < 0.999 * (1 + slope):
                continue
            law = StepLaw(1.0, slope)

            def draw(count, rng, law=law, arrivals=arrivals, wait=wait, slope=slope):
                times = poisson(arrivals, count, rng)
                mean = [
                    without_warm_up(
                        served_in_batches(times, forward_pass(law), waiting_for(each)).end_time - times
                    ).mean()
                    for each in (0, wait)
                ]
                return {f"slope {slope:g}": mean[1] / mean[0] - 1}

            yield Case(arrivals, 20_000, draw, {f"slope {slope:g}": 0.01})


EXPERIMENTS = {
    "timeout": timeout, "timeout-loss": timeout_loss, "timeout-cap": timeout_cap, "control-limit": control_limit,
    "output-timeout": output_timeout, "harmless": harmless,
}  # fmt: skip
