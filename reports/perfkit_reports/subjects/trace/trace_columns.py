"""The columns of a trace report's tables, shared by every renderer."""

from perfkit.analysis.model.coverage import ModelErrorRow, UncoveredWork
from perfkit.analysis.model.fleet import CollectiveTiming, RankRow, SkewRow
from perfkit.analysis.model.launches import HostCallRow, OverlapRow, ReplayedGraph, StreamRow
from perfkit.analysis.model.trace import CollectiveRow, CopyRow, RankTrace
from perfkit.core import units
from perfkit_reports.cells import (
    make_calls_cell,
    make_code_cell,
    make_integer_cell,
    make_optional_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.trace.trace_headline import describe_device
from perfkit_reports.subjects.trace.trace_sentences import describe_reading
from perfkit_reports.wording import format_signed_seconds

_NO_LENGTH = "the trace has zero length"
_BUSY: tuple[Column[StreamRow], ...] = (
    Column("Busy", lambda row: make_seconds_cell(row.busy_s), help="summed over the whole trace"),
    Column(
        "% of trace",
        lambda row: make_share_cell(row.busy_s / row.span_s) if row.span_s > 0 else make_unknown_cell(_NO_LENGTH),
    ),
)
STREAMS: tuple[Column[StreamRow], ...] = (
    Column("Stream", lambda row: make_short_cell(row.stream), numeric=False),
    Column("Device", lambda row: Cell(str(row.device), value=row.device)),
    Column("Kernels", lambda row: make_integer_cell(row.kernels), help="in the whole trace"),
    *_BUSY,
)
THREADS: tuple[Column[StreamRow], ...] = (
    Column("Thread", lambda row: make_short_cell(row.stream), numeric=False),
    Column("Ops", lambda row: make_integer_cell(row.kernels), help="in the whole trace"),
    *_BUSY,
)


def _make_link_share_cell(reached: float | None, row: CollectiveRow | CopyRow) -> Cell:
    if reached is None:
        return make_unknown_cell("size or time unknown")
    if not row.ceiling:
        return make_unknown_cell(row.ceiling_source or "link bandwidth unknown")
    if row.efficiency_reason:
        return make_unknown_cell(row.efficiency_reason)
    return Cell(
        units.format_percent(reached / row.ceiling, 0),
        detail=f"of {units.format_bandwidth(row.ceiling)}",
        reason=f"of {units.format_bandwidth(row.ceiling)}: {row.ceiling_source}",
        value=reached / row.ceiling,
    )


_NO_SIZE = "size not recorded"
_NO_VOLUME = "size or number of ranks not recorded"
COLLECTIVES: tuple[Column[CollectiveRow], ...] = (
    Column("Collective", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column(
        "Requested as", lambda row: make_code_cell(row.requested_kind), numeric=False, code=True, help="if different"
    ),
    Column("Group", lambda row: make_short_cell(row.group, 32), numeric=False),
    Column(
        "Ranks",
        lambda row: make_optional_cell(row.group_size, lambda value: f"{value:,.0f}", "group not recorded"),
    ),
    Column("Dtype", lambda row: make_text_cell(row.dtype), numeric=False, weight=Weight.DETAIL),
    Column(
        "Message",
        lambda row: make_optional_cell(row.message_bytes, units.format_bytes, _NO_SIZE),
        help="bytes per call",
    ),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="all calls, per step"),
    Column(
        "Transfer",
        lambda row: make_optional_cell(row.transfer_s, units.format_seconds, _NO_SIZE),
        help="at most, per step: from the last rank's arrival, else calls times the shortest one",
    ),
    Column(
        "Waiting",
        lambda row: make_optional_cell(row.waiting_s, units.format_seconds, _NO_SIZE),
        help="for other ranks, at least, per step: the time without the transfer",
    ),
    Column(
        "Wall time",
        lambda row: make_seconds_cell(row.wall_s),
        help="time with at least one call running, per step",
        weight=Weight.DETAIL,
    ),
    Column("Exposed", lambda row: make_seconds_cell(row.exposed_s), help="not overlapped with compute, per step"),
    Column(
        "Hidden",
        lambda row: make_optional_cell(
            row.hidden, lambda value: units.format_percent(value, 0), "no time within the steps"
        ),
        help="share of its time overlapped with compute",
        weight=Weight.DETAIL,
    ),
    Column(
        "Volume",
        lambda row: make_optional_cell(row.volume_bytes, units.format_bytes, _NO_VOLUME),
        help="bytes over the links of each rank, per step",
        weight=Weight.DETAIL,
    ),
    Column(
        "Whole trace",
        lambda row: make_seconds_cell(row.all_s),
        help="time in and outside steps",
        weight=Weight.DETAIL,
    ),
    Column(
        "Algbw",
        lambda row: make_optional_cell(row.algorithm_bandwidth, units.format_bandwidth, _NO_SIZE),
        help="algorithm bandwidth (nccl-tests): bytes / transfer time",
        weight=Weight.DETAIL,
    ),
    Column(
        "Busbw",
        lambda row: make_optional_cell(row.bus_bandwidth, units.format_bandwidth, _NO_SIZE),
        help="bus bandwidth (nccl-tests): volume / transfer time, comparable with the link",
    ),
    Column("% of link", lambda row: _make_link_share_cell(row.bus_bandwidth, row)),
)


def _make_pageable_cell(row: CopyRow) -> Cell:
    if row.kind not in ("HtoD", "DtoH"):
        return Cell(NOTHING)
    if row.pageable is None:
        return make_unknown_cell("not in the trace")
    return Cell("pageable", tone="unsure") if row.pageable else Cell("pinned")


COPIES: tuple[Column[CopyRow], ...] = (
    Column("Copy", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Host memory", _make_pageable_cell, numeric=False),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Bytes", lambda row: make_optional_cell(row.bytes, units.format_bytes, _NO_SIZE), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="per step"),
    Column("Exposed", lambda row: make_seconds_cell(row.exposed_s), help="not overlapped with compute, per step"),
    Column("Bandwidth", lambda row: make_optional_cell(row.bandwidth, units.format_bandwidth, _NO_SIZE)),
    Column("% of link", lambda row: _make_link_share_cell(row.bandwidth, row)),
)


def _make_together_cell(seconds: float | None) -> Cell:
    return Cell(NOTHING) if seconds is None else make_seconds_cell(seconds)


OVERLAP: tuple[Column[OverlapRow], ...] = (
    Column("Work", lambda row: Cell(row.kind), numeric=False),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="with any of it running, per step"),
    Column("Alone", lambda row: make_seconds_cell(row.alone_s), help="with neither of the other two"),
    Column("With compute", lambda row: _make_together_cell(row.with_compute_s)),
    Column("With communication", lambda row: _make_together_cell(row.with_communication_s)),
    Column("With copies", lambda row: _make_together_cell(row.with_copies_s)),
)

_NO_SKEW = "no collective matched with another rank"
RANKS: tuple[Column[RankRow], ...] = (
    Column("Rank", lambda row: make_short_cell(row.label, 32), numeric=False),
    Column("Step", lambda row: make_seconds_cell(row.step_s)),
    Column("Compute", lambda row: make_seconds_cell(row.compute_s), help="per step"),
    Column("Communication", lambda row: make_seconds_cell(row.communication_s), help="per step"),
    Column(
        "Exposed",
        lambda row: make_seconds_cell(row.exposed_communication_s),
        help="not overlapped with compute, per step",
    ),
    Column("Idle", lambda row: make_seconds_cell(row.idle_s), help="per step"),
    Column(
        "Last to arrive",
        lambda row: make_optional_cell(row.last_share, units.format_percent, _NO_SKEW),
        help="share of steps in which it reached collectives last",
    ),
    Column(
        "Wait",
        lambda row: make_optional_cell(row.wait_s, units.format_seconds, _NO_SKEW),
        help="waiting for the last rank, per step",
    ),
    Column(
        "Straggler delay",
        lambda row: make_optional_cell(row.late_s, units.format_seconds, _NO_SKEW),
        help="arrival after the first rank, per step",
    ),
    Column(
        "Clock skew",
        lambda row: make_optional_cell(row.clock_offset_s, format_signed_seconds, _NO_SKEW),
        help="relative to the first rank's clock; corrected",
    ),
)
TIMINGS: tuple[Column[CollectiveTiming], ...] = (
    Column("Collective", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Group", lambda row: make_short_cell(row.group, 32), numeric=False),
    Column(
        "Ranks",
        lambda row: make_optional_cell(row.group_size, lambda value: f"{value:,.0f}", "group not recorded"),
    ),
    Column("Hosts", lambda row: make_text_cell(row.hosts or "unknown"), numeric=False, help="of the group's ranks"),
    Column(
        "Message",
        lambda row: make_optional_cell(row.message_bytes, units.format_bytes, _NO_SIZE),
        help="bytes per call, of the rank with most",
    ),
    Column(
        "All ranks",
        lambda row: make_optional_cell(row.summed_bytes, units.format_bytes, "equal on all ranks, or unknown"),
        help="bytes per call, sum of the traced ranks where they differ",
        weight=Weight.DETAIL,
    ),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column(
        "Latency",
        lambda row: make_seconds_cell(row.latency_s),
        help="mean per call, from the last rank's arrival until it leaves",
    ),
    Column("Longest", lambda row: make_seconds_cell(row.worst_latency_s), help="latency of the slowest call"),
    Column("Start skew", lambda row: make_seconds_cell(row.start_skew_s), help="mean, first rank's arrival to last"),
    Column("End skew", lambda row: make_seconds_cell(row.end_skew_s), help="mean, first rank's end to last"),
    Column(
        "Busbw",
        lambda row: make_optional_cell(row.bus_bandwidth, units.format_bandwidth, _NO_SIZE),
        help="bus bandwidth (nccl-tests) at the mean latency",
    ),
)
SKEW: tuple[Column[SkewRow], ...] = (
    Column("Collective", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Group", lambda row: make_short_cell(row.group, 32), numeric=False),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Wait per step", lambda row: make_seconds_cell(row.wait_s), help="of all its calls, mean over ranks"),
    Column("Longest wait", lambda row: make_seconds_cell(row.worst_wait_s), help="of a rank in one call"),
    Column("Last rank", lambda row: make_text_cell(row.latest_rank), numeric=False),
    Column("% of calls", lambda row: make_share_cell(row.latest_share), help="where this rank arrived last"),
)
UNCOVERED: tuple[Column[UncoveredWork], ...] = (
    Column("Name", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="in the whole trace"),
    Column("Share", lambda row: make_share_cell(row.share), meter=True),
    Column("Reason", lambda row: make_text_cell(row.reason), numeric=False, wrap=True),
)
GRAPHS: tuple[Column[ReplayedGraph], ...] = (
    Column("Captured in", lambda row: make_text_cell(row.capture or "unknown"), numeric=False, wrap=True),
    Column("Nodes", lambda row: make_integer_cell(row.nodes), help="kernels, copies and memsets of a launch"),
    Column("Joined", lambda row: make_integer_cell(row.joined_nodes), help="nodes matched with an op of the capture"),
    Column("Launches", lambda row: make_integer_cell(row.launches)),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="kernel time in the whole trace"),
    Column("Matched by", lambda row: make_text_cell(row.basis), numeric=False, wrap=True),
    Column("Not matched because", lambda row: make_text_cell(row.reason), numeric=False, wrap=True),
)
HOST_CALLS: tuple[Column[HostCallRow], ...] = (
    Column("Call", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Purpose", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Inside op", lambda row: make_code_cell(row.op, 40), numeric=False, help="innermost"),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="per step"),
    Column(
        "Device idle",
        lambda row: make_optional_cell(row.idle_s, units.format_seconds, "no device traced"),
        help="from the start of the call until the device has work again, per step",
    ),
)
MODEL_ERROR: tuple[Column[ModelErrorRow], ...] = (
    Column("Op class", lambda row: make_text_cell(row.op_class), numeric=False),
    Column("Quantity", lambda row: make_text_cell(row.quantity), numeric=False),
    Column("Kernels", lambda row: make_integer_cell(row.kernels)),
    Column("Time", lambda row: make_seconds_cell(row.seconds)),
    Column("Model / counter", lambda row: Cell(f"{row.ratio:.2f}", value=row.ratio), help="median, weighted by time"),
    Column("80 % range", lambda row: Cell(f"{row.low:.2f} to {row.high:.2f}"), numeric=False, help="weighted by time"),
)
TRACES: tuple[Column[RankTrace], ...] = (
    Column("Trace", lambda trace: make_short_cell(trace.label), numeric=False, code=True),
    Column("File", lambda trace: make_short_cell(trace.file_info.path), numeric=False, wrap=True),
    Column("Device", lambda trace: Cell(describe_device(trace), detail=trace.device_basis), numeric=False, wrap=True),
    Column("Contents", lambda trace: Cell(describe_reading(trace)), numeric=False, wrap=True),
    Column("Steps", lambda trace: Cell(f"{len(trace.steps):,}", detail=trace.step_basis), numeric=False, wrap=True),
)
