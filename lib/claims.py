"""The ledger: each claim of the article, the number that decides it, and the verdict.

Nobody types a verdict. A claim's rule names its numbers and thresholds; a module of
evidence computes them; `judge` picks the wording.
"""

from dataclasses import dataclass, replace
from functools import cache

from lib import arguments, bus_evidence, coach_evidence, pause_evidence, price_evidence, trip_evidence, wall_evidence
from lib.article import Claim, claims
from lib.evidence import Evidence
from lib.units import quantity

HOLDS, LIMITED, FAILS, OPEN = "holds", "holds within stated limits", "does not hold", "not yet examined"
EVIDENCE = {
    **wall_evidence.EVIDENCE, **trip_evidence.EVIDENCE, **coach_evidence.EVIDENCE,
    **bus_evidence.EVIDENCE, **pause_evidence.EVIDENCE, **price_evidence.EVIDENCE,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A claim, judged.

    Attributes
    ----------
    claim : Claim
    word : str
        `HOLDS`, `LIMITED`, `FAILS` or `OPEN`.
    number, edge, sentence : str
        As text, with units; empty while the claim is open.
    """

    claim: Claim
    word: str
    number: str = ""
    edge: str = ""
    sentence: str = ""


def judge(claim, evidence):
    """Return the verdict on a claim: the wording follows from its numbers and thresholds alone.

    Parameters
    ----------
    claim : Claim
        With a rule.
    evidence : Evidence

    Returns
    -------
    Verdict
        "holds" if both numbers pass, "holds within stated limits" if only the first
        does, "does not hold" otherwise.

    Raises
    ------
    ValueError
        If a number is NaN, or the claim has no rule.
    """
    arguments.record("claim", claim, Claim)
    arguments.record("evidence", evidence, Evidence)
    arguments.choice("rule", claim.rule, ("at least", "at most"))
    sign = 1 if claim.rule == "at least" else -1
    passes = sign * arguments.number("number", evidence.number) >= sign * claim.threshold
    beyond = sign * arguments.number("edge", evidence.edge) >= sign * claim.edge_threshold
    word, sentence = (
        (FAILS, claim.if_fails) if not passes else (HOLDS, claim.if_holds) if beyond else (LIMITED, claim.if_limited)
    )
    filled = {name: getattr(claim, name).format(**evidence.words) for name in ("number", "edge_number")}
    return Verdict(
        claim=replace(claim, **filled), word=word,
        number=quantity(evidence.number, claim.unit), edge=quantity(evidence.edge, claim.edge_unit),
        sentence=sentence.format(**evidence.words),
    )  # fmt: skip


@cache
def verdict(identity):
    """Return the verdict on the claim `identity`, such as "C01"; open if no chapter has decided it.

    Raises
    ------
    ValueError
        If there is no such claim.
    """
    claim = claims()[arguments.choice("identity", identity, claims())]
    return judge(claim, EVIDENCE[identity]()) if identity in EVIDENCE else Verdict(claim=claim, word=OPEN)


def ledger():
    """Return the verdicts on all claims, in order."""
    return [verdict(identity) for identity in claims()]
