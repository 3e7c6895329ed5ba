"""The loop bus: time per token, who rides, who waits, and what static and dynamic batches do with the same requests."""

from importlib.util import find_spec

import numpy as np

from lib.batching import ContinuousBatching, DynamicBatching, static_batching
from lib.lengths import LengthLaw, length_quantile
from lib.occupancy import capped_occupancy
from lib.processor_sharing import uncapped_law
from lib.replication import without_warm_up
from lib.rigid_batch import step_law
from lib.simulation import simulate, simulate_closed_loop
from lib.step_time import AffineStep
from lib.trace import Trace
from scripts.simulations.case import CAP, Case, lengths_of, poisson

COMPILED = True if find_spec("numba") else None  # same results, sooner
MACHINE, MODEL, CONTEXT, MEAN = "H100 SXM", "Llama-3-8B", 8192, 200
LAW = step_law(MACHINE, MODEL, CONTEXT)
STEP = AffineStep(fixed=LAW.fixed_time, per_sequence=LAW.marginal_time)
ALONE = LAW.fixed_time + LAW.marginal_time
FULL = LAW.fixed_time + CAP * LAW.marginal_time
BUS = ContinuousBatching(prefill="elsewhere")
CAPPED = ContinuousBatching(slots=CAP, prefill="elsewhere")
LENGTHS = {
    "constant": LengthLaw(law="constant", mean=MEAN), "geometric": LengthLaw(law="geometric", mean=MEAN),
    "lognormal": LengthLaw(law="lognormal", mean=MEAN, cv=2.0),
}  # fmt: skip
LOADS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)
SEATS = {0.35: tuple(range(2, 25, 2)), 0.65: tuple(range(16, 69, 4))}  # where anybody is seen often enough
POLICIES = {
    "static": static_batching(CAP, prefill="elsewhere"), "dynamic": DynamicBatching(cap=CAP, prefill="elsewhere"),
    "continuous": CAPPED,
}  # fmt: skip
WORKLOAD = "azure-conversation"


def requests(rate, lengths):
    """Return Poisson requests without prompts."""
    return Trace(rate, np.zeros(lengths.shape, int), lengths)


def drawn(law, count, rng):
    """Return output lengths of a law, tokens."""
    return length_quantile(law, rng.random(count)).astype(int)


def tpot():
    """Resident time over output length without a slot cap, against load, for three laws of the length."""
    for load in LOADS:
        for name, law in LENGTHS.items():

            def draw(count, rng, load=load, name=name, law=law):
                arrivals = poisson(load / (MEAN * LAW.marginal_time), count, rng)
                lengths = drawn(law, count, rng)
                run = simulate(requests(arrivals, lengths), BUS, STEP, compiled=COMPILED)
                resident = without_warm_up(run.finish_time - run.admitted_time)
                return {name: resident.sum() / without_warm_up(lengths.astype(float)).sum()}

            yield Case(load, 8_000, draw, {name: ALONE / (1 - load)})


def occupancy():
    """Share of the time with n aboard, a few n, against load."""
    for load, seats in SEATS.items():
        rate = load / (MEAN * LAW.marginal_time)

        def draw(count, rng, load=load, rate=rate, seats=seats):
            arrivals, lengths = poisson(rate, count, rng), drawn(LENGTHS["geometric"], count, rng)
            run = simulate(requests(arrivals, lengths), BUS, STEP, events=True, compiled=COMPILED)
            time, running = run.events.time, run.events.running
            start, end = arrivals[count // 5], arrivals[-1]
            # the last stretch before an idle time lasts as long as its requests; the rest of the gap is empty
            spans = np.diff(np.append(time, run.finish_time.max()))
            inside = (time >= start) & (time < end)
            busy = np.bincount(running[inside], weights=spans[inside], minlength=max(seats) + 1)
            return {f"{load:g} {n}": busy[n] / busy.sum() for n in seats}

        law = uncapped_law(np.array(seats), rate, MEAN, LAW.fixed_time, LAW.marginal_time)
        expected = {f"{load:g} {n}": float(share) for n, share in zip(seats, law, strict=True)}
        yield Case(load, 8_000, draw, expected)


def wait():
    """Wait for a slot over what it is for exponential lengths, against the squared variation of the lengths."""
    rate = 0.9 * CAP / (MEAN * FULL)
    steps = LAW.fixed_time + LAW.marginal_time * np.arange(1, CAP + 1)
    exponential = float(capped_occupancy(rate, MEAN, steps).wait)
    for square in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0):
        laws = {"gamma": "gamma", "lognormal": "lognormal"} if square else {"constant": "constant"}
        for name, law in laws.items():
            cv = {} if law == "constant" else {"cv": square**0.5}
            lengths = LengthLaw(law=law, mean=MEAN, **cv)

            def draw(count, rng, name=name, lengths=lengths):
                arrivals = poisson(rate, count, rng)
                run = simulate(requests(arrivals, drawn(lengths, count, rng)), CAPPED, STEP, compiled=COMPILED)
                return {name: without_warm_up(run.first_token_parts.slot).mean() / exponential}

            yield Case(square, 30_000, draw, {name: (1 + square) / 2})


def load():
    """Latency and time to first token of static, dynamic and continuous batches, against arrival rate."""
    lengths = lengths_of(WORKLOAD)
    mean, cv2 = lengths.mean(), lengths.var() / lengths.mean() ** 2
    most = CAP / (mean * FULL)
    steps = LAW.fixed_time + LAW.marginal_time * np.arange(1, CAP + 1)
    ends = {"static": 0.33, "dynamic": 0.37, "continuous": 0.96}
    for share in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        for name, policy in POLICIES.items():
            if share > ends[name]:
                continue

            def draw(count, rng, share=share, name=name, policy=policy):
                arrivals = poisson(share * most, count, rng)
                outputs = lengths[rng.integers(0, lengths.size, count)].astype(int)
                compiled = COMPILED if policy is CAPPED else None
                run = simulate(requests(arrivals, outputs), policy, STEP, compiled=compiled)
                first = without_warm_up(run.first_token_time - arrivals).mean()
                return {name: without_warm_up(run.finish_time - arrivals).mean(), f"{name}, first token": first}

            theory = capped_occupancy(share * most, mean, steps, output_cv2=cv2)
            expected = {name: float(theory.sojourn_time + theory.residual_step)} if name == "continuous" else {}
            yield Case(share * most, 6_400, draw, expected)


def little():
    """Requests in flight where all come by themselves, and the rate of as many in a closed loop."""
    for flight in (1, 2, 4, 8, 16, 32, 64, 128):
        rate = flight / (MEAN * (ALONE + flight * LAW.marginal_time))

        def draw(count, rng, flight=flight, rate=rate):
            arrivals = poisson(rate, count, rng)
            run = simulate(requests(arrivals, drawn(LENGTHS["geometric"], count, rng)), BUS, STEP, compiled=COMPILED)
            resident = without_warm_up(run.finish_time - run.admitted_time).mean()
            lengths = np.zeros(count, int), drawn(LENGTHS["geometric"], count, rng)
            closed = simulate_closed_loop(lengths, BUS, STEP, users=flight, compiled=COMPILED)
            first, last = np.sort(closed.finish_time)[[count // 5, count - 2 * flight]]
            return {"open": rate * resident, "closed": (count - 2 * flight - count // 5) / (last - first)}

        step = LAW.fixed_time + flight * LAW.marginal_time
        yield Case(flight, 6_400, draw, {"open": flight, "closed": flight / (MEAN * step)})


EXPERIMENTS = {
    "bus-tpot": tpot, "bus-occupancy": occupancy, "bus-wait": wait, "bus-load": load, "bus-little": little,
}  # fmt: skip
