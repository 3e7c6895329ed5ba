"""Servers that all residents share: continuous batching, as a fluid and step by step."""

import numpy as np

from lib import occupancy, processor_sharing, token_load
from lib.queues import served_by_steps, served_sharing
from scripts.validation.experiment import WARM_UP, Check, Experiment, exact, later, poisson

FIXED, MARGINAL = 0.004, 0.001  # s, of a step


def step(residents):
    """Return a step time with a small fixed part: with a large one, an empty start takes very long to fill."""
    return FIXED + MARGINAL * residents


def capped(load):
    rate, steps = load * 3 / (step(3) * 100), step(np.arange(1, 4))
    found = occupancy.capped_occupancy(rate, 100.0, steps)
    late = 0.5
    checks = {
        f"occupancy.capped_occupancy:{field}": Check("exact", float(getattr(found, field)))
        for field in ("wait_probability", "wait", "sojourn_time")
    } | exact(
        occupancy__admission_wait_tail=occupancy.admission_wait_tail(late, rate, 100.0, steps),
        occupancy__occupancy_law=occupancy.occupancy_law(rate, 100.0, steps)[0],
    )

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        served = served_sharing(arrivals, rng.exponential(100, count), step, slots=3)
        wait = served.start_time - arrivals
        alone = np.where(served.batch_size == 1, 1.0, 0.0)  # found nobody: Poisson arrivals see time averages
        waited = np.where(wait > 0, 1.0, 0.0)
        return later(waited), later(wait), later(served.end_time - arrivals), later(
            np.where(wait > late, 1.0, 0.0)), later(alone)

    return Experiment("3 slots and a queue, exponential outputs of 100; tail at .5 s", checks, draw)


def capped_other(load):
    rate, steps = load * 3 / (step(3) * 100), step(np.arange(1, 4))
    found = occupancy.capped_occupancy(rate, 100.0, steps, output_cv2=0.0)
    checks = {
        f"occupancy.capped_occupancy:{field}": Check("approximate", float(getattr(found, field)))
        for field in ("wait", "sojourn_time")
    }

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        served = served_sharing(arrivals, np.full(count, 100.0), step, slots=3)
        return later(served.start_time - arrivals), later(served.end_time - arrivals)

    return Experiment("3 slots and a queue, constant outputs of 100", checks, draw)


def turned_away(load):
    rate, steps = load * 3 / (step(3) * 100), step(np.arange(1, 4))
    checks = exact(occupancy__loss_probability=occupancy.loss_probability(rate, 100.0, steps))

    def draw(count, rng):
        served = served_sharing(poisson(rate, count, rng), np.full(count, 100.0), step, slots=3, waiting=False)
        return (later(np.where(np.isinf(served.end_time), 1.0, 0.0)),)

    return Experiment("3 slots, no queue, constant outputs: share turned away", checks, draw)


def uncapped(load):
    """Outputs are 50 or 250 tokens: the law of the length does not matter."""
    rate = load / (100 * MARGINAL)
    found = processor_sharing.uncapped_occupancy(rate, 100.0, FIXED, MARGINAL)
    typical = round(float(found.resident))
    checks = exact(
        processor_sharing__uncapped_occupancy=found.sojourn_time,
        processor_sharing__uncapped_law=processor_sharing.uncapped_law(typical, rate, 100.0, FIXED, MARGINAL),
    )

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        served = served_sharing(arrivals, rng.choice([50.0, 250.0], count, p=[0.75, 0.25]), step)
        found_typical = np.where(served.batch_size == typical + 1, 1.0, 0.0)
        return later(served.end_time - arrivals), later(found_typical)

    return Experiment("no cap, outputs of 50 or 250; share that finds the mean number", checks, draw)


def stepwise(load):
    """Token by token, in steps: what the fluid leaves out, and half a step of waiting."""
    rate = load / (100 * MARGINAL)
    found = processor_sharing.uncapped_occupancy(rate, 100.0, FIXED, MARGINAL)
    checks = {
        "processor_sharing.uncapped_occupancy:time_per_token": Check("approximate", float(found.time_per_token)),
        "processor_sharing.uncapped_occupancy:residual_step": Check("approximate", float(found.residual_step)),
    }

    def draw(count, rng):
        count //= 2
        arrivals, lengths = poisson(rate, count, rng), rng.geometric(0.01, count)
        served = served_by_steps(arrivals, lengths, lambda residents, context: step(residents))
        cut = int(WARM_UP * count)
        resident = (served.end_time - served.start_time)[cut:].sum()
        return resident / lengths[cut:].sum(), later(served.start_time - arrivals)

    return Experiment("no cap, geometric outputs of 100, step by step", checks, draw)


def with_context(load):
    """A step that reads the cache of its residents: prompts of 500, geometric outputs of 200."""
    context = float(token_load.mean_resident_context(500, 200, 2 * 200**2 - 200))
    marginal = 2e-4 + context * 2e-7
    rate = load / (200 * marginal)
    found = processor_sharing.uncapped_occupancy(rate, 200.0, 0.0015, marginal)
    checks = {"token_load.mean_resident_context": Check("approximate", float(found.time_per_token))}

    def draw(count, rng):
        count //= 2
        arrivals, lengths = poisson(rate, count, rng), rng.geometric(0.005, count)
        served = served_by_steps(
            arrivals, lengths, lambda n, held: 0.0015 + 2e-4 * n + 2e-7 * held, prompt_length=np.full(count, 500)
        )
        cut = int(WARM_UP * count)
        return ((served.end_time - served.start_time)[cut:].sum() / lengths[cut:].sum(),)

    return Experiment("step time with context, as a marginal time: time per token", checks, draw)


def few_slots(load):
    checks = exact(processor_sharing__lps_wait=processor_sharing.lps_wait(load, 1.0, 2)) | {
        "processor_sharing.lps_sojourn_time": Check(
            "approximate", float(processor_sharing.lps_sojourn_time(load, 1.0, 2, 0.0)))
    }

    def draw(count, rng):
        arrivals = poisson(load, count, rng)
        waits = later(served_sharing(arrivals, rng.exponential(1, count), float, slots=2).start_time - arrivals)
        return waits, later(served_sharing(arrivals, np.ones(count), float, slots=2).end_time - arrivals)

    return Experiment("constant speed, 2 slots: exponential wait, constant sojourn", checks, draw)


def little(load):
    """A stable queue of steps: residents and waiting, counted in time, against rate times time in it."""
    rate = load / (100 * MARGINAL)
    checks = exact(token_load__mean_concurrency=1.0)

    def draw(count, rng):
        count //= 2
        arrivals, lengths = poisson(rate, count, rng), np.full(count, 100)
        served = served_by_steps(arrivals, lengths, lambda residents, context: step(residents))
        cut = int(WARM_UP * count)
        begin, finish = arrivals[cut], arrivals[-1]
        overlap = np.clip(served.end_time, begin, finish) - np.clip(arrivals, begin, finish)
        present = overlap.sum() / (finish - begin)
        first = later(served.start_time - arrivals)
        pace = later((served.end_time - served.start_time) / lengths)
        return (float(present / token_load.mean_concurrency(rate, first, 100.0, pace)),)

    return Experiment("requests in flight, counted over those of the law", checks, draw)

CASES = {
    "capped": capped, "capped-other": capped_other, "turned-away": turned_away, "uncapped": uncapped,
    "stepwise": stepwise, "with-context": with_context, "few-slots": few_slots, "little": little,
}  # fmt: skip
