"""Figures of batches: who sits in which slot, and curves with the simulated points that belong to them.

A chart receives arrays, and for sliders the model's own expressions; it computes nothing itself.
"""

import altair as alt
import numpy as np

from lib import theme
from lib.units import KILO

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def slots(schedules, *, names, description):
    """Return a bar for each request, slot by slot, and what each slot idles.

    Parameters
    ----------
    schedules : dict of str to lib.schedule.Schedule
        By policy, drawn one below the other.
    names : tuple of str
        What the full and the hollow bars are.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    order, columns = [], {key: [] for key in ("row", "from", "to", "kind")}
    for policy, schedule in schedules.items():
        last = int(schedule.slot.max())
        order += [f"{policy} {slot + 1}" for slot in range(last + 1)] + [f" {len(order)}"]
        for first, end, kind in ((schedule.start, schedule.end, names[0]), (schedule.end, schedule.freed, names[1])):
            some = end > first
            columns["row"] += [f"{policy} {slot + 1}" for slot in schedule.slot[some]]
            columns["from"] += first[some].tolist()
            columns["to"] += end[some].tolist()
            columns["kind"] += [kind] * int(some.sum())
    rows = alt.Chart(theme.rows(**columns))
    y = alt.Y("row:N", title=None, sort=order).scale(domain=order[:-1], paddingInner=0.12).axis(
        labelExpr="test(/ 1$/, datum.label) ? slice(datum.label, 0, -2) : ''",
        ticks=False, domain=False, grid=False, labelLimit=120,
    )  # fmt: skip
    x = alt.X("from:Q", title="steps (tokens of one request)")
    legend = alt.Legend(title=None)
    bars = rows.mark_bar(strokeWidth=1).encode(
        x, alt.X2("to:Q"), y,
        fill=alt.Fill("kind:N", legend=legend).scale(domain=[*names], range=[theme.light("weights"), "transparent"]),
        stroke=alt.Stroke("kind:N", legend=legend).scale(
            domain=[*names], range=[theme.GROUND[0], theme.light("arithmetic")]
        ),
        strokeDash=alt.StrokeDash("kind:N", legend=legend).scale(domain=[*names], range=[[1, 0], [2, 2]]),
    )  # fmt: skip
    return theme.finished(bars, description, height=14 * len(order))


def curves(lines, points, *, x, y, x_axis=None, y_axis=None, columns=None, bare=None, description):
    """Return curves, and simulated points with their intervals; points are never joined.

    With `bare`, every line has simulated points on it or is named there.

    Parameters
    ----------
    lines : dict of str to (meaning, dash, x, y)
        Legend text to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,).
    points : dict of str to (x, mean, low, high)
        Legend text to arrays of shape (m,): a shape for each entry, six at most.
    x, y : tuple of (str, dict)
        Title with its unit, and options of Altair's scale.
    x_axis, y_axis : dict, optional
        Options of Altair's axes.
    columns : int, optional
        Of the legend.
    bare : sequence of str, optional
        Lines without points, by legend text: what is true by definition. Leave it out and nothing is checked.
    description : str

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    ValueError
        If a line has no points and is not in `bare`.
    """
    alone = _without_points(lines, points) if bare is not None else []
    if {*alone} - {*(bare or ())}:
        raise ValueError(f"bare must name the lines without simulated points, {alone}, got {[*bare]}")
    across = alt.X("x:Q", title=x[0]).scale(**x[1]).axis(**(x_axis or {}))
    up = alt.Y("y:Q", title=y[0]).scale(**y[1]).axis(**(y_axis or {}))
    grid = theme.rows(
        x=np.concatenate([at for *_, at, _ in lines.values()]),
        y=np.concatenate([values for *_, values in lines.values()]),
        series=np.repeat([*lines], [len(values) for *_, values in lines.values()]),
    )
    shown = {"title": None} | ({"columns": columns} if columns else {})
    legend = alt.Legend(symbolType="stroke", symbolSize=500, **shown)
    colours = [theme.light(meaning) for meaning, *_ in lines.values()]
    dashes = [dash for _, dash, *_ in lines.values()]
    drawn = alt.Chart(grid).mark_line(clip=True).encode(
        across, up,
        color=alt.Color("series:N", legend=legend).scale(domain=[*lines], range=colours),
        strokeDash=alt.StrokeDash("series:N", legend=legend).scale(domain=[*lines], range=dashes),
    )  # fmt: skip
    return theme.finished(alt.layer(drawn, *_simulated(points, across, (y[0], up), shown)), description)


def _without_points(lines, points):
    """Return the names of the lines on which fewer than two simulated points lie.

    A point lies on a line that passes within three half-widths of it, or within 3 % of its value.
    """
    if not points:
        return [*lines]
    at, mean, low, high = (np.concatenate([one[part] for one in points.values()]) for part in range(4))
    slack = np.maximum(1.5 * (high - low), 0.03 * np.abs(mean))
    alone = []
    for name, (*_, x, values) in lines.items():
        order = np.argsort(x)
        inside = (at >= np.min(x) - 1e-9) & (at <= np.max(x) + 1e-9)
        near = np.abs(np.interp(at, np.asarray(x)[order], np.asarray(values)[order]) - mean) <= slack
        if np.unique(at[inside & near]).size < 2:
            alone.append(name)
    return alone


def _simulated(points, across, up, shown):
    """Return the layers of points and of their intervals."""
    if not points:
        return []
    at, mean, low, high = (np.concatenate([one[part] for one in points.values()]) for part in range(4))
    marks = np.repeat([*points], [len(one[0]) for one in points.values()])
    seen = alt.Chart(theme.rows(x=at, y=mean, low=low, high=high, mark=marks))
    shape = alt.Shape("mark:N", legend=alt.Legend(**shown)).scale(domain=[*points], range=SHAPES[: len(points)])
    spans = seen.mark_rule(color=theme.light("simulated")).encode(across, alt.Y("low:Q", title=up[0]), alt.Y2("high:Q"))
    dots = seen.mark_point(filled=True, color=theme.light("simulated"), size=55).encode(across, up[1], shape=shape)
    return [spans, dots]


# Names, ranges, steps and first values of the sliders; times in ms.
SLIDERS = {
    "rate": ("arrival rate (requests/s) ", 5, 5000, 5, 1000),
    "fixed": ("fixed time (ms) ", 0.5, 50, 0.1, 2),
    "slope": ("time per request (ms) ", 0, 5, 0.05, 0.15),
    "own": ("your timeout (ms) ", 0, 50, 0.1, 1),
}


def calculator(along, here, *, description):
    """Return the mean latency against the timeout, and what one timeout does; a slider for each of `SLIDERS`.

    Parameters
    ----------
    along : dict of str to str
        Formulas in order, in the sliders and in ``datum.share``, from 0 to 1: ``wait`` and ``mean`` (s) are drawn.
    here : dict of str to str
        Formulas in order, in the sliders: ``wait``, ``mean``, ``p99``, ``busy``, the same with ``greedy_`` for no
        timeout, ``best``, ``cap``, ``pass`` (the time of a batch of one), ``raw_load``; times in s.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    x = alt.X("wait_ms:Q", title="timeout (ms)").scale(nice=False)
    y = alt.Y("mean_ms:Q", title="mean latency (ms)").scale(domainMin=0)
    shown = {"wait_ms": f"{KILO}*datum.wait", "mean_ms": f"{KILO}*datum.mean"}
    stable = "datum.raw_load<1"
    grid = alt.Chart(theme.rows(share=np.linspace(0, 1, 41))).transform_calculate(**along, **shown)
    line = grid.transform_filter(stable).mark_line(color=theme.light("weights")).encode(x, y)
    one = alt.Chart(theme.rows(one=[1])).transform_calculate(**here, **shown)
    level = one.transform_filter(stable).transform_calculate(greedy_ms=f"{KILO}*datum.greedy_mean").mark_rule(
        color=theme.light("muted"), strokeDash=theme.DASHES["muted"]
    ).encode(alt.Y("greedy_ms:Q", title="mean latency (ms)"))  # fmt: skip
    dot = one.transform_filter(stable).mark_point(color=theme.light("weights"), filled=True, size=170).encode(x, y)
    text = one.transform_calculate(
        text=(
            f"!({stable})?['more arrives than the server can do']:"
            "['no timeout: mean '+format(1000*datum.greedy_mean,'.3~r')+' ms, P99 '"
            "+format(1000*datum.greedy_p99,'.3~r')+' ms',"
            "format(datum.wait_ms,'.3~r')+' ms: mean '+format(100*(datum.mean/datum.greedy_mean-1),'+.1f')"
            "+' %, P99 '+format(100*(datum.p99/datum.greedy_p99-1),'+.1f')+' %',"
            "'busy '+format(100*datum.busy,'.0f')+' % instead of '+format(100*datum.greedy_busy,'.0f')+' %',"
            "'best timeout '+format(1000*datum.best,'.3~r')+' ms, cap from '+datum.cap+' up',"
            "datum.raw_load>0.9?'near saturation: measure before you trust it':"
            "own/1000>datum.pass?'longer than a pass: shown at a pass':"
            "'if arrivals are random and passes alike']"
        )
    ).mark_text(align="left", baseline="bottom", fontSize=13, lineBreak="\n").encode(
        x=alt.value(8), y=alt.value(245), text="text:N"
    )  # fmt: skip
    params = [
        alt.param(name=name, value=first, bind=alt.binding_range(min=low, max=high, step=step, name=label))
        for name, (label, low, high, step, first) in SLIDERS.items()
    ]
    return theme.finished(alt.layer(line, level, dot, text).add_params(*params), description)
