"""Kernel launches and streams of the device; communication and copies."""

from collections.abc import Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import trace_columns, trace_sentences
from perfkit_reports.subjects.trace.queue_length import build_queue_blocks
from perfkit_reports.subjects.trace.ranks import build_rank_tables
from perfkit_reports.subjects.trace.sampled_counters import build_counter_blocks
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks

_HOST_CALLS = "Synchronizing CPU calls"


def build_launches_section(analysis: TraceAnalysis) -> Section | None:
    """Launches, synchronizing CPU calls and streams."""
    traces = list_detailed_traces(analysis)
    if not any(trace.launches or trace.streams or trace.counters for trace in traces):
        return None
    return Section(
        "launches", "Launches and streams", build_trace_blocks("launches", traces, _build_launches), nav="Launches"
    )


def _build_launches(trace: RankTrace, end: str) -> Sequence[Block]:
    lines = [
        *trace_sentences.describe_launches(trace),
        trace_sentences.describe_load(trace),
        *trace_sentences.describe_overlap(trace),
        trace_sentences.describe_recompute(trace),
    ]
    title, of = ("Threads", trace_columns.THREADS) if is_cpu(trace.device) else ("Streams", trace_columns.STREAMS)
    return (
        *make_list(f"launched{end}", filter(None, lines)),
        *make_table(f"host_calls{end}", _HOST_CALLS, trace_columns.HOST_CALLS, trace.host_calls, "call"),
        *make_table(f"streams{end}", title, of, trace.streams, "stream"),
        *build_queue_blocks(trace, end),
        *build_counter_blocks(trace, end),
    )


def build_transfers_section(analysis: TraceAnalysis) -> Section | None:
    """Ranks and their waits; overlap of communication, and copies. The table of operations has the collectives."""
    traces = [trace for trace in list_detailed_traces(analysis) if trace.collectives or trace.copies]
    blocks = (*build_rank_tables(analysis), *build_trace_blocks("transfers", traces, _build_transfers))
    return Section("transfers", "Communication, ranks and copies", blocks, nav="Communication") if blocks else None


def _build_transfers(trace: RankTrace, end: str) -> Sequence[Block]:
    return (
        *make_table(f"overlap{end}", "Overlap", trace_columns.OVERLAP, trace.overlap.pairs, "kind"),
        *make_table(f"copies{end}", "Copies", trace_columns.COPIES, trace.copies, "copy", whats="copies"),
    )
