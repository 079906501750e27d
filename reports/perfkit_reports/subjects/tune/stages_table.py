"""The stages of a search as a table: what each built on, and the finding that led it."""

from collections.abc import Iterator

from perfkit.core.spec import BASELINE
from perfkit.tune.model.tune_result import SearchStage, TuneResult
from perfkit_reports.document.blocks import Block
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.subjects.tables import make_table


def build_stages(result: TuneResult) -> Iterator[Block]:
    """The stages, with the finding that leads each."""
    yield from make_table("stages-table", "Stages", _STAGE_COLUMNS, result.stages, "stage", data="")


def _make_finding_cell(stage: SearchStage) -> Cell:
    if not stage.finding:
        return make_unknown_cell("no gain was found in its trace")
    return Cell(stage.title, id=stage.finding)


_STAGE_COLUMNS: tuple[Column[SearchStage], ...] = (
    Column("Stage", lambda stage: Cell(str(stage.number), value=stage.number), numeric=False),
    Column("On top of", lambda stage: Cell(stage.base or BASELINE), numeric=False),
    Column("Leading finding", _make_finding_cell, numeric=False, help="the largest gain in its trace"),
    Column("Answered by", lambda stage: Cell(", ".join(stage.techniques)), numeric=False),
)
