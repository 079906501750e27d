"""Coverage of the time by cost estimates, and the method: files, repairs, ceilings, the origin of each figure."""

from collections.abc import Sequence

from msgspec.structs import replace

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.document.blocks import Block, Details, Facts, Section, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects import method as shared
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import trace_columns, trace_sentences
from perfkit_reports.subjects.trace.rows.costs import build_cost_columns as cost_columns
from perfkit_reports.subjects.trace.series import list_detailed_traces, list_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks
from perfkit_reports.subjects.trace.trace_headline import list_ceilings

_NO_ESTIMATE = "No FLOP or byte estimate"
_GRAPHS = "Replayed graphs"
_AGAINST_COUNTERS = "Model vs hardware counters"
_WITHOUT_CEILINGS = "No ceilings known for this device: percentages of peak are missing. Name the device with --device."


def build_coverage_section(analysis: TraceAnalysis) -> Section | None:
    """Shares of the kernel time with an op, FLOPs and bytes, and the work without."""
    blocks = build_trace_blocks("coverage", list_detailed_traces(analysis), _build_coverage)
    return Section("coverage", "Coverage", blocks) if blocks else None


def _build_coverage(trace: RankTrace, end: str) -> Sequence[Block]:
    kind = "kernels" if trace.kernels else "ops"
    wrong = [row for row in trace.kernels or trace.ops if row.above_roof]
    costs = cost_columns(kind, trace.device_name)
    title = f"Above a roof: {len(wrong)} (wrong cost or ceiling)"
    above = make_table(f"above{end}", title, costs, wrong, "row", data=kind, show_title=False)
    covered = trace.coverage
    return (
        Text(
            id=f"covered{end}",
            lines=(trace_sentences.describe_coverage(trace), trace_sentences.describe_utilization(trace)),
        ),
        *make_table(f"graphs{end}", _GRAPHS, trace_columns.GRAPHS, trace.graphs, "graph", sorted="Time"),
        *make_table(f"uncovered{end}", _NO_ESTIMATE, trace_columns.UNCOVERED, covered.uncovered, "name", sorted="Time"),
        *make_table(
            f"model_error{end}",
            _AGAINST_COUNTERS,
            trace_columns.MODEL_ERROR,
            covered.model_error,
            "op class",
            whats="op classes",
        ),
        *([Details(id=f"wrong{end}", title=above[0].title, blocks=above)] if above else []),
    )


def build_method_section(analysis: TraceAnalysis) -> Section:
    """The files, their repairs and omissions, and the ceilings."""
    traces = list_traces(analysis)
    notes = [
        replace(note, text=f"{trace.label}: {note}") if len(traces) > 1 else note
        for trace in traces
        for note in (*trace.file_info.notes, *trace.notes)
    ]
    blocks: list[Block] = [*make_table("traces", "Traces", trace_columns.TRACES, traces, "trace")]
    blocks += make_list("notes", notes, "Trace notes", style="callout")
    for place, trace in enumerate(list_detailed_traces(analysis)):
        if trace.properties:
            title = f"Device properties of {trace.label}"
            items = tuple((name, Cell(str(value))) for name, value in trace.properties.items())
            facts = Facts(id=f"properties-{place}", items=items)
            blocks.append(Details(id=f"device-{place}", title=title, blocks=(facts,)))
    blocks += [
        *shared.build_ceilings(list_ceilings(traces), _WITHOUT_CEILINGS),
        shared.build_provenance(analysis.provenance),
    ]
    if analysis.command:
        blocks.append(Facts(id="command", items=(("Command", Cell(analysis.command)),)))
    return Section("method", "Method", tuple(blocks))
