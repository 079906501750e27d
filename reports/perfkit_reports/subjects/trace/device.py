"""How the host feeds the device, and what is sent and copied."""

from collections.abc import Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.document.blocks import Block, Section, Text
from perfkit_reports.subjects.tables import table
from perfkit_reports.subjects.trace import columns, story
from perfkit_reports.subjects.trace.parts import by_trace
from perfkit_reports.subjects.trace.series import detailed


def launches(analysis: TraceAnalysis) -> Section | None:
    """Launches, what is idle and why, calls of the host, streams."""
    traces = detailed(analysis)
    if not any(trace.launches or trace.streams for trace in traces):
        return None
    return Section("launches", "Launches and streams", by_trace("launches", traces, _launches), nav="Launches")


def _launches(trace: RankTrace, end: str) -> Sequence[Block]:
    told = [*story.launches(trace), *story.overlap(trace), story.recompute(trace)]
    on_cpu = trace.device == "cpu"
    return (
        Text(id=f"launched{end}", lines=tuple(line for line in told if line), style="list"),
        *table(
            f"host_calls{end}",
            "Calls of the host that can leave the device without work",
            columns.HOST_CALLS,
            trace.host_calls,
            "kind of call",
        ),
        *table(f"gaps{end}", "Long gaps in which the device had nothing to do", columns.GAPS, trace.gaps, "place"),
        *table(
            f"streams{end}",
            "Threads" if on_cpu else "Streams",
            columns.THREADS if on_cpu else columns.STREAMS,
            trace.streams,
            "stream",
        ),
    )


def transfers(analysis: TraceAnalysis) -> Section | None:
    """Collectives and copies."""
    traces = [trace for trace in detailed(analysis) if trace.collectives or trace.copies]
    if not traces:
        return None
    return Section(
        "transfers", "Communication and copies", by_trace("transfers", traces, _transfers), nav="Communication"
    )


def _transfers(trace: RankTrace, end: str) -> Sequence[Block]:
    return (
        *table(f"collectives{end}", "Collectives", columns.COLLECTIVES, trace.collectives, "kind of collective"),
        *table(f"copies{end}", "Copies", columns.COPIES, trace.copies, "kind of copy"),
    )
