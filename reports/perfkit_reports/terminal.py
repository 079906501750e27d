"""The summary on a terminal: a table that fits 100 columns, what failed, the findings, where the report lies."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfkit.analysis.result import Analysis, Estimate, Variant
from perfkit.record import Status
from perfkit_reports import cells, headline, memory_story
from perfkit_reports.cells import Cell
from perfkit_reports.screen import TONES, bare_table, print_findings, text


def render(analysis: Analysis, console: Console, folder: Path | None = None) -> None:
    """Print the summary; `folder` is where the report was written.

    Nothing of the analysis is read as rich's markup.
    """
    console.print()
    console.print(Text(headline.headline(analysis), style="bold"))
    for line in headline.remarks(analysis):
        console.print(Text(line))
    console.print(_summary(analysis))
    for variant in analysis.variants:
        if variant.reason:
            console.print(Text.assemble((variant.name, "bold"), f" {variant.status.value}: {variant.reason}"))
        for line in memory_story.failure(variant.memory) if variant.memory else []:
            console.print(Text(f"  {line}"))
    print_findings(analysis.findings, console)
    for warning in analysis.warnings:
        console.print(Text.assemble(("! ", "yellow"), warning))
    if folder is not None:
        console.print(Text.assemble("\nreport: ", (str(folder / "report.html"), "bold")), soft_wrap=True)


def _speed_up(variant: Variant) -> Cell:
    """With the verdict's icon, since colour alone may not show."""
    cell, verdict = cells.speed_up(variant), cells.verdict(variant)
    return replace(cell, text=f"{verdict.text[:1]} {cell.text}".strip())


def _rate(variant: Variant) -> Cell:
    """Throughput without its unit, which stands in the column's title."""
    cell = cells.throughput(variant)
    return replace(cell, text=cell.text.removesuffix(cells.throughput_unit(variant)).strip())


def _bare(column: Callable[[Variant], Cell]) -> Callable[[Variant], Cell]:
    return lambda variant: replace(column(variant), detail="")


_COLUMNS: tuple[Callable[[Variant], Cell], ...] = (
    cells.step_time,
    _speed_up,
    _rate,
    cells.peak_memory,
    cells.mfu,
    _bare(cells.loss_parity),
    _bare(cells.engaged),
)


def _summary(analysis: Analysis) -> Table:
    table = bare_table()
    table.add_column("variant", overflow="fold", min_width=14, max_width=24)
    rates = {cells.throughput_unit(variant) for variant in analysis.variants}
    for title in ("step time", "speed-up", " ".join(sorted(rates)), "peak mem.", "MFU"):
        table.add_column(Text(title), justify="right", min_width=11 if title in ("step time", "speed-up") else None)
    table.add_column("loss")
    table.add_column("engaged", min_width=7)
    for variant in analysis.variants:
        table.add_row(Text(variant.name, style="bold"), *_row(variant))
    return table


def _row(variant: Variant) -> list[Text]:
    if variant.status == Status.OK or isinstance(variant.step_time, Estimate):
        return [text(column(variant)) for column in _COLUMNS]
    status = cells.status(variant)
    return [Text(status.text, style=TONES.get(status.tone, "")), *(Text("–", style="dim") for _ in _COLUMNS[1:])]
