"""Figures of the loop bus: rides whose controls run the policy in the page, and theory, simulation and run in one.

A chart receives arrays, and for the rides what ``static/boarding.js`` needs to run them; it computes nothing else.
"""

import altair as alt
import numpy as np

from lib import arguments, boarding, theme
from lib.boarding import StepTimes, Timetable

KINDS = ("boarded", "done, slot held")
BLOCKS = {"coach, padded": "padded", "coach, early exit": "early exit", "loop bus": "continuous"}
START = {"slots": 8, "rate": 30.0, "variation": 1.0}


def settings(unit_arrivals, scores, times, *, mean, longest):
    """Return what the page needs to run the rides.

    Parameters
    ----------
    unit_arrivals, scores : array_like, shape (n,)
        Arrivals at rate 1, which must not fall, and normal scores of the output lengths.
    times : dict
        ``fixed`` and ``marginal`` of a step and ``prompt``, the reading of one, s, above 0.
    mean, longest : float
        Of the lognormal output length, tokens.

    Returns
    -------
    dict
        Numbers and texts only.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    unit_arrivals = arguments.array("unit_arrivals", unit_arrivals, least=0)
    scores = arguments.array("scores", scores)
    arguments.together(unit_arrivals=unit_arrivals, scores=scores)
    if {*arguments.record("times", times, dict)} != {"fixed", "marginal", "prompt"}:
        raise ValueError(f"times must hold fixed, marginal and prompt, got {', '.join(times) or 'nothing'}")
    for value in times.values():
        arguments.number("times", value, above=0)
    return {
        "unitArrivals": [round(float(time), 6) for time in unit_arrivals], "longest": float(longest),
        "scores": [round(float(score), 6) for score in scores], "mean": arguments.number("mean", mean, least=1),
        "times": {name: float(value) for name, value in times.items()}, "kinds": [*KINDS],
        "policies": [{"name": name, "policy": policy} for name, policy in BLOCKS.items()],
    }  # fmt: skip


def rows(settings, slots, rate, variation):
    """Return the bars and the words of the rides, as the page computes them.

    Parameters
    ----------
    settings : dict
        From `settings`.
    slots : int
        At least 1.
    rate : float
        Arrivals, 1/s, above 0.
    variation : float
        Standard deviation over mean of the output length, at least 0.

    Returns
    -------
    tuple of dict
        Columns of the bars: policy, from and to (s), low and high (places), kind. Columns of the words:
        policy, at, and the time when all are done, the mean time to first token and the mean time per token, s.

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    arguments.record("settings", settings, dict)
    slots = int(arguments.number("slots", slots, least=1, whole=True))
    variation = arguments.number("variation", variation, least=0)
    arrivals = np.array(settings["unitArrivals"]) / arguments.number("rate", rate, above=0)
    spread = np.sqrt(np.log1p(variation**2))
    exact = settings["mean"] * np.exp(spread * np.array(settings["scores"]) - spread**2 / 2)
    lengths = np.clip(np.floor(exact + 0.5), 1, settings["longest"]).astype(int)
    bars = {name: [] for name in ("policy", "from", "to", "low", "high", "kind")}
    words = {name: [] for name in ("policy", "at", "done", "first", "token")}
    for block, (name, policy) in enumerate(BLOCKS.items()):
        made = boarding.ride(arrivals, lengths, policy, slots, Timetable(_table(settings["times"], slots)))
        slot, freed = boarding.seating(made, policy, slots)
        for start, end, kind in ((made.boarded, made.finish, KINDS[0]), (made.finish, freed, KINDS[1])):
            some = end > start
            low = block + 0.2 + 0.76 * slot[some] / slots
            high = block + 0.2 + 0.76 * (slot[some] + 0.85) / slots
            row = (np.full(some.sum(), name), start[some], end[some], low, high, np.full(some.sum(), kind))
            for column, values in zip(bars.values(), row, strict=True):
                column += values.tolist()
        several = lengths > 1
        token = (made.finish - made.first_token)[several] / (lengths[several] - 1)
        told = name, block, made.finish.max(), (made.first_token - arrivals).mean(), token.mean()
        for column, value in zip(words.values(), told, strict=True):
            column.append(value)
    return bars, words


def _table(times, slots):
    sizes = np.arange(1, max(slots, 2) + 1)
    steps = np.repeat((times["fixed"] + times["marginal"] * sizes)[:, None], 2, axis=1)
    return StepTimes(prompt=1, sizes=sizes, longest=np.array([1, 2]), steps=steps, boarding=times["prompt"] * sizes)


def rides(settings, *, description):
    """Return the same requests on two coaches and a loop bus; slots, rate and spread are controls.

    Parameters
    ----------
    settings : dict
        From the function of that name; `START` holds the controls' first values.
    description : str

    Returns
    -------
    altair.LayerChart
    """
    bars, words = rows(settings, *START.values())
    x = alt.X("from:Q", title="time (s)")
    y = alt.Y("low:Q", title=None, axis=None).scale(domain=[0, len(BLOCKS)], reverse=True, nice=False)
    legend = alt.Legend(title=None)
    drawn = alt.Chart(theme.rows(**bars)).mark_rect(strokeWidth=0.8).encode(
        x, alt.X2("to:Q"), y, alt.Y2("high:Q"),
        fill=alt.Fill("kind:N", legend=legend).scale(domain=[*KINDS], range=[theme.light("weights"), "transparent"]),
        stroke=alt.Stroke("kind:N", legend=legend).scale(
            domain=[*KINDS], range=[theme.GROUND[0], theme.light("arithmetic")]
        ),
        strokeDash=alt.StrokeDash("kind:N", legend=legend).scale(domain=[*KINDS], range=[[1, 0], [2, 2]]),
    )  # fmt: skip
    text = alt.Chart(theme.rows(**words)).transform_calculate(
        text=(
            "[datum.policy+', done after '+format(datum.done,'.1f')+' s', "
            "'first token '+format(datum.first,'.2f')+' s, then '+format(1000*datum.token,'.1f')+' ms a token']"
        )
    ).mark_text(align="left", baseline="top", fontSize=11.5, lineHeight=13).encode(
        x=alt.value(0), y=alt.Y("at:Q", title=None, axis=None), text="text:N"
    )  # fmt: skip
    bound = {
        "slots": alt.binding_range(min=1, max=16, step=1, name="slots "),
        "rate": alt.binding_range(min=1, max=100, step=1, name="arrivals (requests/s) "),
        "variation": alt.binding_range(min=0, max=2, step=0.1, name="spread of the lengths (CV) "),
    }
    chart = alt.layer(drawn, text).add_params(
        *(alt.param(name=name, value=START[name], bind=bound[name]) for name in bound)
    )
    return theme.finished(chart.properties(usermeta={"ride": settings}), description, height=420)


def three_ways(theory, simulated, measured, *, y_title, description):
    """Return theory as curves, simulation as hollow and the real run as full points with intervals, against slots.

    Parameters
    ----------
    theory : dict of str to (meaning, dash, slots, values)
        Policy to a meaning of `theme.COLOURS`, a dash pattern and arrays of shape (n,).
    simulated, measured : dict of str to (slots, values, lower, upper)
        Policy to arrays of shape (m,), empty where there is no run; policies as in `theory`, four at most.
    y_title : str
    description : str

    Returns
    -------
    altair.LayerChart
    """
    ticks = sorted({float(slots) for found in (simulated, measured) for one in found.values() for slots in one[0]})
    x = alt.X("slots:Q", title="slots (log scale)").scale(type="log", base=2).axis(values=ticks or [4, 8, 16, 32])
    y = alt.Y("value:Q", title=y_title).scale(type="log", base=2)
    names = [*theory]
    colour = alt.Scale(domain=names, range=[theme.light(meaning) for meaning, *_ in theory.values()])
    dash = alt.Scale(domain=names, range=[pattern for _, pattern, *_ in theory.values()])
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500)
    lines = alt.Chart(theme.rows(
        slots=np.concatenate([at for *_, at, _ in theory.values()]),
        value=np.concatenate([values for *_, values in theory.values()]),
        policy=np.repeat(names, [len(at) for *_, at, _ in theory.values()]),
    )).mark_line().encode(
        x, y, alt.Color("policy:N", legend=legend).scale(colour), alt.StrokeDash("policy:N", legend=legend).scale(dash)
    )  # fmt: skip
    layers = [lines]
    kinds = {"simulated": (simulated, 150, False), "measured": (measured, 45, True)}
    shown = [kind for kind, (found, *_) in kinds.items() if found]
    mark = alt.Scale(domain=shown, range=["square", "circle"][: len(shown)])
    for kind in shown:
        found, size, filled = kinds[kind]
        at, value, low, high = (np.concatenate([one[part] for one in found.values()]) for part in range(4))
        points = alt.Chart(theme.rows(slots=at, value=value, low=low, high=high, kind=kind))
        meaning = theme.light("simulated" if kind == "simulated" else "measured")
        spans = points.mark_rule(color=meaning).encode(x, alt.Y("low:Q", title=y_title), alt.Y2("high:Q"))
        dots = points.mark_point(size=size, filled=filled, color=meaning, strokeWidth=1.6).encode(
            x, y, shape=alt.Shape("kind:N", legend=alt.Legend(title=None)).scale(mark)
        )
        layers += [spans, dots]
    return theme.finished(alt.layer(*layers), description)
