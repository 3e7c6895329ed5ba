"""Static batches of outputs of measured length, against the cap and against the timeout."""

from lib.capped_timeout import sojourn_law, sojourn_quantile
from lib.queues import served_in_batches
from lib.rigid_batch import rigid_batch_law, step_law
from scripts.simulations.case import CAP, Case, lengths_of, named, poisson, seen, waiting_for
from scripts.simulations.coach import CONTEXTS, MACHINE, MODEL

RATES = (0.5, 2.0, 4.0)  # requests/s of conversations


def output_case(rate, cap, wait, prefix, x):
    """Return the point of a server of static batches of conversations; machine time is per token, s."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        drawn = lengths[rng.integers(0, lengths.size, count)].tolist()

        def batch_time(first, last):
            return (law.fixed_time + (last - first) * law.marginal_time) * max(drawn[first:last])

        mean, tail, busy, size = seen(arrivals, served_in_batches(arrivals, batch_time, waiting_for(wait, cap)))
        return named(prefix, (mean, tail, busy / lengths.mean(), size))

    said = sojourn_law(rate, *rigid_batch_law(lengths, law, cap), wait)
    busy = said.busy_fraction / rate / lengths.mean()
    return Case(x, 10_000, draw, named(prefix, (said.mean, sojourn_quantile(said, 0.99), busy, said.mean_batch)))


def output_cap():
    """Mean, tail, s, and machine time per token of static batches of conversations, against the cap."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")
    for rate in RATES:
        for cap in (1, 2, 4, 8, 16, 32, 64):
            times, shares = rigid_batch_law(lengths, law, cap)
            if rate * (times[-1] @ shares[-1]) < 0.95 * cap:
                yield output_case(rate, cap, 0.0, f"{rate:g}", cap)


def output_timeout():
    """The same against the timeout, s, at three loads of a cap of 32."""
    law, lengths = step_law(MACHINE, MODEL, CONTEXTS[0]), lengths_of("azure-conversation")
    times, shares = rigid_batch_law(lengths, law, CAP)
    for load in (0.05, 0.2, 0.6):
        for wait in (0, 0.25, 0.5, 1.0, 2.0, 4.0):
            yield output_case(load * CAP / (times[-1] @ shares[-1]), CAP, wait, f"{load:g}", wait)
