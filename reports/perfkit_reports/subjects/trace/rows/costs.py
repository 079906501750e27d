"""Kernels, ops, modules and phases by potential savings: their rows and table columns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from perfkit.analysis.model.matmul_rows import ProductRow
from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit_reports.cells import (
    make_calls_cell,
    make_code_cell,
    make_optional_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_middle
from perfkit_reports.selection import make_name_key
from perfkit_reports.subjects.trace.rows.call_sites import CallSites, make_line_cell

Row = TypeVar("Row", contravariant=True)

SAVINGS = "Potential savings"
_LAST_PARTS = 2  # of a module's path
_MOSTLY = 0.5  # of the time of a table's rows
_CACHED = "faster than memory bandwidth: operands were cached, and the bandwidth of that cache is unknown"
_BOUNDS = "lower and upper bound"
_ESTIMATED = "estimate: each recorded argument once; no formula for this op"
_UNMODELED = "no cost model for this op, or no recorded shapes"


def compute_gain_s(row: OpRow | ProductRow) -> float | None:
    """Seconds per step above the attainable time; None where that is not known or cannot be right."""
    return None if row.attainable_s is None or row.above_roof else max(0.0, row.seconds - row.attainable_s)


def _make_roofline_cell(row: OpRow | ProductRow) -> Cell:
    why_not = row.efficiency_reason or (_UNMODELED if row.attainable_s is None else _CACHED)
    return make_optional_cell(row.efficiency, lambda value: units.format_percent(value, 0), why_not)


def _make_bound_cell(row: OpRow | ProductRow) -> Cell:
    if row.above_roof:
        return Cell("above roof", reason=row.efficiency_reason, tone="unsure")
    level = f" ({row.level})" if row.bound == "memory" and row.level not in ("", "memory") else ""
    return make_text_cell(row.bound + level)


def _make_op_cell(row: OpRow) -> Cell:
    """A kernel's op, and the end of its module's path."""
    last = "/".join(row.module.split("/")[-_LAST_PARTS:])
    short = make_code_cell(row.op.removeprefix("aten::"), 28)
    return replace(short, whole=row.op, detail=shorten_middle(last, 28))


FIGURES: tuple[Column[OpRow | ProductRow], ...] = (
    Column("Time", lambda row: make_seconds_cell(row.seconds), help="summed over streams or threads, per step"),
    Column(
        "Share",
        lambda row: make_share_cell(row.share),
        help="of the step; overlapping work counts once",
        meter=True,
    ),
    Column(
        SAVINGS,
        lambda row: make_optional_cell(compute_gain_s(row), units.format_seconds, row.efficiency_reason or _UNMODELED),
        help="time above the roofline, per step",
    ),
    Column("% of roofline", _make_roofline_cell, help="attainable time / actual time"),
    Column("Bound", _make_bound_cell, numeric=False, help="the limiting ceiling"),
)
_CRITICAL = Column[OpRow](
    "On the critical path",
    lambda row: Cell(NOTHING) if row.critical_s is None else make_seconds_cell(row.critical_s),
    help="time of the calls on the critical path, per step",
)
_CALLS = Column[OpRow]("Calls", lambda row: make_calls_cell(row.calls), help="per step")
_NO_CALLS = "grouped work: no times of single calls"
_NO_LOAD = "launch geometry or device sizes not recorded for all calls"
_SPREAD: tuple[Column[OpRow], ...] = (
    Column("All calls", lambda row: make_optional_cell(row.all_calls, "{:,}".format, _NO_CALLS), help="in the trace"),
    Column("Shortest call", lambda row: make_optional_cell(row.least_s, units.format_seconds, _NO_CALLS)),
    Column("Median call", lambda row: make_optional_cell(row.median_s, units.format_seconds, _NO_CALLS)),
    Column("p99 call", lambda row: make_optional_cell(row.p99_s, units.format_seconds, _NO_CALLS)),
)
_LOAD: tuple[Column[OpRow], ...] = (
    Column(
        "SM efficiency",
        lambda row: make_optional_cell(row.sm_efficiency, units.format_percent, _NO_LOAD),
        help="estimate: blocks / SMs, at most 100 %",
    ),
    Column(
        "Occupancy",
        lambda row: make_optional_cell(row.occupancy, units.format_percent, _NO_LOAD),
        help="estimate: active warps / most of an SM",
    ),
    Column("Blocks per SM", lambda row: make_optional_cell(row.blocks_per_sm, units.format_significant, _NO_LOAD)),
)
_PHASE = Column[OpRow]("Phase", lambda row: make_text_cell(row.phase), numeric=False)
_MODULE = Column[OpRow](
    "Module", lambda row: make_short_cell(row.module, 48), numeric=False, code=True, wrap=True, weight=Weight.BRIEF
)
_SHAPES = Column[OpRow]("Shapes", lambda row: make_short_cell(row.shapes, 48), numeric=False, wrap=True)
DEVICE = Column[OpRow]("Device", lambda row: make_text_cell(row.device), numeric=False, wrap=True)
_OP_IN_MODULE = Column[OpRow](
    "Op",
    _make_op_cell,
    numeric=False,
    code=True,
    weight=Weight.BRIEF,
    help="the op that launched it; below, its module, without the numbers of layers",
)
# By kind: the name columns, the columns shown with the figures, and the hidden ones.
KINDS: dict[str, tuple[Column[OpRow], tuple[Column[OpRow], ...], tuple[Column[OpRow], ...]]] = {
    "kernels": (
        Column("Kernel", lambda row: make_code_cell(row.name), numeric=False, code=True, weight=Weight.BRIEF),
        (_OP_IN_MODULE, _SHAPES),
        (_CALLS, *_SPREAD, *_LOAD, _PHASE, _MODULE),
    ),
    "ops": (
        Column("Op", lambda row: make_code_cell(row.name), numeric=False, code=True),
        (_MODULE, _SHAPES),
        (_CALLS, *_SPREAD, _PHASE),
    ),
    "modules": (
        Column("Module", lambda row: make_short_cell(row.module or row.name), numeric=False, code=True),
        (_PHASE,),
        (_CALLS, _SHAPES),
    ),
    "phases": (
        Column("Phase", lambda row: make_text_cell(row.phase or row.name), numeric=False, code=True),
        (),
        (_CALLS, _SHAPES),
    ),
}


def build_cost_columns(kind: str, device_name: str) -> tuple[Column[OpRow], ...]:
    """Build the columns of a table of `kernels`, `ops`, `modules` or `phases`, with the unit names of that device."""
    name, shown, on_demand = KINDS[kind]
    return (
        name,
        *(replace(column, weight=Weight.BRIEF) for column in FIGURES),
        _CRITICAL,
        *shown,
        *(replace(column, weight=Weight.DETAIL) for column in (*on_demand, *_build_detail_columns(device_name))),
    )


_SHOWN_WITH = {"kernels": (_OP_IN_MODULE,), "ops": (_MODULE,), "modules": (_PHASE,), "phases": ()}


def build_table_columns(kind: str, sites: CallSites) -> tuple[Column[OpRow], ...]:
    """Build the columns of a table: the drawer has all others of `build_cost_columns`."""
    name, shown, on_demand = KINDS[kind]
    time, share, saved, roof, bound = FIGURES
    line = Column[OpRow](
        "Source line",
        lambda row: make_line_cell(sites, make_name_key(row)),
        numeric=False,
        wrap=True,
        help="function that launched most of this name's time",
    )
    first = _SHOWN_WITH[kind]
    others = [column for column in (*shown, *on_demand) if column not in (*first, *_SPREAD)]
    return (
        name,
        *first,
        *((line,) if kind in ("kernels", "ops") else ()),
        *(replace(column, weight=Weight.BRIEF) for column in (replace(time, meter=True), roof, saved)),
        *hide_columns(bound, share, _CRITICAL, *others),
    )


def hide_columns(*columns: Column[Row]) -> tuple[Column[Row], ...]:
    """The columns as a page shows them on demand."""
    return tuple(replace(column, weight=Weight.DETAIL) for column in columns)


def _make_amount_cell(least: float | None, most: float | None, show: Callable[[float], str]) -> Cell:
    """The amount; its bounds where only these are known."""
    if least is None or most is None:
        return make_optional_cell(least, show, _UNMODELED)
    return Cell(f"{show(least)} to {show(most)}", detail=_BOUNDS, value=least)


def _make_bytes_cell(row: OpRow) -> Cell:
    if row.is_estimate and row.bytes is not None:
        return Cell(f"about {units.format_bytes(row.bytes)}", detail=_ESTIMATED, value=row.bytes, tone="unsure")
    return _make_amount_cell(row.bytes, row.max_bytes, units.format_bytes)


def _build_detail_columns(device_name: str) -> tuple[Column[OpRow], ...]:
    def unit(row: OpRow) -> Cell:
        return make_text_cell(" ".join(filter(None, (row.dtype, get_unit_name(row.unit, device_name)))))

    return (
        Column(
            "Wall time",
            lambda row: Cell(NOTHING) if row.wall_s is None else make_seconds_cell(row.wall_s),
            help="time with at least one call running, per step; upper bound",
        ),
        Column("FLOPs", lambda row: _make_amount_cell(row.flops, row.max_flops, units.format_flops), help="per step"),
        Column("Bytes", _make_bytes_cell, help="compulsory traffic, per step"),
        Column(
            "FLOP/byte",
            lambda row: make_optional_cell(row.intensity, units.format_significant, _UNMODELED),
            help="arithmetic intensity",
        ),
        Column(
            "Roofline time",
            lambda row: make_optional_cell(row.attainable_s, units.format_seconds, "cost or roof unknown"),
            help="time at the roofline, per step",
        ),
        Column("Unit", unit, numeric=False, help="operand dtype and the compute unit whose peak applies"),
        Column("Cost source", lambda row: make_text_cell(row.cost_source), numeric=False),
    )


def get_shown_rows(trace: RankTrace, kind: str, limit: int | None = None) -> tuple[OpRow, ...]:
    """The rows of a table of `kernels`, `ops`, `modules` or `phases`; on a CPU an op is its own kernel.

    Those of the steps by time, where the savings of most of it are not known.
    """
    rows: tuple[OpRow, ...] = () if kind == "kernels" and is_cpu(trace.device) else getattr(trace, kind)
    if not is_ranked_by_savings(rows):
        rows = tuple(sorted(rows, key=lambda row: (row.phase == OUTSIDE, -row.seconds)))
    return rows[:limit]


def is_ranked_by_savings(rows: Sequence[OpRow]) -> bool:
    """True if the savings of most of the rows' time are known."""
    known = sum(row.seconds for row in rows if compute_gain_s(row) is not None)
    return known >= _MOSTLY * sum(row.seconds for row in rows)
