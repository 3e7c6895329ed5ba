"""The cap of a batch, and the advice to an operator: where it is right, and what it is worth where it is not."""

import numpy as np

from lib.arrivals import ArrivalLaw, arrival_times
from lib.dispatch import INOUE, advised, dispatched
from lib.queues import served_in_batches
from lib.replication import without_warm_up
from lib.rigid_batch import StepLaw
from lib.timeout_batching import timeout_sojourn_time
from lib.timeout_choice import best_timeout
from scripts.simulations.case import Case, named, poisson, seen, waiting_for
from scripts.simulations.outputs import output_cap
from scripts.simulations.waiting import SLOPES, forward_pass

V100 = INOUE["V100"]


def pass_cap():
    """Mean, tail and machine time per request, s, of the V100's forward pass without a timeout, against the cap."""
    for arrivals, caps in ((0.5, (1, 2, 4, 8, 16, 32)), (4.0, (7, 8, 10, 16, 32))):
        rate = arrivals / V100.fixed_time
        for cap in caps:

            def draw(count, rng, rate=rate, cap=cap, arrivals=arrivals):
                times = poisson(rate, count, rng)
                served = served_in_batches(times, forward_pass(V100), waiting_for(0, cap))
                return named(f"{arrivals:g}", seen(times, served))

            made = dispatched(rate, *V100, 0.0, batch_cap=cap)
            said = (made.mean, made.p99, made.busy / rate, made.mean_batch)
            yield Case(cap, 10_000, draw, named(f"{arrivals:g}", said))


def best():
    """The timeout of the least mean, over the fixed time, against the arrivals in it: where the simulated mean is flat.

    The slope of the mean is seen with the same arrivals on both sides; the curvature is the exact one.
    """
    for arrivals in (3.0, 4.0, 6.0, 8.0):
        right = float(best_timeout(arrivals, 1.0))
        reach = min(0.25, right)
        sides = np.array([right - reach, right, right + reach])
        low, middle, high = timeout_sojourn_time(arrivals, 1.0, 0.0, sides)
        curvature = (low + high - 2 * middle) / reach**2

        def draw(count, rng, arrivals=arrivals, sides=sides, right=right, rise=high - low, bend=2 * reach * curvature):
            times = poisson(arrivals, count, rng)
            mean = [
                without_warm_up(
                    served_in_batches(times, forward_pass(StepLaw(1.0, 0.0)), waiting_for(wait)).end_time - times
                ).mean()
                for wait in (sides[0], sides[2])
            ]
            return {"best": right - (mean[1] - mean[0] - rise) / bend}

        yield Case(arrivals, 60_000, draw, {"best": right})


def settings_of(advice):
    """Return the policies that an advice names."""
    return {
        "greedy": waiting_for(0), "harmless": waiting_for(advice.harmless.timeout),
        "capped": waiting_for(0, advice.batch_cap),
    }  # fmt: skip


def advice():
    """Mean and tail, over the fixed time, of each setting that the advice names, against the arrivals in it."""
    for slope in SLOPES:
        law = StepLaw(1.0, slope)
        for arrivals in (0.25, 1.0, 2.0, 4.0, 8.0):
            if arrivals * slope > 0.9:
                continue
            made = advised(arrivals, *law)
            policies = settings_of(made)

            def draw(count, rng, law=law, arrivals=arrivals, slope=slope, policies=policies):
                times, found = poisson(arrivals, count, rng), {}
                for name, policy in policies.items():
                    values = seen(times, served_in_batches(times, forward_pass(law), policy))
                    found |= named(f"{slope:g} {name}", values)
                return found

            said = {}
            for name in policies:
                one = getattr(made, name)
                said |= named(f"{slope:g} {name}", (one.mean, one.p99, one.busy / arrivals, one.mean_batch))
            yield Case(arrivals, 5_000, draw, said)


def arrivals_of(kind, rate):
    """Return the law of the arrivals: at random; in tight bursts; or at thrice the rate for a third of the time."""
    if kind == "tight bursts":
        return ArrivalLaw(law="gamma", rate=rate, cv=3.0)
    if kind == "on and off":
        return ArrivalLaw(law="on-off", rate=rate, on_time=20 * V100.fixed_time, off_time=40 * V100.fixed_time)
    return ArrivalLaw(law="poisson", rate=rate)


def beyond():
    """What the advice for the V100 is worth where its assumptions fail, against the arrivals in a fixed time.

    The mean over the predicted one; and what the harmless timeout and the cap add to the mean, which the
    advice says is 1 % at most.
    """
    for arrivals in (0.5, 2.0, 4.0):
        rate = arrivals / V100.fixed_time
        made = advised(rate, *V100)
        policies = settings_of(made)
        for kind in ("as assumed", "times vary", "tight bursts", "on and off"):

            def draw(count, rng, rate=rate, kind=kind, made=made, policies=policies):
                times = arrival_times(arrivals_of(kind, rate), count, rng)
                noise = rng.exponential(1.0, count).tolist() if kind == "times vary" else [1.0] * count

                def batch_time(first, last):
                    return noise[first] * (V100.fixed_time + (last - first) * V100.marginal_time)

                mean = {
                    name: without_warm_up(served_in_batches(times, batch_time, policy).end_time - times).mean()
                    for name, policy in policies.items()
                }
                return {
                    f"{kind} mean": mean["greedy"] / made.greedy.mean,
                    f"{kind} harmless": mean["harmless"] / mean["greedy"] - 1,
                    f"{kind} capped": mean["capped"] / mean["greedy"] - 1,
                }

            said = {"mean": 1.0, "harmless": made.harmless.mean / made.greedy.mean - 1,
                    "capped": made.capped.mean / made.greedy.mean - 1}  # fmt: skip
            known = {f"{kind} {name}": value for name, value in said.items()} if kind == "as assumed" else {}
            yield Case(arrivals, 10_000, draw, known)


EXPERIMENTS = {
    "pass-cap": pass_cap, "output-cap": output_cap, "best-timeout": best,
    "advice": advice, "advice-beyond": beyond,
}  # fmt: skip
