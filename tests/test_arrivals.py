import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gamma

from lib.arrivals import ArrivalLaw, arrival_times
from lib.trace import arrival_statistics
from tests.replications import assert_mean_is

LAWS = [
    (ArrivalLaw(law="poisson", rate=2.0), 1.0),
    (ArrivalLaw(law="gamma", rate=2.0, cv=0.3), 0.3),
    (ArrivalLaw(law="gamma", rate=2.0, cv=2.0), 2.0),
    (ArrivalLaw(law="weibull", rate=2.0, cv=0.3), 0.3),
    (ArrivalLaw(law="weibull", rate=2.0, cv=2.0), 2.0),
    (ArrivalLaw(law="deterministic", rate=2.0), 0.0),
    # 1 + 2 lambda off^2 / (on + off) = 1 + 2 * 2 * 4 / 8 = 3
    (ArrivalLaw(law="on-off", rate=2.0, on_time=6.0, off_time=2.0), np.sqrt(3)),
]


@pytest.mark.parametrize(("law", "cv"), LAWS, ids=lambda value: getattr(value, "law", None))
def test_a_law_has_its_rate_and_variation(law, cv):
    gaps = [np.diff(arrival_times(law, 20_001, rng), prepend=0) for rng in np.random.default_rng(3).spawn(40)]
    if cv == 0:
        assert_allclose(gaps, 0.5, rtol=1e-9)
        return
    assert_mean_is(0.5, np.mean(gaps, axis=1))
    assert_mean_is(cv**2 + 1, np.mean(np.square(gaps), axis=1) / 0.25, precision=0.1)


def test_the_weibull_law_of_variation_two_has_a_tail_of_shape_one_half_or_so():
    """P(gap > x) = exp(-(x / scale)^k): k = .5427 has c = 2, as Gamma(1 + 2/k) / Gamma(1 + 1/k)^2 = 5."""
    shape = 0.54269
    assert_allclose(gamma(1 + 2 / shape) / gamma(1 + 1 / shape) ** 2, 5, rtol=1e-3)
    gaps = np.diff(arrival_times(ArrivalLaw(law="weibull", rate=1.0, cv=2.0), 200_000, np.random.default_rng(4)))
    beyond = [np.mean(gaps > x) for x in (0.5, 2, 8)]
    assert_allclose(beyond, np.exp(-((np.array([0.5, 2, 8]) * gamma(1 + 1 / shape)) ** shape)), rtol=0.03)


@pytest.mark.parametrize("law", [law for law, _ in LAWS if law.law != "on-off"], ids=lambda law: law.law)
def test_the_same_generator_gives_the_same_arrivals_at_another_rate(law):
    faster = ArrivalLaw(law=law.law, rate=8.0, cv=law.cv)
    slow, fast = (arrival_times(each, 100, np.random.default_rng(5)) for each in (law, faster))
    assert_allclose(fast, slow / 4)


def test_bursts_are_dense_and_silences_empty():
    law = ArrivalLaw(law="on-off", rate=1.0, on_time=10.0, off_time=90.0)
    found = arrival_statistics(arrival_times(law, 50_000, np.random.default_rng(6)))
    assert found.longest_gap > 300
    assert_allclose(found.cv**2, 1 + 2 * 8100 / 100, rtol=0.2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "pareto", "rate": 1.0}, "law must be one of .*got 'pareto'"),
        ({"law": "poisson", "rate": 0.0}, "rate must be above 0, got 0"),
        ({"law": "poisson", "rate": np.inf}, "rate must be finite, got inf"),
        ({"law": "poisson", "rate": np.nan}, "rate must be a number, got nan"),
        ({"law": "poisson", "rate": 1.0, "cv": 2.0}, "cv must be left out for poisson arrivals, got 2"),
        ({"law": "gamma", "rate": 1.0}, "cv must be a number, got None"),
        ({"law": "gamma", "rate": 1.0, "cv": 0.0}, "cv must be at least 0.05, got 0"),
        ({"law": "weibull", "rate": 1.0, "cv": 21.0}, "cv must be at most 20, got 21"),
        ({"law": "on-off", "rate": 1.0, "on_time": 1.0}, "off_time must be a number, got None"),
        ({"law": "on-off", "rate": 1.0, "on_time": -1.0, "off_time": 1.0}, "on_time must be above 0, got -1"),
        ({"law": "deterministic", "rate": 1.0, "off_time": 1.0}, "off_time must be left out for deterministic .*got 1"),
    ],
)
def test_a_law_is_refused_what_it_has_no_use_for(given, message):
    with pytest.raises(ValueError, match=message):
        ArrivalLaw(**given)
