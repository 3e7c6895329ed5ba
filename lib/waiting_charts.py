"""Charts of what requests wait for: one colour a cause, the same in every figure. See `lib.charts`."""

import altair as alt
import numpy as np

from lib import theme
from lib.units import KILO

# parts of the TTFT: what a reader calls it, and the meaning whose colour it wears
CAUSES = {
    "residual": ("iteration that runs", "muted"),
    "slot": ("no slot free", "weights"),
    "memory": ("no memory free", "cache"),
    "held_back": ("held back on purpose", "on purpose"),
    "own_prefill": ("own prompt is read", "arithmetic"),
    "others_prefill": ("prompts of others", "others"),
}
ORDER = ("residual", "slot", "memory", "held_back", "others_prefill", "own_prefill")


def _colour(causes, *more):
    names = [CAUSES[cause][0] for cause in causes] + [name for name, _ in more]
    colours = [theme.light(CAUSES[cause][1]) for cause in causes] + [theme.light(meaning) for _, meaning in more]
    legend = alt.Legend(title=None, symbolType="square", columns=2)
    return alt.Color("cause:N", legend=legend).scale(domain=names, range=colours)


def stacked(names, parts, *, x_title, description):
    """Return one bar for each case, made of what was waited for.

    Parameters
    ----------
    names : sequence of str, length n
        Of the cases, from top to bottom.
    parts : dict of str to array_like, each shape (n,)
        Causes of `CAUSES` to seconds, drawn in ms. Causes that are nowhere above 0 are left out.
    x_title : str
    description : str

    Returns
    -------
    altair.Chart
    """
    names = [*names]
    causes = [cause for cause in ORDER if np.any(np.asarray(parts[cause]) > 0)]
    values = KILO * np.array([parts[cause] for cause in causes])
    ends = np.cumsum(values, axis=0)
    rows = theme.rows(
        name=np.tile(names, len(causes)), cause=np.repeat([CAUSES[cause][0] for cause in causes], len(names)),
        start=(ends - values).ravel(), end=ends.ravel(),
    )  # fmt: skip
    y = alt.Y("name:N", title=None, sort=names).axis(labelLimit=150, ticks=False, domain=False, labelPadding=6)
    chart = alt.Chart(rows).mark_bar(height={"band": 0.7}).encode(
        alt.X("start:Q", title=x_title).scale(domainMax=1.04 * float(ends[-1].max()), nice=False), alt.X2("end:Q"), y,
        color=_colour(causes),
    )  # fmt: skip
    return theme.finished(chart, description, height=30 * len(names))


def lives(panels, *, x_title, until, description):
    """Return the life of each request on one time axis, from its arrival to its last token, a panel for each policy.

    Parameters
    ----------
    panels : dict of str to (arrival, parts, finish)
        Name of the policy to seconds of shape (n,), causes of `CAUSES` to seconds of shape (n,), and seconds.
        Causes are drawn one after the other, in the order of `ORDER`.
    x_title : str
    until : float
        Where the axis ends, s.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    columns = {"y": [], "start": [], "end": [], "cause": []}
    titles, top = {"y": [], "name": []}, 0
    causes = [cause for cause in ORDER if any(np.any(parts[cause] > 0) for _, parts, _ in panels.values())]
    for name, (arrival, parts, finish) in panels.items():
        titles["y"].append(top)
        titles["name"].append(name)
        place = top + 1 + np.arange(len(arrival))
        at = np.asarray(arrival, float)
        for cause in causes:
            _add(columns, place, at, at + parts[cause], CAUSES[cause][0], until)
            at = at + parts[cause]
        _add(columns, place, at, np.asarray(finish), "text comes", until)
        top += len(arrival) + 2
    bars = alt.Chart(theme.rows(**{name: np.concatenate(parts) for name, parts in columns.items()}))
    y = alt.Y("y:Q", axis=None).scale(domain=[-0.5, top - 1], reverse=True, nice=False)
    x = alt.X("start:Q", title=x_title).scale(domain=[0, until], nice=False)
    waiting = bars.transform_filter("datum.cause != 'text comes'").mark_rule(strokeWidth=9).encode(
        x, alt.X2("end:Q"), y, color=_colour(causes, ("text comes", "simulated"))
    )  # fmt: skip
    text = bars.transform_filter("datum.cause == 'text comes'").mark_rule(strokeWidth=3).encode(
        x, alt.X2("end:Q"), y, color=_colour(causes, ("text comes", "simulated"))
    )  # fmt: skip
    said = alt.Chart(theme.rows(x=0.0, **titles)).mark_text(align="left", fontWeight="bold", dx=2).encode(
        alt.X("x:Q"), y, text="name:N"
    )  # fmt: skip
    return theme.finished(text + waiting + said, description, height=14 * top + 40)


def _add(columns, place, start, end, cause, until):
    end = np.minimum(end, until)
    keep = end > start
    columns["y"].append(place[keep].astype(float))
    columns["start"].append(start[keep])
    columns["end"].append(end[keep])
    columns["cause"].append(np.full(keep.sum(), cause))


def simulated(curves, *, x_title, y_title, x_scale, y_scale, description):
    """Return simulated means with their intervals, joined for the eye, and formulas without points.

    Parameters
    ----------
    curves : dict of str to (meaning, dash, x, values, half_width)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,); the last is None for a
        formula.
    x_title, y_title : str
        With units.
    x_scale, y_scale : dict
        For Altair's scales.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    y_scale = {"nice": False, **y_scale}
    x = alt.X("x:Q", title=x_title).scale(**x_scale)
    y = alt.Y("value:Q", title=y_title).scale(**y_scale)
    names = [*curves]
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500, columns=2)
    colour = alt.Color("series:N", legend=legend).scale(
        domain=names, range=[theme.light(meaning) for meaning, *_ in curves.values()]
    )
    dash = alt.StrokeDash("series:N", legend=legend).scale(domain=names, range=[one[1] for one in curves.values()])
    joined = alt.Chart(theme.rows(
        x=np.concatenate([one[2] for one in curves.values()]),
        value=np.concatenate([one[3] for one in curves.values()]),
        series=np.repeat(names, [len(one[3]) for one in curves.values()]),
    )).mark_line().encode(x, y, color=colour, strokeDash=dash)  # fmt: skip
    seen = {name: one for name, one in curves.items() if one[4] is not None}
    values, half = (np.concatenate([one[at] for one in seen.values()]) for at in (3, 4))
    points = alt.Chart(theme.rows(
        x=np.concatenate([one[2] for one in seen.values()]), value=values, high=values + half,
        low=np.maximum(values - half, values / 10), series=np.repeat([*seen], [len(one[3]) for one in seen.values()]),
    ))  # fmt: skip
    spans = points.mark_rule().encode(
        x, alt.Y("low:Q", title=y_title).scale(**y_scale), alt.Y2("high:Q"), color=colour
    )  # fmt: skip
    dots = points.mark_point(filled=True, size=45).encode(x, y, color=colour)
    return theme.finished(joined + spans + dots, description)
