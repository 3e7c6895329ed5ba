"""The committed record of broken formulas: it belongs to these formulas, and nearly all turned a test red."""

import pytest
from scipy.stats import binomtest

from scripts import mutation_report
from scripts.mutation.equivalent import EQUIVALENT
from scripts.mutation.mutants import digest, mutants, owners

SOURCE = '''
EDGE = 2


def area(width, height):
    """Return an area."""
    # Both count.
    return width * height + EDGE


class Box:
    def volume(self):
        return min(-self.side, 3)
'''


@pytest.fixture(scope="module")
def found():
    return mutation_report.all_mutants(compiled=False)


@pytest.fixture(scope="module")
def record():
    """The record without the functions that have changed since."""
    return mutation_report.known()


def test_nineteen_in_twenty_broken_formulas_turn_a_test_red(record):
    """Of those tried. While not all are, they are a fair sample, large enough to exclude nine in ten."""
    total = mutation_report.counts(record)
    counted = total["tried"] - total["equivalent"]
    low, _ = mutation_report.interval(total["killed"], counted)
    assert total["killed"] >= 0.95 * counted
    assert low > 0.9, "run scripts/mutation_report.py: too little is known of the present formulas"


def test_no_module_hides_among_the_others(record):
    """Of no module can 19 in 20 be excluded, at 99.9 %."""
    for module in mutation_report.MODULES:
        total = mutation_report.counts(record, [module])
        _, high = mutation_report.interval(total["killed"], total["tried"] - total["equivalent"], level=0.998)
        assert high >= 0.95, module


def test_the_record_counts_the_mutants_of_the_present_formulas(record, found):
    counts = {}
    for mutant in found:
        counts[mutant.module, mutant.owner] = counts.get((mutant.module, mutant.owner), 0) + 1
    for module, owned in record.items():
        for owner, kept in owned.items():
            assert kept["mutants"] == counts[module, owner]
            assert len(kept["survivors"]) <= kept["tried"] <= kept["mutants"]


def test_every_survivor_that_counts_for_nothing_exists_and_has_a_reason(found):
    assert {*EQUIVALENT} - {mutant.name for mutant in found} == set()
    assert [name for name, reason in EQUIVALENT.items() if len(reason.split()) < 4] == []


def test_a_changed_function_is_dropped_and_a_changed_comment_is_not():
    before, after = (owners(mutation_report.ast.parse(text)) for text in (SOURCE, SOURCE.replace("Both count", "So")))
    assert {name: digest(part) for name, part in before.items()} == {name: digest(part) for name, part in after.items()}
    other = owners(mutation_report.ast.parse(SOURCE.replace("height + EDGE", "height - EDGE")))
    assert [name for name in before if digest(before[name]) != digest(other[name])] == ["area"]
    told = owners(mutation_report.ast.parse(SOURCE.replace("Return an area", "Return it")))
    assert digest(told["area"]) == digest(before["area"])


def test_each_term_is_broken_in_every_way():
    labels = {mutant.name for mutant in mutants("shapes", SOURCE)}
    assert labels == {
        "shapes.EDGE: 2 -> 3", "shapes.EDGE: 2 -> 1",
        "shapes.area: width * height + EDGE -> width * height - EDGE",
        "shapes.area: width * height + EDGE -> width * height", "shapes.area: width * height + EDGE -> EDGE",
        "shapes.area: width * height -> width / height", "shapes.area: width * height -> width",
        "shapes.area: width * height -> height",
        "shapes.Box.volume: -self.side -> self.side", "shapes.Box.volume: min(-self.side, 3) -> min(-self.side, 4)",
        "shapes.Box.volume: min(-self.side, 3) -> min(-self.side, 2)",
    }  # fmt: skip


def test_a_mutant_computes_what_its_label_says():
    (mutant,) = [one for one in mutants("shapes", SOURCE) if one.label == "width * height -> width / height"]
    (code,) = [part for part in mutant.code.co_consts if hasattr(part, "co_name")]
    area = type(mutants)(code, {"EDGE": 2})
    assert area(6, 3) == 4
    assert [*mutant.lines] == [8]


@pytest.mark.parametrize(("killed", "counted"), [(0, 5), (5, 5), (77, 78), (960, 1000)])
def test_the_interval_is_exact(killed, counted):
    expected = binomtest(killed, counted).proportion_ci(0.95, "exact")
    assert mutation_report.interval(killed, counted) == pytest.approx((expected.low, expected.high))


def test_a_sample_says_its_interval_and_a_census_does_not():
    sample = {"mutants": 20, "tried": 10, "equivalent": 1, "killed": 9}
    assert mutation_report.line_on("all", sample) == (
        "all: 10 of 20 tried, 9 of 9 killed (100.0 %), 1 compute the same; 95 % interval 66.4 to 100.0 %")
    assert "interval" not in mutation_report.line_on("all", sample | {"tried": 20, "killed": 19})
