"""A small record of served requests and one of an engine, both made up: for tests that need one."""

import numpy as np

from lib.boarding import POLICIES, StepTimes, Timetable, ride

LENGTHS = [3, 1, 9, 2, 5, 2]


def run(policy, round=0, load=0.0, arrival_time=(0.0,) * 6, slower=1.0):
    """Return a run on two slots: a step takes 1 s + 0.1 s a slot + 1 ms a token, a prompt 0.5 s; probes say so too."""
    times = StepTimes(
        prompt=4, sizes=[1, 2], longest=[4, 14], steps=[[1.104, 1.114], [1.208, 1.228]], boarding=[0.5, 1.0]
    )
    made = ride(arrival_time, LENGTHS, policy, 2, Timetable(times))
    steps = {name: getattr(made, f"step_{name}").tolist() for name in ("kind", "end", "time", "size", "least", "most")}
    states = [(size, longest) for size in (1, 2) for longest in (4, 14)] * 4
    probed = [slower * times.step_time(*state) for state in states] + [slower * 0.5, slower * 1.0]
    size, longest = ([*column] for column in zip(*states, (1, 0), (2, 0), strict=True))
    return {
        "round": round, "policy": policy, "slots": 2, "load": load, "arrival_time": [*arrival_time], "steps": steps,
        **{name: getattr(made, name).tolist() for name in ("boarded", "first_token", "finish")},
        "probes": {"size": size, "longest": longest, "time": probed},
    }  # fmt: skip


def served(runs, **changes):
    """Return a record that holds these runs."""
    return {
        "schema": 1, "kind": "served", "library": "0", "date": "2026-01-01", "command": "test", "complete": True,
        "seconds": 1.0, "machine": {"name": "a machine", "cores": 2}, "versions": {}, "runs": runs,
        "settings": {"dtype": "fp32", "threads": 2, "streamed_weight_bytes": 5e8, "slots": [2], "loads": [0.5],
                     "rates": {"0.5": 0.2}, "rounds": 3, "linear": "packed", "model": {"name": "small"}},
        "requests": {"prompt": 4, "output_length": LENGTHS, "unit_arrival_time": np.arange(6.0).tolist()},
    } | changes  # fmt: skip


SERVED = served([run(policy, at) for at in range(3) for policy in POLICIES])
ENGINE_STEPS = {
    "date": "2026-01-01", "machine": {"name": "m"}, "versions": {}, "shape": {}, "dtype": "float32", "prompt": 4,
    "output_length": [3, 2, 2],
    "visits": [{"sizes": [1, 2], "longest": [5, 9], "time": [1.1, 1.1, 2.0, 1.2, 1.2, 4.0]}],
}  # fmt: skip
ENGINE_RUNS = {
    "output_length": [3, 2, 2],
    "runs": [
        {"policy": "continuous", "slots": 2, "round": at, "first_token": [4.0, 4.0, 8.0], "finish": [8.0, 6.0, 9.0],
         "makespan": 9.0 + at, "step_time": [4.0, 2.0, 2.0, 0.5 + at], "step_size": [2, 2, 2, 1],
         "before": {"sizes": [1, 2], "time": [2.2, 4.0, 2.4, 8.0]}}
        for at in range(2)
    ],
}  # fmt: skip
