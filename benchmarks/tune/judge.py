"""Judges recorded findings against the planted faults and their measured gains."""

from collections.abc import Iterator, Sequence

from benchmarks.tune.fault import Fault
from benchmarks.tune.lockstep import TrueGain
from benchmarks.tune.recorded_findings import FindingsOfRun, NamedFinding
from perfkit.core.spec import Struct

# What nearly every program can gain by: lower precision, a compiler. Not a fault unless a fault's row names it.
GENERAL = frozenset({"gemm.fp32", "fusion.elementwise", "cpu.dispatch"})

# Of the step: a clean program has no finding of a fault with a larger expected gain.
FALSE_ALARM = 0.05

# Of the gain of a general finding: with more in the clean twin, it does not name the fault.
_USUAL = 0.5


class FaultVerdict(Struct):
    """How the findings of a faulty run name its fault.

    `place` is its place among all gains (1 is the first), None where it is not named. `first` is whether no other gain
    comes before it except general ones. `within` is whether the measured gain lies in the stated interval, up to its
    own error; None where the finding states none.
    """

    place: int | None
    first: bool
    named: NamedFinding | None
    within: bool | None


def judge_fault(fault: Fault, run: FindingsOfRun, gain: TrueGain, twin: FindingsOfRun | None = None) -> FaultVerdict:
    """The verdict on a fault. A general finding names it only if the clean twin has none of half its gain."""
    gains = [finding for finding in run.findings if finding.severity != "note" and not _is_limit(finding)]
    named = next(
        (finding for finding in gains if finding.id in fault.named_by and not _is_general(finding, twin)), None
    )
    if named is None:
        return FaultVerdict(place=None, first=False, named=None, within=None)
    before = gains[: gains.index(named)]
    return FaultVerdict(
        place=len(before) + 1,
        first=all(finding.id in GENERAL for finding in before),
        named=named,
        within=_is_within(named, gain),
    )


def _is_general(finding: NamedFinding, twin: FindingsOfRun | None) -> bool:
    if finding.id not in GENERAL or twin is None:
        return False
    usual = max((each.expected or 0.0 for each in twin.findings if each.id == finding.id), default=0.0)
    return usual > _USUAL * (finding.expected or 0.0)


def _is_limit(finding: NamedFinding) -> bool:
    return finding.id.startswith(("limit.", "comparison.", "ranks."))


def _is_within(named: NamedFinding, gain: TrueGain) -> bool | None:
    if named.low is None and named.high is None:
        return None
    above = named.low is None or gain.high >= named.low
    return above and (named.high is None or gain.low <= named.high)


def list_false_alarms(run: FindingsOfRun, faults: Sequence[Fault]) -> Iterator[NamedFinding]:
    """Findings of a clean program that name a fault of the table."""
    named = {finding_id for fault in faults for finding_id in fault.named_by} - GENERAL
    for finding in run.findings:
        if finding.id in named and (finding.expected is None or finding.expected >= FALSE_ALARM):
            yield finding
