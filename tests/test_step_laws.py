"""The laws fitted to a run: each finds the run that it made, and the one that did make it judges best."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import records, step_laws
from tests.test_records import recorded

SIZES, CONTEXTS = (1, 2, 4, 8, 16, 32), (128, 1024, 4096)


def run(time_of):
    """Return a run over a grid of points."""
    content = recorded(lambda *_: 1.0)
    visits = content["points"][0]["visits"]
    content["points"] = [
        {
            "batch_size": size, "context": tokens,
            "visits": [visit | {"time": [time_of(size, tokens)]} for visit in visits],
        }
        for tokens in CONTEXTS for size in SIZES
    ]  # fmt: skip
    return records.summed_up("r", content)


def test_a_straight_line_is_found_and_judged_best():
    laws = step_laws.judged(run(lambda size, tokens: 11e-3 + 0.4e-3 * size + 1.2e-6 * size * tokens))
    assert step_laws.best(laws) == step_laws.STRAIGHT
    found = laws[step_laws.STRAIGHT]
    assert found.sharpness is None
    assert_allclose(found.fit.values, [11e-3, 0.4e-3, 1.2e-6], rtol=1e-6)
    for out in found.left_out.values():
        assert_allclose(out.error, 0, atol=1e-6)


@pytest.mark.parametrize("sharpness", [4, 2])
def test_a_smooth_maximum_is_found_and_judged_best(sharpness):
    """Weights at 80 %, arithmetic at 90 % and the cache at 40 % of ceilings of 40 GB/s and 100 GFLOP/s."""
    bound = run(lambda *_: 1.0)
    weights, cache, linear, attention = records.parts_of(bound)
    both = ((weights / 0.8) ** sharpness + (linear / 0.9) ** sharpness) ** (1 / sharpness)
    times = both + np.maximum(cache, attention) / 0.4
    of_point = dict(zip(zip(bound.batch_size, bound.context, strict=True), times.tolist(), strict=True))
    laws = step_laws.judged(run(lambda *point: of_point[point]))
    best = laws[step_laws.best(laws)]
    assert best.sharpness == sharpness
    assert_allclose(best.fit.values, [0.8, 0.9, 0.4], rtol=1e-4)


def test_the_cache_takes_the_longer_of_its_reading_and_its_arithmetic(monkeypatch):
    """At 5 GFLOP/s attention takes longer than the cache takes to read at 40 GB/s."""
    monkeypatch.setattr(step_laws.fit, "leave_group_out", lambda *_: None)
    content = run(lambda *_: 1.0).content
    for point in content["points"]:
        point["visits"] = [visit | {"matrix_multiply": [5e9]} for visit in point["visits"]]
    slow = records.summed_up("r", content)
    _, cache, _, attention = records.parts_of(slow)
    laws = step_laws.judged(slow)
    assert [law.sharpness for law in laws.values()] == [4, 2, 1, None]
    assert np.all(attention > cache)
    assert_allclose(laws["efficiencies, $p = 1$"].inputs[2], attention)


def test_without_a_law_there_is_no_best():
    with pytest.raises(ValueError, match="laws must hold at least one, got none"):
        step_laws.best({})
