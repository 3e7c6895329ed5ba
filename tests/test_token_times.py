import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.batching import ContinuousBatching, static_batching
from lib.latency import inter_token_latency, latencies
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.token_times import iteration_ends, token_times
from lib.trace import Trace
from tests.workloads import POLICIES, small_workload

STEP = AffineStep(fixed=0.02, per_sequence=2e-4, per_context_token=3e-7, per_prompt_token=5e-5)


def test_tokens_come_at_the_ends_of_iterations_by_hand():
    """1 s an iteration: A reads at 0, B at 1 while A stands still, then both decode."""
    requests = Trace(np.array([0, 0.5]), np.array([10, 20]), np.array([3, 2]))
    run = simulate(requests, ContinuousBatching(prefill="whole"), AffineStep(fixed=1.0), events=True)
    assert [[*times] for times in token_times(run)] == [[1, 3, 4], [2, 3]]
    assert [*iteration_ends(run)[1]] == [False, False, True, True]


@pytest.mark.parametrize("name", POLICIES)
def test_every_token_has_a_time_and_their_gaps_average_to_the_tpot(name):
    """Stretches against iterations one by one; requests that lost their memory between two tokens, too."""
    rng = np.random.default_rng(13)
    policy = POLICIES[name]
    here = policy.prefill != "elsewhere"
    for _ in range(10):
        requests, options = small_workload(rng)
        runs = [simulate(requests, policy, way, events=True, **options) for way in (STEP, lambda load: STEP(load))]
        one, other = (token_times(run, read_here=here) for run in runs)
        for request, (times, same) in enumerate(zip(one, other, strict=True)):
            assert_allclose(times, same, rtol=1e-9, atol=1e-9)
            assert len(times) == runs[0].tokens[request]
        run = runs[0]
        found = latencies(run.arrival_time, run.admitted_time, run.first_token_time, run.finish_time, run.tokens)
        for request in np.flatnonzero(run.tokens > 1):
            assert one[request][0] == run.first_token_time[request] or not here
            assert_allclose(inter_token_latency(one[request]).mean(), found.tpot[request], rtol=1e-9)


def test_a_run_without_events_and_one_of_batches_are_refused():
    requests, _ = small_workload(np.random.default_rng(1))
    with pytest.raises(ValueError, match="run must have the events of a continuous policy, got NoneType"):
        token_times(simulate(requests, POLICIES["paged"], STEP))
    with pytest.raises(ValueError, match="got those of batches"):
        token_times(simulate(requests, static_batching(2), STEP, events=True))
