"""The replica, iteration by iteration, against the theory of continuous batching: inside an interval from replications.

Where the theory is a fluid, lengths are long and steps short, so that what it leaves out is small beside the interval.
"""

import numpy as np
import pytest
from scipy.integrate import quad

from lib import erlang, multiserver, occupancy, processor_sharing, token_load
from lib.batching import ContinuousBatching, KVMemory, one_by_one
from lib.replication import mean_interval
from lib.simulation import simulate, simulate_closed_loop
from lib.step_time import AffineStep
from lib.trace import Trace

ELSEWHERE = ContinuousBatching(prefill="elsewhere")


def replications(rate, lengths, policy, step, measure, *, count=1_500, prompt=0, runs=20, seed=31):
    """Return the mean of 20 replications, each without its first fifth, and the half-width of the 99.9 % interval."""
    found = []
    for rng in np.random.default_rng(seed).spawn(runs):
        arrivals = rng.exponential(1 / rate, count).cumsum()
        trace = Trace(arrivals, np.full(count, prompt), np.ceil(lengths(rng, count)))
        found.append(measure(simulate(trace, policy, step, events=True), slice(count // 5, None)))
    return mean_interval(found)


def agrees(expected, found, *, precision):
    mean, half_width = found
    assert half_width < precision * expected, "the interval is too wide to tell anything"
    assert abs(mean - expected) < half_width, (mean, expected, half_width)


def geometric(mean):
    return lambda rng, count: rng.geometric(1 / mean, count)


LAWS = {
    "constant": lambda rng, count: np.full(count, 1_000),
    "geometric": geometric(1_000),
    "lognormal": lambda rng, count: rng.lognormal(np.log(1_000) - 0.5, 1.0, count),
}


def stay(run, late):
    return np.mean((run.finish_time - run.admitted_time)[late])


def time_per_token(run, late):
    return (run.finish_time - run.admitted_time)[late].sum() / run.tokens[late].sum()


@pytest.mark.parametrize("law", LAWS)
def test_without_a_cap_the_stay_depends_on_the_mean_output_alone(law):
    """theory E-NB with ten times the tokens, a tenth of the time each: 4.2 s, 42 us a token over ten."""
    expected = float(processor_sharing.uncapped_occupancy(5.0, 1_000.0, 2e-3, 1e-4).sojourn_time)
    assert abs(expected - 4.2) < 1e-9
    step = AffineStep(fixed=2e-3, per_sequence=1e-4)
    agrees(expected, replications(5.0, LAWS[law], ELSEWHERE, step, stay), precision=0.08)


def test_the_residents_follow_a_negative_binomial_law():
    """E-NB-10: mean and variance over time."""
    step = AffineStep(fixed=2e-3, per_sequence=1e-4)

    def variance(run, late):
        begin = run.arrival_time[late][0]
        events = run.events
        held = np.clip(events.time + events.duration, begin, run.arrival_time[-1]) - np.clip(
            events.time, begin, run.arrival_time[-1]
        )
        mean = np.average(events.running, weights=held)
        return np.average((events.running - mean) ** 2, weights=held)

    rate = 5.0 * 1_000 * 1e-4
    expected = (1 + 2e-3 / 1e-4) * rate / (1 - rate) ** 2
    mean, half_width = replications(5.0, geometric(1_000), ELSEWHERE, step, variance)
    assert half_width < 0.2 * expected
    # a window of some 100 stays takes a little off the variance
    assert expected - 2 * half_width < mean < expected + half_width


def test_with_a_cap_the_queue_is_that_of_the_birth_death_law():
    """Three slots, geometric outputs: waits for a slot, the half iteration left out."""
    step = AffineStep(fixed=1e-3, per_sequence=2e-3)
    steps = 1e-3 + 2e-3 * np.arange(1, 4)
    rate = 0.6 * 3 / (steps[-1] * 1_000)
    expected = float(occupancy.capped_occupancy(rate, 1_000.0, steps).wait)
    policy = ContinuousBatching(slots=3, prefill="elsewhere")
    found = replications(
        rate, geometric(1_000), policy, step, lambda run, late: np.mean(run.first_token_parts.slot[late]), count=4_000
    )
    agrees(expected, found, precision=0.2)


def test_slots_of_constant_speed_are_servers():
    """Halfin and Whitt: 25 + 5 slots for a load of 25; the step does not depend on who is inside."""
    servers, busy = 30, 25
    step = AffineStep(fixed=1e-3)
    rate = busy / (1_000 * 1e-3)
    expected = float(erlang.mmc_wait_probability(rate, 1.0, servers))
    limit = float(multiserver.halfin_whitt_wait_probability(1.0))
    assert limit < expected < 1.3 * limit
    policy = ContinuousBatching(slots=servers, prefill="elsewhere")
    found = replications(
        rate, geometric(1_000), policy, step, lambda run, late: np.mean(run.first_token_parts.slot[late] > 0),
        count=4_000,
    )  # fmt: skip
    agrees(expected, found, precision=0.2)


def test_a_step_that_reads_the_cache_acts_as_a_larger_marginal_time():
    """E-KVS-01: prompts of 500, geometric outputs of 200: .0343 s a token."""
    context = float(token_load.mean_resident_context(500, 200, 2 * 200**2 - 200))
    expected = float(processor_sharing.uncapped_occupancy(6.0, 200.0, 0.02, 2e-4 + context * 2e-7).time_per_token)
    assert abs(expected - 0.034344) < 2e-5
    step = AffineStep(fixed=0.02, per_sequence=2e-4, per_context_token=2e-7)
    agrees(expected, replications(6.0, geometric(200), ELSEWHERE, step, time_per_token, prompt=500), precision=0.05)


@pytest.mark.parametrize("rate", [2.0, 6.0])
def test_an_arrival_waits_for_half_a_step(rate):
    """The inspection of a running iteration: E[t^2] / 2E[t] of it, times the chance to find one."""
    context = float(token_load.mean_resident_context(500, 200, 2 * 200**2 - 200))
    expected = float(processor_sharing.uncapped_occupancy(rate, 200.0, 0.02, 2e-4 + context * 2e-7).residual_step)
    step = AffineStep(fixed=0.02, per_sequence=2e-4, per_context_token=2e-7)
    found = replications(
        rate, geometric(200), ELSEWHERE, step,
        lambda run, late: np.mean(run.first_token_parts.residual[late]), prompt=500,
    )  # fmt: skip
    mean, half_width = found
    assert half_width < 0.04 * expected
    assert abs(mean - expected) < half_width + 0.01 * expected  # half the mean step for half the mean square


def test_the_first_token_of_a_lone_prompt_takes_its_chunks():
    """ceil(P / chunk) iterations: E of the TTFT rule without a queue."""
    step = AffineStep(fixed=0.02, per_prompt_token=1e-4)
    policy = ContinuousBatching(prefill="chunked", slots=8, token_budget=256)
    run = simulate(Trace(np.zeros(1), np.array([1_000]), np.array([5])), policy, step)
    assert abs(run.first_token_time[0] - (4 * 0.02 + 1_000 * 1e-4)) < 1e-12
    assert run.first_token_parts.own_prefill[0] == pytest.approx(run.first_token_time[0])


def test_the_cache_of_residents_has_campbells_mean_and_variance():
    """E-KVM: prompts of 100, exponential outputs of 100 tokens of 28 ms: one request of a Poisson stream at 10/s."""
    prompt, mean, token, rate = 100, 100, 0.028, 10.0
    expected = rate * token * (prompt * mean + mean**2)
    spread = rate * token * (prompt**2 * mean + 2 * prompt * mean**2 + 2 * mean**3)

    def moments(run, late):
        events = run.events
        seen = (events.time > run.arrival_time[late][0]) & (events.time < run.arrival_time[-1])
        held = events.resident_tokens[seen] - events.decoding[seen] * (events.iterations[seen] - 1) / 2
        both.append(np.average((held - expected) ** 2, weights=events.duration[seen]))
        return np.average(held, weights=events.duration[seen])

    both = []
    found = replications(rate, geometric(mean), ELSEWHERE, AffineStep(fixed=token), moments, count=4_000, prompt=prompt)
    agrees(expected, found, precision=0.05)
    level, half_width = mean_interval(both)
    assert half_width < 0.2 * spread
    assert abs(level - spread) < half_width


@pytest.mark.parametrize(("load", "stable"), [(0.95, True), (1.05, False)])
def test_a_work_conserving_schedule_is_stable_exactly_below_its_token_rate(load, stable):
    """Dai et al.: iterations of 512 tokens of a staircase; prompts and outputs of 100."""

    def staircase(work):
        tokens = work.decoding + work.prompt_tokens
        return float(token_load.staircase_step_time(tokens, 11.28e-3, 35.47e-3, 128))

    bound = 512 / staircase_time(512) / 200
    policy = ContinuousBatching(slots=512, token_budget=512, prefill="chunked")
    rng = np.random.default_rng(3)
    count = 2_500
    arrivals = rng.exponential(1 / (load * bound), count).cumsum()
    run = simulate(Trace(arrivals, np.full(count, 100), np.full(count, 100)), policy, staircase)
    rate = count / run.finish_time.max()
    assert rate <= bound
    behind = run.finish_time.max() - arrivals[-1]
    assert (behind < 0.05 * arrivals[-1]) == stable


def staircase_time(tokens):
    return float(token_load.staircase_step_time(tokens, 11.28e-3, 35.47e-3, 128))


def test_memory_limits_the_rate_to_token_slots_over_work():
    """Dong and Cao, Nie et al.: with steps of constant time, requests cannot end faster than M / w a step."""
    prompt, output, tokens = 40, 60, 1_000
    work = prompt * output + output * (output - 1) / 2
    policy = ContinuousBatching(prefill="elsewhere", memory=KVMemory(tokens=tokens, block_size=1))
    run = simulate_closed_loop(
        (np.full(600, prompt), np.full(600, output)), policy, AffineStep(fixed=1.0), users=200, events=True
    )
    inside = slice(100, 500)
    ends = np.sort(run.finish_time)[inside]
    rate = (len(ends) - 1) / (ends[-1] - ends[0])
    assert rate <= tokens / work
    assert rate > 0.7 * tokens / work  # what is lost to memory given up and to slots that do not divide it


def test_shortest_first_waits_as_long_as_its_integral():
    """M/M/1, load .6, the shortest next, without interruption; the textbook's integral over sizes."""
    load = 0.6

    def behind(size):
        return load * (1 - np.exp(-size) * (1 + size))  # load of those who are shorter

    expected = quad(lambda size: np.exp(-size) * load / (1 - behind(size)) ** 2, 0, np.inf)[0]
    assert expected < load / (1 - load)
    policy = ContinuousBatching(slots=1, order="shortest", prefill="elsewhere")
    found = replications(
        load, geometric(1_000), policy, AffineStep(fixed=1e-3),
        lambda run, late: np.mean((run.admitted_time - run.arrival_time)[late]), count=3_000,
    )  # fmt: skip
    agrees(expected, found, precision=0.2)


def test_one_by_one_is_the_m_g_1_queue():
    """Pollaczek and Khinchin: read alone, decoded alone."""
    step = AffineStep(fixed=1e-3, per_prompt_token=1e-3)
    rate, mean, prompt = 0.5 / 1.1, 1_000, 100
    service = prompt * 1e-3 + mean * 1e-3
    second = service**2 + mean * (mean - 1) * 1e-6
    expected = rate * second / (2 * (1 - rate * service))
    found = replications(
        rate, geometric(mean), one_by_one(), step,
        lambda run, late: np.mean((run.admitted_time - run.arrival_time)[late]), count=2_000, prompt=prompt,
    )  # fmt: skip
    agrees(expected, found, precision=0.15)
