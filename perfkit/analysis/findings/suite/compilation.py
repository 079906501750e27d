"""Rules about torch.compile: when it has paid for itself, and where its graphs break."""

from collections.abc import Iterator

from perfkit.analysis.findings.suite.suite_view import SuiteView
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import CompileSummary
from perfkit.analysis.suite.compile_cost import format_break_even
from perfkit.units import format_seconds


def find_compile_time(suite: SuiteView) -> Iterator[Finding]:
    """When compiling has paid for itself: in a process that finds nothing in the caches, and in one that finds all."""
    for variant in suite.measured:
        cold = variant.compile
        if cold is None or cold.seconds is None:
            continue
        warm = cold.warm
        paid = f"pays for its compilation {format_break_even(cold, variant.difference)}"
        evidence = [f"{format_seconds(cold.seconds)} in the first process, cache {cold.cache}: {cold.break_even}"]
        if warm is not None:
            paid += f", with warm caches {format_break_even(warm, variant.difference)}"
            evidence.append(f"{format_seconds(warm.seconds)} with warm caches: {warm.break_even}")
        yield Finding(
            id="compile.break_even",
            severity="note",
            title=f"{variant.name} {paid}",
            variant=variant.name,
            evidence="; ".join(evidence),
            action="Weigh it against the steps of a run, and keep torch.compile's caches (TORCHINDUCTOR_CACHE_DIR) "
            "where processes are started again.",
            figures={"first_s": cold.seconds}
            | ({} if warm is None or warm.seconds is None else {"warm_s": warm.seconds}),
        )


def find_graph_breaks(suite: SuiteView) -> Iterator[Finding]:
    """Every graph break ends a compiled region and returns to Python."""
    for variant in suite.measured:
        summary = variant.compile
        if summary is not None and summary.graph_breaks:
            yield Finding(
                id="compile.graph_breaks",
                severity="warning",
                title=f"{variant.name}: {summary.graph_breaks} graph breaks",
                variant=variant.name,
                evidence="; ".join((*(summary.break_reasons or ("no reason was recorded",)), _describe_count(summary))),
                action="Remove what breaks the graph, or compile the blocks alone.",
                figures={"breaks": summary.graph_breaks}
                | ({} if summary.graph_calls is None else {"graph_calls": summary.graph_calls}),
            )


def _describe_count(summary: CompileSummary) -> str:
    """Breaks are met while compiling, which is once for all layers that share code."""
    said = "counted while compiling, once for code that several layers share"
    if summary.graph_calls is None:
        return said
    return f"{said}; a step calls {summary.graph_calls:,.0f} compiled graphs, forward and backward"
