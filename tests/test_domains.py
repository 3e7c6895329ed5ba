"""The rules of `lib.domains`: one per word, for every function of the queueing alike."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.domains import DOMAINS, at_least, checked, single


@pytest.mark.parametrize("word", DOMAINS)
def test_a_word_lets_in_its_domain_and_nothing_else(word):
    rule = DOMAINS[word]
    low, high = rule.get("least", rule.get("above")), rule.get("most", np.inf)
    inside = [1.0, np.float64(1), *([low] if "least" in rule else []), *([np.inf] if rule.get("infinite") else [])]
    outside = [np.nan, -np.inf, low - 1, *([low] if "above" in rule else []), *([1.5] if rule.get("whole") else [])]
    outside += [] if rule.get("infinite") else [np.inf]
    outside += [high + 0.1] if "most" in rule else []
    for value in inside if "above" not in rule or low < 1 else [low + 1]:
        assert single(**{word: value}) == value
        assert_allclose(checked(**{word: [value, value]})[0], [value, value])
    for value in [*outside, "1", None, True, [], [[1.0], [1.0, 2.0]], 1j]:
        for rule_of in (single, checked):
            with pytest.raises(ValueError, match=rf"^{word} must .*got"):
                rule_of(**{word: value})


def test_values_come_back_in_order_and_in_one_shape():
    rate, size = checked(arrival_rate=[0.5, 1.0], batch_size=2)
    assert_allclose([rate, size], [[0.5, 1.0], [2, 2]])
    assert single(arrival_rate=0.5, batch_size=2) == [0.5, 2.0]


def test_shapes_that_do_not_fit_are_refused_by_name():
    with pytest.raises(ValueError, match=r"arrival_rate \(2,\), batch_size \(3,\)"):
        checked(arrival_rate=[0.5, 1.0], batch_size=[1, 2, 3])


def test_a_floor_is_another_argument():
    at_least("longest", [2.0, 3.0], "shortest", 2.0)
    at_least("second_moment", 0.01 * (1 - 1e-15), "service_time squared", 0.01)
    with pytest.raises(ValueError, match=r"longest must be at least shortest \(2.5\), got 2"):
        at_least("longest", [2.0, 3.0], "shortest", 2.5)
