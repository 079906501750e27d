"""Did a technique act? Its claims are checked against facts; nothing is taken on trust.

A technique that runs without an error may still do nothing, so each states what must then be true. A claim holds
if it holds on every rank; where a fact is missing it is undecided, which is not the same as held.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from perfkit.analysis.result import ClaimResult
from perfkit.record import Claim, Relation
from perfkit.units import nbytes, percent, seconds, significant

Facts = Mapping[str, float]

BASELINE = "baseline"

_RELATIONS = {
    Relation.AT_LEAST: "at least",
    Relation.AT_MOST: "at most",
    Relation.EQUAL: "exactly",
}


def check_claims(
    claims: Iterable[Claim],
    facts: Sequence[Facts],
    baseline: Facts | None,
    notes: Mapping[str, str],
) -> tuple[ClaimResult, ...]:
    """Check claims against the facts of every rank and, where a claim is relative to it, the baseline's facts.

    Args:
        claims: what must be true if the techniques acted.
        facts: one mapping per rank.
        baseline: the baseline run's facts; None where there is no such run.
        notes: explanations of facts, added to the evidence.
    """
    return tuple(_check(claim, facts, baseline, notes) for claim in claims)


def engaged(results: Iterable[ClaimResult]) -> bool | None:
    """True if every claim holds, False if one fails, None if none fails but one is undecided or there is none."""
    verdicts = [result.holds for result in results]
    if False in verdicts:
        return False
    return True if verdicts and None not in verdicts else None


def _check(claim: Claim, facts: Sequence[Facts], baseline: Facts | None, notes: Mapping[str, str]) -> ClaimResult:
    per_rank = [_check_rank(claim, of_rank, baseline) for of_rank in facts]
    if not per_rank:
        return _undecided(claim, "no rank left a record to check it against")
    worst = min(range(len(per_rank)), key=lambda rank: _BADNESS[per_rank[rank].holds])
    result = per_rank[worst]
    suffix = f" (rank {worst} of {len(per_rank)})" if len(per_rank) > 1 and result.holds is not True else ""
    note = f"; {notes[claim.fact]}" if claim.fact in notes else ""
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        holds=result.holds,
        expected=result.expected,
        found=result.found,
        evidence=result.evidence + suffix + note,
    )


_BADNESS = {False: 0, None: 1, True: 2}


def _check_rank(claim: Claim, facts: Facts, baseline: Facts | None) -> ClaimResult:
    found = facts.get(claim.fact)
    if found is None:
        return _undecided(claim, f"the fact {claim.fact} was not measured")
    expected = claim.value
    origin = ""
    if claim.relative_to:
        reference, origin = _reference(claim, facts, baseline)
        if reference is None:
            return _undecided(claim, f"{show_fact(claim.fact, found)} found, but {origin}", found)
        expected = claim.value * reference
        origin = f" ({significant(claim.value)} x {origin} of {show_fact(claim.fact, reference)})"
    holds = _holds(claim, found, expected)
    allowance = f" within {percent(claim.tolerance)}" if claim.relation == Relation.EQUAL and claim.tolerance else ""
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        holds=holds,
        expected=expected,
        found=found,
        evidence=(
            f"{_name(claim.fact)}: {show_fact(claim.fact, found)}, "
            f"expected {_RELATIONS[claim.relation]} {show_fact(claim.fact, expected)}{allowance}{origin}"
        ),
    )


def _reference(claim: Claim, facts: Facts, baseline: Facts | None) -> tuple[float | None, str]:
    """The number a relative claim refers to with its name, or None with the reason why there is none."""
    if claim.relative_to != BASELINE:
        return facts.get(claim.relative_to), (
            _name(claim.relative_to) if claim.relative_to in facts else f"the fact {claim.relative_to} was not measured"
        )
    if baseline is None:
        return None, "there is no baseline run with facts to compare with"
    return baseline.get(claim.fact), "the baseline" if claim.fact in baseline else f"the baseline has no {claim.fact}"


def _holds(claim: Claim, found: float, expected: float) -> bool:
    if claim.relation == Relation.AT_LEAST:
        return found >= expected
    if claim.relation == Relation.AT_MOST:
        return found <= expected
    return math.isclose(found, expected, rel_tol=claim.tolerance)


def _undecided(claim: Claim, reason: str, found: float | None = None) -> ClaimResult:
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        holds=None,
        expected=None if claim.relative_to else claim.value,
        found=found,
        evidence=f"cannot be decided: {reason}",
    )


def show_fact(fact: str, value: float) -> str:
    """A fact's value with the unit its name tells: bytes, seconds, a share, else a count."""
    name = fact.partition(":")[0]
    if name.endswith("_bytes") or name.startswith("bytes_"):
        return nbytes(value)
    if name.endswith("_s"):
        return seconds(value)
    if name.endswith("_share"):
        return percent(value)
    return f"{value:,.0f}" if value == round(value) else significant(value)


def _name(fact: str) -> str:
    name, _, detail = fact.partition(":")
    return name.replace("_", " ") + (f" of {detail}" if detail else "")
