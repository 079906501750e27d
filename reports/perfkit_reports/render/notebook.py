"""Renders a document for a notebook: an HTML fragment without scripts and text colors."""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfkit.core.errors import UnavailableError
from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars, Block, Chart, Findings, Table, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.images import render_png
from perfkit_reports.render.page import get_templates
from perfkit_reports.render.truncation import truncate_rows

_FINDINGS = 5
_ROWS = 10  # rows of a ranked table


def render(document: Document, report: Path | None = None) -> str:
    """Headline, key figures, brief tables, findings, and brief charts as images; `report` is the whole report.

    Notebooks strip or frame scripts and may be dark, so text takes the notebook's color, and figures have a white
    background. Without matplotlib, a line in the figures' place says what to install.
    """
    brief = list(walk_blocks(document.blocks, Weight.BRIEF, every=False))
    all_findings = [finding for block in brief if isinstance(block, Findings) for finding in block.items]
    try:
        figures, without_figures = list(_render_figures(brief)), ""
    except UnavailableError as error:
        figures, without_figures = [], f"No figures: {error}"
    return (
        get_templates()
        .get_template("notebook.html.j2")
        .render(
            document=document,
            tables=[_ShortTable(block) for block in brief if isinstance(block, Table) and block.rows],
            findings=findings,
            found=all_findings[:_FINDINGS],
            left_out=max(0, len(all_findings) - _FINDINGS),
            figures=figures,
            without_figures=without_figures,
            report=str(report) if report else "",
        )
    )


class _ShortTable:
    """The first rows of a table and its main columns."""

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
