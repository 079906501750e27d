"""The columns of tables of ops, kernels and modules, per step."""

from perfkit import units
from perfkit.analysis.model.step import OpRow
from perfkit_reports.cells import count, known, text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight

_ABOVE = "it came out above a roof, so the model of its cost is wrong"
_CACHED = "faster than the memory: its operands were still in a cache, whose bandwidth is not known"
_UNMODELLED = "no cost model for this op, or its shapes were not recorded"


def _why_no_share(row: OpRow) -> str:
    return _UNMODELLED if row.attainable_s is None else _CACHED


def gain_s(row: OpRow) -> float | None:
    """Seconds per step above the attainable time; None where that is not known or cannot be right."""
    return None if row.attainable_s is None or row.above_roof else max(0.0, row.seconds - row.attainable_s)


SAVINGS = "Potential savings"

FIGURES: tuple[Column[OpRow], ...] = (
    Column(
        "Time",
        lambda row: Cell(units.seconds(row.seconds), value=row.seconds),
        help="per step",
        weight=Weight.BRIEF,
    ),
    Column(
        "Share",
        lambda row: Cell(units.percent(row.share), value=row.share),
        help="of the step",
        meter=True,
        weight=Weight.BRIEF,
    ),
    Column(
        SAVINGS,
        lambda row: known(gain_s(row), units.seconds, _ABOVE if row.above_roof else _UNMODELLED),
        help="time above what the roofs allow, per step",
        weight=Weight.BRIEF,
    ),
    Column(
        "% of roofline",
        lambda row: known(row.efficiency, lambda value: units.percent(value, 0), _why_no_share(row)),
        help="attainable time over time taken",
        weight=Weight.BRIEF,
    ),
    Column(
        "Bound",
        lambda row: text(row.bound),
        numeric=False,
        help="the ceiling that limits it",
        weight=Weight.BRIEF,
    ),
    Column("Calls", lambda row: Cell(count(row.calls), value=row.calls), help="per step"),
)
COST: tuple[Column[OpRow], ...] = (
    Column("FLOPs", lambda row: known(row.flops, units.flops, _UNMODELLED), help="per step"),
    Column("Bytes", lambda row: known(row.bytes, units.nbytes, _UNMODELLED), help="compulsory traffic, per step"),
    Column("FLOP/byte", lambda row: known(row.intensity, units.significant, _UNMODELLED), help="arithmetic intensity"),
    Column("Cost from", lambda row: text(row.cost_source), numeric=False),
)
