import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import lambertw

from lib.control_limit import waiting_threshold
from lib.expressions import Expression, Steps
from lib.timeout_batching import sojourn_time_of, timeout_batch_size, timeout_sojourn_time
from lib.timeout_choice import _lambert, best_timeout, estimated_batch_size, harmless_timeout
from tests.test_expressions import in_vega

V100 = (1.8874, 0.1438)
few = settings(max_examples=40, deadline=None)


def test_the_best_timeout_is_the_best_of_a_search():
    """Exact for a flat pass; with the slope of the V100 within a thousandth, of the P4 within a hundredth."""
    for slope, within in ((0.0, 1e-5), (0.0762, 1e-3), (0.408, 0.01)):
        for arrivals in (2.2, 2.4, 3.0, 6.0):
            if slope * arrivals < 0.98:
                found = minimize_scalar(
                    lambda timeout, a=arrivals, s=slope: float(timeout_sojourn_time(a, 1.0, s, timeout)),
                    bounds=(0, 1), method="bounded", options={"xatol": 1e-9},
                )  # fmt: skip
                assert_allclose(best_timeout(arrivals, 1.0), found.x, atol=within)


def test_waiting_pays_from_the_threshold_of_the_control_limit_on():
    threshold = float(waiting_threshold(1))
    assert best_timeout(threshold * 0.999, 1.0) == 0
    assert 0 < best_timeout(threshold * 1.001, 1.0) < 1e-3
    assert_allclose(threshold, 2.114207, atol=1e-6)


def test_the_best_timeout_tends_to_half_the_fixed_time_less_a_gap():
    assert_allclose(best_timeout(50.0, 2.0), 1.0 - 1 / 50, rtol=1e-10)
    assert best_timeout(3.0, 0.0) == 0


def test_a_timeout_gains_less_than_six_hundredths_of_a_percent():
    arrivals = np.linspace(2.2, 12, 200)
    best = timeout_sojourn_time(arrivals, 1.0, 0.0, best_timeout(arrivals, 1.0))
    gain = 1 - best / timeout_sojourn_time(arrivals, 1.0, 0.0, 0.0)
    assert 5e-4 < gain.max() < 6e-4


@few
@given(rate=st.floats(0.05, 5), loss=st.floats(0.001, 0.3))
def test_the_harmless_timeout_loses_what_was_allowed(rate, loss):
    timeout = harmless_timeout(rate, *V100, loss)
    lost = timeout_sojourn_time(rate, *V100, timeout) / timeout_sojourn_time(rate, *V100, 0) - 1
    assert lost <= loss * (1 + 1e-6)
    assert timeout == pytest.approx(sum(V100)) or lost == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(("slope", "within"), [(0.0, 1e-9), (0.0762, 5e-4), (0.408, 3e-3), (3.0, 0.01)])
def test_the_estimate_is_near_the_exact_mean(slope, within):
    rates = np.geomspace(0.02, 0.97 / max(slope, 0.05), 25)[:, None]
    timeouts = np.linspace(0, 1 + slope, 7)
    size = estimated_batch_size(rates, 1.0, slope, timeouts)
    mean = sojourn_time_of(size, rates, 1.0, slope, timeouts)
    assert_allclose(mean, timeout_sojourn_time(rates, 1.0, slope, timeouts), rtol=within)


def test_the_estimate_is_exact_without_a_slope():
    assert_allclose(estimated_batch_size(2.0, 1.0, 0.0, 0.5), timeout_batch_size(2.0, 1.0, 0.0, 0.5), rtol=1e-8)


def test_lamberts_function_is_scipys():
    x = np.geomspace(1e-9, 1e4, 60)
    assert_allclose(_lambert(x), lambertw(x).real, rtol=1e-6)


@pytest.mark.parametrize(("rate", "timeout"), [(0.3, 0.0), (1.1, 1.2), (4.0, 0.5)])
def test_the_page_computes_what_python_computes(rate, timeout):
    """Step by step, each named value by Vega itself."""
    steps = Steps()
    symbols = (Expression("xrate"), Expression("xfixed"), Expression("xslope"), Expression("xwait"))
    mean = sojourn_time_of(estimated_batch_size(*symbols, named=steps), *symbols)
    known = {"xrate": rate, "xfixed": V100[0], "xslope": V100[1], "xwait": timeout}
    for name, formula in steps.formulas.items():
        known[f"datum.{name}"] = in_vega(Expression(formula), **known)
    size = estimated_batch_size(rate, *V100, timeout)
    expected = sojourn_time_of(size, rate, *V100, timeout)
    assert in_vega(mean, **known) == pytest.approx(float(expected), rel=1e-9)
    best = in_vega(best_timeout(*symbols[:2]), **known)
    assert best == pytest.approx(float(best_timeout(rate, V100[0])), abs=1e-12)
