"""What has no load: drawn (Monte Carlo), or an optimum that is searched for."""

import numpy as np

from lib import batch_law, bulk, control_limit, order_statistics, processor_sharing, static_batch, token_load
from scripts.validation.experiment import Check, Experiment, exact

AFFINE = 1.0 + 0.1 * np.arange(1, 9)  # s, of 1 to 8 requests


def longest():
    """The longest of 8 outputs."""
    survival = np.array([1.0, 0.8, 0.5, 0.1])
    checks = exact(
        order_statistics__exponential_max_ratio=order_statistics.exponential_max_ratio(8),
        order_statistics__lognormal_max_ratio=order_statistics.lognormal_max_ratio(1.0, 8),
        order_statistics__pareto_max_ratio=order_statistics.pareto_max_ratio(5.0, 8),
        order_statistics__geometric_max=order_statistics.geometric_max(50, 8),
        order_statistics__uniform_max=order_statistics.uniform_max(20, 8),
        order_statistics__empirical_max=order_statistics.empirical_max([1, 2, 4, 8, 16], 8),
        order_statistics__survival_max=order_statistics.survival_max(survival, 8),
        order_statistics__clipped_moments=order_statistics.clipped_moments(survival)[2],
    )

    def draw(count, rng):
        shape = (count, 8)
        lengths = 1 + (rng.random(shape)[..., None] < survival[1:]).sum(axis=-1)
        most = [
            rng.exponential(1, shape), rng.lognormal(-0.5, 1, shape), (1 + rng.pareto(5, shape)) * 0.8,
            rng.geometric(0.02, shape), rng.integers(1, 21, shape), rng.choice([1, 2, 4, 8, 16], shape), lengths,
        ]  # fmt: skip
        return *(values.max(axis=1).mean() for values in most), np.mean(lengths**3.0)

    return Experiment("longest of 8 outputs; third moment of a clipped one", checks, draw)


def static():
    """Static batches of 8 exponential outputs of mean 1, a step of .02 + .001 n."""
    ratio = order_statistics.exponential_max_ratio(8)
    checks = exact(
        static_batch__slot_utilisation=static_batch.slot_utilisation(ratio),
        static_batch__elastic_speedup=static_batch.elastic_speedup(ratio, 8, 0.02, 0.001),
        static_batch__sorted_bins_throughput=static_batch.sorted_bins_throughput(1.0, 9.0, 8, 4),
    )

    def draw(count, rng):
        lengths = np.sort(rng.exponential(1, (count, 8)), axis=1)
        stages = np.diff(lengths, axis=1, prepend=0) * (0.02 + 0.001 * np.arange(8, 0, -1))
        ends = lengths[:, -1].mean()
        binned = (1 + 2 * rng.integers(0, 4, (count, 1)) + 2 * rng.random((count, 8))).max(axis=1)
        return lengths.mean() / ends, stages.sum() / (lengths.sum() * 0.028 / 8), 8 / binned.mean()

    return Experiment("static batches of 8", checks, draw)


def memory():
    """Cache of residents: prompts of 300, uniform outputs of 1 to 99, 40 arrivals/s, a token in 20 ms."""
    lengths = np.arange(1, 100)
    moments = [np.mean(lengths**power) for power in (1.0, 2.0, 3.0)]
    mean, variance = token_load.resident_tokens(40.0, 0.02, 300.0, moments)
    checks = {
        "token_load.resident_tokens:mean": Check("exact", float(mean)),
        "token_load.resident_tokens:variance": Check("exact", float(variance)),
        "token_load.token_slots": Check("exact", float(token_load.token_slots(300.0, 50.0))),
    }

    def draw(count, rng):
        counts = rng.poisson(40 * 99 * 0.02, count)
        owner = np.repeat(np.arange(count), counts)
        age, wanted = rng.random(owner.size) * 99, rng.integers(1, 100, owner.size)
        held = np.bincount(owner, np.where(age < wanted, 300 + age, 0), minlength=count)
        return held.mean(), held.var(ddof=1), float(np.sum(300 + np.arange(1, 51)))

    return Experiment("cache of all residents at a moment; tokens held times steps, summed", checks, draw)


def clearing():
    """Clearing at 10 waiting (12 per s, cost 30, holding 2): a walk of exponential gaps."""
    checks = exact(
        control_limit__clearing_cost=control_limit.clearing_cost(12.0, 30.0, 2.0, 10),
    )

    def draw(count, rng):
        gaps = rng.exponential(1 / 12, (count, 10))
        held = (gaps * np.arange(10)).sum()
        return ((30 * count + 2 * held) / gaps.sum(),)

    return Experiment("clearing at 10 waiting", checks, draw)


def searches():
    """What is an optimum or a limit, searched for."""
    sizes = np.arange(1, 401)
    cost = batch_law.batch_time(sizes, 0.02, 0.0005)
    throughput = batch_law.usl_token_rate(sizes, 50.0, 0.05, 2e-4)
    power = np.argmin(cost**2 / sizes) + 1
    served = batch_law.token_rate(sizes, 0.02, 0.0005)
    slope = np.polyfit(sizes, sizes / served, 1)
    limits, periods = np.arange(1, 60), np.linspace(0.5, 4, 100_001)
    best = limits[np.argmin(12 * 30 / limits + 2 * (limits - 1) / 2)]
    period = periods[np.argmin(30 / periods + 2 * 12 * periods / 2)]
    grid = [control_limit.constant_batch_sojourn_time(rate, 1.0, [1, 2]) for rate in np.arange(2, 2.3, 1e-4)]
    crossing = 2 + 1e-4 * np.argmax([two < one for one, two in grid])
    fixed = 0.01
    for _ in range(200):
        fixed = 0.01 + 2e-6 * 3e5 * fixed
    limit, expected_cost = control_limit.best_control_limit(2.0, AFFINE, service_cv2=1.0)
    costs = [2.0 * bulk.bulk_queue(2.0, AFFINE, control_limit=a, service_cv2=1.0).sojourn_time for a in range(1, 9)]
    checks = {
        "batch_law.half_saturation_batch": (batch_law.half_saturation_batch(0.02, 0.0005), power),
        "batch_law.usl_peak": (np.rint(batch_law.usl_peak(0.05, 2e-4)), sizes[np.argmax(throughput)]),
        "batch_law.usl_contention": (batch_law.usl_contention(0.02, 0.0005), slope[0] / (slope[0] + slope[1])),
        "batch_law.largest_batch_within": (batch_law.largest_batch_within(0.1, 0.02, 0.0005), np.sum(cost <= 0.1)),
        "batch_law.token_cost": (batch_law.token_cost(3.0, 64, 0.02, 0.0005), 3 / served[63]),
        "control_limit.waiting_threshold": (np.round(control_limit.waiting_threshold(1), 4), crossing),
        "control_limit.best_control_limit": (expected_cost, min(costs)),
        "control_limit.clearing_limit": (control_limit.clearing_limit(12.0, 30.0, 2.0), best),
        "control_limit.clearing_timer": (control_limit.clearing_timer(12.0, 30.0, 2.0), period),
        "token_load.fluid_step_time": (token_load.fluid_step_time(3e5, 0.01, 2e-6), fixed),
        "processor_sharing.largest_arrival_rate": (
            0.05,
            processor_sharing.uncapped_occupancy(
                processor_sharing.largest_arrival_rate(0.05, 100.0, 0.02, 1e-3), 100.0, 0.02, 1e-3).time_per_token,
        ),
    }  # fmt: skip
    assert limit == 1 + int(np.argmin(costs))
    return checks

CASES = {"longest": longest, "static": static, "memory": memory, "clearing": clearing}
