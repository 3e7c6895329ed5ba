"""The text of a number: scaled, rounded, grouped, and never NaN."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import units

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00448, "s", "4.48 ms"),
        (0.0301, "s", "30.1 ms"),
        (1.5, "s", "1.50 s"),
        (90, "s", "90.0 s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (9.894e14, "FLOP/s", "989 TFLOP/s"),
        (131_072, "B/token", "131 kB/token"),
        (0.9967, "%", "99.7 %"),
        (0.99999, "%", "100 %"),
        (1.4328, "times", "1.43 times"),
        (2023, "year", "2023"),
        (13_015_864_320, "", "13,015,864,320"),
        (13_015_864_320.0, "", "13,000,000,000"),
        (32, "", "32"),
        (131_072, "token", "131,072 tokens"),
        (295.2, "FLOP/B", "295 FLOP/B"),
        (999.9999e9, "B", "1.00 TB"),
        (0, "s", "0 s"),
        (-0.25, "%", "\N{MINUS SIGN}25.0 %"),
        (40e-9, "s", "40.0 ns"),
        (4e-11, "s", "0.0400 ns"),
    ],
)
def test_a_quantity_reads_as_an_engineer_writes_it(value, unit, text):
    assert units.quantity(value, unit) == text.replace(" ", SPACE)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="value must be"):
        units.quantity(value, "s")


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit must be one of"):
        units.quantity(1.0, "FLOPS")


@given(st.floats(1e-8, 1e17), st.integers(1, 9))
def test_the_text_is_within_half_a_unit_of_the_last_digit(value, digits):
    text = units.grouped(value, digits)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.5000001 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("numbers", "unit", "text"),
    [
        ((1, 2, 4), "", "2 (1 to 4)"),
        ((0.0109, 0.0216, 0.1091), "USD", "0.0216 USD (0.0109 to 0.109)"),
        ((0.4e6, 2.1e6, 3e6), "token/s", "2.10 Mtokens/s (400 ktokens/s to 3.00 Mtokens/s)"),
        ((0.02, 0.02, 0.3), "s", "20.0 ms (20.0 to 300)"),
        ((0.67, 0.67, 0.67), "USD/h", "0.670 USD/h"),
    ],
)
def test_a_range_repeats_its_unit_only_where_it_must(numbers, unit, text):
    assert units.quantity_range(*numbers, unit).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("numbers", "name"), [((2, 1, 3), "middle"), ((1, 3, 2), "high"), ((1, math.nan, 2), "middle")]
)
def test_a_middle_outside_its_range_is_refused(numbers, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        units.quantity_range(*numbers, "USD")
