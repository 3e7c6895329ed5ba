"""The cap of a batch, and the advice to an operator: where it is right, and what it is worth where it is not."""

import numpy as np

from lib.batching import DynamicBatching
from lib.capped_timeout import sojourn_law, sojourn_quantile
from lib.dispatch import INOUE, advised, dispatched
from lib.queues import served_in_batches
from lib.replication import without_warm_up
from lib.rigid_batch import StepLaw, rigid_batch_law, step_law
from lib.timeout_batching import timeout_sojourn_time
from lib.timeout_choice import best_timeout
from scripts.simulations.case import CAP, Case, lengths_of, poisson
from scripts.simulations.coach import CONTEXTS, MACHINE, MODEL
from scripts.simulations.waiting import SLOPES, forward_pass, waiting_for

V100 = INOUE["V100"]
RATES = (0.5, 2.0, 4.0)  # requests/s of conversations
WAITS = (0, 0.25, 0.5, 1.0, 2.0, 4.0)  # s


def seen(arrivals, served):
    """Return mean, 99th percentile, and the machine's time for each request, warm-up left out."""
    latency = without_warm_up(served.end_time - arrivals)
    busy = without_warm_up((served.end_time - served.start_time) / served.batch_size)
    return latency.mean(), np.quantile(latency, 0.99), busy.mean()


def named(prefix, values):
    """Return series of mean, tail and machine time."""
    return dict(zip((f"{prefix} mean", f"{prefix} p99", f"{prefix} busy"), map(float, values), strict=True))


def expected_of(rate, batch_time, share, wait):
    """Return what `seen` should see."""
    law = sojourn_law(rate, batch_time, share, wait)
    return law.mean, sojourn_quantile(law, 0.99), law.busy_fraction / rate


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
            yield Case(cap, 20_000, draw, named(f"{arrivals:g}", (made.mean, made.p99, made.busy / rate)))


def output_case(rate, cap, wait, prefix, x):
    """Return the point of a server of static batches of conversations; machine time is per token, s."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        drawn = lengths[rng.integers(0, lengths.size, count)].tolist()

        def batch_time(first, last):
            return (law.fixed_time + (last - first) * law.marginal_time) * max(drawn[first:last])

        mean, tail, busy = seen(arrivals, served_in_batches(arrivals, batch_time, waiting_for(wait, cap)))
        return named(prefix, (mean, tail, busy / lengths.mean()))

    mean, tail, busy = expected_of(rate, *rigid_batch_law(lengths, law, cap), wait)
    return Case(x, 20_000, draw, named(prefix, (mean, tail, busy / lengths.mean())))


def output_cap():
    """Mean, tail, s, and machine time per token of static batches of conversations, against the cap."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")
    for rate in RATES:
        for cap in (1, 2, 4, 8, 16, 32, 64):
            times, shares = rigid_batch_law(lengths, law, cap)
            if rate * (times[-1] @ shares[-1]) < 0.95 * cap:
                yield output_case(rate, cap, 0.0, f"{rate:g}", cap)


def output_wait():
    """The same against the timeout, s, at three loads of a cap of 32."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")
    times, shares = rigid_batch_law(lengths, law, CAP)
    for load in (0.05, 0.2, 0.6):
        for wait in WAITS:
            yield output_case(load * CAP / (times[-1] @ shares[-1]), CAP, wait, f"{load:g}", wait)


def best():
    """The timeout of the least mean, over the fixed time, against the arrivals in it: where the simulated mean is flat.

    The slope of the mean is seen with the same arrivals on both sides; the curvature is the exact one.
    """
    for arrivals in (3.0, 4.0, 6.0, 8.0, 12.0):
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

        yield Case(arrivals, 200_000, draw, {"best": right})


def settings_of(advice):
    """Return the policies that an advice names."""
    return {
        "greedy": waiting_for(0), "harmless": waiting_for(advice.harmless.timeout),
        "capped": DynamicBatching(cap=advice.batch_cap, control_limit=1, timeout=0.0),
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
                said |= named(f"{slope:g} {name}", (one.mean, one.p99, one.busy / arrivals))
            yield Case(arrivals, 10_000, draw, said)


def gaps(kind, rate, count, rng):
    """Return the times of arrivals at random, or in bursts: gaps of a gamma law of squared variation 9."""
    return (rng.gamma(1 / 9, 9 / rate, count) if kind == "bursts" else rng.exponential(1 / rate, count)).cumsum()


def beyond():
    """What the advice for the V100 is worth where its assumptions fail, against the arrivals in a fixed time.

    The mean over the predicted one; and what the harmless timeout and the cap add to the mean, which the
    advice says is 1 % at most.
    """
    for arrivals in (0.5, 2.0, 4.0):
        rate = arrivals / V100.fixed_time
        made = advised(rate, *V100)
        policies = settings_of(made)
        for kind in ("as assumed", "bursts", "times vary"):

            def draw(count, rng, rate=rate, kind=kind, made=made, policies=policies):
                times = gaps(kind, rate, count, rng)
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
            yield Case(arrivals, 20_000, draw, known)


EXPERIMENTS = {
    "pass-cap": pass_cap, "output-cap": output_cap, "output-wait": output_wait, "best-timeout": best,
    "advice": advice, "advice-beyond": beyond,
}  # fmt: skip
