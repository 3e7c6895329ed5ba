"""The controls that stand under a chart before it lives."""

import altair as alt
import pytest

from lib import controls


def bound(value, **bind):
    return {"name": "batch", "value": value, "bind": bind}


def test_a_chart_without_controls_has_no_place_for_them():
    assert controls.placeholders({"params": [{"name": "peak", "expr": "2*batch"}]}) == ""
    assert controls.placeholders({}) == ""


def test_controls_show_their_first_value_and_do_nothing():
    sliding = alt.param(name="batch", value=32, bind=alt.binding_range(min=1, max=512, step=1, name="batch size "))
    chosen = bound("B & C", input="select", options=["A", "B & C"], name="machine ")
    slider, choice = (controls.placeholders({"params": [one]}) for one in (sliding.param.to_dict(), chosen))
    assert 'type="range" disabled aria-label="batch size " min="1" max="512" step="1" value="32"><span>32<' in slider
    assert '<span class="vega-bind-name">machine </span><select disabled' in choice
    assert "<option>A</option><option selected>B &amp; C</option>" in choice


def test_a_control_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="bind must be a range or a select, got 'checkbox'"):
        controls.placeholders({"params": [bound(True, input="checkbox")]})
