"""Other differences between two sides: what torch.compile did, set-up costs, and what techniques claim."""

import re
from collections import Counter

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.result import ClaimChange, CountChange, SetupChange
from perfkit.check.why.side import SideAnalysis

GRAPH, BREAK, RECOMPILED = "graph", "graph break", "recompilation"

_COUNTED = re.compile(r"(?P<count>\d+) x (?P<reason>.+)", re.DOTALL)
# A line that only moved within its file is the same line.
_LINE = re.compile(r"(?<=\.py):\d+(?= in )")


def compare_compilation(before: SideAnalysis, after: SideAnalysis) -> tuple[CountChange, ...]:
    """Differences in graphs, breaks by reason and recompilations; none if a side does not compile."""
    sides = [side.runs.records[0].facts if side.runs.records else {} for side in (before, after)]
    if not all("graphs" in facts for facts in sides):
        return ()
    changes = [*_compare_breaks(before.variant, after.variant)]
    for kind, fact in ((RECOMPILED, "recompiles"), (GRAPH, "graphs")):
        was, now = (int(facts.get(fact, 0)) for facts in sides)
        note = after.runs.records[0].fact_notes.get(fact, "") if now > was else ""
        changes.append(CountChange(kind=kind, reason=note, before=was, after=now))
    return tuple(change for change in changes if change.before != change.after)


def _compare_breaks(before: Variant, after: Variant) -> list[CountChange]:
    was, now = _parse_reasons(before), _parse_reasons(after)
    same = {_LINE.sub("", reason): reason for reason in was} | {_LINE.sub("", reason): reason for reason in now}
    counts = [Counter[str](), Counter[str]()]
    for side, reasons in zip(counts, (was, now), strict=True):
        for reason, count in reasons.items():
            side[_LINE.sub("", reason)] += count
    return [
        CountChange(kind=BREAK, reason=text, before=counts[0][key], after=counts[1][key]) for key, text in same.items()
    ]


def _parse_reasons(variant: Variant) -> dict[str, int]:
    reasons = () if variant.compile is None else variant.compile.break_reasons
    matches = [match for reason in reasons if (match := _COUNTED.fullmatch(reason))]
    return {match["reason"]: int(match["count"]) for match in matches}


def compare_setup(before: Variant, after: Variant) -> tuple[SetupChange, ...]:
    """Every setup cost, in order of occurrence."""
    was, now = ({cost.name: cost.seconds for cost in side.setup} for side in (before, after))
    return tuple(SetupChange(name=name, before_s=was.get(name), after_s=now.get(name)) for name in was | now)


def compare_claims(before: Variant, after: Variant) -> tuple[ClaimChange, ...]:
    """Claims that hold on one side and not on the other."""
    was = {(claim.technique, claim.statement): claim.holds for claim in before.claims}
    return tuple(
        ClaimChange(
            technique=claim.technique,
            statement=claim.statement,
            before=was[claim.technique, claim.statement],
            after=claim.holds,
            evidence=claim.evidence,
        )
        for claim in after.claims
        if (claim.technique, claim.statement) in was and was[claim.technique, claim.statement] != claim.holds
    )
