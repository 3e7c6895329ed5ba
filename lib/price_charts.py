"""Figures of money: one function for each kind. Inputs in SI, axes in units for readers; nothing is computed."""

import json

import altair as alt
import numpy as np

from lib import theme

LEGEND = {"title": None, "symbolType": "stroke", "symbolSize": 500}


def searched(curves, points, *, axes, bands=None, description):
    """Return curves, and what a search found with the range over its seeds; points are never joined.

    Parameters
    ----------
    curves : dict of str to (meaning, dash, x, values)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,).
    points : dict of str to (x, values, lower, upper)
        Legend text to arrays of shape (m,): a shape for each entry, four at most.
    axes : tuple of (str, dict, list of float)
        For x and for y: title with unit, Altair's scale, and where the labels stand (empty: anywhere).
    bands : dict of str to (x, lower, upper), optional
        Name to arrays of shape (n,): shaded behind the curves.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    (x_title, x_scale, x_values), (y_title, y_scale, y_values) = axes
    x = alt.X("x:Q", title=x_title).scale(**x_scale)
    y = alt.Y("value:Q", title=y_title).scale(**y_scale)
    x = x.axis(values=x_values) if x_values else x
    y = y.axis(values=y_values) if y_values else y
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
    shaded = [
        alt.Chart(theme.rows(x=at, low=low, high=high)).mark_area(color=theme.light("muted"), opacity=0.2).encode(
            x, alt.Y("low:Q", title=y_title).scale(**y_scale), alt.Y2("high:Q"))
        for at, low, high in (bands or {}).values()
    ]  # fmt: skip
    if not points:
        return theme.finished(alt.layer(*shaded, drawn), description)
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
    return theme.finished(alt.layer(*shaded, drawn, spans, dots), description)


def swings(found, *, description):
    """Return how far each input moves the cost: one bar an input, its range by the law of engines as a thin line.

    Parameters
    ----------
    found : dict of str to (low, high, least, most)
        Input to cost over base cost: at the ends of the input's range, and the same at the ends of the law.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    low, high, least, most = np.transpose([*found.values()])
    rows = theme.rows(name=[*found], low=low, high=high, least=least, most=most)
    title = "cost over the base's (times, log scale)"
    scale, at = {"type": "log", "base": 2, "nice": False}, [0.5, 1, 2, 4, 8]
    y = alt.Y("name:N", title=None, sort=[*found]).axis(labelLimit=230, ticks=False, domain=False, labelPadding=8)
    x = alt.X("low:Q", title=title).scale(**scale).axis(values=at, format="~g")
    bars = alt.Chart(rows).mark_bar(color=theme.light("price"), height={"band": 0.5}).encode(x, alt.X2("high:Q"), y)
    thin = alt.Chart(rows).mark_rule(color=theme.light("muted"), strokeWidth=2).encode(
        alt.X("least:Q", title=title).scale(**scale), alt.X2("most:Q"), y
    )  # fmt: skip
    base = alt.Chart(theme.rows(low=[1.0])).mark_rule(color=theme.light("weights"), strokeWidth=2).encode(x)
    return theme.finished(thin + bars + base, description, height=28 * len(found))


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
        middle=np.sqrt(np.multiply(slow, fast)), letters=np.char.str_len(labels),
        share=np.log(np.divide(fast, slow)) / np.log(max(fast) / min(slow)),
    )  # fmt: skip
    order = [*stretches]
    x = alt.X("slow:Q", title="tokens/s for each reader (log scale)").scale(
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
    words = base.transform_filter("datum.share * width > 6.5 * datum.letters + 6").mark_text(fontSize=11).encode(
        alt.X("middle:Q", title="tokens/s for each reader (log scale)"), y, text="label:N"
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
    x = alt.X("speed:Q", title="tokens/s for each reader (log scale)").scale(type="log", base=2)
    y_title = "USD per million tokens (log scale)"
    decades = alt.Axis(format="~g", values=[10.0**power for power in range(-3, 3)])
    y = alt.Y("cost:Q", title=y_title, axis=decades).scale(type="log")
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


def your_numbers(catalogues, start, traced, *, caveat, description):
    """Return step times of the reader's own case with all inputs as controls, and the results as text.

    Parameters
    ----------
    catalogues : dict of str to (list of str, dict of str to array_like)
        For the controls ``accelerator`` and ``model``: names, and columns of numbers that follow the choice, each
        under the name by which `traced` calls it; for ``dtype``: names and columns too.
    start : dict
        First values of the controls: ``accelerator``, ``model``, ``dtype``, ``devices``, ``prompt``, ``output``,
        ``rate``, ``target_ms``, ``rent`` (0: the table's).
    traced : dict
        ``params``, names and expressions in the order in which they depend; ``curves``, legend text to
        (meaning, dash, expression of ``datum.n`` in s); ``template``, ``too_large`` and ``too_slow`` of the text.
    caveat : str
        What the text ends with.
    description : str

    Returns
    -------
    altair.LayerChart
        With ``usermeta.text`` naming the signal that holds the text.
    """
    x_scale = {"type": "log", "base": 2}
    x = alt.X("n:Q", title="batch size (sequences)").scale(**x_scale)
    title = "step (ms, log scale)"
    names = {f"c{index}": label for index, label in enumerate(traced["curves"])}
    base = alt.Chart(theme.rows(n=2.0 ** np.arange(0, 11.01, 0.25))).transform_calculate(
        **{key: f"1000*{traced['curves'][label][2]}" for key, label in names.items()}
    ).transform_filter("datum.n <= max(memory, 1)").transform_fold([*names], as_=["key", "time"]).transform_calculate(
        curve=f"({names!r})[datum.key]"
    )  # fmt: skip
    legend = alt.Legend(**LEGEND)
    drawn = base.mark_line().encode(
        x, alt.Y("time:Q", title=title).scale(type="log", base=2),
        color=alt.Color("curve:N", legend=legend).scale(
            domain=[*names.values()], range=[theme.light(one) for one, *_ in traced["curves"].values()]),
        strokeDash=alt.StrokeDash("curve:N", legend=legend).scale(
            domain=[*names.values()], range=[dash for _, dash, _ in traced["curves"].values()]),
    )  # fmt: skip
    one = alt.Chart(theme.rows(at=[1])).transform_calculate(slots="max(middle_slots,1)", target="target_ms")
    rules = (
        one.mark_rule(strokeDash=theme.DASHES["muted"]).encode(alt.X("slots:Q", title="batch size (sequences)")),
        one.mark_rule(strokeDash=theme.DASHES["muted"]).encode(alt.Y("target:Q", title=title)),
    )
    params = [*_controls(catalogues, start), *(alt.param(name=name, expr=text) for name, text in traced["params"])]
    params.append(alt.param(name="text", expr=_text(traced, caveat)))
    chart = theme.finished(alt.layer(drawn, *rules).add_params(*params), description, height=320)
    return chart.properties(usermeta={"text": "text"})


def _controls(catalogues, start):
    """Return the controls of `your_numbers`, and the numbers that follow from what they choose."""
    labels = {"accelerator": "accelerator ", "model": "model ", "dtype": "format "}
    for control, (names, columns) in catalogues.items():
        bind = alt.binding_select(options=[*names], name=labels[control])
        yield alt.param(name=control, value=start[control], bind=bind)
        for name, values in columns.items():
            pairs = dict(zip(names, map(float, values), strict=True))
            yield alt.param(name=name, expr=f"({pairs!r})[{control}]")
    yield alt.param(name="devices", value=start["devices"],
                    bind=alt.binding_select(options=[1, 2, 4, 8], name="devices in a group "))  # fmt: skip
    for name, low, high, step, label in (
        ("prompt", 16, 16384, 16, "tokens in "), ("output", 16, 8192, 16, "tokens out "),
        ("rate", 0.5, 200, 0.5, "requests/s "), ("target_ms", 5, 200, 1, "target for a token (ms) "),
        ("rent", 0, 15, 0.05, "rent (USD/h for a device; 0: the table's) "),
    ):  # fmt: skip
        bind = alt.binding_range(min=low, max=high, step=step, name=label)
        yield alt.param(name=name, value=start[name], bind=bind)


def _text(traced, caveat):
    """Return the expression of the text: the same template that Python fills."""
    formats = {"whole": "format({},',.0f')", "three": "format({},',.3r')", "ms": "format(1000*{},',.3r')", "text": "{}"}
    pieces = [
        json.dumps(piece) if isinstance(piece, str) else formats[piece[0]].format(piece[1])
        for piece in traced["template"]
    ]
    head = pieces[: [*traced["template"]].index("Memory holds ")]
    whole, opened = "+".join(pieces), "+".join(head)
    short = f"{opened}+(memory<1?{json.dumps(traced['too_large'])}:{json.dumps(traced['too_slow'])})"
    return f"(memory<1||middle_slots<1?{short}:{whole})+{json.dumps(caveat)}"
