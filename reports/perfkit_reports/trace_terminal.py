"""The summary of traces on a terminal, in at most 100 columns: what bounds the step, what to win, who is late."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from perfkit import units
from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.trace import RankTrace, TraceAnalysis
from perfkit_reports import memory_markdown, trace_columns, trace_headline, trace_story
from perfkit_reports.cells import Cell, bounded
from perfkit_reports.columns import Column, Row, is_known, telling
from perfkit_reports.names import short_kernel
from perfkit_reports.palette import legend
from perfkit_reports.screen import print_findings, table
from perfkit_reports.subjects.memory import balance
from perfkit_reports.trace_series import focus

_ROWS = 10
_RANKS = 8
_BAR = 60  # characters
_BLOCKS = "█▓▒░▞▚▤▦"


def render(analysis: TraceAnalysis, console: Console, folder: Path | None = None) -> None:
    """Print the summary; `folder` is where the report was written."""
    console.print()
    console.print(Text(trace_headline.headline(analysis), style="bold"))
    for line in trace_headline.remarks(analysis):
        console.print(Text(line))
    trace = focus(analysis)
    if trace is not None:
        _split(trace.time_split, console)
        _tiles(analysis, console)
        _won(trace, console)
        for line in [*trace_story.launches(trace), trace_story.recompute(trace), trace_story.coverage(trace)]:
            if line:
                console.print(Text(line))
        _memory(trace, console)
    if analysis.fleet is not None and len(analysis.fleet.ranks) > 1:
        for line in trace_story.fleet(analysis.fleet):
            console.print(Text(line))
        slowest = sorted(analysis.fleet.ranks, key=lambda row: -row.step_s)[:_RANKS]
        console.print(table(trace_columns.RANKS[:7], slowest))
        _rest(len(analysis.fleet.ranks), len(slowest), "rank", console)
    if analysis.difference is not None:
        console.print(table(_some(trace_columns.CHANGES, _CHANGED), analysis.difference.changes[:_ROWS]))
        _rest(len(analysis.difference.changes), _ROWS, "changed op", console)
    print_findings(analysis.findings, console, owners=len(analysis.traces) > 1)
    for each in analysis.traces:
        for note in (*each.reading.notes, *each.notes):
            console.print(Text(f"{each.label}: {note}" if len(analysis.traces) > 1 else note, style="dim"))
    for warning in analysis.warnings:
        console.print(Text.assemble(("! ", "yellow"), warning))
    if folder is not None:
        console.print(Text.assemble("\nreport: ", (str(folder / "report.html"), "bold")), soft_wrap=True)


def _split(shares: Sequence[TimeShare], console: Console) -> None:
    """A bar of characters and what each stands for; parts under half a percent have no room in it."""
    by_name = {share.category: share for share in shares if share.share >= 0.005}
    bar, key = Text(), Text()
    for (category, fill), block in zip(legend([list(by_name)]), _BLOCKS, strict=False):
        bar.append(block * round(by_name[category].share * _BAR), style=fill.colour)
        key.append(f"{block} ", style=fill.colour)
        part = by_name[category]
        key.append(f"{category} {bounded(units.percent(part.share, 0), part.bound)}  ")
    if by_name:
        console.print(bar)
        console.print(key)


def _tiles(analysis: TraceAnalysis, console: Console) -> None:
    for title, item in trace_headline.tiles(analysis):
        line = Text(f"{title}: ")
        if is_known(item):
            line.append(item.text, style="bold")
            line.append(f" ({item.detail})" if item.detail else "", style="dim")
        else:
            line.append(f"not known: {item.reason}", style="dim")
        console.print(line)


def _memory(trace: RankTrace, console: Console) -> None:
    if trace.memory is not None:
        console.print(Text(f"Memory: {balance.balance_line(trace.memory)}"))
        for line in memory_markdown.warnings(trace.memory):
            console.print(Text(f"! {line}", style="yellow"))


_NARROW: tuple[Column[OpRow], ...] = (
    Column("Op", lambda row: Cell(short_kernel(row.op or row.name, 20)), numeric=False),
    Column("Kernel", lambda row: Cell(short_kernel(row.name, 20) if row.op else ""), numeric=False),
)
_FIGURES = ("Time", "Share", "To win", "Of roof", "Bound")
_CHANGED = ("Op", "Change", "Before", "Now", "Phase")


def _won(trace: RankTrace, console: Console) -> None:
    rows = (trace.kernels or trace.ops)[:_ROWS]
    if rows:
        console.print(table([*telling(_NARROW, rows), *_some(trace_columns.KERNELS, _FIGURES)], rows))
        _rest(len(trace.kernels or trace.ops), len(rows), "kernel" if trace.kernels else "op", console)


def _some(columns: Sequence[Column[Row]], titles: Sequence[str]) -> list[Column[Row]]:
    return [column for column in columns if column.title in titles]


def _rest(total: int, shown: int, what: str, console: Console) -> None:
    if total > shown:
        console.print(Text(f"{total - shown:,} more {what}s in the report", style="dim"))
