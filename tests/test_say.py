"""What is said reaches the sentence as it was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from myst_nb.core.variables import format_plain_text

from lib import prose, units


def in_the_sentence(value, unit=""):
    """Return what MyST-NB writes for the key: it reads the glued text as Python first."""
    glued = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prose, "glue", lambda key, given, display: glued.update({key: given}))
        prose.say("key", value, unit)
    forms, _ = glued["key"]._repr_mimebundle_()
    return format_plain_text(forms["text/plain"], "")


@pytest.mark.parametrize("text", ["50,000", "1.10", "None", "(3)", "it's", 'a "b"', "1e5", "012", "0x10", "{}"])
def test_a_word_stays_as_it_is(text):
    assert in_the_sentence(text) == text


def test_fifty_billion_is_no_tuple():
    assert in_the_sentence(50_000_000_000) == "50,000,000,000"


@given(st.one_of(st.integers(-10**12, 10**12), st.floats(1e-9, 1e15)), st.sampled_from(["", "s", "B/s", "%", "token"]))
def test_a_quantity_stays_as_it_was_formatted(value, unit):
    assert in_the_sentence(value, unit) == units.quantity(value, unit)


def test_a_description_takes_its_numbers_from_what_was_said():
    shown = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prose, "glue", lambda key, given, display: shown.update({key: given}))
        prose.say("step-1", 0.00448, "s")
        line = prose.theme.alt.Chart(prose.theme.rows(x=[1, 2], y=[1, 2])).mark_line().encode(x="x:Q", y="y:Q")
        prose.show("fig", prose.theme.finished(line, "One sequence takes {step-1} and the next is nearly free."))
        with pytest.raises(ValueError, match="description must name values that were said before, got 'step-9'"):
            prose.show("fig", prose.theme.finished(line, "One sequence takes {step-9} and the next is nearly free."))
    forms, _ = shown["fig"]._repr_mimebundle_()
    assert forms["text/plain"] == "One sequence takes 4.48\N{NO-BREAK SPACE}ms and the next is nearly free."


@pytest.mark.parametrize("ends", [(1.0, 2.0, 4.0), (4.0, 2.0, 1.0)])
def test_a_range_is_said_whichever_end_comes_first(ends):
    said = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prose, "glue", lambda key, given, display: said.update({key: given}))
        prose.say_range("fare", ends, "USD")
    forms, _ = said["fare"]._repr_mimebundle_()
    assert format_plain_text(forms["text/plain"], "") == units.quantity_range(1.0, 2.0, 4.0, "USD")
