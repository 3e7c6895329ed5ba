import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import poisson

from lib import dispatch
from lib.bulk import bulk_queue
from lib.capped_timeout import SojournLaw
from lib.dispatch import INOUE, advised, dispatched, smallest_cap
from lib.simulated import Points, points
from lib.timeout_batching import timeout_sojourn_time
from lib.timeout_choice import best_timeout

V100 = INOUE["V100"]


def test_the_fits_are_those_of_the_paper():
    """inoue2021, section 3.3, ms: .1438 and 1.8874 for the V100, .5833 and 1.4284 for the P4."""
    assert_allclose(INOUE["V100"], (1.8874e-3, 0.1438e-3))
    assert_allclose(INOUE["P4"], (1.4284e-3, 0.5833e-3))


def test_light_load_is_told_not_to_wait():
    advice = advised(500.0, *V100)
    assert advice.best == advice.greedy
    assert advice.best.timeout == 0
    assert advice.own == advice.best


def test_a_busy_server_is_told_the_best_timeout_and_gains_next_to_nothing():
    rate = 4 / V100.fixed_time
    advice = advised(rate, *V100)
    assert_allclose(advice.best.timeout, best_timeout(rate, V100.fixed_time))
    assert 0 < 1 - advice.best.mean / advice.greedy.mean < 6e-4
    assert_allclose(advice.harmless.mean, 1.01 * advice.greedy.mean, rtol=1e-6)
    assert advice.harmless.busy < advice.greedy.busy


def test_an_operators_own_timeout_is_judged():
    advice = advised(500.0, *V100, timeout=1e-3)
    assert advice.own == dispatched(500.0, *V100, 1e-3)
    assert_allclose(advice.own.mean, timeout_sojourn_time(500.0, *V100, 1e-3))
    assert advice.own.p99 >= advice.greedy.p99


def test_the_smallest_cap_keeps_the_loss_and_one_less_does_not():
    rate = 4 / V100.fixed_time
    cap = smallest_cap(rate, *V100, 0.01)
    allowed = 1.01 * timeout_sojourn_time(rate, *V100, 0)
    times = V100.fixed_time + V100.marginal_time * np.arange(1, cap + 1)
    assert bulk_queue(rate, times).sojourn_time <= allowed < bulk_queue(rate, times[:-1]).sojourn_time
    assert smallest_cap(1.0, *V100, 0.01) == 1


def test_cautions_come_when_their_numbers_say_so():
    assert len(advised(500.0, *V100).cautions) == 2
    near = advised(0.9 / V100.marginal_time, *V100).cautions
    assert any("saturation" in caution for caution in near)
    assert any("at the time of a batch of one" in caution for caution in near)
    full = advised(4 / V100.fixed_time, *V100, batch_cap=7).cautions
    assert any("the cap is 88% loaded" in caution for caution in full)
    assert not any("loaded" in caution for caution in advised(4 / V100.fixed_time, *V100, batch_cap=32).cautions)


def test_bursts_are_named_among_the_cautions():
    """The record of simulated points shows what they do: tests below."""
    assert "a short wait may pay" in advised(500.0, *V100).cautions[0]


def test_the_advice_says_what_its_cap_does_to_mean_and_tail():
    advice = advised(4 / V100.fixed_time, *V100)
    assert advice.greedy.mean < advice.capped.mean <= 1.01 * advice.greedy.mean * (1 + 1e-4)
    assert 1.03 < advice.capped.p99 / advice.greedy.p99 < 1.1
    assert advice.capped == dispatched(4 / V100.fixed_time, *V100, 0.0, batch_cap=advice.batch_cap)


def test_a_longer_timeout_than_a_pass_goes_on_from_it():
    """The closed form ends at a pass of one; the chain goes on from there."""
    edge = sum(V100)
    closed, chain = dispatched(500.0, *V100, edge), dispatched(500.0, *V100, edge * (1 + 1e-6))
    assert_allclose(chain[1:], closed[1:], rtol=5e-3)
    assert dispatched(500.0, *V100, 2 * edge).mean > closed.mean


def test_an_operators_own_cap_is_judged_with_the_own_timeout():
    """TorchServe's default, 100 ms with a cap of 8, at 250 requests a second: full in 32 ms, so it waits for that."""
    own = advised(250.0, *V100, timeout=0.1, batch_cap=8).own
    full = bulk_queue(250.0, V100.fixed_time + V100.marginal_time * np.arange(1, 9), control_limit=8)
    assert_allclose([own.mean, own.mean_batch], [full.sojourn_time, 8], rtol=1e-3)
    assert own.p99 > 0.045


def test_a_cap_that_cannot_keep_up_is_refused():
    with pytest.raises(ValueError, match="batch_cap must be large enough for arrival_rate"):
        dispatched(4 / V100.fixed_time, *V100, 0.0, batch_cap=3)


def test_a_cap_that_just_keeps_up_has_no_law_either():
    """A batch of two takes two seconds, in which two come."""
    with pytest.raises(ValueError, match=r"batch_cap must be large enough for arrival_rate \(1\), got 2"):
        dispatched(1.0, 1.0, 0.5, 0.0, batch_cap=2)


@pytest.mark.parametrize(("fixed", "load", "timeout"), [(1.0, 0.9, 4.0), (1.0, 0.2, 30.0), (0.5, 0.0, 3.0)])
def test_without_a_cap_the_chain_is_cut_where_batches_no_longer_reach(monkeypatch, fixed, load, timeout):
    """Those who come while the oldest waits and a batch runs: a Poisson chain that starts as late as it can."""
    seen = []

    def kept(rate, times, share, timeout, cells):
        seen.append((len(times), times[0, 0], times[-1, 0], cells))
        return SojournLaw(1.0, 1.0, 0.5, np.array([0.0, 1.0]), np.array([0.5, 0.5]))

    monkeypatch.setattr(dispatch, "sojourn_law", kept)
    dispatched(1.0, fixed, load, timeout)
    ((cap, first, last, cells),) = seen
    count = np.arange(400)
    step = poisson.pmf(count, (fixed + timeout + 1 + load * count)[:, None])
    law = np.linalg.matrix_power(step / step.sum(axis=1, keepdims=True), 256)[0]
    assert law[cap + 1 :].sum() < 1e-9
    assert cap < law @ count + 20 * np.sqrt(law @ count**2 - (law @ count) ** 2) + 12
    assert (first, last) == pytest.approx((fixed + load, fixed + load * cap))
    assert cells == max(10, int(300 * first / last))


def simulated_change(kind, what):
    """Return the simulated points, low and high ends, of what the advice adds to the mean."""
    seen = points("advice-beyond", f"{kind} {what}")
    return seen.low, seen.high


def test_the_advice_meets_simulation_where_its_assumptions_hold():
    """Mean, tail and busy time of three settings, over loads and slopes: every interval, or nearly, holds them."""
    judged = [
        abs(seen.mean - float(made)) / (seen.high - seen.mean)
        for slope in (0.0, 0.0762, 0.4084)
        for seen, made in advice_points(slope)
    ]  # fmt: skip
    assert len(judged) > 100
    assert np.max(judged) < 3
    assert np.mean(np.array(judged) > 1) < 0.1


def advice_points(slope):
    """Return simulated points, one by one, and what the advice says of them."""
    for setting in ("greedy", "harmless", "capped"):
        seen = {what: points("advice", f"{slope:g} {setting} {what}") for what in ("mean", "p99", "busy")}
        for at, arrivals in enumerate(seen["mean"].x):
            made = getattr(advice_for(arrivals, slope), setting)
            for what, value in (("mean", made.mean), ("p99", made.p99), ("busy", made.busy / arrivals)):
                yield Points(*(part[at] for part in seen[what])), value


@functools.cache
def advice_for(arrivals, slope):
    return advised(float(arrivals), 1.0, slope)


def test_the_rule_fails_where_it_says_it_does():
    """As assumed the harmless timeout costs 1 %; in tight bursts it gains. The cap costs 1 %; in bursts far more."""
    low, high = simulated_change("as assumed", "harmless")
    assert np.all(low < 0.0101) and np.all(high > 0.0099)
    assert np.all(simulated_change("tight bursts", "harmless")[1][:2] < -0.02)
    assert np.all(simulated_change("as assumed", "capped")[0] < 0.0101)
    for kind in ("tight bursts", "on and off"):
        assert np.all(simulated_change(kind, "capped")[0] > 0.05)
    assert np.all(points("advice-beyond", "times vary mean").low > 1.1)


def test_an_unstable_server_is_refused():
    with pytest.raises(ValueError, match="arrival_rate times marginal_time must be below 1"):
        advised(1e4, *V100)
