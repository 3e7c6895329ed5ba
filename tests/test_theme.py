"""Colours that everybody can tell from their ground, and a specification that says what it shows."""

import itertools
import re

import altair as alt
import pytest

from lib import theme

GROUNDS = {"light": ["#FFFFFF", "#F3F4F5"], "dark": ["#121212", "#29313D"]}  # the page, and the theme's boxes


def luminance(colour):
    """WCAG 2.2, relative luminance."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """WCAG 2.2, contrast ratio."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("name", theme.COLOURS)
@pytest.mark.parametrize(("place", "dress"), [(0, "light"), (1, "dark")])
def test_a_mark_stands_out_from_its_ground(name, place, dress):
    for ground in GROUNDS[dress]:
        assert contrast(theme.COLOURS[name][place], ground) >= 3


@pytest.mark.parametrize("colour", [theme.TEXT, theme.COLOURS["muted"]])
@pytest.mark.parametrize(("place", "dress"), [(0, "light"), (1, "dark")])
def test_words_stand_out_from_their_ground(colour, place, dress):
    for ground in GROUNDS[dress]:
        assert contrast(colour[place], ground) >= 4.5


@pytest.mark.parametrize("place", [0, 1])
def test_no_two_meanings_share_a_colour(place):
    colours = [pair[place] for pair in theme.COLOURS.values()]
    assert all(one != other for one, other in itertools.combinations(colours, 2))


def test_every_colour_of_a_chart_has_a_dark_twin():
    sheet = theme.dark_mode_css()
    for light, dark in (*theme.COLOURS.values(), theme.GRID, theme.GROUND):
        assert f'[fill="{light}" i] {{fill: {dark};}}' in sheet
        assert f'[stroke="{light}" i] {{stroke: {dark};}}' in sheet


def chart(description="Six words that say what it shows."):
    axes = alt.X("x:Q", title="size (B)"), alt.Y("y:Q", title="time (s)")
    base = alt.Chart(theme.rows(x=[1, 2], y=[3, 4])).encode(*axes)
    return theme.finished(base.mark_line() + base.mark_point(), description)


def test_a_chart_without_a_description_is_refused():
    with pytest.raises(ValueError, match="description must say what the chart shows"):
        chart("A chart.")
    with pytest.raises(ValueError, match="description must say what the chart shows"):
        theme.specification(alt.Chart(theme.rows(x=[1])).mark_point())


def test_layers_that_plot_the_same_rows_hold_them_once():
    spec = theme.specification(chart())
    assert [*spec["datasets"].values()] == [[{"x": 1, "y": 3}, {"x": 2, "y": 4}]]
    assert '"values"' not in str({key: item for key, item in spec.items() if key != "datasets"})


def test_the_static_picture_is_as_wide_as_the_column():
    assert f'width="{theme.STATIC_WIDTH}"' in theme.static_svg(theme.specification(chart()))


def test_a_picture_is_the_same_whatever_was_drawn_before_it():
    axes = alt.X("x:Q", title="size (B)"), alt.Y("y:Q", title="time (s)")
    one, other = (
        alt.Chart(theme.rows(x=[1, 2], y=[3, last])).encode(*axes).mark_line(clip=True) for last in (4, 5)
    )
    spec = theme.specification(theme.finished(one + other, "Six words that say what it shows."))
    first, second = theme.static_svg(spec), theme.static_svg(spec)
    assert first == second
    assert re.findall(r'id="(\w+)"', first) == re.findall(r"url\(#(\w+)\)", first) == ["clip1", "clip2"]


def test_a_legend_of_one_entry_a_line_makes_a_chart_taller_on_a_phone():
    colour = alt.Color("kind:N", legend=alt.Legend(title=None))
    rows = theme.rows(x=[1, 2, 3], y=[3, 4, 5], kind=["a", "b", "c"])
    bare = alt.Chart(rows).mark_point().encode(alt.X("x:Q", title="size (B)"), alt.Y("y:Q", title="time (s)"))
    plain, coloured = (
        theme.narrow_height(theme.specification(theme.finished(one, "Six words that say what it shows.")))
        for one in (bare, bare.encode(colour))
    )
    assert theme.HEIGHT + 30 < plain < theme.HEIGHT + 70
    assert 3 * 12 < coloured - plain < 3 * 25


def test_the_picture_in_a_notebook_says_how_tall_the_chart_is_on_a_phone():
    spec = theme.specification(chart())
    assert f'<svg data-narrow-height="{theme.narrow_height(spec)}" ' in theme.mime_bundle(spec)["image/svg+xml"]
