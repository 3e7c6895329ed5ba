"""Points that a law misses: each is named, and its cause is looked for in a fixed order."""

from dataclasses import replace

import numpy as np
import pytest

from lib import fit, misses, records, step_laws
from tests.test_records import ALL_COMMITTED, POINTS, recorded

RUN = records.summed_up("r", recorded(lambda *_: 0.05))
NO_BREAK = "\N{NO-BREAK SPACE}"


def left_out(*errors):
    """Return points as a law predicted them with these errors, in the order of `POINTS`."""
    error, nothing = np.array(errors), np.zeros(len(errors))
    return fit.LeftOut(predicted=nothing, lower=nothing, upper=nothing, error=error, within=error < 0)


def causes(run, out, by="batch"):
    return [(miss.batch_size, miss.context, miss.cause) for miss in misses.misses(run, out, by)]


def test_a_point_within_the_limit_is_not_missed_and_either_side_counts():
    found = misses.misses(RUN, left_out(0.149, -0.151, 0.3, 0.0), "batch")
    assert [(miss.batch_size, miss.context, miss.error) for miss in found] == [(8, 128, -0.151), (1, 1024, 0.3)]
    assert misses.misses(RUN, left_out(0.149, 0, 0, 0), "batch", limit=0.149) == ()
    assert len(misses.misses(RUN, left_out(0.149, -0.151, 0.3, 0.0), "batch", limit=0.2)) == 1


def test_the_ends_of_what_was_left_out_are_extrapolated_to():
    inner = [(2, 256), (4, 256), (2, 512), (4, 512)]
    content = recorded(lambda *_: 0.05)
    content["points"] += [content["points"][0] | {"batch_size": size, "context": tokens} for size, tokens in inner]
    run, out = records.summed_up("r", content), left_out(*[0.0] * 4, *[0.5] * 4)
    assert [cause for *_, cause in causes(run, out)] == [misses.UNEXPLAINED] * 4
    assert all("extrapolated" in cause for *_, cause in causes(run, left_out(*[0.5] * 4, *[0.0] * 4)))
    assert all("extrapolated" in cause for *_, cause in causes(run, left_out(*[0.5] * 4, *[0.0] * 4), "context"))
    cached = replace(run, content=run.content | {"machine": {"last_cache": 34e6}})
    assert [cause for *_, cause in causes(cached, out)] == ["its cache stays on chip"] * 3 + [misses.UNEXPLAINED]


def test_the_end_of_the_range_is_that_of_what_was_left_out():
    """The smallest batch at a middle context: extrapolated with one batch left out, not with one context."""
    content = recorded(lambda *_: 0.05)
    content["points"].append(content["points"][0] | {"batch_size": 1, "context": 512})
    run, out = records.summed_up("r", content), left_out(*[0.0] * 4, 0.5)
    assert [cause for *_, cause in causes(run, out, "context")] == [misses.UNEXPLAINED]
    assert "extrapolated" in causes(run, out, "batch")[0][2]


def test_a_point_whose_visits_spread_is_no_fault_of_the_law():
    wide = replace(RUN, upper=RUN.time * [1.2, 1, 1, 1])
    assert causes(wide, left_out(0.2, 0.2, 0, 0))[0] == (*POINTS[0], "its own visits spread that much")
    assert "extrapolated" in causes(wide, left_out(0.2, 0.2, 0, 0))[1][2]


def test_a_sentence_names_every_miss():
    found = misses.misses(RUN, left_out(0.0, -0.2, 0.0, 0.0), "batch")
    words, none = (misses.in_words(*one).replace(NO_BREAK, " ") for one in ((found, "batch"), ((), "context")))
    assert words == (
        "With one batch left out, missed by more than 15 %: batch 8 at 128 tokens by \N{MINUS SIGN}20 % "
        "(extrapolated, because the end of the range was left out)."
    )
    assert none == "With one context left out, no point is missed by more than 15 %."


def test_there_is_an_error_for_each_point():
    with pytest.raises(ValueError, match="left_out must hold 4 errors, got 3"):
        misses.misses(RUN, left_out(0, 0, 0), "batch")


@pytest.mark.parametrize("path", ALL_COMMITTED, ids=lambda path: path.stem)
def test_every_committed_point_that_the_best_law_misses_has_a_cause(path):
    run = records.run(path)
    if not records.quietness(run).publishable:
        pytest.skip("too noisy to judge a law by")
    laws = step_laws.judged(run)
    for by, out in laws[step_laws.best(laws)].left_out.items():
        found = misses.misses(run, out, by)
        assert all(miss.cause != misses.UNEXPLAINED for miss in found), (by, found)
