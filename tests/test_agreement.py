"""Two runs agree where each step, held against the ceilings beside it, lies within the limit of the other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import agreement, measurement, records
from tests.test_records import POINTS, recorded


def run(factor=lambda batch, context: 1.0, bandwidth=40e9, **changes):
    """Return a run whose steps take twice their weights' time at this bandwidth, times a factor of each point."""

    def time_of(batch, context, at):
        return factor(batch, context) * 1e9 / bandwidth

    return records.summed_up("r", recorded(time_of, lambda at: bandwidth, lambda at: 1e15, **changes))


def test_a_run_at_half_the_bandwidth_agrees_if_its_steps_take_twice_as_long():
    found = agreement.agreement(run(), run(bandwidth=20e9))
    assert_allclose(found.difference, 0, atol=1e-12)
    assert found.within.all()
    assert list(zip(found.batch_size, found.context, strict=True)) == POINTS


def test_a_point_beyond_the_limit_is_marked_and_the_others_are_not():
    slow = run(lambda batch, context: 1.25 if (batch, context) == (8, 1024) else 1.05)
    found = agreement.agreement(run(), slow)
    assert_allclose(found.difference, [0.05, 0.05, 0.05, 0.25])
    assert found.within.tolist() == [True, True, True, False]
    lines = agreement.table(found).splitlines()
    assert lines[0] == "against matrix_vector:"
    assert [line.endswith("beyond 10%") for line in lines[2:6]] == [False, False, False, True]
    assert lines[-1] == "3 of 4 points within 10%; 5.0% apart in the median, 25.0% at most"
    assert agreement.agreement(run(), slow, limit=0.3).within.all()


def test_the_scatter_of_visits_says_how_far_apart_medians_lie_by_chance():
    """Medians of 9 normal visits in each of 4,000 pairs of runs: 95 % lie within the scatter, give or take."""
    rng = np.random.default_rng(3)
    visits = 1 + 0.05 * rng.standard_normal((2, 4000, 9))
    low, middle, high = np.quantile(visits, (0.25, 0.5, 0.75), axis=-1)
    apart = middle[1] / middle[0] - 1
    errors = [agreement._median_error((high - low)[at] / middle[at], 9) for at in (0, 1)]
    scatter = 1.96 * np.hypot(*errors)
    assert 0.85 < np.mean(np.abs(apart) <= scatter) < 0.99


def test_the_scatter_of_two_runs_by_hand():
    """Quartiles of 6, 8 and 10 and of 14, 16 and 18, nine visits each: shares of 1/2 and 1/4."""
    one, other = (
        records.summed_up("r", recorded(lambda _batch, _context, at, first=first: 1e-3 * (first + at)))
        for first in (4, 12)
    )
    found = agreement.agreement(one, other)
    assert_allclose(found.scatter, 1.96 * 1.2533 / 1.349 * np.hypot(1 / 2, 1 / 4) / 3)
    assert_allclose(found.difference, 1.0)


def test_a_run_that_is_much_faster_does_not_agree_either():
    fast = run(lambda batch, context: 0.75 if batch == 8 else 1.0)
    found = agreement.agreement(run(), fast)
    assert found.within.tolist() == [True, False, True, False]
    last = agreement.table(found).splitlines()[-1]
    assert last == "2 of 4 points within 10%; 12.5% apart in the median, 25.0% at most"


def test_a_neighbour_that_slows_reads_alone_is_seen_against_reads_alone():
    content = recorded(lambda *_: 0.05, flop_rate_of=lambda at: 1e15)
    slow = recorded(lambda *_: 0.05, flop_rate_of=lambda at: 1e15)
    for point in slow["points"]:
        for visit in point["visits"]:
            visit["read"] = [0.91 * rate for rate in visit["read"]]
    one, other = records.summed_up("r", content), records.summed_up("s", slow)
    assert_allclose(agreement.agreement(one, other).difference, 0, atol=1e-12)
    assert_allclose(agreement.agreement(one, other, ceiling="read").difference, -0.09, atol=1e-12)
    assert_allclose(agreement.agreement(one, other, ceiling="bandwidth").difference, -0.09, atol=1e-12)


@pytest.mark.parametrize("path", sorted((records.FOLDER / "again").glob("*.json")), ids=lambda path: path.stem)
def test_two_committed_runs_agree_at_every_point_against_the_packed_product(path):
    """Within 10 % everywhere; against the largest bandwidth, a plain read, at most points and not at all."""
    one, other = records.run(records.FOLDER / path.name), records.run(path)
    assert agreement.agreement(one, other).within.all()
    assert agreement.agreement(one, other, ceiling="bandwidth").within.mean() > 0.85


def test_points_that_one_run_left_out_are_left_out():
    short = recorded(lambda *_: 0.05)
    short["points"] = short["points"][1:3]
    assert agreement.agreement(run(), records.summed_up("s", short)).batch_size.tolist() == [8, 1]
    short["points"] = [short["points"][0] | {"batch_size": 3}]
    with pytest.raises(ValueError, match="other must share points with the one, got none"):
        agreement.agreement(run(), records.summed_up("s", short))


@pytest.mark.parametrize("change", [{"dtype": "bf16"}, {"threads": 1}, {"linear": "plain"}])
def test_runs_of_different_things_are_not_compared(change):
    other = recorded(lambda *_: 0.05)
    other["settings"] = other["settings"] | change
    with pytest.raises(ValueError, match=f"other must be a run of the same {next(iter(change))}"):
        agreement.agreement(run(), records.summed_up("o", other))


def test_the_command_says_point_by_point_whether_two_records_agree(tmp_path, capsys):
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path, factor in zip(paths, (1.0, 1.2), strict=True):
        records.write(path, recorded(lambda batch, context, at, factor=factor: factor * 0.05))
    assert measurement.main(["--compare", str(paths[0]), str(paths[0])]) == 0
    assert measurement.main(["--compare", *map(str, paths)]) == 1
    assert "0 of 4 points within 10%; 20.0% apart in the median" in capsys.readouterr().out
    assert measurement.main(["--compare", str(paths[0]), str(tmp_path / "none.json")]) == 2
    assert "measurement: none.json must be a record in JSON" in capsys.readouterr().err
