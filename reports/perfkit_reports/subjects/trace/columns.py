"""The columns of a trace report's tables, shared by every renderer."""

from collections.abc import Callable, Sequence

from perfkit import units
from perfkit.analysis.model.coverage import ModelErrorRow, UncoveredWork
from perfkit.analysis.model.difference import ChangeRow
from perfkit.analysis.model.fleet import RankRow, SkewRow
from perfkit.analysis.model.graphs import ReplayedGraph
from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.model.trace import CollectiveRow, CopyRow, RankTrace, StreamRow
from perfkit_reports.cells import (
    format_count,
    make_calls_cell,
    make_code_cell,
    make_growth_cell,
    make_integer_cell,
    make_optional_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_kernel, shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.trace.headline import describe_device
from perfkit_reports.subjects.trace.sentences import describe_reading
from perfkit_reports.wording import format_plural, format_signed_seconds

_REPLACED = 4  # of the ops that compiled code stands against, those that are named
_NO_LENGTH = "the trace has no length"
_BUSY: tuple[Column[StreamRow], ...] = (
    Column("Busy", lambda row: make_seconds_cell(row.busy_s), help="sum over the whole trace"),
    Column(
        "Of the trace",
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
        return make_unknown_cell("its size or its time is not known")
    if not row.ceiling:
        return make_unknown_cell(row.ceiling_source or "no rate of the link is known")
    if row.no_share:
        return make_unknown_cell(row.no_share)
    return Cell(
        units.format_percent(reached / row.ceiling, 0),
        detail=f"of {units.format_bandwidth(row.ceiling)}",
        reason=f"of {units.format_bandwidth(row.ceiling)}: {row.ceiling_source}",
        value=reached / row.ceiling,
    )


_NO_SIZE = "its size was not recorded"
_NO_VOLUME = "its size or its number of ranks was not recorded"
COLLECTIVES: tuple[Column[CollectiveRow], ...] = (
    Column("Collective", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Asked as", lambda row: make_code_cell(row.asked), numeric=False, code=True, help="where it is another one"),
    Column("Group", lambda row: make_short_cell(row.group, 32), numeric=False),
    Column(
        "Ranks",
        lambda row: make_optional_cell(row.group_size, lambda value: f"{value:,.0f}", "the group was not recorded"),
    ),
    Column("Dtype", lambda row: make_text_cell(row.dtype), numeric=False, weight=Weight.DETAIL),
    Column(
        "Message",
        lambda row: make_optional_cell(row.message_bytes, units.format_bytes, _NO_SIZE),
        help="bytes per call",
    ),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="of all calls together, per step"),
    Column(
        "Wall time",
        lambda row: make_seconds_cell(row.wall_s),
        help="how long any of them was going on, per step",
        weight=Weight.DETAIL,
    ),
    Column("Exposed", lambda row: make_seconds_cell(row.exposed_s), help="not beside computing, per step"),
    Column(
        "Hidden",
        lambda row: make_optional_cell(
            row.hidden, lambda value: units.format_percent(value, 0), "it took no time within the steps"
        ),
        help="the share of its time that lies beside computing",
    ),
    Column(
        "Volume",
        lambda row: make_optional_cell(row.volume_bytes, units.format_bytes, _NO_VOLUME),
        help="what the links of each rank carry of it in a step",
    ),
    Column(
        "In all",
        lambda row: make_seconds_cell(row.all_s),
        help="of the whole trace, outside of its steps, too",
        weight=Weight.DETAIL,
    ),
    Column(
        "Algbw",
        lambda row: make_optional_cell(row.algorithm_bandwidth, units.format_bandwidth, _NO_SIZE),
        help="algorithm bandwidth as nccl-tests call it: bytes / time",
        weight=Weight.DETAIL,
    ),
    Column(
        "Busbw",
        lambda row: make_optional_cell(row.bus_bandwidth, units.format_bandwidth, _NO_SIZE),
        help="bus bandwidth as nccl-tests count it: comparable with the link",
    ),
    Column("Of the link", lambda row: _make_link_share_cell(row.bus_bandwidth, row)),
)


def _make_pageable_cell(row: CopyRow) -> Cell:
    if row.kind not in ("HtoD", "DtoH"):
        return Cell(NOTHING)
    if row.pageable is None:
        return make_unknown_cell("the trace does not tell")
    return Cell("pageable", tone="unsure") if row.pageable else Cell("pinned")


COPIES: tuple[Column[CopyRow], ...] = (
    Column("Copy", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Host memory", _make_pageable_cell, numeric=False),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Bytes", lambda row: make_optional_cell(row.bytes, units.format_bytes, _NO_SIZE), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="per step"),
    Column("Exposed", lambda row: make_seconds_cell(row.exposed_s), help="not beside computing, per step"),
    Column("Bandwidth", lambda row: make_optional_cell(row.bandwidth, units.format_bandwidth, _NO_SIZE)),
    Column("Of the link", lambda row: _make_link_share_cell(row.bandwidth, row)),
)

_NO_SKEW = "its collectives could not be matched with those of the other ranks"
RANKS: tuple[Column[RankRow], ...] = (
    Column("Rank", lambda row: make_short_cell(row.label, 32), numeric=False),
    Column("Step", lambda row: make_seconds_cell(row.step_s)),
    Column("Computing", lambda row: make_seconds_cell(row.compute_s), help="per step"),
    Column("Communication", lambda row: make_seconds_cell(row.communication_s), help="per step"),
    Column(
        "Exposed", lambda row: make_seconds_cell(row.exposed_communication_s), help="not beside computing, per step"
    ),
    Column("Idle", lambda row: make_seconds_cell(row.idle_s), help="per step"),
    Column(
        "Last to arrive",
        lambda row: make_optional_cell(row.last_share, units.format_percent, _NO_SKEW),
        help="the share of the steps in which it came to collectives later than all others",
    ),
    Column(
        "Waits",
        lambda row: make_optional_cell(row.wait_s, units.format_seconds, _NO_SKEW),
        help="for the last rank, per step",
    ),
    Column(
        "Straggler delay",
        lambda row: make_optional_cell(row.late_s, units.format_seconds, _NO_SKEW),
        help="after the first rank, per step",
    ),
    Column(
        "Clock skew",
        lambda row: make_optional_cell(row.clock_offset_s, format_signed_seconds, _NO_SKEW),
        help="of its clock against the first rank's; corrected",
    ),
)
SKEW: tuple[Column[SkewRow], ...] = (
    Column("Collective", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Group", lambda row: make_short_cell(row.group, 32), numeric=False),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Waiting", lambda row: make_seconds_cell(row.wait_s), help="mean over ranks, per step"),
    Column("At worst", lambda row: make_seconds_cell(row.worst_wait_s)),
    Column("Last to arrive", lambda row: make_text_cell(row.latest_rank), numeric=False),
    Column("How often", lambda row: make_share_cell(row.latest_share)),
)


def _make_side_cell(value: float | None, show: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell(NOTHING, reason="it does not occur there", value=0.0)
    return Cell(show(value), value=value)


def _make_evidence_cell(row: ChangeRow) -> Cell:
    if not row.evidence:
        return Cell(NOTHING)
    tone = "" if row.evidence == "noise" else "bad" if row.change_s > 0 else "good"
    return Cell(row.evidence, reason=_EVIDENCE.get(row.evidence, ""), value=row.evidence, tone=tone)


def _make_calls_cell(row: ChangeRow) -> Cell:
    was, now = row.before_calls or 0.0, row.after_calls or 0.0
    return Cell(format_count(now) if was == now else f"{format_count(was)} → {format_count(now)}", value=now)


def build_change_columns(rows: Sequence[ChangeRow]) -> list[Column[ChangeRow]]:
    """What an op took before and after, bars of both on one scale, and what the change rests on."""
    most = max((value or 0.0 for row in rows for value in (row.before_s, row.after_s)), default=0.0) or 1.0
    every: list[Column[ChangeRow]] = [
        Column("Op", _make_op_cell, numeric=False, code=True),
        Column("Evidence", _make_evidence_cell, numeric=False),
        Column("Change", lambda row: make_growth_cell(row.change_s, format_signed_seconds), help="per step"),
        Column(
            "Before",
            lambda row: _make_side_cell(row.before_s, units.format_seconds),
            meter=True,
            most=most,
            help="per step",
        ),
        Column(
            "After",
            lambda row: _make_side_cell(row.after_s, units.format_seconds),
            meter=True,
            most=most,
            help="per step",
        ),
        Column("Calls", _make_calls_cell, help="per step, before → after"),
        Column("Module", lambda row: make_short_cell(flatten_text(row.module), 48), numeric=False, wrap=True),
        Column("Phase", lambda row: make_text_cell(flatten_text(row.phase)), numeric=False),
        Column("Shapes", lambda row: make_short_cell(flatten_text(row.shapes), 48), numeric=False, wrap=True),
        Column("FLOPs before", lambda row: _make_side_cell(row.before_flops, units.format_flops), weight=Weight.DETAIL),
        Column("FLOPs after", lambda row: _make_side_cell(row.after_flops, units.format_flops), weight=Weight.DETAIL),
        Column("Bytes before", lambda row: _make_side_cell(row.before_bytes, units.format_bytes), weight=Weight.DETAIL),
        Column("Bytes after", lambda row: _make_side_cell(row.after_bytes, units.format_bytes), weight=Weight.DETAIL),
    ]
    return drop_empty_columns(every, rows)


def _make_op_cell(row: ChangeRow) -> Cell:
    """The op; of compiled code what it is and what it stands against."""
    if not row.compiled:
        return make_code_cell(flatten_text(row.name))
    made, ops = list(map(flatten_text, row.compiled)), list(map(flatten_text, row.replaced))
    shown = shorten_kernel(made[0].strip("# ").removeprefix("Call "), 40)
    shown += f" and {len(made) - 1:,} more" if len(made) > 1 else ""
    replaced = f" for {format_plural(len(ops), 'op')}: {', '.join(ops[:_REPLACED])}" if ops else ""
    more = f" and {len(ops) - _REPLACED:,} more" if len(ops) > _REPLACED else ""
    return Cell(row.name, detail=f"{shown}{replaced}{more}", whole=shorten_middle(", ".join((*made, *ops)), 2000))


# What the evidence of a change of an op is worth, in words.
_EVIDENCE = {
    "new": "it was not called before",
    "gone": "it is not called any more",
    "more calls": "counted exactly",
    "fewer calls": "counted exactly",
    "other inputs": "it is called as often, with other shapes or dtypes",
    "slower": "in every traced step, beyond what other ops vary by",
    "faster": "in every traced step, beyond what other ops vary by",
    "noise": "no more than equal work varies by in these traces",
}
UNCOVERED: tuple[Column[UncoveredWork], ...] = (
    Column("Name", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="in the whole trace"),
    Column("Share", lambda row: make_share_cell(row.share), meter=True),
    Column("Why", lambda row: make_text_cell(row.reason), numeric=False, wrap=True),
)
GRAPHS: tuple[Column[ReplayedGraph], ...] = (
    Column("Captured in", lambda row: make_text_cell(row.capture or "not known"), numeric=False, wrap=True),
    Column("Nodes", lambda row: make_integer_cell(row.nodes), help="kernels, copies and fills of one launch"),
    Column("Joined", lambda row: make_integer_cell(row.joined), help="nodes whose op the capture tells"),
    Column("Launches", lambda row: make_integer_cell(row.launches)),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="of its kernels in the whole trace"),
    Column("Told by", lambda row: make_text_cell(row.basis), numeric=False, wrap=True),
    Column("Why not", lambda row: make_text_cell(row.reason), numeric=False, wrap=True),
)
HOST_CALLS: tuple[Column[HostCallRow], ...] = (
    Column("Call", lambda row: make_code_cell(row.name), numeric=False, code=True),
    Column("What for", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Within", lambda row: make_code_cell(row.op, 40), numeric=False, help="the innermost op around it"),
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="per step"),
    Column(
        "Device idle",
        lambda row: make_optional_cell(row.idle_s, units.format_seconds, "no device was traced"),
        help="from the call's beginning until the device has work again, per step",
    ),
)
MODEL_ERROR: tuple[Column[ModelErrorRow], ...] = (
    Column("Ops", lambda row: make_text_cell(row.op_class), numeric=False),
    Column("Quantity", lambda row: make_text_cell(row.quantity), numeric=False),
    Column("Kernels", lambda row: make_integer_cell(row.kernels)),
    Column("Time", lambda row: make_seconds_cell(row.seconds)),
    Column("Model / counter", lambda row: Cell(f"{row.ratio:.2f}", value=row.ratio), help="median, weighted by time"),
    Column("80 % of the time", lambda row: Cell(f"{row.low:.2f} to {row.high:.2f}"), numeric=False),
)
TRACES: tuple[Column[RankTrace], ...] = (
    Column("Trace", lambda trace: make_short_cell(trace.label), numeric=False, code=True),
    Column("File", lambda trace: make_short_cell(trace.reading.path), numeric=False, wrap=True),
    Column("Device", lambda trace: Cell(describe_device(trace), detail=trace.device_basis), numeric=False, wrap=True),
    Column("Holds", lambda trace: Cell(describe_reading(trace)), numeric=False, wrap=True),
    Column("Steps", lambda trace: Cell(f"{len(trace.steps):,}", detail=trace.step_basis), numeric=False, wrap=True),
)
