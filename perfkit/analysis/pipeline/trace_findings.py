"""Collects the findings of traces: one a rule, of the trace with the largest potential savings."""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.findings.contract import complete_findings, find_ranges
from perfkit.analysis.findings.order import sort_findings
from perfkit.analysis.findings.rule import About, Rule, RuleResult, collect_findings, run_rules
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.step import AT_LEAST
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.analysis.pipeline.verify_commands import make_trace_verifier
from perfkit.analysis.trace.findings.gain_ranges import measure_step_error, range_gains
from perfkit.analysis.trace.findings.tables.trace_rules import RULES
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE, OF_MISSING
from perfkit.analysis.trace.findings.trace_view import NOT_OF_ROWS, ForeignView, TraceView
from perfkit.analysis.trace.trace_memory import make_fullness_key
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent, format_seconds

_NAMED = 4  # other traces with the same finding
_FEW = 0.1  # of the sum: with a smaller gain the largest part of the critical path is named
_NOT_RECORDED = "the affected work is not in the trace"


def collect_trace_findings(
    traces: Sequence[RankTrace],
    fleet: Fleet | None,
    difference: TraceDifference | None,
    other_fleets: Sequence[Fleet] = (),
) -> tuple[Finding, ...]:
    """All rules' findings: warnings, then gains by seconds per step, then notes.

    Findings on memory come after those on time of their severity. Gains are simulated, sums where they cannot be.
    """
    views = [ForeignView(trace) for trace in traces]
    findings: list[tuple[int, Finding]] = [(rule.about, finding) for rule, finding in collect_view_findings(views)]
    findings += [(About.MEMORY, finding) for finding in _collect_from_memory(traces)]
    for subject in (fleet, *other_fleets, difference):
        findings += collect_findings(RULES, subject)
    return complete_findings(sort_findings(findings), make_trace_verifier(traces))


def collect_view_findings(
    views: Sequence[TraceView], first: Collection[str] | None = None
) -> list[tuple[Rule, Finding]]:
    """One finding per rule and kind of device, of the trace with the largest potential savings, or where it is worst.

    No gain below 1 % of the step is reported. `first` is given for traces of different work: those with these labels
    come first, and the gain of each of the others is named.
    """
    together: dict[tuple[Rule, str], list[Finding]] = {}
    for view in views:
        for rule, finding in _run_rules_on_trace(view):
            together.setdefault((rule, view.trace.device_name), []).append(finding)
    return [(rule, _merge_same_findings(same, first)) for (rule, _), same in together.items()]


def _run_rules_on_trace(view: TraceView) -> Iterator[tuple[Rule, Finding]]:
    """The findings of one trace, with overlaps named."""
    # Without recorded work, nothing shows how to make it faster.
    results = [
        (rule, result)
        for rule, result in run_rules(RULES, view)
        if rule.about != About.STEP or view.trace.is_work_known
    ]
    results = [(rule, _bound_gain(result, view)) for rule, result in results if _is_notable(result.finding, view)]
    for rule, result in results:
        finding = _add_simulated_gain(_note_overlaps(result, [other for _, other in results]), view.trace)
        if finding.expected_s is None or not view.is_lost_in_missing_work(finding.expected_s):
            yield rule, _range_gains(_note_missing_time(finding, view), view.trace)


def _add_simulated_gain(finding: Finding, trace: RankTrace) -> Finding:
    """The finding with its gain as the replay of the trace has it, or why it has none."""
    if finding.gain_s is None or trace.gains is None:
        return finding
    gain_s = trace.gains.by_finding.get(finding.id)
    if gain_s is None:
        return replace(
            finding, not_simulated_reason=finding.not_simulated_reason or trace.gains.reason or _NOT_RECORDED
        )
    simulated = replace(finding, simulated_s=gain_s, touched=trace.gains.touched.get(finding.id))
    if trace.replay is None or gain_s >= _FEW * finding.gain_s:
        return simulated
    kind, spent = max(trace.replay.critical_path.items(), key=lambda item: item[1])
    return _add_detail(simulated, f"critical path: {format_percent(spent / trace.replay.replayed_s, 0)} {kind}")


def _range_gains(finding: Finding, trace: RankTrace) -> Finding:
    """The finding with the ranges of its gains, as far as the traced steps show them."""
    return range_gains(finding, finding.gains or find_ranges(finding), measure_step_error(trace.steps), trace.step_s)


def _note_missing_time(finding: Finding, view: TraceView) -> Finding:
    """Without a record of some time of the step, a gain covers the rest."""
    share = view.unrecorded_share
    if finding.gain_s is None or OF_MISSING * share <= NOTABLE:
        return finding
    return _add_detail(
        finding, f"{format_percent(share, 0)} of the {view.whole} is not recorded: the gain covers the rest"
    )


def _bound_gain(result: RuleResult, view: TraceView) -> RuleResult:
    """Make a gain a lower bound where kernels were lost, except for gains in idle time; none exceeds the step."""
    lost, step_s = view.trace.lost_kernels, view.trace.step_s
    if result.finding.gain_s is not None and result.finding.gain_s > step_s > 0:
        result = result._replace(finding=replace(result.finding, gain_s=step_s))
    if result.finding.gain_s is None or lost is None or not lost.matters or result.scope & NOT_OF_ROWS:
        return result
    return result._replace(finding=replace(result.finding, gain_bound=AT_LEAST))


def _is_notable(finding: Finding, view: TraceView) -> bool:
    return finding.gain_s is None or view.get_share(finding.gain_s) >= NOTABLE


def _note_overlaps(result: RuleResult, others: Sequence[RuleResult]) -> Finding:
    overlapping = [other.finding.title for other in others if other is not result and other.scope & result.scope]
    if not overlapping:
        return result.finding
    return _add_detail(result.finding, f"overlaps with “{'”, “'.join(overlapping)}”: gains do not add up")


def _merge_same_findings(same: Sequence[Finding], first: Collection[str] | None) -> Finding:
    """The finding to show, with the other traces in which it holds: of the largest gain, without gains of the largest
    time or share."""
    chosen = max(
        same, key=lambda finding: (finding.variant in (first or ()), finding.expected_s or 0.0, _get_extent(finding))
    )
    others = {finding.variant: finding.expected_s for finding in same if finding.variant != chosen.variant}
    if not others:
        return chosen
    if first is None:
        return _add_detail(chosen, f"also in {list_first(list(others), _NAMED)}")
    places = (label if gain_s is None else f"{label} ({format_seconds(gain_s)})" for label, gain_s in others.items())
    return _add_detail(chosen, f"also in {', '.join(places)}")


def _get_extent(finding: Finding) -> float:
    return finding.figures.get("time_s", finding.figures.get("share", 0.0))


def _add_detail(finding: Finding, detail: str) -> Finding:
    return replace(finding, details=(*finding.details, detail))


def _collect_from_memory(traces: Sequence[RankTrace]) -> tuple[Finding, ...]:
    """Use the trace that ran out of memory, else the one with the highest peak: ranks of a job use similar memory."""
    most = max(traces, key=lambda trace: make_fullness_key(trace.memory), default=None)
    if most is None or most.memory is None:
        return ()
    return collect_memory_findings(most.memory, variant=most.label, trains=most.trains)
