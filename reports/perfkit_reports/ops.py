"""The columns of the table of the most expensive ops, per step."""

from collections.abc import Callable
from dataclasses import dataclass

from perfkit import units
from perfkit.analysis.result import OpRow
from perfkit_reports.cells import Cell

NOTHING = "–"
_UNMODELLED = "no cost model for this op, or its shapes were not recorded"


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[OpRow], Cell]
    numeric: bool = True
    help: str = ""


def gain_s(row: OpRow) -> float | None:
    """Seconds per step above the attainable time."""
    return None if row.attainable_s is None else max(0.0, row.seconds - row.attainable_s)


def _text(value: str) -> Cell:
    return Cell(value or NOTHING, value=value)


def _known(value: float | None, show: Callable[[float], str]) -> Cell:
    return Cell("n/a", reason=_UNMODELLED) if value is None else Cell(show(value), value=value)


COLUMNS = (
    Column("Op", lambda row: _text(row.name), numeric=False),
    Column("Time", lambda row: Cell(units.seconds(row.seconds), value=row.seconds), help="per step"),
    Column("Share", lambda row: Cell(units.percent(row.share), value=row.share), help="of the step"),
    Column("To win", lambda row: _known(gain_s(row), units.seconds), help="time above what the roofs allow, per step"),
    Column(
        "Of roof",
        lambda row: _known(row.efficiency, lambda value: units.percent(value, 0)),
        help="attainable time over time taken",
    ),
    Column("Bound", lambda row: _text(row.bound), numeric=False, help="the ceiling that limits it"),
    Column("Calls", lambda row: Cell(units.significant(row.calls), value=row.calls), help="per step"),
    Column("Phase", lambda row: _text(row.phase), numeric=False),
    Column("Module", lambda row: _text(row.module), numeric=False),
    Column("Shapes", lambda row: _text(row.shapes), numeric=False),
    Column("FLOPs", lambda row: _known(row.flops, units.flops), help="per step"),
    Column("Bytes", lambda row: _known(row.bytes, units.nbytes), help="compulsory traffic, per step"),
    Column("FLOP/byte", lambda row: _known(row.intensity, units.significant), help="arithmetic intensity"),
    Column("Cost from", lambda row: _text(row.cost_source), numeric=False),
)
