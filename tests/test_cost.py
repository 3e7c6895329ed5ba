"""Money from seconds: printed examples, the division of the rent, break-even."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import cost
from lib.deployment import Traffic

CHAT = Traffic(prompt_tokens=1000, output_tokens=200)
RATES = st.floats(1e-3, 1e3)


def test_a_dollar_per_million_at_full_load_and_at_two_fifths():
    """2.50 USD/h at 1,000 token/s: 0.694 USD per million busy, 1.736 at 40 % load (pitfalls of LLM calculators)."""
    busy, real = 1e6 * cost.cost_per_token(2.5 / 3600, 1000, utilisation=[1.0, 0.4])
    assert (busy, real) == pytest.approx((0.6944, 1.7361), abs=1e-4)


@given(price=RATES, rate=RATES, prompt=RATES, output=RATES)
def test_the_kinds_of_token_share_the_rent_without_a_rest(price, rate, prompt, output):
    costs = cost.token_costs(price, rate, CHAT, prompt, output)
    assert 1000 * costs.input + 200 * costs.output == pytest.approx(price / rate)
    assert costs.blended == pytest.approx(price / rate / 1200)
    assert 1000 * costs.input / (200 * costs.output) == pytest.approx(prompt / output, rel=1e-6)


def test_what_is_idle_is_paid_by_what_is_served():
    full, half = (cost.token_costs(1.0, rate, CHAT, 0.1, 0.3).output for rate in (2.0, 1.0))
    assert half == pytest.approx(2 * full)


def test_an_api_charges_cached_input_apart():
    """1,000 tokens in, half of them cached at a tenth of the price, 200 out."""
    plain = cost.request_price(CHAT, 1e-6, 5e-6)
    cached = cost.request_price(CHAT, 1e-6, 5e-6, cached_price=1e-7, cached_share=0.5)
    assert plain == pytest.approx(2e-3)
    assert cached == pytest.approx(500e-6 + 50e-6 + 1e-3)


def test_at_the_break_even_rate_rent_and_bill_are_equal():
    price = cost.request_price(CHAT, 1e-6, 5e-6)
    rate = cost.break_even_rate(3.6 / 3600, price)
    assert rate == pytest.approx(0.5)
    assert rate * price == pytest.approx(1e-3)


def test_goodput_counts_only_what_meets_its_targets():
    assert cost.goodput_per_dollar(4.0, [1.0, 0.5], 2.0).tolist() == [2.0, 1.0]


def test_the_chord_lies_above_a_convex_step():
    size = np.arange(1, 65)
    times = 0.01 + 1e-4 * size + 1e-6 * size**2
    fixed, marginal = cost.affine_step(times)
    line = fixed + marginal * size
    assert line[[0, -1]] == pytest.approx(times[[0, -1]])
    assert np.all(line >= times - 1e-15)
    assert cost.affine_step([0.02]) == (0.02, 0.0)
    with pytest.raises(ValueError, match="step_time must not fall"):
        cost.affine_step([0.02, 0.01])
