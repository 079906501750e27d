"""What to do about a trace: rules in tables, each with evidence from the rows, an action and what it would win.

A rule about one trace takes a `View` and yields what it found with the part of the step's time it is about; where two
are about the same time, both say so, since their gains do not add up. Rules about several traces take the `Fleet` or
the `TraceDifference`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import msgspec

from perfkit.analysis.finding_order import ordered
from perfkit.analysis.memory.findings import memory_findings
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_LEAST
from perfkit.analysis.model.trace import Fleet, RankTrace, TraceDifference
from perfkit.analysis.trace.findings import host, limits, memory_bound, products, several, transfer
from perfkit.analysis.trace.findings.thresholds import NOTABLE
from perfkit.analysis.trace.findings.view import NOT_OF_ROWS, Told, View
from perfkit.analysis.trace.memory import fullness

Rule = Callable[[View], Iterator[Told]]

GAINS: tuple[Rule, ...] = (
    products.vector_units,
    products.odd_dims,
    products.attention,
    products.convolution_layout,
    products.batch_norm_layout,
    products.convolution_algorithm,
    memory_bound.optimizer_not_fused,
    memory_bound.pointwise_chain,
    memory_bound.norm_in_parts,
    memory_bound.softmax_in_parts,
    memory_bound.conversions,
    memory_bound.indexed_updates,
    memory_bound.zeroing,
    memory_bound.recomputation,
    host.host_bound,
    host.waits,
    host.allocations,
    host.data_loading,
    host.short_kernels,
    transfer.exposed_communication,
    transfer.slow_link,
    transfer.small_messages,
    transfer.pageable_copies,
    transfer.exposed_copies,
)
LIMITS: tuple[Rule, ...] = (
    limits.no_kernels,
    limits.lost_kernels,
    limits.above_roof,
    limits.unlinked,
    limits.unmodelled,
    limits.no_shapes,
    limits.unknown_device,
    limits.profiler_overhead,
    limits.no_steps,
)
FLEET: tuple[Callable[[Fleet], Iterator[Finding]], ...] = (several.straggler, several.waiting)
_NAMED = 4  # other traces with the same finding
DIFFERENCE: tuple[Callable[[TraceDifference], Iterator[Finding]], ...] = (several.changed,)


def trace_findings(
    traces: Sequence[RankTrace],
    fleet: Fleet | None,
    difference: TraceDifference | None,
    *,
    limits: Sequence[Rule] = LIMITS,
) -> tuple[Finding, ...]:
    """All rules' findings: warnings, then gains by seconds per step, then notes.

    Findings on memory come after those on time of their severity.

    What traces of one kind of device have in common is told once, for the one with the most to win. No gain below 1 %
    of the step is told. Gains are upper bounds. `limits` are the rules about what limits the figures.
    """
    found: list[tuple[int, Finding]] = []
    # Where the work itself was not recorded, nothing tells what would make it faster.
    seen = [trace for trace in traces if not trace.unseen_device]
    for group, (rules, about) in enumerate(((GAINS, seen), (limits, traces))):
        found += [(group, finding) for finding in _common([_of(View(trace), rules) for trace in about])]
    found += [(2, finding) for finding in _memory(traces)]
    if fleet is not None:
        found += [(0, finding) for rule in FLEET for finding in rule(fleet)]
    if difference is not None:
        found += [(0, finding) for finding in difference_findings(difference)]
    return ordered(found)


def difference_findings(difference: TraceDifference) -> tuple[Finding, ...]:
    """What changed between two traces."""
    return tuple(finding for rule in DIFFERENCE for finding in rule(difference))


def _memory(traces: Sequence[RankTrace]) -> tuple[Finding, ...]:
    """Of the trace whose memory ran out, else of that with the highest peak: ranks of a job hold much the same."""
    most = max(traces, key=lambda trace: fullness(trace.memory), default=None)
    return () if most is None or most.memory is None else memory_findings(most.memory, variant=most.label)


_Key = tuple[str, str]


def _of(view: View, rules: Sequence[Rule]) -> list[tuple[_Key, Finding]]:
    """What the rules say of one trace, with overlaps named, each under its rule and device."""
    told = [(rule.__name__, _bounded(each, view)) for rule in rules for each in rule(view)]
    told = [(rule, each) for rule, each in told if _matters(each.finding, view)]
    every = [each for _, each in told]
    return [((rule, view.trace.device_name), _overlapping(each, every)) for rule, each in told]


def _bounded(told: Told, view: View) -> Told:
    """Where kernels were lost, more may be won in the time of kernels; less in what seems idle without them."""
    lost = view.trace.lost
    if told.finding.gain_s is None or lost is None or not lost.matters or told.scope & NOT_OF_ROWS:
        return told
    return told._replace(finding=msgspec.structs.replace(told.finding, gain_bound=AT_LEAST))


def _matters(finding: Finding, view: View) -> bool:
    return finding.gain_s is None or view.share(finding.gain_s) >= NOTABLE


def _overlapping(mine: Told, told: Sequence[Told]) -> Finding:
    others = [each.finding.title for each in told if each is not mine and each.scope & mine.scope]
    if not others:
        return mine.finding
    return _detailed(mine.finding, f"gains do not add up: in part the same time as “{'”, “'.join(others)}”")


def _common(by_trace: Sequence[Sequence[tuple[_Key, Finding]]]) -> list[Finding]:
    """Findings of one rule together: the largest, and where else it holds."""
    together: dict[_Key, list[Finding]] = {}
    for key, finding in chain.from_iterable(by_trace):
        together.setdefault(key, []).append(finding)
    return [_largest(same) for same in together.values()]


def _largest(same: Sequence[Finding]) -> Finding:
    largest = max(same, key=lambda finding: finding.gain_s or 0.0)
    others = [label for label in dict.fromkeys(finding.variant for finding in same) if label != largest.variant]
    if not others:
        return largest
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return _detailed(largest, f"likewise in {', '.join(others[:_NAMED])}{more}")


def _detailed(finding: Finding, detail: str) -> Finding:
    return msgspec.structs.replace(finding, details=(*finding.details, detail))
