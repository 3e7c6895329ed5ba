"""Bad arguments are refused in one voice: name, rule, value."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lib import arguments

NOT_NUMBERS = [True, np.True_, "1", None, 1j, [1.0], {}]


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int64(3), np.array(3)])
def test_any_kind_of_real_number_becomes_a_float(value):
    checked = arguments.number("size", value)
    assert type(checked) is float
    assert checked == 3.0


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^size must be a number, got "):
        arguments.number("size", value)


def test_an_array_is_no_single_number():
    with pytest.raises(ValueError, match=r"^size must be a single number, got shape \(2,\)$"):
        arguments.number("size", np.ones(2))


@pytest.mark.parametrize("check", [arguments.number, arguments.array])
@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        (math.nan, {}, "size must be a number, got nan"),
        (math.inf, {}, "size must be finite, got inf"),
        (-math.inf, {"infinite": True}, "size must be finite, got -inf"),
        (0.5, {"least": 1}, "size must be at least 1, got 0.5"),
        (0, {"above": 0}, "size must be above 0, got 0"),
        (1.5, {"most": 1}, "size must be at most 1, got 1.5"),
        (math.inf, {"most": 1, "infinite": True}, "size must be at most 1, got inf"),
        (1.5, {"whole": True}, "size must be a whole number, got 1.5"),
    ],
)
def test_the_message_gives_name_rule_and_value(check, value, rule, message):
    with pytest.raises(ValueError) as refusal:
        check("size", value, **rule)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (1, {"least": 1}),
        (1e-300, {"above": 0}),
        (1, {"most": 1}),
        (math.inf, {"infinite": True}),
        (math.inf, {"infinite": True, "whole": True}),
        (-7, {}),
    ],
)
def test_a_value_on_the_boundary_is_let_through(value, rule):
    assert arguments.number("size", value, **rule) == value
    assert_array_equal(arguments.array("size", [value, value], **rule), [value, value])


def test_the_first_bad_element_is_the_one_shown():
    with pytest.raises(ValueError, match=r"^size must be at least 1, got -2$"):
        arguments.array("size", [[1, -2], [-3, 4]], least=1)


@pytest.mark.parametrize("values", [["a", "b"], "ab", [True, False], [None], [1j]])
def test_an_array_of_anything_but_numbers_is_refused(values):
    with pytest.raises(ValueError, match=r"^size must hold numbers, got "):
        arguments.array("size", values)


def test_a_ragged_array_is_refused():
    with pytest.raises(ValueError, match=r"^size must be a rectangular array of numbers, got "):
        arguments.array("size", [[1, 2], [3]])


def test_an_empty_array_is_refused():
    with pytest.raises(ValueError, match=r"^size must not be empty, got shape \(0,\)$"):
        arguments.array("size", [])


def test_a_checked_array_is_a_copy_that_the_caller_does_not_share():
    given = np.ones(3)
    arguments.array("size", given)[0] = 5
    assert_array_equal(given, 1)


def test_arrays_that_fit_are_broadcast():
    one, two = arguments.together(one=np.ones((2, 1)), two=np.arange(3))
    assert one.shape == two.shape == (2, 3)


def test_arrays_that_do_not_fit_are_named_with_their_shapes():
    with pytest.raises(ValueError, match=r"got one \(2,\), two \(3,\)$"):
        arguments.together(one=np.ones(2), two=np.ones(3))


def test_a_symbol_passes_every_check_of_numbers():
    symbol = arguments.Symbol()
    assert arguments.number("size", symbol, least=1) is symbol
    assert arguments.array("size", symbol, least=1) is symbol
    assert arguments.together(one=symbol, two=np.ones(2))[0] is symbol


def test_an_option_is_let_through_and_another_word_is_not():
    assert arguments.choice("overlap", "full", ("full", "none")) == "full"
    with pytest.raises(ValueError, match=r"^overlap must be one of full, none, got 'ful'$"):
        arguments.choice("overlap", "ful", ("full", "none"))


@pytest.mark.parametrize("value", [1, None, ["full"], np.array(["full"])])
def test_an_option_must_be_a_word(value):
    with pytest.raises(ValueError, match=r"^overlap must be one of full, none, got "):
        arguments.choice("overlap", value, ("full", "none"))


def test_of_many_options_the_close_ones_are_offered():
    options = [f"accelerator {letter}" for letter in "abcdefghijk"] + ["H100 SXM"]
    with pytest.raises(ValueError, match=r"^name must be one of H100 SXM, got 'H100 SMX'$"):
        arguments.choice("name", "H100 SMX", options)


def test_a_record_of_another_class_is_refused():
    assert arguments.record("count", 3, int) == 3
    with pytest.raises(ValueError, match=r"^count must be a int, got '3'$"):
        arguments.record("count", "3", int)


@pytest.mark.parametrize("value", ["", "  \n", None, 3, b"words"])
def test_a_text_with_nothing_in_it_is_refused(value):
    with pytest.raises(ValueError, match=r"^source must be a text that is not empty, got "):
        arguments.text("source", value)


def test_a_text_comes_back_as_it_was():
    assert arguments.text("source", " words ") == " words "
