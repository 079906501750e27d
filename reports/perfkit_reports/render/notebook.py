"""A document for a notebook: a fragment of HTML without scripts and without colours of text of its own."""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars, Block, Chart, Findings, Table, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.images import render_png
from perfkit_reports.render.page import get_templates
from perfkit_reports.render.truncation import truncate_rows

_FINDINGS = 5
_ROWS = 10  # of a ranked table


def render(document: Document, report: Path | None = None) -> str:
    """Headline, key figures, brief tables, findings, and brief charts as images; `report` is the whole report.

    It is meant for any notebook: those that show HTML strip scripts or put them in a frame, and may be dark. So the
    text takes the notebook's colour, and figures stand on white.
    """
    brief = list(walk_blocks(document.blocks, Weight.BRIEF, every=False))
    found = [finding for block in brief if isinstance(block, Findings) for finding in block.items]
    return (
        get_templates()
        .get_template("notebook.html.j2")
        .render(
            document=document,
            tables=[_ShortTable(block) for block in brief if isinstance(block, Table) and block.rows],
            findings=findings,
            found=found[:_FINDINGS],
            left_out=max(0, len(found) - _FINDINGS),
            figures=list(_render_figures(brief)),
            report=str(report) if report else "",
        )
    )


class _ShortTable:
    """The first rows of a table and its telling columns."""

    def __init__(self, table: Table) -> None:
        self.title = table.title
        self.rows, self.rest = truncate_rows(table, _ROWS)
        self.columns = [
            column for column in drop_empty_columns(table.columns, self.rows) if column.weight <= Weight.NORMAL
        ]


def _render_figures(blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        if isinstance(block, Chart | Bars):
            yield block.title or block.label, base64.b64encode(render_png(block)).decode()
