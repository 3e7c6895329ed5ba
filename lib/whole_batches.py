"""Batches that start together and take nobody in: the coach, token by token."""

from bisect import bisect_right

import numpy as np

from lib.replica import StepLoad


def advance(columns, policy, step, report):
    """Serve every request in batches, and write down what became of it.

    Parameters
    ----------
    columns : lib.replica.Columns
        Arrays.
    policy : lib.batching.DynamicBatching
    step : callable
        Takes the positions of a batch, first and one past the last, and returns when each member shows its first
        token and its last, s after the start, the share of the first that reads its own prompt, and the iterations.
    report : callable or None
        Told how many requests have been served.

    Returns
    -------
    tuple
        Iterations, seconds in which the server worked, and the record of `lib.replica.advance`, one row a batch.
    """
    count, limit, timeout = len(columns.arrival), int(policy.control_limit), policy.timeout
    cap = int(min(policy.cap, count))
    times = columns.arrival.tolist()
    head, free, busy, iterations = 0, 0.0, 0.0, 0
    rows = []
    while head < count:
        enough = times[min(head + limit, count) - 1]  # when the limit is reached, or the last request comes
        start = max(free, min(enough, times[head] + timeout))
        last = bisect_right(times, start, head + 1, min(head + cap, count))
        batch = slice(head, last)
        first, end, own, steps = step(head, last)
        columns.admitted[batch] = start
        columns.first[batch] = start + first
        columns.finish[batch] = start + end
        arrived = columns.arrival[batch]
        columns.slot[batch] = np.maximum(free - arrived, 0)
        columns.held[batch] = start - np.maximum(arrived, free)
        columns.own[batch] = own
        columns.others[batch] = first - own
        took = float(end.max())
        rows.append((start, took, took, steps, 0, last - head, bisect_right(times, start) - last, 0, 0))
        busy += took
        iterations += steps
        free, head = start + took, last
        if report is not None:
            report(head)
    return iterations, busy, *(list(column) for column in zip(*rows, strict=True)), [], [], [], []


def batch_times(columns, policy, step_time, affine):
    """Return the function that `advance` asks for the times of a batch.

    Parameters
    ----------
    columns : lib.replica.Columns
    policy : lib.batching.DynamicBatching
    step_time : callable
        Takes a `StepLoad`.
    affine : lib.step_time.AffineStep or None
        The same law, if it is affine: iterations are then added up in closed form.

    Returns
    -------
    callable
    """
    elsewhere, padded = policy.prefill == "elsewhere", policy.padded

    def times_of(head, last):
        prompt, output = columns.prompt[head:last], columns.output[head:last]
        if padded:
            prompt = np.full_like(prompt, prompt.max())
        size, now, made = len(prompt), 0.0, 0
        first, own, end = (np.empty(size) for _ in range(3))
        if not elsewhere:
            pairs = float((prompt * (prompt + 1) * 0.5).sum())
            chunks = tuple((int(tokens), 0) for tokens in prompt)
            now, made = step_time(StepLoad(0, 0, int(prompt.sum()), pairs, chunks)), 1
            first[:], own[:] = now, now * prompt / prompt.sum()
        order = np.argsort(output, kind="stable")
        live, held = size, int(prompt.sum()) + size * made
        for member in order.tolist():
            steps = int(output[member]) - made
            if steps:
                if made == 0:
                    first[:] = own[:] = step_time(StepLoad(live, held, 0, 0.0, ()))
                now += _stretch(step_time, affine, live, held, steps)
                made += steps
                held += live * steps
            end[member] = now
            if not padded:
                live -= 1
                held -= int(prompt[member]) + made
        return first, end, own, made

    return times_of


def _stretch(step_time, affine, live, held, steps):
    """Return the time of equal steps that each give every live sequence a token."""
    if affine is None:
        return sum(step_time(StepLoad(live, held + live * step, 0, 0.0, ())) for step in range(steps))
    pace = affine.fixed + affine.per_sequence * live + affine.per_context_token * held
    return steps * pace + affine.per_context_token * live * (steps * (steps - 1) * 0.5)
