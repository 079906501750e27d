"""A document for a notebook: a fragment of HTML without scripts and without colours of text of its own."""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars, Block, Chart, Findings, Table, within
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import telling
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.images import png
from perfkit_reports.render.page import templates
from perfkit_reports.render.shown import shown_rows

_FINDINGS = 5
_ROWS = 10  # of a ranked table


def render(document: Document, report: Path | None = None) -> str:
    """Headline, key figures, brief tables, findings, and brief charts as images; `report` is the whole report.

    It is meant for any notebook: those that show HTML strip scripts or put them in a frame, and may be dark. So the
    text takes the notebook's colour, and figures stand on white.
    """
    brief = list(within(document.blocks, Weight.BRIEF, every=False))
    found = [finding for block in brief if isinstance(block, Findings) for finding in block.items]
    return (
        templates()
        .get_template("notebook.html.j2")
        .render(
            document=document,
            tables=[_Cut(block) for block in brief if isinstance(block, Table) and block.rows],
            findings=findings,
            found=found[:_FINDINGS],
            left_out=max(0, len(found) - _FINDINGS),
            figures=list(_figures(brief)),
            report=str(report) if report else "",
        )
    )


class _Cut:
    """The first rows of a table and its telling columns."""

    def __init__(self, table: Table) -> None:
        self.title = table.title
        self.rows, self.rest = shown_rows(table, _ROWS)
        self.columns = [column for column in telling(table.columns, self.rows) if column.weight <= Weight.NORMAL]


def _figures(blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        if isinstance(block, Chart | Bars):
            yield block.title or block.label, base64.b64encode(png(block)).decode()
