"""Queues of requests that are served in batches."""

import numpy as np

from lib import bulk, control_limit, dynamic_batching, exponential_batch, formation, timeout_batching
from lib.batching import DynamicBatching
from lib.queues import served_in_batches
from scripts.validation.experiment import WARM_UP, Check, Experiment, exact, later, poisson

SIZES = np.arange(1, 9)
AFFINE = 1.0 + 0.1 * SIZES  # s, of 1 to 8 requests


def batch_draw(rate, policy, batch_time, parts):
    """Return a draw of the means of a batch queue; `batch_time` takes sizes and a generator."""

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        served = served_in_batches(arrivals, batch_time(count, rng), policy)
        return parts(arrivals, served)

    return draw


def constant(times):
    return lambda count, rng: lambda first, last: times[last - first - 1]


def gamma_times(times, cv2):
    def sampler(count, rng):
        noise = rng.gamma(1 / cv2, cv2, count)
        return lambda first, last: times[last - first - 1] * noise[first]

    return sampler


def batch_parts(arrivals, served):
    """Return wait, sojourn time, batch size, busy fraction and number left behind."""
    cut = int(WARM_UP * len(arrivals))
    heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)
    heads = heads[heads >= cut][:-1]
    span = served.start_time[heads[-1]] - served.start_time[heads[0]]
    busy = (served.end_time - served.start_time)[heads[:-1]].sum() / span
    left = np.searchsorted(arrivals, served.end_time[heads]) - heads - served.batch_size[heads]
    wait, sojourn = served.start_time - arrivals, served.end_time - arrivals
    return later(wait), later(sojourn), served.batch_size[heads].mean(), busy, left.mean()


def bulk_checks(queue, name):
    fields = ("wait", "sojourn_time", "batch_size", "busy_fraction", "left_behind")
    return {f"bulk.{name}:{field}": Check("exact", float(getattr(queue, field))) for field in fields}


def bulk_case(limit, cv2):
    def case(load):
        rate = load * 8 / AFFINE[-1]
        queue = bulk.bulk_queue(rate, AFFINE, control_limit=limit, service_cv2=cv2)
        times = gamma_times(AFFINE, cv2) if cv2 else constant(AFFINE)
        policy = DynamicBatching(cap=8, control_limit=limit)
        law = bulk.left_behind_law(rate, AFFINE, 1, control_limit=limit, service_cv2=cv2)
        checks = bulk_checks(queue, "bulk_queue") | {
            "bulk.bulk_queue:size_law": Check("exact", float(queue.size_law[limit - 1])),
            "bulk.left_behind_law": Check("exact", float(law.sum())),
        }

        def parts(arrivals, served):
            heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)
            heads = heads[heads >= int(WARM_UP * len(arrivals))][:-1]
            left = np.searchsorted(arrivals, served.end_time[heads]) - heads - served.batch_size[heads]
            return *batch_parts(arrivals, served), (served.batch_size[heads] == limit).mean(), (left == 0).mean()

        label = "constant" if not cv2 else "gamma"
        return Experiment(f"M/G({limit},8)/1, {label} times 1 + .1 r", checks, batch_draw(rate, policy, times, parts))

    return case


def timeout(load):
    rate = load * 8 / AFFINE[-1]
    checks = bulk_checks(bulk.timeout_queue(rate, AFFINE, 0.8), "timeout_queue")
    policy = DynamicBatching(cap=8, control_limit=8, timeout=0.8)
    return Experiment(
        "8 requests or .8 s, times 1 + .1 r", checks, batch_draw(rate, policy, constant(AFFINE), batch_parts)
    )


def bulk_each(load):
    """Small batches vary much, full ones little, as the longest of many lengths does."""
    rate, cv2 = load * 8 / AFFINE[-1], 2.0 / SIZES
    queue = bulk.bulk_queue(rate, AFFINE, control_limit=1, service_cv2=cv2)

    def times(count, rng):
        return lambda first, last: rng.gamma((last - first) / 2, 2 * AFFINE[last - first - 1] / (last - first))

    draw = batch_draw(rate, DynamicBatching(cap=8), times, batch_parts)
    return Experiment("M/G(1,8)/1, gamma times 1 + .1 r of variation 2 / r", bulk_checks(queue, "bulk_queue"), draw)


def window(load):
    """Times 1 + .1 b without a cap, and a window of .8."""
    setting = (10 * load, 1.0, 0.1, 0.8)
    size = timeout_batching.timeout_batch_size(*setting)
    late = timeout_batching.timeout_sojourn_quantile(0.9, *setting)
    checks = exact(
        timeout_batching__timeout_sojourn_time=timeout_batching.timeout_sojourn_time(*setting),
        timeout_batching__timeout_batch_size=size,
        timeout_batching__timeout_busy_fraction=timeout_batching.timeout_busy_fraction(*setting),
        timeout_batching__timeout_sojourn_quantile=0.9,
        timeout_batching__timeout_size_law=timeout_batching.timeout_size_law(*setting)[: int(size)].sum(),
    )

    def parts(arrivals, served):
        _, sojourn, mean, busy, _ = batch_parts(arrivals, served)
        heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)
        small = served.batch_size[heads[heads >= int(WARM_UP * len(arrivals))][:-1]] <= int(size)
        return sojourn, mean, busy, later(served.end_time - arrivals < late + 1e-9), small.mean()

    # Nobody knows the limit of what may come: it is never reached.
    policy = DynamicBatching(control_limit=100_000, timeout=0.8)
    draw = batch_draw(10 * load, policy, constant(1.0 + 0.1 * np.arange(1, 100_001)), parts)
    return Experiment("all that wait or .8 s, times 1 + .1 b", checks, lambda count, rng: draw(10 * count, rng))


def mmab(load):
    rate = 6 * load
    checks = exact(
        exponential_batch__mmab_wait=exponential_batch.mmab_wait(rate, 1.0, 2, 6),
        exponential_batch__mmab_batch_size=exponential_batch.mmab_batch_size(rate, 1.0, 2, 6),
        exponential_batch__mmab_idle_probability=exponential_batch.mmab_idle_probability(rate, 1.0, 2, 6),
    )

    def parts(arrivals, served):
        wait, _, size, busy, _ = batch_parts(arrivals, served)
        return wait, size, 1 - busy

    policy = DynamicBatching(cap=6, control_limit=2)
    return Experiment("M/M(2,6)/1", checks, batch_draw(rate, policy, gamma_times(np.ones(6), 1.0), parts))


def dynamic(load):
    """The V100 of inoue2021, in ms."""
    setting = (load / 0.1438, 1.8874, 0.1438)
    lower, upper = dynamic_batching.dynamic_sojourn_bounds(*setting)
    checks = exact(
        dynamic_batching__dynamic_sojourn_time=dynamic_batching.dynamic_sojourn_time(*setting),
        dynamic_batching__dynamic_batch_size=dynamic_batching.dynamic_batch_size(*setting),
        dynamic_batching__dynamic_busy_fraction=dynamic_batching.dynamic_busy_fraction(*setting),
    ) | {
        "dynamic_batching.dynamic_sojourn_bounds:lower": Check("lower", float(lower)),
        "dynamic_batching.dynamic_sojourn_bounds:upper": Check("upper", float(upper)),
        "dynamic_batching.inoue_light_bound": Check("upper", float(dynamic_batching.inoue_light_bound(*setting))),
        "dynamic_batching.inoue_heavy_bound": Check("upper", float(dynamic_batching.inoue_heavy_bound(*setting))),
    }

    def parts(arrivals, served):
        _, sojourn, size, busy, _ = batch_parts(arrivals, served)
        return sojourn, size, busy, *[sojourn] * 4

    draw = batch_draw(setting[0], DynamicBatching(), constant(1.8874 + 0.1438 * np.arange(1, 100_001)), parts)
    # Batches are large at high load: it takes ten times the requests to see as many.
    return Experiment("all that wait, 1.8874 + .1438 b ms", checks, lambda count, rng: draw(10 * count, rng))


def constant_batch(load):
    """A control limit without a cap is stable at every rate: the load is the arrivals in a batch over 10."""
    checks = exact(
        control_limit__constant_batch_sojourn_time=control_limit.constant_batch_sojourn_time(10 * load, 1.0, 3)
    )
    draw = batch_draw(
        10 * load, DynamicBatching(control_limit=3), constant(np.ones(100_000)), lambda a, s: (later(s.end_time - a),)
    )
    return Experiment("limit 3 without a cap, time 1, 10 arrivals at load 1", checks, draw)


def forming(load):
    """A server is always free: the window alone, at 10 arrivals per timeout at load 1."""
    setting = (10 * load, 6, 1.0)
    checks = exact(
        formation__formation_wait=formation.formation_wait(*setting),
        formation__formation_batch_size=formation.formation_batch_size(*setting),
        formation__formation_full_probability=formation.formation_full_probability(*setting),
    )

    def parts(arrivals, served):
        heads = np.flatnonzero(np.diff(served.start_time, prepend=-1) > 0)[:-1]
        sizes = served.batch_size[heads]
        return (served.start_time - arrivals).mean(), sizes.mean(), (sizes == 6).mean()

    policy = DynamicBatching(cap=6, control_limit=6, timeout=1.0)
    return Experiment(
        "6 requests or 1 s, always a free server", checks, batch_draw(10 * load, policy, constant([1e-12] * 6), parts)
    )

CASES = {
    "bulk-greedy": bulk_case(1, 0.0), "bulk-limit": bulk_case(4, 0.0), "bulk-gamma": bulk_case(3, 0.5),
    "timeout": timeout, "mmab": mmab, "dynamic": dynamic, "constant-batch": constant_batch, "forming": forming,
}  # fmt: skip
# Came later: their generators stand behind all others, which so stay as they were.
LATER = {"bulk-each": bulk_each, "window": window}
