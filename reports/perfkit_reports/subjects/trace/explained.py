"""How much of the time is explained, how the traces were read, and how each figure was obtained."""

from collections.abc import Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.document.blocks import Block, Details, Facts, Section, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects import method as shared
from perfkit_reports.subjects.tables import listed, table
from perfkit_reports.subjects.trace import columns, story
from perfkit_reports.subjects.trace.costs import columns as cost_columns
from perfkit_reports.subjects.trace.headline import ceilings_of
from perfkit_reports.subjects.trace.parts import by_trace
from perfkit_reports.subjects.trace.series import detailed, every_trace

_NO_ESTIMATE = "No FLOP or byte estimate"
_GRAPHS = "Replayed graphs"
_AGAINST_COUNTERS = "The model against the hardware's counters"
_WITHOUT_CEILINGS = (
    "No ceiling of this device is known, so there are no percentages of a peak. Name the device with --device."
)


def coverage(analysis: TraceAnalysis) -> Section | None:
    """What of the kernel time has an op, FLOPs and bytes, and what has none."""
    blocks = by_trace("coverage", detailed(analysis), _coverage)
    return Section("coverage", "Coverage", blocks) if blocks else None


def _coverage(trace: RankTrace, end: str) -> Sequence[Block]:
    kind = "kernels" if trace.kernels else "ops"
    wrong = [row for row in trace.kernels or trace.ops if row.above_roof]
    costs = cost_columns(kind, trace.device_name)
    title = f"Above a roof: {len(wrong)} with a wrong cost or ceiling"
    above = table(f"above{end}", title, costs, wrong, "row", data=kind, show_title=False)
    covered = trace.coverage
    return (
        Text(id=f"covered{end}", lines=(story.coverage(trace), story.utilisation(trace))),
        *table(f"graphs{end}", _GRAPHS, columns.GRAPHS, trace.graphs, "graph", sorted="Time"),
        *table(f"uncovered{end}", _NO_ESTIMATE, columns.UNCOVERED, covered.uncovered, "name", sorted="Time"),
        *table(f"model_error{end}", _AGAINST_COUNTERS, columns.MODEL_ERROR, covered.model_error, "class of ops"),
        *([Details(id=f"wrong{end}", title=above[0].title, blocks=above)] if above else []),
    )


def method(analysis: TraceAnalysis) -> Section:
    """The files, what was repaired or skipped in them, the ceilings."""
    traces = every_trace(analysis)
    told = [(f"{trace.label}: " if len(traces) > 1 else "", (*trace.reading.notes, *trace.notes)) for trace in traces]
    notes = [f"{of}{line}" for of, lines in told for line in lines]
    blocks: list[Block] = [*table("traces", "Traces", columns.TRACES, traces, "trace")]
    blocks += listed("notes", notes, "What was repaired, skipped or is missing", style="callout")
    for place, trace in enumerate(detailed(analysis)):
        if trace.properties:
            title = f"Device of {trace.label}, as the trace tells it"
            items = tuple((name, Cell(str(value))) for name, value in trace.properties.items())
            facts = Facts(id=f"properties-{place}", items=items)
            blocks.append(Details(id=f"device-{place}", title=title, blocks=(facts,)))
    blocks += [*shared.ceilings(ceilings_of(traces), _WITHOUT_CEILINGS), shared.provenance(analysis.provenance)]
    if analysis.command:
        blocks.append(Facts(id="command", items=(("Command", Cell(analysis.command)),)))
    return Section("method", "How it was read and computed", tuple(blocks), nav="Method")
