import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, poisson

from lib.bulk import bulk_queue
from lib.dispatch import smallest_cap
from lib.expressions import Expression, Steps
from lib.timeout_batching import timeout_batch_size, timeout_sojourn_quantile, timeout_sojourn_time
from lib.timeout_choice import estimated_batch_size
from lib.timeout_estimate import _below, ample_cap, estimated_p99
from tests.test_expressions import in_vega

V100 = (1.8874, 0.1438)


@pytest.mark.parametrize(("slope", "within"), [(0.0, 1e-3), (0.0762, 0.025), (0.4084, 0.08)])
def test_the_estimate_is_near_the_exact_percentile(slope, within):
    for arrivals in (0.02, 0.125, 0.5, 1.0, 2.0, 4.0, 8.0):
        for part in (0.0, 0.5, 1.0) if arrivals * slope < 0.9 else ():
            setting = (arrivals, 1.0, slope, part * (1 + slope))
            guess = estimated_p99(*setting, timeout_batch_size(*setting))
            assert_allclose(guess, timeout_sojourn_quantile(0.99, *setting), rtol=within)


def test_the_estimate_keeps_its_limits():
    """A lone request takes a pass, or waits first; a busy flat server takes two passes less a hundredth of one."""
    assert_allclose(estimated_p99(1e-6, *V100, 0.0, 1.0), sum(V100), rtol=5e-3)
    assert_allclose(estimated_p99(1e-9, *V100, 1.5, 1.0), 1.5 + sum(V100), rtol=5e-3)
    assert_allclose(estimated_p99(50.0, 1.0, 0.0, 0.0, 50.0), 1.99, rtol=1e-3)


def test_the_moments_of_the_batch_are_those_of_its_chain():
    """Those who come in a pass ride in the next: Poisson of mean 40 + B / 2, solved on 0..250."""
    count = np.arange(251)
    step = poisson.pmf(count, (40 + 0.5 * count)[:, None])
    law = np.linalg.matrix_power(step / step.sum(axis=1, keepdims=True), 64)[0]
    mean = law @ count
    kept = {}
    estimated_p99(40.0, 1.0, 0.5 / 40, 0.0, mean, named=lambda name, value: kept.setdefault(name, value))
    for name, power in (("p_spread", 2), ("p_third", 3)):
        assert_allclose(kept[name], law @ (count - mean) ** power, rtol=1e-6)


def test_the_normal_law_is_near_enough():
    z = np.linspace(-4, 4, 81)
    assert_allclose(_below(z), norm.cdf(z), atol=2e-4)


@pytest.mark.parametrize("slope", [0.0, 0.0762, 0.4084])
def test_the_ample_cap_costs_less_than_one_percent_and_is_near_the_smallest(slope):
    for arrivals in np.array([0.02, 0.1, 0.3, 0.7, 1.0, 1.5, 2.2, 4.0, 9.0]):
        if arrivals * slope > 0.93:
            continue
        cap = int(ample_cap(arrivals, 1.0, slope, timeout_batch_size(arrivals, 1.0, slope, 0.0)))
        assert smallest_cap(arrivals, 1.0, slope, 0.01) <= cap <= 1.2 * smallest_cap(arrivals, 1.0, slope, 0.01) + 3
        capped = bulk_queue(arrivals, 1 + slope * np.arange(1, cap + 1)).sojourn_time
        assert capped <= 1.01 * timeout_sojourn_time(arrivals, 1.0, slope, 0.0)


@pytest.mark.parametrize(("rate", "timeout"), [(0.3, 0.0), (1.1, 1.2), (4.0, 0.5)])
def test_the_page_computes_what_python_computes(rate, timeout):
    """Step by step, each named value by Vega itself."""
    steps = Steps()
    symbols = (Expression("xrate"), Expression("xfixed"), Expression("xslope"), Expression("xwait"))
    size = steps("size", estimated_batch_size(*symbols, named=steps))
    tail = estimated_p99(*symbols, size, named=steps)
    cap = ample_cap(*symbols[:3], size)
    known = {"xrate": rate, "xfixed": V100[0], "xslope": V100[1], "xwait": timeout}
    for name, formula in steps.formulas.items():
        known[f"datum.{name}"] = in_vega(Expression(formula), **known)
    mean_batch = estimated_batch_size(rate, *V100, timeout)
    assert in_vega(tail, **known) == pytest.approx(float(estimated_p99(rate, *V100, timeout, mean_batch)), rel=1e-9)
    assert in_vega(cap, **known) == float(ample_cap(rate, *V100, mean_batch))
