"""Figures of money: one function for each kind. Inputs in SI, axes in units for readers; nothing is computed."""

import altair as alt
import numpy as np

from lib import theme

LEGEND = {"title": None, "symbolType": "stroke", "symbolSize": 500}


def searched(curves, points, *, axes, description):
    """Return curves, and what a search found with the range over its seeds; points are never joined.

    Parameters
    ----------
    curves : dict of str to (meaning, dash, x, values)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,).
    points : dict of str to (x, values, lower, upper)
        Legend text to arrays of shape (m,): a shape for each entry, four at most.
    axes : tuple of (str, dict)
        For x and for y: title with unit, and Altair's scale.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    (x_title, x_scale), (y_title, y_scale) = axes
    x = alt.X("x:Q", title=x_title).scale(**x_scale)
    y = alt.Y("value:Q", title=y_title).scale(**y_scale)
    lines = theme.rows(
        x=np.concatenate([at for *_, at, _ in curves.values()]),
        value=np.concatenate([values for *_, values in curves.values()]),
        series=np.repeat([*curves], [len(values) for *_, values in curves.values()]),
    )
    legend = alt.Legend(**LEGEND)
    drawn = alt.Chart(lines).mark_line().encode(
        x, y,
        color=alt.Color("series:N", legend=legend).scale(
            domain=[*curves], range=[theme.light(meaning) for meaning, *_ in curves.values()]),
        strokeDash=alt.StrokeDash("series:N", legend=legend).scale(
            domain=[*curves], range=[dash for _, dash, *_ in curves.values()]),
    )  # fmt: skip
    if not points:
        return theme.finished(drawn, description)
    at, value, low, high = (np.concatenate([one[part] for one in points.values()]) for part in range(4))
    marks = np.repeat([*points], [len(one[0]) for one in points.values()])
    seen = alt.Chart(theme.rows(x=at, value=value, low=low, high=high, mark=marks))
    spans = seen.mark_rule(color=theme.light("simulated")).encode(
        x, alt.Y("low:Q", title=y_title).scale(**y_scale), alt.Y2("high:Q")
    )
    shapes = ["circle", "square", "triangle-up", "diamond"][: len(points)]
    dots = seen.mark_point(filled=True, color=theme.light("simulated"), size=60).encode(
        x, y, shape=alt.Shape("mark:N", legend=alt.Legend(title=None)).scale(domain=[*points], range=shapes)
    )
    return theme.finished(alt.layer(drawn, spans, dots), description)


def accelerator_choice(stretches, *, description):
    """Return, for each model, which accelerators are cheapest at which speed: one bar a model, in stretches.

    Parameters
    ----------
    stretches : dict of str to list of (label, slowest, fastest)
        Model to short names and speeds, tokens per second; the label stands in its stretch where it has room.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    flat = [
        (model, label, slow, fast, index % 2)
        for model, parts in stretches.items()
        for index, (label, slow, fast) in enumerate(parts)
    ]
    models, labels, slow, fast, turns = zip(*flat, strict=True)
    rows = theme.rows(
        model=[*models], label=[*labels], slow=slow, fast=fast, turn=[*turns],
        middle=np.sqrt(np.multiply(slow, fast)), room=np.log2(np.divide(fast, slow)) / np.char.str_len(labels),
    )  # fmt: skip
    order = [*stretches]
    x = alt.X("slow:Q", title="speed for each reader (tokens/s, log scale)").scale(
        type="log", base=2, domain=[min(slow), max(fast)], nice=False
    )
    y = alt.Y("model:N", title=None, sort=order).axis(labelLimit=150, ticks=False, domain=False, labelPadding=8)
    base = alt.Chart(rows)
    bars = base.mark_bar(
        color=theme.light("price"), stroke=theme.light("price"), strokeWidth=1.5, height={"band": 0.72}
    ).encode(
        x, alt.X2("fast:Q"), y,
        fillOpacity=alt.FillOpacity("turn:Q", legend=None).scale(domain=[0, 1], range=[0.12, 0.32]),
        tooltip=["model:N", "label:N", alt.Tooltip("slow:Q", format=".3~r"), alt.Tooltip("fast:Q", format=".3~r")],
    )  # fmt: skip
    words = base.transform_filter("datum.room > 0.11").mark_text(fontSize=11).encode(
        alt.X("middle:Q", title="speed for each reader (tokens/s, log scale)"), y, text="label:N"
    )  # fmt: skip
    return theme.finished(bars + words, description, height=38 * len(order))


def frontier(models, points, *, description):
    """Return the Pareto points of a model, cost over speed; the model is a control.

    Parameters
    ----------
    models : sequence of str
        To choose from; the first is shown.
    points : dict of array_like, each shape (n,)
        ``model``, ``kind`` (shown by shape, six at most), ``label``; ``speed`` (tokens/s), ``cost``,
        ``low``, ``high`` (USD per million tokens), ``first`` (time to the first token, s).
    description : str

    Returns
    -------
    altair.LayerChart
    """
    rows = theme.rows(digits=4, **{name: values for name, values in points.items()})
    x = alt.X("speed:Q", title="speed for each reader (tokens/s, log scale)").scale(type="log", base=2)
    y_title = "USD per million tokens (log scale)"
    y = alt.Y("cost:Q", title=y_title, axis=alt.Axis(format="~g")).scale(type="log")
    domain = [*dict.fromkeys(np.asarray(points["kind"]).tolist())]
    shapes = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"][: len(domain)]
    base = alt.Chart(rows).transform_filter("datum.model == shown")
    spans = base.mark_rule(color=theme.light("muted"), strokeWidth=1, opacity=0.6).encode(
        x, alt.Y("low:Q", title=y_title).scale(type="log"), alt.Y2("high:Q")
    )
    dots = base.mark_point(filled=True, color=theme.light("price"), size=70).encode(
        x, y,
        shape=alt.Shape("kind:N", legend=alt.Legend(title=None)).scale(domain=domain, range=shapes),
        tooltip=["label:N", alt.Tooltip("speed:Q", format=".3~r"), alt.Tooltip("cost:Q", format=".3~r"),
                 alt.Tooltip("first:Q", format=".3~r", title="first token (s)")],
    )  # fmt: skip
    names = [*models]
    shown = alt.param(name="shown", value=names[0], bind=alt.binding_select(options=names, name="model "))
    return theme.finished(alt.layer(spans, dots).add_params(shown), description)
