"""Collects the findings of a suite: of its variants, their traces and their memory."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.findings.contract import complete_findings
from perfkit.analysis.findings.order import sort_findings
from perfkit.analysis.findings.rule import About, collect_findings
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.scaling import SuiteScaling
from perfkit.analysis.model.suite import MeasuredSession, Variant
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.analysis.pipeline.trace_findings import collect_view_findings
from perfkit.analysis.pipeline.verify_commands import make_suite_undoer, make_suite_verifier
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.analysis.suite.findings.tables import suite_rules
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.trace.findings.tables import trace_rules
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import RunSpec
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.layout import SuiteSampling

# Memory gains reported of the baseline: trying techniques shows more than further estimates.
_MOST_MEMORY_GAINS = 3


def collect_suite_findings(
    variants: Sequence[Variant],
    environment: Environment | None,
    ceilings: DeviceCeilings | None,
    passes: Mapping[str, PassResults] | None = None,
    sampling: SuiteSampling | None = None,
    sessions: tuple[MeasuredSession, ...] = (),
    scaling: SuiteScaling | None = None,
    specs: Mapping[str, RunSpec] | None = None,
) -> tuple[Finding, ...]:
    """All rules' findings; measured gains of variants come before estimated gains of a traced step.

    `passes` are the results of the instrumented passes of variants, by name; `sampling` is how long they were timed,
    `sessions` when, `scaling` on how many ranks, `specs` a run of each variant.
    """
    suite = SuiteView(tuple(variants), environment, ceilings, passes or {}, sampling, sessions, scaling)
    findings = [*collect_findings(suite_rules.RULES, suite), *_collect_from_traces(suite), *_collect_from_fleets(suite)]
    findings += [(About.MEMORY, finding) for finding in _collect_from_memory(suite)]
    runs = specs or {}
    return complete_findings(
        sort_findings(findings), make_suite_verifier(variants, runs), make_suite_undoer(variants, runs)
    )


def _collect_from_traces(suite: SuiteView) -> Iterator[tuple[int, Finding]]:
    """Findings of the traces, which are on the clock of timed steps, and the outcome of advised techniques.

    A finding that several variants share is reported of the baseline.
    """
    views = [
        TraceView(trace, get_step_s(variant), variant.loop, variant.data_wait_share)
        for variant in suite.looked_into
        for trace in suite.get_traces(variant)
    ]
    for rule, finding in collect_view_findings(views, first=[variant.name for variant in suite.advised]):
        outcome = suite.describe_outcome(next(iter(finding.techniques), ""), finding.variant)
        yield rule.about, replace(finding, action=f"{finding.action} {outcome}") if outcome else finding


def _collect_from_fleets(suite: SuiteView) -> Iterator[tuple[int, Finding]]:
    """Findings on waiting ranks."""
    for variant in suite.looked_into:
        yield from collect_findings(trace_rules.RULES, suite.passes.get(variant.name, PassResults()).fleet)


def _collect_from_memory(suite: SuiteView) -> Iterator[Finding]:
    """Collect the baseline's warnings, largest gains and notes; only warnings of other variants."""
    growing = any(variant.memory is not None and variant.memory.growth for variant in suite.advised)
    tried = _map_tried_techniques(suite)
    for variant in suite.variants:
        if variant.memory is None:
            continue
        findings = collect_memory_findings(
            variant.memory,
            variant=variant.name,
            techniques=variant.techniques,
            own_loop=variant.loop is not None,
            tried=tried,
            optimizers=_list_optimizers(suite, variant),
        )
        if variant in suite.advised:
            gains = [finding for finding in findings if finding.severity == "gain"]
            yield from (finding for finding in findings if finding not in gains[_MOST_MEMORY_GAINS:])
        elif variant.status == RunStatus.OUT_OF_MEMORY or not growing:
            yield from (finding for finding in findings if finding.severity == "warning")


def _list_optimizers(suite: SuiteView, variant: Variant) -> set[str]:
    """The classes in its traces, else those seen in its loop."""
    traced = {name for trace in suite.get_traces(variant) for name in trace.optimizers}
    loop = variant.loop.optimizers if variant.loop is not None else ()
    return traced or {described.partition(",")[0] for described in loop}


def _map_tried_techniques(suite: SuiteView) -> dict[str, str]:
    """The outcome of each technique for memory, alone before in combination."""
    others = [variant for variant in suite.variants if not variant.is_baseline]
    by_size = sorted(others, key=lambda variant: -len(variant.techniques))
    return {technique: _describe_memory_outcome(variant) for variant in by_size for technique in variant.techniques}


def _describe_memory_outcome(variant: Variant) -> str:
    if variant.status != RunStatus.OK:
        return f"tried as {variant.name}: {variant.status}"
    if variant.active is not True or variant.memory_ratio is None:
        return f"tried as {variant.name}: no creditable result"
    of = f"peak memory per {variant.comparison_unit}" if variant.comparison_unit else "peak memory"
    return f"tried as {variant.name}: {variant.memory_ratio:.2f}x the {of}"
