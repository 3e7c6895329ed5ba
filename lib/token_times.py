"""When each token of a simulated run came: from the record of its stretches; nobody wrote every token down."""

import numpy as np

from lib import arguments
from lib.simulation import Run


def iteration_ends(run):
    """Return when each iteration ended, and whether it gave those who decode a token.

    Parameters
    ----------
    run : Run
        Of a continuous policy, with its events.

    Returns
    -------
    tuple of ndarray, each shape (iterations,)
        Seconds; true or false.

    Raises
    ------
    ValueError
        If `run` is no such run.
    """
    arguments.record("run", run, Run)
    events = run.events
    if events is None or not np.array_equal(events.iterations > 0, np.ones(len(events.time), bool)):
        raise ValueError(f"run must have the events of a continuous policy, got {type(events).__name__}")
    if run.iterations and not np.any(events.resident_tokens):
        raise ValueError("run must have the events of a continuous policy, got those of batches")
    count = events.iterations
    rest = np.where(count > 1, count * (count - 1) / 2, 1)
    growth = np.where(count > 1, (events.duration - count * events.first_duration) / rest, 0.0)
    last = np.cumsum(count) - 1
    number = np.arange(count.sum()) - np.repeat(last + 1 - count, count) + 1
    pace, growth = np.repeat(events.first_duration, count), np.repeat(growth, count)
    ends = np.repeat(events.time, count) + (number * pace + growth * (number * (number - 1) / 2))
    ends[last] = events.time + events.duration  # to the last bit what the replica's clock said
    return ends, np.repeat(events.decoding > 0, count)


def token_times(run, *, read_here=True):
    """Return when each token of each request came.

    Parameters
    ----------
    run : Run
        Of a continuous policy, with its events.
    read_here : bool
        Whether the replica reads the prompts; false for the policy that leaves them to another machine.

    Returns
    -------
    list of ndarray
        For each request, s; empty if it was refused.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or the times are not as many as the tokens.
    """
    arguments.flag("read_here", read_here)
    ends, decodes = iteration_ends(run)
    ends = ends[decodes]
    gone = run.events.interruptions
    by_request = {}
    for request, lost, again in zip(*gone, strict=True):
        by_request.setdefault(int(request), []).append((lost, again))
    begins = np.searchsorted(ends, run.first_token_time, side="right" if read_here else "left")
    stops = np.searchsorted(ends, run.finish_time, side="right")
    found = []
    for request, (begin, stop) in enumerate(zip(begins, stops, strict=True)):
        if not run.tokens[request]:
            found.append(np.empty(0))
            continue
        first = [run.first_token_time[request]] if read_here else []
        times = np.concatenate([first, ends[begin:stop]])
        # one who lost its memory twice before it was read again has one resumption, from the first loss on
        losses = {again: lost for lost, again in reversed(by_request.get(request, []))}
        for again, lost in losses.items():
            if again > run.first_token_time[request]:
                kept, resumed = times[times <= lost], [again] if read_here else []
                times = np.concatenate([kept, resumed, times[times > again]])
        if len(times) != run.tokens[request]:
            raise ValueError(f"run must have a time for each of {run.tokens[request]} tokens, got {len(times)}")
        found.append(times)
    return found
