import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import gamma

from lib.batching import DynamicBatching
from lib.bulk import bulk_queue, timeout_queue
from lib.capped_timeout import SojournLaw, sojourn_law, sojourn_quantile
from lib.queues import served_in_batches
from lib.timeout_batching import timeout_sojourn_quantile
from tests.replications import assert_mean_is

V100 = (1.8874, 0.1438)  # ms, inoue2021


def passes(cap):
    """Return times and shares of a forward pass of up to `cap`."""
    times = (V100[0] + V100[1] * np.arange(1, cap + 1))[:, None]
    return times, np.ones_like(times)


@pytest.mark.parametrize(("rate", "cap", "timeout"), [
    (0.26, 1, 0.0), (0.4, 2, 1.5), (1.8, 6, 1.0), (0.26, 16, 2.0), (1.0, 3, 0.7), (2.1, 16, 1.9)])  # fmt: skip
def test_mean_batch_and_busy_share_are_those_of_the_exact_means(rate, cap, timeout):
    times, shares = passes(cap)
    law, exact = sojourn_law(rate, times, shares, timeout), timeout_queue(rate, times[:, 0], timeout)
    assert_allclose([law.mean, law.mean_batch, law.busy_fraction],
                    [exact.sojourn_time, exact.batch_size, exact.busy_fraction], rtol=1e-4)  # fmt: skip
    assert_allclose(law.share.sum(), 1)


def test_the_error_falls_with_the_square_of_the_cell():
    times, shares = passes(6)
    exact = float(timeout_queue(1.6, times[:, 0], 1.0).sojourn_time)
    coarse, fine = (abs(sojourn_law(1.6, times, shares, 1.0, cells=cells).mean - exact) for cells in (20, 80))
    assert 8 < coarse / fine < 32


@pytest.mark.parametrize(("rate", "timeout"), [(0.3, 0.0), (1.0, 1.2), (2.1, 0.5)])
def test_with_a_large_cap_the_quantiles_are_those_without_one(rate, timeout):
    law = sojourn_law(rate, *passes(40), timeout, cells=300)
    for level in (0.5, 0.9, 0.99):
        assert_allclose(
            sojourn_quantile(law, level), timeout_sojourn_quantile(level, rate, *V100, timeout), rtol=3e-3
        )  # fmt: skip


def test_one_at_a_time_has_the_tail_of_the_deterministic_queue():
    """M/D/1 by Erlang's sum: P(W <= t) = (1 - rho) sum over k up to t of exp(-rate (k - t)) (rate (k - t))^k / k!"""
    rate, level = 0.5, 0.99
    law = sojourn_law(rate, [[1.0]], [[1.0]], 0.0, cells=400)
    wait = sojourn_quantile(law, level) - 1
    k = np.arange(int(wait) + 1)
    lag = rate * (wait - k)
    terms = (-lag) ** k * np.exp(lag) / np.array([float(np.prod(np.arange(1, n + 1))) for n in k])
    assert_allclose((1 - rate) * terms.sum(), level, atol=1e-4)


def test_times_that_vary_have_the_means_of_the_bulk_queue():
    """A gamma law of squared variation 1/2, cut into 4,000 equal shares."""
    levels = (np.arange(4_000) + 0.5) / 4_000
    pieces = gamma.ppf(levels, 2) / 2
    pieces = pieces / pieces.mean()
    spread = float((pieces**2).mean() - 1)
    means = 1 + 0.2 * np.arange(1, 6)
    rate = 0.6 * 5 / means[-1]
    law = sojourn_law(rate, means[:, None] * pieces, np.full((5, 4_000), 1 / 4_000), 0.0)
    exact = bulk_queue(rate, means, service_cv2=spread)
    assert_allclose([law.mean, law.mean_batch, law.busy_fraction],
                    [exact.sojourn_time, exact.batch_size, exact.busy_fraction], rtol=1e-3)  # fmt: skip


@pytest.mark.parametrize("timeout", [0.8, 6.0])
def test_a_simulated_server_agrees_with_a_timeout_shorter_and_longer_than_a_batch(timeout):
    """A cap of 4, times of two kinds: mean, and how many exceed the 95th percentile."""
    slow, means, rate = 3.0, 0.8 + 0.25 * np.arange(1, 5), 0.9
    times = means[:, None] * np.array([0.5, slow])
    shares = np.tile([0.8, 0.2], (4, 1))
    law = sojourn_law(rate, times, shares, timeout)
    late = sojourn_quantile(law, 0.95)
    policy, mean, above, size = DynamicBatching(cap=4, control_limit=4, timeout=timeout), [], [], []
    for child in np.random.default_rng(5).spawn(25):
        arrivals = child.exponential(1 / rate, 8_000).cumsum()
        kind = np.where(child.random(8_000) < 0.2, slow, 0.5).tolist()
        served = served_in_batches(
            arrivals, lambda first, last, kind=kind: means[last - first - 1] * kind[first], policy
        )
        latency = (served.end_time - arrivals)[1_000:]
        mean.append(latency.mean())
        above.append((latency > late).mean())
        size.append(1 / (1 / served.batch_size[1_000:]).mean())
    assert_mean_is(law.mean, mean)
    assert_mean_is(0.05, above, precision=0.2)
    assert_mean_is(law.mean_batch, size)


def test_a_lone_request_waits_out_the_timeout():
    law = sojourn_law(1e-6, *passes(8), 5.0)
    assert_allclose(law.mean, 5 + sum(V100), rtol=1e-4)
    assert_allclose(sojourn_quantile(law, 0.5), 5 + sum(V100), rtol=1e-2)
    assert_allclose(law.mean_batch, 1 + 5e-6, rtol=1e-6)


def test_a_long_timeout_waits_for_a_full_batch():
    """Then it is the queue with a control limit of the cap."""
    times, shares = passes(4)
    law = sojourn_law(0.5, times, shares, 60.0)
    exact = bulk_queue(0.5, times[:, 0], control_limit=4)
    assert_allclose([law.mean, law.mean_batch], [exact.sojourn_time, 4], rtol=1e-3)


def test_an_unstable_server_has_no_law():
    law = sojourn_law(1.0, [[2.0], [2.0]], [[1.0], [1.0]], 0.0)
    assert law.mean == np.inf and law.busy_fraction == 1 and law.mean_batch == 2
    assert sojourn_quantile(law, 0.5) == np.inf


def test_laws_that_are_none_are_refused():
    with pytest.raises(ValueError, match="share must sum to 1 in each row"):
        sojourn_law(1.0, [[0.1]], [[0.9]], 0.0)
    with pytest.raises(ValueError, match="must have the same two axes"):
        sojourn_law(1.0, [0.1, 0.2], [1.0, 1.0], 0.0)
    with pytest.raises(ValueError, match="law must be"):
        sojourn_quantile(3, 0.5)


def test_a_quantile_is_that_of_its_cells():
    law = SojournLaw(1.0, 1.0, 0.5, np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))
    assert_allclose([sojourn_quantile(law, level) for level in (0.25, 0.5, 0.75)], [0.5, 1.0, 1.5])
