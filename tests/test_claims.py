"""The ledger: wording follows from numbers; every rule is whole; sentences fill."""

import math
from dataclasses import replace

import pytest

from lib import (
    article,
    claims,
)
from lib.claims import FAILS, HOLDS, LIMITED, OPEN, Evidence, judge

DECIDED = [verdict for verdict in claims.ledger() if verdict.word != OPEN]
IDS = [verdict.claim.id for verdict in DECIDED]


def test_the_ledger_keeps_the_seventeen_claims_and_their_owners():
    assert [*article.claims()] == [f"C{number:02}" for number in range(1, 18)]
    owners = {
        "memory_wall": "C01 C02 C03 C04 C17", "amortisation": "C05 C06", "static_batching": "C07 C08",
        "continuous_batching": "C09 C10 C13", "first_token": "C11 C12 C15 C16", "price_of_a_token": "C14",
    }  # fmt: skip
    for owner, identities in owners.items():
        assert [claim.id for claim in article.claims().values() if claim.owner == owner] == identities.split()


@pytest.mark.parametrize("identity", IDS)
def test_swapped_inputs_get_the_other_wording(identity):
    claim, evidence = article.claims()[identity], claims.EVIDENCE[identity]()
    better = 1 if claim.rule == "at least" else -1
    passing, failing = claim.threshold + better, claim.threshold - better
    beyond, short = claim.edge_threshold + better, claim.edge_threshold - better
    for number, edge, word, sentence in (
        (passing, beyond, HOLDS, claim.if_holds),
        (passing, short, LIMITED, claim.if_limited),
        (failing, short, FAILS, claim.if_fails),
        (failing, beyond, FAILS, claim.if_fails),
    ):
        judged = judge(claim, replace(evidence, number=number, edge=edge))
        assert judged.word == word
        assert judged.sentence == sentence.format(**evidence.words)


@pytest.mark.parametrize("identity", IDS)
def test_a_number_on_its_threshold_passes(identity):
    claim, evidence = article.claims()[identity], claims.EVIDENCE[identity]()
    assert judge(claim, replace(evidence, number=claim.threshold, edge=claim.edge_threshold)).word == HOLDS


def test_a_claim_without_a_rule_is_not_yet_examined():
    waiting = [verdict for verdict in claims.ledger() if verdict.word == OPEN]
    assert len(waiting) + len(DECIDED) == 17
    assert all(verdict.number == verdict.sentence == "" for verdict in waiting)
    assert all(verdict.claim.threshold is None for verdict in waiting)


def test_a_number_that_is_none_is_refused():
    claim = article.claims()["C01"]
    with pytest.raises(ValueError, match="number must be a number, got nan"):
        judge(claim, Evidence(number=math.nan, edge=1, words={}))
    with pytest.raises(ValueError, match="rule must be one of"):
        judge(replace(claim, rule=""), Evidence(number=1, edge=1, words={}))
    with pytest.raises(ValueError, match="identity must be one of"):
        claims.verdict("C18")


def test_half_a_rule_is_refused():
    row = {name: "" for name in article.Claim.__dataclass_fields__} | {"id": "C99", "rule": "at least"}
    with pytest.raises(ValueError, match="C99: a rule needs"):
        article._claim(row)
