"""Rules about torch.compile: when its compilation pays off, and where its graphs break."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import CompileSummary
from perfkit.analysis.suite.compile_cost import describe_break_even
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.units import format_seconds


def find_compile_time(suite: SuiteView) -> Iterator[Finding]:
    """The break-even of compilation, in a process with cold caches and in one with warm caches."""
    for variant in suite.measured:
        cold = variant.compile
        if cold is None or cold.seconds is None:
            continue
        warm = cold.warm
        evidence = [f"{format_seconds(cold.seconds)} in the first process, cache {cold.cache}: {cold.break_even}"]
        if warm is not None:
            evidence.append(f"{format_seconds(warm.seconds)} with warm caches: {warm.break_even}")
        yield Finding(
            id="compile.break_even",
            severity="note",
            title=f"{variant.name}: {describe_break_even(cold, variant.difference)}",
            variant=variant.name,
            evidence="; ".join(evidence),
            action="Compare it with the run's length, and keep TORCHINDUCTOR_CACHE_DIR across restarts.",
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
                title=f"{variant.name}: {summary.graph_breaks} graph break{'' if summary.graph_breaks == 1 else 's'}",
                variant=variant.name,
                evidence="; ".join((*(summary.break_reasons or ("no reason was recorded",)), _describe_count(summary))),
                action="Fix the breaks that TORCH_LOGS=graph_breaks lists, or compile the blocks separately.",
                figures={"breaks": summary.graph_breaks}
                | ({} if summary.graph_calls is None else {"graph_calls": summary.graph_calls}),
            )


def _describe_count(summary: CompileSummary) -> str:
    """Breaks are counted while compiling, once for all layers that share code."""
    basis = "counted at compile time, shared layer code once"
    if summary.graph_calls is None:
        return basis
    return f"{basis}; {summary.graph_calls:,.0f} compiled graph calls per step, forward and backward"
