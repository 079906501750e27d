"""Traced step of each common rank, side by side."""

from collections.abc import Callable, Iterator

from perfkit.analysis.model.comparison import Comparison, RankSteps
from perfkit.core import units
from perfkit_reports.cells import format_change
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.subjects.tables import make_table

_MOST = 16  # maximum rows, slowest rank first


def build_rank_tables(comparison: Comparison) -> tuple[Table, ...]:
    """Ranks of the runs; none if no run has several."""
    columns: list[Column[RankSteps]] = [Column("Rank", lambda row: Cell(str(row.rank), value=row.rank))]
    columns += [Column(side.name, _make_step_builder(place)) for place, side in enumerate(comparison.sides)]
    rows = sorted(comparison.ranks, key=lambda row: -max(filter(None, row.steps_s), default=0.0))
    return make_table("ranks", "Traced step by rank", columns, rows, "rank", limit=_MOST)


def list_rows(comparison: Comparison) -> Iterator[dict[str, object]]:
    """Raw rows, one per rank and run."""
    for row in comparison.ranks:
        for side, step in zip(comparison.sides, row.steps_s, strict=True):
            yield {"rank": row.rank, "run": side.name, "step_s": step}


def _make_step_builder(place: int) -> Callable[[RankSteps], Cell]:
    def cell(row: RankSteps) -> Cell:
        first, step = row.steps_s[0], row.steps_s[place]
        if step is None:
            return make_unknown_cell("no trace of this rank")
        change = f"{format_change(step / first - 1)}" if place and first else ""
        return Cell(units.format_seconds(step), value=step, detail=change)

    return cell
