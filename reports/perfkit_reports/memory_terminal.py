"""The summary of a report on memory on a terminal: a screenful, in at most 100 columns."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from perfkit import units
from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit.analysis.model.memory import LiveBlock, MemoryAccount
from perfkit_reports import balance, memory_columns, memory_story
from perfkit_reports.cells import Cell
from perfkit_reports.columns import Column, telling
from perfkit_reports.holders import Holder, of_devices
from perfkit_reports.names import middle
from perfkit_reports.palette import category_fills
from perfkit_reports.screen import print_findings, table

_BARS = 8
_BLOCKS = 5
_WIDTH = 40  # characters of the longest bar
_NAME = 34
_DEVICES = 4


def render(analysis: MemoryAnalysis, console: Console, folder: Path | None = None) -> None:
    """Print the summary; `folder` is where the report was written. Nothing given is read as rich's markup."""
    holders = sorted(of_devices(analysis.accounts), key=lambda holder: -holder.account.peak_bytes)
    console.print()
    console.print(Text(memory_story.headline(holders), style="bold"))
    for holder in holders[:_DEVICES]:
        _holder(holder, console, named=len(holders) > 1)
    if len(holders) > _DEVICES:
        console.print(Text(f"{len(holders) - _DEVICES} more devices in the report", style="dim"))
    print_findings(analysis.findings, console, owners=len(holders) > 1)
    for note in analysis.notes:
        console.print(Text(note, style="dim"))
    if folder is not None:
        console.print(Text.assemble("\nreport: ", (str(folder / "report.html"), "bold")), soft_wrap=True)


def _holder(holder: Holder, console: Console, *, named: bool) -> None:
    account = holder.account
    if named:
        console.print(Text(f"\n{holder.name}", style="bold"))
    for line in memory_story.failure(account):
        console.print(Text(line, style="red"))
    _bars(account, console)
    for line in balance.balance_lines(account):
        console.print(Text(line))
    for line in (memory_story.fragmentation(account), memory_story.step_peaks(account)):
        if line:
            console.print(Text(line))
    if account.growth:
        console.print(Text(f"! {memory_story.growth(account.growth)}", style="yellow"))
    if account.largest:
        blocks = account.largest[:_BLOCKS]
        console.print(table(telling(_LARGEST, blocks), blocks))


def _bars(account: MemoryAccount, console: Console) -> None:
    """A bar for each of the largest categories; the others are in the balance below."""
    largest = sorted(account.categories, key=lambda part: -part.bytes)[:_BARS]
    if not largest or not account.peak_bytes:
        return
    fills = category_fills([part.category for part in largest])
    width = max(len(part.category) for part in largest)
    for part in largest:
        length = max(1, round(_WIDTH * part.bytes / largest[0].bytes)) if part.bytes else 0
        line = Text(f"{part.category:<{width}}  ")
        line.append("█" * length, style=fills[part.category].colour)
        share = units.percent(part.bytes / account.peak_bytes)
        console.print(line.append(f" {units.nbytes(part.bytes)}, {share}"), no_wrap=True, overflow="ellipsis")


def _short(column: Column[LiveBlock]) -> Column[LiveBlock]:
    """With names cut in the middle, so that a block takes one line."""
    return Column(column.title, lambda block: Cell(middle(column.cell(block).text, _NAME)), numeric=column.numeric)


_LARGEST = [
    _short(column)
    for column in memory_columns.some(memory_columns.LARGEST, ("What", "Size", "Category", "Shape", "Dtype"))
]
