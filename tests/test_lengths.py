import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import spearmanr

from lib.lengths import WORKLOADS, LengthLaw, MeasuredLengths, length_quantile, paired_levels
from lib.measured import table
from lib.order_statistics import (
    empirical_max,
    exponential_max_ratio,
    geometric_max,
    lognormal_max_ratio,
    pareto_max_ratio,
    uniform_max,
)

LEVELS = (np.arange(200_000) + 0.5) / 200_000


def sample(law, levels=LEVELS):
    return length_quantile(law, levels)


@pytest.mark.parametrize("law", ["constant", "uniform", "geometric", "exponential", "lognormal", "gamma"])
def test_a_law_has_its_mean_and_variation(law):
    cv = 1.5 if law in ("lognormal", "gamma") else None
    lengths = sample(LengthLaw(law=law, mean=400, cv=cv))
    # The discrete and the uniform law by hand: q / p^2, and (m^2 - 1) / 12 with m = 799.
    wanted = {"constant": 0, "uniform": np.sqrt((799**2 - 1) / 12) / 400, "geometric": np.sqrt(1 - 1 / 400),
              "exponential": 1, None: 1.5}[law if cv is None else None]
    assert_allclose(lengths.mean(), 400, rtol=2e-3)
    assert_allclose(lengths.std() / lengths.mean(), wanted, rtol=0.01)
    assert np.all(lengths == np.rint(lengths))
    assert lengths.min() >= 1


def test_the_longest_of_eight_agrees_with_order_statistics():
    ratio = {
        law: empirical_max(sample(LengthLaw(law=law, mean=1000, cv=cv)), 8) / 1000
        for law, cv in (("exponential", None), ("lognormal", np.sqrt(np.e - 1)), ("pareto", np.sqrt(1 / 3)),
                        ("geometric", None), ("uniform", None))
    }
    assert_allclose(ratio["exponential"], exponential_max_ratio(8), rtol=2e-3)
    assert_allclose(ratio["lognormal"], lognormal_max_ratio(1, 8), rtol=2e-3)
    assert_allclose(ratio["pareto"], pareto_max_ratio(3, 8), rtol=5e-3)
    assert_allclose(ratio["geometric"], geometric_max(1000, 8) / 1000, rtol=2e-3)
    assert_allclose(ratio["uniform"], uniform_max(1999, 8) / 1000, rtol=2e-3)


def test_a_clipped_geometric_length_has_the_mean_of_its_survival():
    """D-CLIP-01: E min(L, M) = sum of q^k over k < M."""
    lengths = sample(LengthLaw(law="geometric", mean=100, longest=150))
    assert_allclose(lengths.mean(), np.sum(0.99 ** np.arange(150)), rtol=1e-4)
    assert lengths.max() == 150


def test_a_mean_of_one_token_is_one_token():
    assert sample(LengthLaw(law="geometric", mean=1), [0, 0.5, 0.999]).tolist() == [1, 1, 1]


def test_the_last_level_is_infinite_unless_clipped():
    assert sample(LengthLaw(law="exponential", mean=10), 1) == np.inf
    assert sample(LengthLaw(law="exponential", mean=10, longest=64), 1) == 64
    assert sample(LengthLaw(law="pareto", mean=10, cv=np.inf), [0, 0.75]).tolist() == [5, 10]


@pytest.mark.parametrize(
    ("workload", "prompt", "output"),
    [
        ("azure-conversation", (1020, 2735, 4142, 14050), (129, 424, 601, 1000)),
        ("azure-code", (1469, 5188, 7436, 7437), (13, 55, 251, 1899)),
        ("mooncake", (11587, 38611, 66456, 191378), (69, 389, 768, 893)),
        ("arxiv", (2730, 3702, 3933, 4054), (167, 372, 3271, 4056)),
        ("servegen-reasoning", (208, 2092, 23404, 57284), (792, 3432, 12603, 32768)),
        ("servegen-chat", (601, 2371, 5448, 30712), (53, 461, 872, 9307)),
    ],
)
def test_measured_quantiles_are_those_of_the_sources(workload, prompt, output):
    """p50, p90, p99 and the longest, computed independently from the same public files."""
    for quantity, wanted in (("prompt", prompt), ("output", output)):
        law = MeasuredLengths(workload=workload, quantity=quantity)
        assert_allclose(sample(law, [0.5, 0.9, 0.99, 1]), wanted, rtol=2e-3, atol=1)


@pytest.mark.parametrize(
    ("workload", "ratios"),
    [
        ("azure-conversation", (1.83, 2.16, 2.40, 2.66, 2.97)),
        ("azure-code", (2.45, 3.77, 5.67, 8.29, 11.8)),
        ("mooncake", (2.33, 3.06, 3.75, 4.37, 4.87)),
        ("arxiv", (2.35, 3.65, 5.57, 7.99, 10.3)),
        ("servegen-reasoning", (2.37, 3.49, 4.93, 6.61, 8.41)),
        ("servegen-chat", (2.52, 3.44, 4.32, 5.29, 6.46)),
    ],
)
def test_the_longest_output_of_a_batch_is_that_of_the_source(workload, ratios):
    """E[max of 4, 8, 16, 32, 64] / E from all outputs of the source; the table of quantiles keeps it to 2 %."""
    lengths = sample(MeasuredLengths(workload=workload, quantity="output"))
    assert_allclose(empirical_max(lengths, [4, 8, 16, 32, 64]) / lengths.mean(), ratios, rtol=0.02)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_table_of_quantiles_has_the_mean_and_variation_of_the_source(workload):
    means = table("workloads")
    row = list(means["workload"]).index(workload)
    for quantity in ("prompt", "output"):
        lengths = sample(MeasuredLengths(workload=workload, quantity=quantity))
        assert_allclose(lengths.mean(), means[f"{quantity}_mean"][row], rtol=0.015)
        assert_allclose(lengths.std() / lengths.mean(), means[f"{quantity}_cv"][row], rtol=0.03)


def test_quantiles_rise_with_the_level():
    lengths = table("lengths")
    for workload in WORKLOADS:
        for quantity in ("prompt", "output"):
            chosen = (lengths["workload"] == workload) & (lengths["quantity"] == quantity)
            assert np.all(np.diff(lengths["tokens"][chosen][np.argsort(lengths["level"][chosen])]) >= 0)
            assert {0.0, 0.5, 0.999, 1.0} <= {*lengths["level"][chosen]}


@pytest.mark.parametrize("correlation", [-1.0, -0.5, 0.0, 0.3, 1.0])
def test_pairs_have_their_rank_correlation_and_uniform_margins(correlation):
    levels = paired_levels(correlation, 100_000, np.random.default_rng(7))
    assert_allclose(spearmanr(*levels)[0], correlation, atol=0.01)
    assert_allclose(levels.mean(axis=1), 0.5, atol=0.005)
    assert_allclose((levels < 0.1).mean(axis=1), 0.1, atol=0.005)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "lognormal", "mean": 10.0}, "cv must be a number, got None"),
        ({"law": "lognormal", "mean": 10.0, "cv": np.inf}, "cv must be finite, got inf"),
        ({"law": "geometric", "mean": 10.0, "cv": 1.0}, "cv must be left out for geometric lengths, got 1"),
        ({"law": "geometric", "mean": 0.5}, "mean must be at least 1, got 0.5"),
        ({"law": "geometric", "mean": np.inf}, "mean must be finite, got inf"),
    ],
)
def test_a_law_is_refused_what_it_has_no_use_for(given, message):
    with pytest.raises(ValueError, match=message):
        LengthLaw(**given)
