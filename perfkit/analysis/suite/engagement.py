"""Did a technique act? Its claims are checked against facts; nothing is taken on trust.

A technique that runs without an error may still do nothing, so each states what must then be true. A claim holds
if it holds on every rank; where a fact is missing, or its bounds leave both open, it is undecided, which is not the
same as held. A claim on a whole of which less than nine tenths changed holds in part, which is not held either.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from perfkit.analysis.model.estimate import ClaimOutcome
from perfkit.analysis.model.suite import ClaimResult
from perfkit.analysis.suite.facts import STANDS_FOR
from perfkit.analysis.trace.roofline.fact_bounds import FactBounds, Facts, get_bounds
from perfkit.core.record.claim import Claim, Relation
from perfkit.core.units import format_bytes, format_flops, format_percent, format_seconds, format_significant

BASELINE = "baseline"
ALREADY = "already true in the baseline"

IN_PART: Final = "in part"
# The share of a whole from which on a claim holds: layers that cannot change, such as small ones, are few.
_NEARLY_ALL = 0.9

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
    shared: Collection[str] = (),
) -> tuple[ClaimResult, ...]:
    """Check claims against the facts of every rank and, where a claim is relative to it, the baseline's facts.

    Args:
        claims: what must be true if the techniques acted.
        facts: one mapping per rank.
        baseline: the baseline run's facts; None where there is no such run.
        notes: explanations of facts, added to the evidence.
        shared: techniques that the baseline has, too.

    A technique whose claims all hold in the baseline as well had no effect: none of its claims then counts as held,
    unless it is `shared`.
    """
    claims = tuple(claims)
    results = [_check_claim(claim, facts, baseline, notes) for claim in claims]
    if baseline is None:
        return tuple(results)
    before = [_check_rank(claim, baseline, baseline).holds is True for claim in claims]
    news = {claim.technique for claim, already in zip(claims, before, strict=True) if not already} | {*shared}
    results = [
        replace(result, outcome="not active", evidence=f"no more than in the baseline; {result.evidence}")
        if result.outcome == IN_PART and not _exceeds(result, _check_rank(claim, baseline, baseline))
        else result
        for claim, result in zip(claims, results, strict=True)
    ]
    return tuple(
        result if result.technique in news or result.holds is not True else _mark_already_so(result)
        for result in results
    )


def _exceeds(result: ClaimResult, before: ClaimResult) -> bool:
    """True if a claim on a whole shows a larger share than in the baseline, or the baseline's is unknown."""
    shares = [one.measured / one.expected for one in (result, before) if one.measured is not None and one.expected]
    return len(shares) < 2 or shares[0] > shares[1]


def _mark_already_so(result: ClaimResult) -> ClaimResult:
    return replace(
        result, outcome="already true", holds=False, holds_in_baseline=True, evidence=f"{ALREADY}; {result.evidence}"
    )


def is_engaged(results: Iterable[ClaimResult]) -> bool | None:
    """True if every claim holds, False if one fails, None if one is undecided or there are none."""
    verdicts = [result.holds for result in results]
    if False in verdicts:
        return False
    return True if verdicts and None not in verdicts else None


def is_engaged_in_part(results: Iterable[ClaimResult]) -> bool:
    """True if claims hold in part, and none fails otherwise."""
    outcomes = {result.outcome for result in results if result.holds is False}
    return outcomes == {IN_PART}


def _check_claim(claim: Claim, facts: Sequence[Facts], baseline: Facts | None, notes: Mapping[str, str]) -> ClaimResult:
    per_rank = [_check_rank(claim, of_rank, baseline) for of_rank in facts]
    if not per_rank:
        return _make_undecided(claim, "no rank record to check")
    worst = min(range(len(per_rank)), key=lambda rank: _BADNESS[per_rank[rank].outcome])
    result = per_rank[worst]
    suffix = f" (rank {worst} of {len(per_rank)})" if len(per_rank) > 1 and result.holds is not True else ""
    note = f"; {notes[claim.fact]}" if claim.fact in notes else ""
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        fact=claim.fact,
        outcome=result.outcome,
        holds=result.holds,
        expected=result.expected,
        measured=result.measured,
        evidence=result.evidence + suffix + note,
    )


_OUTCOMES: dict[bool | None, ClaimOutcome] = {True: "active", False: "not active", None: "unknown"}
_BADNESS: dict[ClaimOutcome, int] = {"not active": 0, "in part": 1, "unknown": 2, "active": 3}


def _check_rank(claim: Claim, facts: Facts, baseline: Facts | None) -> ClaimResult:
    claim = _replace_unknown_fact(claim, facts)
    if claim.fact not in facts:
        return _make_undecided(claim, f"{claim.fact} was not measured")
    bounds = get_bounds(facts[claim.fact])
    expected = claim.value
    origin = ""
    if claim.relative_to:
        reference, origin = _get_reference(claim, facts, baseline)
        if reference is None:
            return _make_undecided(claim, f"{_format_bounds(claim, bounds)} found, but {origin}", bounds.low)
        expected = claim.value * reference
        origin = f" ({format_significant(claim.value)} x {origin}, {show_fact(claim.fact, reference)})"
    holds = _check_relation(claim, bounds, expected * (_NEARLY_ALL if claim.whole else 1.0))
    if claim.whole and expected == 0:  # there is nothing to change
        holds = False
    allowance = (
        f" within {format_percent(claim.tolerance)}" if claim.relation == Relation.EQUAL and claim.tolerance else ""
    )
    if claim.whole:
        whole = f"{show_fact(claim.fact, expected)} {claim.counted or _format_fact_name(claim.fact)}"
        evidence = f"{_format_bounds(claim, bounds)} of {whole}, expected at least {format_percent(_NEARLY_ALL)}"
    else:
        evidence = (
            f"{_format_fact_name(claim.fact)}: {_format_bounds(claim, bounds)}, "
            f"expected {_RELATIONS[claim.relation]} {show_fact(claim.fact, expected)}{allowance}{origin}"
        )
    evidence += f"; {bounds.note}" if bounds.note else ""
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        fact=claim.fact,
        outcome=IN_PART if claim.whole and holds is False and bounds.low > 0 else _OUTCOMES[holds],
        holds=holds,
        expected=expected,
        measured=bounds.low,
        evidence=evidence if holds is not None else f"undecided: {evidence}",
    )


def _replace_unknown_fact(claim: Claim, facts: Facts) -> Claim:
    """The claim on a substitute fact, where a trace has that one instead."""
    kind, _, detail = claim.fact.partition(":")
    other = f"{STANDS_FOR.get(kind, kind)}:{detail}"
    return replace(claim, fact=other) if claim.fact not in facts and other in facts else claim


def _format_bounds(claim: Claim, bounds: FactBounds) -> str:
    low = show_fact(claim.fact, bounds.low)
    if bounds.low == bounds.high:
        return low
    return f"at least {low}" if math.isinf(bounds.high) else f"{low} to {show_fact(claim.fact, bounds.high)}"


def _get_reference(claim: Claim, facts: Facts, baseline: Facts | None) -> tuple[float | None, str]:
    """The named reference value of a relative claim, or None with the reason."""
    if claim.relative_to != BASELINE:
        if claim.relative_to not in facts:
            return None, f"{claim.relative_to} was not measured"
        return _get_exact_value(facts, claim.relative_to, _format_fact_name(claim.relative_to))
    if baseline is None:
        return None, "no baseline run with facts"
    if claim.fact not in baseline:
        return None, f"the baseline lacks {claim.fact}"
    return _get_exact_value(baseline, claim.fact, "the baseline")


def _get_exact_value(facts: Facts, name: str, label: str) -> tuple[float | None, str]:
    bounds = get_bounds(facts[name])
    return (
        (bounds.low, label) if bounds.low == bounds.high else (None, f"only bounds of {label} are known: {bounds.note}")
    )


def _check_relation(claim: Claim, bounds: FactBounds, expected: float) -> bool | None:
    """True if the relation holds over all possible values of the fact; None where it holds for some only."""
    at_least, at_most = bounds.low >= expected, bounds.high <= expected
    if claim.relation == Relation.AT_LEAST:
        return at_least or (None if bounds.high >= expected else False)
    if claim.relation == Relation.AT_MOST:
        return at_most or (None if bounds.low <= expected else False)
    if bounds.low == bounds.high:
        return math.isclose(bounds.low, expected, rel_tol=claim.tolerance)
    return None if bounds.low <= expected <= bounds.high else False


def _make_undecided(claim: Claim, reason: str, low: float | None = None) -> ClaimResult:
    return ClaimResult(
        technique=claim.technique,
        statement=claim.statement,
        fact=claim.fact,
        outcome="unknown",
        holds=None,
        expected=None if claim.relative_to else claim.value,
        measured=low,
        evidence=f"undecided: {reason}",
    )


def show_fact(fact: str, value: float) -> str:
    """A fact's value with the unit of its name: bytes, seconds, a share, else a count."""
    name = fact.partition(":")[0]
    if name.endswith("_bytes") or name.startswith("bytes_"):
        return format_bytes(value)
    if name.endswith("_s"):
        return format_seconds(value)
    if name.endswith("_flops"):
        return format_flops(value)
    if name.endswith("_share"):
        return format_percent(value)
    return f"{value:,.0f}" if value == round(value) else format_significant(value)


def _format_fact_name(fact: str) -> str:
    name, _, detail = fact.partition(":")
    return name.replace("_", " ") + (f" of {detail}" if detail else "")
