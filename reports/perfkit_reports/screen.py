"""Pieces of a report on a terminal: cells, tables and findings. Nothing given is read as rich's markup."""

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from perfkit.analysis.model.finding import Finding
from perfkit_reports import findings
from perfkit_reports.cells import Cell
from perfkit_reports.columns import Column, Row

TONES = {"good": "green", "bad": "red", "unsure": "yellow"}
_SEVERITIES = {"gain": "green", "warning": "yellow"}
_ORDER = {"warning": 0, "gain": 1, "note": 2}
_SHOWN = 6  # a terminal's screen full; what went wrong is never among those left out


def text(cell: Cell) -> Text:
    """A cell with its detail on a second line."""
    shown = Text(cell.text, style=TONES.get(cell.tone, ""))
    if cell.detail:
        shown.append(f"\n{cell.detail}", style="dim")
    return shown


def bare_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))


def table(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """A table of `rows`; names fold where the terminal is narrow, numbers never do."""
    drawn = bare_table()
    for column in columns:
        if column.numeric:
            drawn.add_column(Text(column.title), justify="right", no_wrap=True)
        else:
            drawn.add_column(Text(column.title), overflow="fold")
    for row in rows:
        drawn.add_row(*(text(column.cell(row)) for column in columns))
    return drawn


def fits(drawn: Table, console: Console, folding: int = 0) -> bool:
    """Whether the terminal is wide enough for nothing of it to be cut; `folding` columns can be saved by wrapping."""
    unbounded = console.options.update_width(sys.maxsize)
    return Measurement.get(console, unbounded, drawn).maximum - folding <= console.width


def print_findings(items: Sequence[Finding], console: Console, *, owners: bool = True) -> None:
    """Warnings first, then gains, each with a line of evidence and what to do; notes in a line; the rest is counted.

    With `owners` it is told what each is about.
    """
    ordered = sorted(items, key=lambda finding: _ORDER.get(finding.severity, len(_ORDER)))
    for finding in ordered[:_SHOWN]:
        worth = findings.worth(finding)
        console.print(
            Text.assemble(
                (f"{findings.icon(finding)} {findings.word(finding)}: ", _SEVERITIES.get(finding.severity, "cyan")),
                (finding.title, "bold"),
                f" [{finding.variant}]" if finding.variant and owners else "",
                f", {worth}" if worth else "",
            )
        )
        if finding.severity == "note":
            continue
        console.print(Text(f"  {findings.evidence(finding)}", style="dim"), no_wrap=True, overflow="ellipsis")
        for line in Text(f"→ {findings.action(finding)}" if finding.action else "").wrap(console, console.width - 2):
            console.print(Text.assemble("  ", line), no_wrap=True)
    if len(ordered) > _SHOWN:
        console.print(Text(f"{len(ordered) - _SHOWN} more findings in the report", style="dim"))
