"""What to try next: untested techniques with the commands that measure them."""

import shlex
from collections.abc import Iterator
from functools import partial

from perfkit.analysis.model.suite import Analysis
from perfkit.core import units
from perfkit.store.technique_ranking import RankedTechnique
from perfkit_reports.cells import format_range
from perfkit_reports.document.blocks import Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight

_MOST = 3  # techniques


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """The untested techniques with the largest simulated savings; nothing without any."""
    ranking = analysis.untested
    if ranking is None:
        return
    table = Table(
        id="next",
        title="Untested techniques",
        show_title=False,
        columns=(
            Column("Technique", lambda row: Cell(row.technique), numeric=False, weight=Weight.BRIEF),
            Column("Simulated saving", _make_saving_cell, help="per step", weight=Weight.BRIEF),
            Column("Command", partial(_make_command_cell, analysis), numeric=False, code=True, weight=Weight.BRIEF),
        ),
        rows=ranking.techniques[:_MOST],
        what="technique",
        weight=Weight.BRIEF,
    )
    intro = (
        f"Not measured: savings are simulated in the recorded step of {ranking.of}, on the clock of its "
        f"{units.format_seconds(ranking.step_s)} per step.",
    )
    yield Section("untested", "What to try next", (table,), nav="Try next", intro=intro)


def _make_saving_cell(row: RankedTechnique) -> Cell:
    high = units.format_seconds(row.high_s)
    if row.low_s <= 0:
        return Cell(f"up to {high}", value=row.saving_s)
    return Cell(format_range(units.format_seconds(row.low_s), high, f" {high.split(' ')[-1]}"), value=row.saving_s)


def _make_command_cell(analysis: Analysis, row: RankedTechnique) -> Cell:
    folder = shlex.quote(analysis.folder) if analysis.folder else "FOLDER"
    return Cell(f"perfkit bench --into {folder} --technique {shlex.quote(row.variant)}")
