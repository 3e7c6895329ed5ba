"""One function for each kind of figure. A chart receives arrays, and for sliders the model's own
expressions; it computes nothing itself. Inputs are in SI units, axes in units for readers."""

import altair as alt
import numpy as np

from lib import theme
from lib.units import GB, KILO, TERA

BATCH_AXIS = {"type": "log", "base": 2}
START = {"batch": 32, "context": 2048}


def _x(field, title, **scale):
    return alt.X(f"{field}:Q", title=title).scale(**scale)


def _y(field, title, **scale):
    return alt.Y(f"{field}:Q", title=title).scale(**scale)


def _decades(low, high):
    """An axis of a logarithmic scale that marks powers of ten only."""
    return alt.Axis(values=[10.0**power for power in range(low, high + 1)], format="~g")


def _names(field="name", order=None):
    """An axis of names, in the order of the rows or the one given."""
    return alt.Y(f"{field}:N", title=None, sort=order).axis(labelLimit=230, ticks=False, domain=False, labelPadding=8)


def roofline(machines, path, prompts, position, *, description):
    """Return the roofline of a machine with decode and prefill on it; batch, context and machine are controls.

    Parameters
    ----------
    machines : tuple of array_like, each shape (n,)
        Names, bandwidths (B/s) and peaks (FLOP/s) to choose from; the first is shown.
    path, prompts : dict
        ``n`` (array_like: batch sizes or tokens); ``intensity`` (FLOP/B) and ``rate`` (FLOP/s) as
        expressions in ``datum.n``, ``context``, ``bandwidth`` and ``peak``; ``start``, the same
        two as arrays where the controls stand at first.
    position : dict
        Where decode stands now: ``intensity``, ``rate`` and ``time`` (s) as expressions in
        ``batch`` and ``context``, and ``start``. `START` holds the controls' first values.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x = _x("intensity", "arithmetic intensity (FLOP/B)", type="log", domain=[0.5, 4096])
    y = _y("rate", "bound on arithmetic (TFLOP/s)", type="log", domain=[0.5, 4000])
    grid = np.geomspace(0.5, 4096, 80)
    first_roof = np.minimum(machines[2][0], grid * machines[1][0]) / TERA
    roof = (
        alt.Chart(theme.rows(intensity=grid, rate=first_roof))
        .transform_calculate(rate=f"min(peak,datum.intensity*bandwidth)/{TERA}")
        .mark_line(color=theme.light("muted"), strokeDash=theme.DASHES["muted"], clip=True)
        .encode(x, y)
    )
    decode = _on_roof(path).mark_line(color=theme.light("weights"), clip=True).encode(x, y, order="n:Q")
    prefill = (
        _on_roof(prompts)
        .mark_point(color=theme.light("arithmetic"), shape="diamond", filled=True, size=90, clip=True)
        .encode(x, y, tooltip=[alt.Tooltip("n:Q", title="prefill of a prompt (tokens)")])
    )
    here = _on_roof(position).transform_calculate(
        step=f"{KILO}*{position['time']}",
        share=f"100*{TERA}*datum.rate/peak",
        text=(
            "['batch '+batch+', context '+format(context,','), "
            "format(datum.intensity,',.3~r')+' FLOP/B, '+format(datum.share,'.2~r')+' % of peak', "
            "'step '+format(datum.step,',.3~r')+' ms']"
        ),
    )
    dot = here.mark_point(color=theme.light("weights"), filled=True, size=170).encode(x, y)
    words = here.mark_text(align="left", baseline="top", fontSize=13).encode(
        x=alt.value(8), y=alt.value(6), text="text:N"
    )
    chart = alt.layer(roof, decode, prefill, dot, words).add_params(*_roofline_params(*machines))
    return theme.finished(chart, description, height=380)


def _on_roof(rows):
    intensity, rate = rows["start"]
    data = theme.rows(n=rows["n"], intensity=intensity, rate=np.asarray(rate) / TERA)
    return alt.Chart(data).transform_calculate(intensity=str(rows["intensity"]), rate=f"{rows['rate']}/{TERA}")


def _roofline_params(names, bandwidths, peaks):
    def chosen(values):
        pairs = dict(zip(names, map(float, values), strict=True))
        return f"({pairs!r})[accelerator]"

    batch = alt.binding_range(min=1, max=512, step=1, name="batch size (sequences) ")
    context = alt.binding_range(min=0, max=32768, step=512, name="context (tokens) ")
    return (
        alt.param(name="accelerator", value=names[0], bind=alt.binding_select(options=[*names], name="accelerator ")),
        alt.param(name="batch", value=START["batch"], bind=batch),
        alt.param(name="context", value=START["context"], bind=context),
        alt.param(name="bandwidth", expr=chosen(bandwidths)),
        alt.param(name="peak", expr=chosen(peaks)),
    )


def two_times(names, transfer_time, arithmetic_time, fits, *, description):
    """Return, for each machine, how long the weights take to stream and the arithmetic to do, on one log axis.

    Parameters
    ----------
    names, transfer_time, arithmetic_time, fits : array_like, each shape (n,)
        Text; seconds; seconds; whether the weights fit. Drawn in the order given.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    names = [*names]
    y = _names(order=names)
    transfer, arithmetic = KILO * np.asarray(transfer_time), KILO * np.asarray(arithmetic_time)
    span = theme.rows(name=names, transfer=transfer, arithmetic=arithmetic)
    domain = ["100 GB, fits", "100 GB, does not fit", "one token's arithmetic"]
    kind = np.where(fits, *domain[:2])
    title = "time (ms, log scale)"
    decades = _decades(-2, 3)
    rule = alt.Chart(span).mark_rule(strokeWidth=1).encode(
        alt.X("arithmetic:Q", title=title, axis=decades).scale(type="log"), alt.X2("transfer:Q"), y
    )
    both = theme.rows(
        name=names + names,
        time=np.concatenate([transfer, arithmetic]),
        what=[*kind, *[domain[2]] * len(names)],
    )
    what = alt.Legend(title=None)
    points = alt.Chart(both).mark_point(filled=False, size=70).encode(
        alt.X("time:Q", title=title, axis=decades).scale(type="log"), y,
        shape=alt.Shape("what:N", legend=what).scale(domain=domain, range=["circle", "circle", "diamond"]),
        color=alt.Color("what:N", legend=what).scale(
            domain=domain, range=[theme.light("weights"), theme.light("weights"), theme.light("arithmetic")]
        ),
        fill=alt.Fill("what:N", legend=what).scale(
            domain=domain, range=[theme.light("weights"), "transparent", theme.light("arithmetic")]
        ),
    )  # fmt: skip
    return theme.finished(rule + points, description, height=17 * len(names))


def memory_sizes(names, on_chip, capacity, marks, *, description):
    """Return on-chip memory and capacity of each machine on one log axis, with the weights of some models as lines.

    Parameters
    ----------
    names, on_chip, capacity : array_like, each shape (n,)
        Text; bytes; bytes.
    marks : dict of str to float
        Model to the bytes of its weights.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    names = [*names]
    x = alt.X("size:Q", title="size (GB, log scale)", axis=_decades(-3, 4)).scale(type="log")
    domain = ["on-chip memory", "off-chip memory"]
    sizes = theme.rows(
        name=names + names, size=np.concatenate([on_chip, capacity]) / GB,
        what=[*[domain[0]] * len(names), *[domain[1]] * len(names)],
    )  # fmt: skip
    legend = alt.Legend(title=None)
    colours = [theme.light("arithmetic"), theme.light("weights")]
    points = alt.Chart(sizes).mark_point(filled=True, size=70).encode(
        x, _names(order=names),
        color=alt.Color("what:N", legend=legend).scale(domain=domain, range=colours),
        shape=alt.Shape("what:N", legend=legend).scale(domain=domain, range=["diamond", "circle"]),
    )  # fmt: skip
    weights = theme.rows(model=[*marks], size=np.array([*marks.values()]) / GB)
    rule = alt.Chart(weights).mark_rule(strokeDash=theme.DASHES["muted"]).encode(x)
    text = alt.Chart(weights).mark_text(baseline="bottom", dy=-4, fontSize=11).encode(x, y=alt.value(0), text="model:N")
    return theme.finished(rule + points + text, description, height=18 * len(names))


def lines(series, *, x_title, y_title, x_values=None, y_scale=None, y_labels=None, marks=None, description):
    """Return curves over batch size, told apart by dash and by colour; points are never joined.

    Parameters
    ----------
    series : dict of str to (meaning, dash, x, values)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern, batch sizes of shape (n,)
        and values of shape (n,) in the unit of the axis.
    x_title, y_title : str
        With units.
    x_values : array_like, optional
        Where the x axis has its labels.
    y_scale : dict, optional
        For Altair's scale of the y axis.
    y_labels : str, optional
        Vega expression that writes a label from ``datum.value``.
    marks : dict of str to (x, values), optional
        Legend text to points: a shape for each entry, five at most.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x = alt.X("batch:Q", title=x_title).scale(**BATCH_AXIS)
    if x_values is not None:
        x = x.axis(values=[*map(float, x_values)])
    y = alt.Y("value:Q", title=y_title).scale(**(y_scale or {}))
    if y_labels:
        y = y.axis(labelExpr=y_labels)
    rows = theme.rows(
        batch=np.concatenate([at for *_, at, _ in series.values()]),
        value=np.concatenate([values for *_, values in series.values()]),
        series=np.repeat([*series], [len(values) for *_, values in series.values()]),
    )
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500)
    colours = [theme.light(meaning) for meaning, *_ in series.values()]
    dashes = [dash for _, dash, *_ in series.values()]
    chart = alt.Chart(rows).mark_line().encode(
        x, y,
        color=alt.Color("series:N", legend=legend).scale(domain=[*series], range=colours),
        strokeDash=alt.StrokeDash("series:N", legend=legend).scale(domain=[*series], range=dashes),
    )  # fmt: skip
    if marks:
        said = theme.rows(
            batch=np.concatenate([at for at, _ in marks.values()]),
            value=np.concatenate([values for _, values in marks.values()]),
            mark=np.repeat([*marks], [len(at) for at, _ in marks.values()]),
        )
        shapes = ["circle", "square", "triangle-up", "diamond", "cross"][: len(marks)]
        shape = alt.Shape("mark:N", legend=alt.Legend(title=None)).scale(domain=[*marks], range=shapes)
        chart += alt.Chart(said).mark_point(filled=True, color=theme.light("measured"), size=60).encode(
            x, y, shape=shape
        )  # fmt: skip
    return theme.finished(chart, description)


def measured(curves, points, *, y_title, y_scale, description):
    """Return curves over batch size and measured points with their intervals; points are never joined.

    Parameters
    ----------
    curves : dict of str to (meaning, dash, batch_size, values)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,),
        values in the unit of the axis.
    points : dict of str to (batch_size, values, lower, upper)
        Legend text to arrays of shape (m,): a shape for each entry, six at most.
    y_title : str
        With its unit.
    y_scale : dict
        For Altair's scale of the y axis.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x = alt.X("batch:Q", title="batch size (sequences)").scale(**BATCH_AXIS)
    line = theme.rows(
        batch=np.concatenate([batch for *_, batch, _ in curves.values()]),
        value=np.concatenate([values for *_, values in curves.values()]),
        series=np.repeat([*curves], [len(values) for *_, values in curves.values()]),
    )
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500)
    colours = [theme.light(meaning) for meaning, *_ in curves.values()]
    dashes = [dash for _, dash, *_ in curves.values()]
    y = alt.Y("value:Q", title=y_title).scale(**y_scale)
    drawn = alt.Chart(line).mark_line().encode(
        x, y,
        color=alt.Color("series:N", legend=legend).scale(domain=[*curves], range=colours),
        strokeDash=alt.StrokeDash("series:N", legend=legend).scale(domain=[*curves], range=dashes),
    )  # fmt: skip
    batch, value, low, high = (np.concatenate([one[at] for one in points.values()]) for at in range(4))
    marks = np.repeat([*points], [len(one[0]) for one in points.values()])
    seen = alt.Chart(theme.rows(batch=batch, value=value, low=low, high=high, mark=marks))
    spans = seen.mark_rule(color=theme.light("measured")).encode(
        x, alt.Y("low:Q", title=y_title).scale(**y_scale), alt.Y2("high:Q")
    )
    shapes = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"][: len(points)]
    shape = alt.Shape("mark:N", legend=alt.Legend(title=None)).scale(domain=[*points], range=shapes)
    dots = seen.mark_point(filled=True, color=theme.light("measured"), size=55).encode(x, y, shape=shape)
    return theme.finished(alt.layer(drawn, spans, dots), description)


def by_year(names, years, values, trend, *, y_title, labelled, description):
    """Return values over the year of release, with a fitted trend and some of the points named.

    Parameters
    ----------
    names, years, values : array_like, each shape (n,)
    trend : tuple of array_like, each shape (m,)
        Years, fitted value, lower and upper end of its interval.
    y_title : str
    labelled : collection of str
        Names to write beside their points.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x = alt.X("year:Q", title="year of release", axis=alt.Axis(format="d", tickMinStep=1))
    x = x.scale(zero=False, nice=False, padding=18)
    y = alt.Y("value:Q", title=y_title).scale(type="log", base=2)
    band = theme.rows(year=trend[0], value=trend[1], low=trend[2], high=trend[3])
    points = theme.rows(year=years, value=values, name=[*names])
    named = theme.rows(
        **{
            field: [item for item, name in zip(column, names, strict=True) if name in labelled]
            for field, column in (("year", years), ("value", values), ("name", names))
        }
    )
    area = alt.Chart(band).mark_area(opacity=0.16, color=theme.light("muted")).encode(
        x, alt.Y("low:Q", title=y_title).scale(type="log", base=2), alt.Y2("high:Q")
    )
    line = alt.Chart(band).mark_line(color=theme.light("muted"), strokeDash=theme.DASHES["muted"]).encode(x, y)
    dots = alt.Chart(points).mark_point(filled=True, color=theme.light("weights")).encode(x, y, tooltip=["name:N"])
    text = alt.Chart(named).mark_text(align="left", dx=7, fontSize=11).encode(x, y, text="name:N")
    return theme.finished(area + line + dots + text, description, height=380)


def ratio_dots(names, ratios, kinds, *, x_title, description):
    """Return measured over bound for each case, one row a case, 1 marked as the bound.

    Parameters
    ----------
    names, ratios, kinds : array_like, each shape (n,)
        Text, broken at its comma; measured time over the bound; what was measured, shown by shape.
    x_title : str
    description : str

    Returns
    -------
    altair.LayerChart
    """
    kinds = [*kinds]
    order = [*dict.fromkeys(names)]
    x = alt.X("ratio:Q", title=x_title).scale(domainMin=0)
    domain = [*dict.fromkeys(kinds)]
    points = alt.Chart(theme.rows(name=[*names], ratio=ratios, kind=kinds)).mark_point(
        filled=True, color=theme.light("measured"), size=75
    ).encode(
        x, _names(order=order).axis(labelExpr="split(datum.label, ', ')", labelLineHeight=12),
        shape=alt.Shape("kind:N", legend=alt.Legend(title=None)).scale(
            domain=domain, range=["circle", "square", "triangle-up", "diamond"][: len(domain)]
        ),
    )  # fmt: skip
    bound = alt.Chart(theme.rows(ratio=[1.0])).mark_rule(
        color=theme.light("weights"), strokeWidth=2.5
    ).encode(x)  # fmt: skip
    return theme.finished(bound + points, description, height=28 * len(order))


def regimes(machines, models, parts, batch_size, *, description):
    """Return the parts of a step against batch; accelerator, model and context are controls.

    Parameters
    ----------
    machines : tuple of array_like, each shape (n,)
        Names, bandwidths (B/s), peaks (FLOP/s) and usable memories (B); the first is shown.
    models : tuple of array_like, each shape (m,)
        Names; weights in memory (B); weights read (B); cache (B/token); FLOP with the weights of a
        token; FLOP with a token of context; the first is shown.
    parts : dict
        ``weights``, ``cache``, ``arithmetic``, ``step`` (s) and ``full`` (sequences) as expressions in
        ``datum.n``, ``context``, ``bandwidth``, ``peak``, ``room``, ``held``, ``read``, ``cached``,
        ``linear`` and ``attention``.
    batch_size : array_like
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x, y = _x("n", "batch size (sequences)", **BATCH_AXIS), _y("time", "bound on the step (ms, log scale)", type="log")
    names = {"weights": "weights", "cache": "cache", "arithmetic": "arithmetic", "step": "whole step"}
    colours = [theme.light(meaning) for meaning in ("weights", "cache", "arithmetic", "measured")]
    dashes = [*(theme.DASHES[name] for name in ("weights", "cache", "arithmetic")), [1, 0]]
    base = alt.Chart(theme.rows(n=np.asarray(batch_size, float))).transform_calculate(
        full=str(parts["full"]), **{name: f"{KILO}*{parts[name]}" for name in names}
    )
    folded = base.transform_fold([*names], as_=["part", "time"]).transform_calculate(
        part=f"({names!r})[datum.part]"
    ).transform_filter("datum.time>0")  # fmt: skip
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500)
    drawn = {
        "color": alt.Color("part:N", legend=legend).scale(domain=[*names.values()], range=colours),
        "strokeDash": alt.StrokeDash("part:N", legend=legend).scale(domain=[*names.values()], range=dashes),
    }
    fits = folded.transform_filter("datum.n<=datum.full").mark_line().encode(x, y, **drawn)
    beyond = folded.transform_filter("datum.n>=datum.full").mark_line(strokeWidth=1, opacity=0.55).encode(x, y, **drawn)
    one = alt.Chart(theme.rows(n=[1])).transform_calculate(
        full=str(parts["full"]),
        shown=f"datum.full>={np.max(batch_size)}?null:datum.full",
        text="datum.full<1?'does not fit':'memory is full at '+format(datum.full,',.0f')+' sequences'",
    )
    end = one.transform_filter("datum.shown!=null&&datum.full>=1").mark_rule(strokeDash=theme.DASHES["muted"]).encode(
        alt.X("shown:Q", title="batch size (sequences)").scale(**BATCH_AXIS)
    )  # fmt: skip
    words = one.mark_text(align="left", baseline="top", fontSize=13).encode(
        x=alt.value(8), y=alt.value(6), text="text:N"
    )
    chart = alt.layer(fits, beyond, end, words).add_params(*_regime_params(machines, models))
    return theme.finished(chart, description, height=380)


def _regime_params(machines, models):
    def chosen(names, values, control):
        pairs = dict(zip(names, map(float, values), strict=True))
        return f"({pairs!r})[{control}]"

    (where, *rates), (what, *sizes) = machines, models
    return (
        alt.param(name="accelerator", value=where[0], bind=alt.binding_select(options=[*where], name="accelerator ")),
        alt.param(name="model", value=what[0], bind=alt.binding_select(options=[*what], name="model ")),
        alt.param(
            name="context", value=1024, bind=alt.binding_range(min=128, max=32768, step=128, name="context (tokens) ")
        ),
        *(
            alt.param(name=name, expr=chosen(where, values, "accelerator"))
            for name, values in zip(("bandwidth", "peak", "room"), rates, strict=True)
        ),
        *(
            alt.param(name=name, expr=chosen(what, values, "model"))
            for name, values in zip(("held", "read", "cached", "linear", "attention"), sizes, strict=True)
        ),
    )


def against(measured, predicted, kinds, *, unit, description):
    """Return predicted against measured time on two log axes, with the line where they agree.

    Parameters
    ----------
    measured, predicted, kinds : array_like, each shape (n,)
        Seconds; seconds; what kind of point, shown by shape and colour, four at most.
    unit : str
        What is timed, for the axis titles.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    measured, predicted = KILO * np.asarray(measured), KILO * np.asarray(predicted)
    kinds = [*kinds]
    domain = [*dict.fromkeys(kinds)]
    ends = [min(measured.min(), predicted.min()), max(measured.max(), predicted.max())]
    x = _x("measured", f"measured {unit} (ms, log scale)", type="log")
    y = _y("predicted", f"predicted {unit} (ms, log scale)", type="log")
    legend = alt.Legend(title=None)
    colours = [theme.light(name) for name in ("weights", "arithmetic", "cache", "simulated")][: len(domain)]
    shapes = ["circle", "square", "triangle-up", "diamond"][: len(domain)]
    points = alt.Chart(theme.rows(digits=4, measured=measured, predicted=predicted, kind=kinds)).mark_point(
        size=26, strokeWidth=1.2
    ).encode(
        x, y,
        color=alt.Color("kind:N", legend=legend).scale(domain=domain, range=colours),
        shape=alt.Shape("kind:N", legend=legend).scale(domain=domain, range=shapes),
    )  # fmt: skip
    line = alt.Chart(theme.rows(measured=ends, predicted=ends)).mark_line(
        color=theme.light("muted"), strokeDash=theme.DASHES["muted"], strokeWidth=1.5
    ).encode(x, y)  # fmt: skip
    return theme.finished(line + points, description, height=400)


def ranges(names, low, middle, high, kinds, *, x_title, description):
    """Return a range and its middle for each case, one row a case, 0 marked.

    Parameters
    ----------
    names, low, middle, high, kinds : array_like, each shape (n,)
        Text; three shares, drawn in per cent; what kind of case, shown by shape, four at most.
    x_title : str
    description : str

    Returns
    -------
    altair.LayerChart
    """
    names, kinds = [*names], [*kinds]
    low, middle, high = (100 * np.asarray(values) for values in (low, middle, high))
    rows = theme.rows(name=names, low=low, middle=middle, high=high, kind=kinds)
    domain = [*dict.fromkeys(kinds)]
    y = _names(order=[*dict.fromkeys(names)])
    x = alt.X("low:Q", title=x_title)
    legend = alt.Legend(title=None)
    bars = alt.Chart(rows).mark_rule(strokeWidth=2, color=theme.light("muted")).encode(x, alt.X2("high:Q"), y)
    dots = alt.Chart(rows).mark_point(filled=True, color=theme.light("measured"), size=70).encode(
        alt.X("middle:Q", title=x_title), y,
        shape=alt.Shape("kind:N", legend=legend).scale(
            domain=domain, range=["circle", "square", "triangle-up", "diamond"][: len(domain)]
        ),
    )  # fmt: skip
    zero = alt.Chart(theme.rows(low=[0.0])).mark_rule(color=theme.light("weights"), strokeWidth=2).encode(x)
    return theme.finished(zero + bars + dots, description, height=28 * len({*names}))
