"""Static batches: the longest of a batch, two users, sorted batches, early exit, and the queue before the coach."""

import numpy as np

from lib.batching import DynamicBatching
from lib.bulk import bulk_queue
from lib.length_fit import max_ratio, sorted_max_ratio
from lib.lengths import WORKLOADS, length_quantile
from lib.order_statistics import empirical_max, exponential_max_ratio
from lib.queues import served_in_batches
from lib.rigid_batch import rigid_batch, step_law
from lib.schedule import idle_share, static_schedule
from lib.static_batch import elastic_speedup
from scripts.simulations.case import CAP, Case, lengths_of, mean_and_tail, outputs, poisson

SIZES = (2, 4, 8, 16, 32, 64, 128)
QUEUES = ("azure-conversation", "azure-code", "servegen-chat")
TWO = np.array([2.0, 2000.0])  # the article's two users
MACHINE, MODEL, CONTEXTS = "H100 SXM", "Llama-3-8B", (1024, 8192)


def longest():
    """The mean longest of n over the mean, for every measured workload and for exponential lengths."""
    for workload in WORKLOADS:
        law, mean = outputs(workload), lengths_of(workload).mean()
        for size in SIZES:

            def draw(count, rng, law=law, mean=mean, size=size, workload=workload):
                lengths = length_quantile(law, rng.random((count // size, size)))
                return {workload: lengths.max(axis=1).mean() / mean}

            yield Case(size, 12_800, draw, {workload: float(max_ratio(law, size))})
    for size in SIZES:

        def exponential(count, rng, size=size):
            return {"exponential law": rng.exponential(1.0, (count // size, size)).max(axis=1).mean()}

        yield Case(size, 12_800, exponential, {"exponential law": float(exponential_max_ratio(size))})


def two_users():
    """The idle share of the slots against the share of requests with 2,000 tokens; the others have 2."""
    for size in (2, 8, 32):
        for share in 2.0 ** np.arange(-8, 0):

            def draw(count, rng, size=size, share=share):
                lengths = TWO[(rng.random(count) < share).astype(int)]
                return {f"{size} slots": idle_share(static_schedule(lengths, size))}

            some = 1 - (1 - share) ** size
            idle = 1 - (2 + 1998 * share) / (2 + 1998 * some)
            yield Case(share, 51_200, draw, {f"{size} slots": idle})


def in_order():
    """The longest over the mean when k batches of 32 are sorted first, by length or by a guess of it."""
    for workload in QUEUES:
        law, mean = outputs(workload), lengths_of(workload).mean()
        for batches in (1, 2, 4, 8, 16, 32, 64):

            def draw(count, rng, law=law, mean=mean, batches=batches, workload=workload):
                lengths = length_quantile(law, rng.random((count // (CAP * batches), CAP * batches)))
                guess = lengths * np.exp(0.5 * rng.standard_normal(lengths.shape))
                by_guess = np.take_along_axis(lengths, np.argsort(guess, axis=1), axis=1)
                ratio = [
                    each.reshape(-1, CAP).max(axis=1).mean() / mean for each in (np.sort(lengths, axis=1), by_guess)
                ]
                return {workload: ratio[0], f"{workload}, guessed": ratio[1]}

            yield Case(batches, 40_960, draw, {workload: sorted_max_ratio(law, CAP, batches)})


def early_exit():
    """The share of the time of a static batch that continuous batching would need for its tokens."""
    law, lengths = outputs("azure-conversation"), lengths_of("azure-conversation")
    for size in SIZES:
        ratio = empirical_max(lengths, size) / lengths.mean()
        steps = {context: step_law(MACHINE, MODEL, context) for context in CONTEXTS}

        def draw(count, rng, size=size, steps=steps):
            drawn = np.sort(length_quantile(law, rng.random((count // size, size))), axis=1)
            alive = np.arange(size, 0, -1)  # sequences in each stretch of steps between two ends
            found = {"padded": lengths.mean() / drawn[:, -1].mean()}
            for context, step in steps.items():
                time = np.diff(drawn, axis=1, prepend=0) @ (step.fixed_time + alive * step.marginal_time)
                full = step.fixed_time + size * step.marginal_time
                found[f"early exit, {context} tokens"] = lengths.mean() * full / time.mean()
            return found

        expected = {"padded": float(1 / ratio)} | {
            f"early exit, {context} tokens": float(1 / elastic_speedup(ratio, size, *step))
            for context, step in steps.items()
        }
        yield Case(size, 12_800, draw, expected)


def coach_draw(lengths, law, rate, series):
    """Return a draw of mean and tail of the latency under static batches that take what waits."""

    def draw(count, rng):
        arrivals = poisson(rate, count, rng)
        drawn = lengths[rng.integers(0, lengths.size, count)].tolist()

        def batch_time(first, last):
            return (law.fixed_time + (last - first) * law.marginal_time) * max(drawn[first:last])

        served = served_in_batches(arrivals, batch_time, DynamicBatching(cap=CAP))
        mean, tail = mean_and_tail(arrivals, served)
        if lengths.size > 2:
            return {f"{series} mean": mean, f"{series} p99": tail}
        latency, cut = served.end_time - arrivals, count // 5
        short = np.array(drawn)[cut:] == lengths[0]
        return {f"{series} mean": mean, "short": latency[cut:][short].mean(), "long": latency[cut:][~short].mean()}

    return draw


def coach_queue():
    """Latency against load, batches of up to 32 outputs of measured length."""
    law = step_law(MACHINE, MODEL, CONTEXTS[0])
    for workload in QUEUES:
        lengths = lengths_of(workload)
        batch = rigid_batch(lengths, law, CAP)
        for load in (0.02, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8):
            rate = load * CAP / batch.mean_time[-1]
            queue = bulk_queue(rate, batch.mean_time, service_cv2=batch.cv2)
            expected = {f"{workload} mean": float(queue.sojourn_time)}
            yield Case(load, 20_000, coach_draw(lengths, law, rate, workload), expected)


def two_users_queue():
    """Latency of the two users, half of the requests each, against load."""
    law = step_law(MACHINE, MODEL, CONTEXTS[0])
    batch = rigid_batch(TWO, law, CAP)
    for load in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9):
        rate = load * CAP / batch.mean_time[-1]
        queue = bulk_queue(rate, batch.mean_time, service_cv2=batch.cv2)
        expected = {"two users mean": float(queue.sojourn_time)}
        yield Case(load, 20_000, coach_draw(TWO, law, rate, "two users"), expected)


EXPERIMENTS = {
    "longest": longest, "two-users": two_users, "sorted": in_order, "early-exit": early_exit,
    "coach-queue": coach_queue, "two-users-queue": two_users_queue,
}  # fmt: skip
