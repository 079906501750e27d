"""How the host feeds the device, and what is sent and copied."""

from collections.abc import Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.devices.peak import CPU
from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.subjects.tables import listed, table
from perfkit_reports.subjects.trace import columns, story
from perfkit_reports.subjects.trace.parts import by_trace
from perfkit_reports.subjects.trace.series import detailed

_HOST_CALLS = "Calls of the host that can leave the device without work"


def launches(analysis: TraceAnalysis) -> Section | None:
    """Launches, what is idle and why, calls of the host, streams."""
    traces = detailed(analysis)
    if not any(trace.launches or trace.streams for trace in traces):
        return None
    return Section("launches", "Launches and streams", by_trace("launches", traces, _launches), nav="Launches")


def _launches(trace: RankTrace, end: str) -> Sequence[Block]:
    told = [*story.launches(trace), *story.overlap(trace), story.recompute(trace)]
    title, of = ("Threads", columns.THREADS) if trace.device == CPU else ("Streams", columns.STREAMS)
    return (
        *listed(f"launched{end}", filter(None, told)),
        *table(f"host_calls{end}", _HOST_CALLS, columns.HOST_CALLS, trace.host_calls, "kind of call"),
        *table(f"streams{end}", title, of, trace.streams, "stream"),
    )


def transfers(analysis: TraceAnalysis) -> Section | None:
    """Collectives and copies."""
    traces = [trace for trace in detailed(analysis) if trace.collectives or trace.copies]
    if not traces:
        return None
    told = by_trace("transfers", traces, _transfers)
    return Section("transfers", "Communication and copies", told, nav="Communication")


def _transfers(trace: RankTrace, end: str) -> Sequence[Block]:
    return (
        *table(f"collectives{end}", "Collectives", columns.COLLECTIVES, trace.collectives, "kind of collective"),
        *table(f"copies{end}", "Copies", columns.COPIES, trace.copies, "kind of copy"),
    )
