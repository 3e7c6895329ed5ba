import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib.latency import (
    ServiceLevel,
    goodput,
    inter_token_latency,
    latencies,
    meets,
    percentile,
    values_needed,
    warm_up,
)

# Three requests: one at leisure, one of a single token, one refused.
FOUND = latencies([0, 1, 2], [0.1, 1.5, np.inf], [0.2, 2, np.inf], [1.2, 2, np.inf], [11, 1, 0])


def test_the_words_of_the_notation():
    """First token at .2 s, last at 1.2 s, 11 tokens: TPOT .1 s, the first token not counted."""
    assert_allclose(FOUND.ttft, [0.2, 1, np.inf])
    assert_allclose(FOUND.ttft_without_queue, [0.1, 0.5, np.inf])
    assert_allclose(FOUND.tpot, [0.1, np.nan, np.nan])
    assert_allclose(FOUND.latency, [1.2, 1, np.inf])


def test_the_queue_counts_from_the_moment_of_sending():
    """Ten a second, .5 s each, one in flight: the eighth is sent at .7 and answered at 4; on average 1.9 s."""
    sent, answered = 0.1 * np.arange(8), 0.5 * np.arange(1, 9)
    found = latencies(sent, answered - 0.5, answered, answered, np.ones(8))
    assert_allclose(found.latency.mean(), 1.9)


def test_gaps_between_tokens_average_to_the_tpot():
    tokens = np.array([0.2, 0.3, 0.3, 0.9, 1.2])
    found = latencies([0], [0], tokens[:1], tokens[-1:], [5])
    assert_allclose(inter_token_latency(tokens).mean(), found.tpot)
    assert_allclose(inter_token_latency(tokens).max(), 0.6)
    with pytest.raises(ValueError, match=r"token_time must not fall, got a gap of -0.1"):
        inter_token_latency([0.2, 0.1])


def test_a_time_before_the_one_that_precedes_it_is_refused():
    with pytest.raises(ValueError, match=r"first_token_time must be at least admitted_time, got 0\.5 and 1"):
        latencies([0], [1], [0.5], [2], [3])


def test_a_request_meets_all_targets_at_once_or_is_no_good():
    assert [*meets(ServiceLevel(), FOUND)] == [True, True, False]
    assert [*meets(ServiceLevel(ttft=0.2), FOUND)] == [True, False, False]
    assert [*meets(ServiceLevel(tpot=0.05), FOUND)] == [False, True, False]
    assert [*meets(ServiceLevel(latency=1.1), FOUND)] == [False, True, False]
    assert [*meets(ServiceLevel(ttft=0.5, latency=1.1), FOUND)] == [False, False, False]
    assert goodput(meets(ServiceLevel(ttft=0.2), FOUND), 4.0) == 0.25


def test_a_percentile_is_a_value_of_the_sample():
    found = percentile(np.arange(1, 101), 0.9)
    assert found.value == 90
    assert percentile(np.arange(1, 101), 0.905).value == 91
    assert percentile([3.0, 1.0, 2.0], 0.5).value == 2


def test_the_interval_of_a_median_is_the_textbooks():
    """n = 10: the second and the ninth of ten hold the median with 97.85 %; the third and the eighth with 89.06 %."""
    found = percentile(np.arange(1, 11), 0.5, coverage=0.95)
    assert (found.low, found.high) == (2, 9)
    assert_allclose(found.coverage, 1 - 22 / 1024)
    found = percentile(np.arange(1, 11), 0.5, coverage=0.85)
    assert (found.low, found.high) == (3, 8)
    assert_allclose(found.coverage, 1 - 112 / 1024)


@pytest.mark.parametrize(("level", "needed"), [(0.5, 6), (0.9, 36), (0.99, 368), (0.999, 3688)])
def test_an_interval_needs_so_many_values(level, needed):
    """The largest must lie above the percentile with 97.5 %: level to the power n at most .025."""
    assert abs(values_needed(level) - np.log(0.025) / np.log(level)) < 1.01
    assert values_needed(level) == needed
    assert percentile(np.arange(needed), level).enough
    assert not percentile(np.arange(needed - 1), level).enough


def test_a_small_sample_is_marked_or_refused():
    found = percentile(np.arange(71), 0.99)
    assert (found.enough, found.high) == (False, np.inf)
    with pytest.raises(ValueError, match="values must be at least 368, got 71"):
        percentile(np.arange(71), 0.99, strict=True)


@pytest.mark.parametrize("law", ["exponential", "lognormal", "uniform"])
def test_the_interval_holds_the_true_percentile_as_often_as_it_says(law):
    """Whatever the law: 2,000 samples of 400, the 95th percentile; 95.6 % by the binomial law."""
    draws = getattr(np.random.default_rng(2), law)(size=(2_000, 400))
    truth = {"exponential": -np.log(0.05), "lognormal": np.exp(1.6448536269514722), "uniform": 0.95}[law]
    found = [percentile(row, 0.95) for row in draws]
    held = np.mean([one.low <= truth < one.high for one in found])
    assert_allclose(held, found[0].coverage, atol=3.3 * np.sqrt(0.05 * 0.95 / 2_000))


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=80), st.floats(0.05, 0.95))
def test_a_percentile_lies_in_its_interval(values, level):
    found = percentile(values, level)
    assert found.low <= found.value <= found.high


def test_a_refused_request_is_late_for_ever():
    assert percentile([1.0, 2.0, np.inf], 0.9).value == np.inf


def test_the_warm_up_is_what_the_rule_says():
    """A start that lies 10 above a level of noise 1 for 200 requests, and a run without a start."""
    rng = np.random.default_rng(4)
    noise = rng.normal(size=2_000)
    noise[:200] += 10
    assert abs(warm_up(noise) - 200) <= 20
    assert warm_up(rng.normal(size=2_000)) < 300


def test_the_warm_up_minimises_the_squared_standard_error_of_the_rest():
    """By trying every cut, over starts of many sizes: a rule that leans to longer or shorter warm-ups differs."""
    rng = np.random.default_rng(3)
    for size in np.linspace(0.5, 6, 40):
        values = rng.normal(10, 1, 300) - size * np.exp(-np.arange(300) / 12)
        means = values.reshape(60, 5).mean(axis=1)
        error = [np.sum((means[d:] - means[d:].mean()) ** 2) / (60 - d) ** 2 for d in range(31)]
        if np.argmin(error) < 30:
            assert warm_up(values) == 5 * np.argmin(error)


def test_a_run_that_never_settles_is_refused():
    with pytest.raises(ValueError, match="values must settle in their first half, got the least error without 500"):
        warm_up(np.arange(1_000.0))
