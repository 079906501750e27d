"""A history on a terminal: what changed, the commits, and how much is still open."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from perfkit.check.history.result import History
from perfkit.store.summary import REPORT_FILE
from perfkit_reports.cells import plural
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.history import changes as cells

_SHOWN = 20
_COMMITS = 5


def print_history(history: History, console: Console, folder: Path | None = None) -> None:
    """Print the changes, what still stands first; `folder` is where the report was written."""
    found = cells.changes(history)
    console.print()
    console.print(Text(cells.headline(history), style="bold"))
    for change in found[:_SHOWN]:
        _print_change(change, console)
    if len(found) > _SHOWN:
        console.print(Text(f"\n{len(found) - _SHOWN:,} more changes in the report", style="dim"))
    for series in cells.pending(history):
        console.print(Text.assemble(("\n? ", "yellow"), one_line(f"{series.name}: {series.pending}")))
    for note in cells.notes(history)[:_SHOWN]:
        console.print(Text.assemble(("! ", "yellow"), one_line(note)))
    if folder is not None:
        console.print(Text.assemble("\nreport: ", (str(folder / REPORT_FILE), "bold")), soft_wrap=True)


def _print_change(change: cells.Change, console: Console) -> None:
    point = change.point
    mark, colour = ("▲", "red") if point.worse else ("▼", "green")
    again = "" if change.stands else " (changed again since)"
    console.print(Text.assemble(("\n" + mark + " ", colour), (one_line(cells.sentence(change)), "bold"), again))
    before, after = (cells.level(value, change).text for value in (point.before.value, point.after.value))
    sure = cells.confidence(change)
    detail = cells.what(change).detail
    console.print(
        Text(
            f"  {before} -> {after} ({detail}) since {cells.day(change.first)}; {sure.text}, {sure.detail}", style="dim"
        )
    )
    console.print(Text(one_line(f"  {change.series.how} on {change.series.machine}"), style="dim"))
    for commit in point.commits.commits[:_COMMITS]:
        console.print(Text(one_line(f"  {commit.revision[:7]} {commit.title}")), no_wrap=True, overflow="ellipsis")
    more = (point.commits.count or 0) - _COMMITS
    if more > 0:
        console.print(Text(f"  and {plural(more, 'more commit')}", style="dim"))
    for line in filter(None, (point.commits.reason, *point.differs)):
        console.print(Text(one_line(f"  {line}"), style="yellow"))
