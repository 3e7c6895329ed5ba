import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.length_fit import FITTED, distance, fitted_laws, max_ratio, sorted_max_ratio
from lib.lengths import LengthLaw, MeasuredLengths, length_quantile
from lib.order_statistics import exponential_max_ratio, lognormal_max_ratio, uniform_max
from tests.replications import assert_mean_is

CHAT = MeasuredLengths(workload="servegen-chat", quantity="output")


def outputs(name):
    return MeasuredLengths(workload=name, quantity="output")


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        ("azure-conversation", (1.83, 2.16, 2.40, 2.66, 2.97)), ("azure-code", (2.45, 3.77, 5.67, 8.29, 11.8)),
        ("mooncake", (2.33, 3.06, 3.75, 4.37, 4.87)), ("arxiv", (2.35, 3.65, 5.57, 7.99, 10.3)),
        ("servegen-reasoning", (2.37, 3.49, 4.93, 6.61, 8.41)), ("servegen-chat", (2.52, 3.44, 4.32, 5.29, 6.46)),
    ],
)  # fmt: skip
def test_the_longest_of_4_to_64_is_that_of_the_traces(name, ratios):
    """Computed independently from all requests of the public files; our quantiles keep it within 2 %."""
    assert_allclose(max_ratio(outputs(name), [4, 8, 16, 32, 64]), ratios, rtol=0.02)


def test_the_ratio_of_a_law_is_that_of_its_formula():
    long = {"mean": 5000.0}
    exponential = LengthLaw(law="exponential", **long)
    assert_allclose(max_ratio(exponential, [1, 8, 32]), exponential_max_ratio([1, 8, 32]), rtol=2e-3)
    lognormal = LengthLaw(law="lognormal", cv=np.sqrt(np.e - 1), **long)
    assert_allclose(max_ratio(lognormal, [8, 32]), lognormal_max_ratio(1, [8, 32]), rtol=4e-3)
    assert_allclose(max_ratio(LengthLaw(law="uniform", mean=500), 8), uniform_max(999, 8) / 500, rtol=1e-3)


def test_a_law_is_found_again_by_its_fit():
    for name, cv in (("exponential", None), ("lognormal", 1.5), ("gamma", 0.7)):
        law = LengthLaw(law=name, mean=3000, cv=cv)
        fitted = fitted_laws(law)[name]
        assert_allclose(fitted.mean, 3000, rtol=5e-3)
        assert cv is None or abs(fitted.cv / cv - 1) < 0.01
        assert distance(law, fitted) < 0.005
        assert min(FITTED, key=lambda other: distance(law, fitted_laws(law)[other])) in (name, "geometric", "gamma")


def test_the_distance_is_the_largest_gap_of_two_shares():
    """Constant 10 and constant 20 share nothing; uniform on 1..19 and constant 10 are half apart."""
    ten, twenty = (LengthLaw(law="constant", mean=mean) for mean in (10, 20))
    assert distance(ten, twenty) == 1
    assert distance(ten, ten) == 0
    assert_allclose(distance(LengthLaw(law="uniform", mean=10), ten), 9 / 19, atol=1e-3)


def test_no_law_fits_well_and_the_best_may_miss_the_longest_by_a_factor():
    """Azure code: lognormal, .118, and 4.4 where 8.3 is true; chat: lognormal, .072, and 16 where 5.3 is."""
    for name, far, says in (("azure-code", 0.118, 4.4), ("servegen-chat", 0.072, 16.1)):
        laws = fitted_laws(outputs(name))
        gaps = {law: distance(outputs(name), fitted) for law, fitted in laws.items()}
        assert min(gaps, key=gaps.get) == "lognormal"
        assert_allclose(gaps["lognormal"], far, atol=0.004)
        assert_allclose(max_ratio(laws["lognormal"], 32), says, rtol=0.03)


def test_the_sorted_batches_of_a_uniform_law_by_hand():
    """The r-th smallest of N uniform numbers is r / (N + 1) in the mean."""
    law = LengthLaw(law="uniform", mean=50_000)
    assert_allclose(sorted_max_ratio(law, 2, 2), 2 * (2 / 5 + 4 / 5) / 2, rtol=1e-3)
    ranks = 8 * np.arange(1, 5)
    assert_allclose(sorted_max_ratio(law, 8, 4), 2 * np.mean(ranks / 33), rtol=1e-4)


def test_sorting_one_batch_changes_nothing_and_many_nearly_all():
    assert_allclose(sorted_max_ratio(CHAT, 32, 1), max_ratio(CHAT, 32), rtol=1e-3)
    falling = [sorted_max_ratio(CHAT, 32, batches) for batches in (1, 4, 16, 64)]
    assert falling == sorted(falling, reverse=True)
    assert 1 < sorted_max_ratio(outputs("azure-conversation"), 32, 64) < 1.06


def test_simulated_sorted_batches_agree():
    rng = np.random.default_rng(5)
    lengths = np.sort(length_quantile(CHAT, rng.random((40, 40, 8 * 16))), axis=-1)
    mean = length_quantile(CHAT, (np.arange(40_000) + 0.5) / 40_000).mean()
    simulated = lengths[..., 15::16].mean(axis=(1, 2)) / mean
    assert_mean_is(sorted_max_ratio(CHAT, 16, 8), simulated, precision=0.1)
