"""The devices of a trace that has several."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from perfkit.analysis.model.launches import DeviceRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.cells import (
    make_calls_cell,
    make_quantity_cell,
    make_seconds_cell,
    make_share_cell,
    make_text_cell,
)
from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks

_INTRO = (
    "The critical device computes longest: time split, idle time and launches are its own. Kernels and ops are those "
    "of all, and MFU is over the sum of their peaks."
)


class _DeviceEntry(NamedTuple):
    row: DeviceRow
    step_s: float


def _make_share_cell(seconds: float, step_s: float) -> Cell:
    return make_share_cell(seconds / step_s if step_s > 0 else 0.0)


def _make_cause_cell(row: DeviceRow) -> Cell:
    most = max(row.idle, key=lambda part: part.seconds, default=None)
    return make_text_cell("" if most is None else most.category)


def _make_utilization_cell(row: DeviceRow) -> Cell:
    """The section on coverage has the source of the figure, which is long."""
    return replace(make_quantity_cell(row.mfu), detail="")


_COLUMNS: tuple[Column[_DeviceEntry], ...] = (
    Column("Device", lambda entry: Cell(str(entry.row.number), value=entry.row.number), weight=Weight.BRIEF),
    Column("Name", lambda entry: make_text_cell(entry.row.name), numeric=False, wrap=True),
    Column("Process", lambda entry: make_text_cell(entry.row.process), numeric=False),
    Column("Critical", lambda entry: make_text_cell("yes" if entry.row.critical else ""), numeric=False),
    Column("Kernels", lambda entry: make_calls_cell(entry.row.kernels), help="and copies, per step"),
    Column("Busy", lambda entry: make_seconds_cell(entry.row.busy_s), help="per step", weight=Weight.BRIEF),
    Column("% busy", lambda entry: _make_share_cell(entry.row.busy_s, entry.step_s), meter=True, most=1.0),
    Column("Compute", lambda entry: make_seconds_cell(entry.row.compute_s), help="per step", weight=Weight.DETAIL),
    Column(
        "Exposed communication",
        lambda entry: make_seconds_cell(entry.row.overlap.exposed_communication_s),
        help="per step",
    ),
    Column("Idle", lambda entry: make_seconds_cell(entry.row.idle_s), help="per step", weight=Weight.BRIEF),
    Column("% idle", lambda entry: _make_share_cell(entry.row.idle_s, entry.step_s), weight=Weight.BRIEF),
    Column("Main cause", lambda entry: _make_cause_cell(entry.row), numeric=False, wrap=True, help="of its idle time"),
    Column("MFU", lambda entry: _make_utilization_cell(entry.row), help="over its own peak", weight=Weight.BRIEF),
)


def build_devices_section(analysis: TraceAnalysis) -> Section | None:
    return build_section(list_detailed_traces(analysis))


def build_section(traces: Sequence[RankTrace]) -> Section | None:
    """A table of the devices of each trace that has several; None without any."""
    blocks = build_trace_blocks("devices", [trace for trace in traces if len(trace.devices) > 1], _build_devices)
    return Section("devices", "Devices", blocks, intro=(_INTRO,)) if blocks else None


def _build_devices(trace: RankTrace, end: str) -> Sequence[Block]:
    entries = [_DeviceEntry(row, trace.step_s) for row in trace.devices]
    columns = drop_empty_columns(_COLUMNS, entries)
    return make_table(f"devices{end}", "Devices", columns, entries, "device", show_title=False)
