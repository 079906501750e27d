"""The summary on a terminal: a table that fits 100 columns, what failed, the findings, where the report lies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Status
from perfkit_reports import cells, headline, loop_headline, summary_columns, watched
from perfkit_reports.cells import Cell
from perfkit_reports.screen import TONES, bare_table, print_findings, text
from perfkit_reports.subjects.memory import story as memory_story


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
        if variant.reason and variant.loop is None:  # a loop's stands above
            console.print(Text.assemble((variant.name, "bold"), f" {variant.status.value}: {variant.reason}"))
        for line in memory_story.failure(variant.memory) if variant.memory else []:
            console.print(Text(f"  {line}"))
    for variant, loop in watched.loops(analysis):
        name = "" if headline.alone(analysis) else f"{variant.name}: "
        console.print(Text(f"{name}{watched.steps(loop)}; a step ends with {loop.steps_by}", style="dim"))
        for warning in variant.warnings[loop_headline.told_above(variant) :]:
            console.print(Text.assemble(("! ", "yellow"), name, warning))
    print_findings(analysis.findings, console, owners=headline.names_owners(analysis))
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


@dataclass(frozen=True)
class _Column:
    """What a column of the summary is called here, and its cell; `least` is its width at least."""

    title: str
    cell: Callable[[Variant], Cell]
    numeric: bool = True
    least: int | None = None


_COLUMNS = {
    summary_columns.STEP_TIME: _Column("step time", cells.step_time, least=11),
    summary_columns.DATA: _Column("waits for data", cells.data_wait),
    summary_columns.SPEED_UP: _Column("speed-up", _speed_up, least=11),
    summary_columns.THROUGHPUT: _Column("", _rate),
    summary_columns.PEAK_MEMORY: _Column("peak mem.", cells.peak_memory),
    summary_columns.MFU: _Column("MFU", cells.mfu),
    summary_columns.ENERGY: _Column("energy", _bare(cells.energy)),
    summary_columns.LOSS: _Column("loss", _bare(cells.loss_parity), numeric=False),
    summary_columns.ENGAGED: _Column("engaged", _bare(cells.engaged), numeric=False, least=7),
}


def _summary(analysis: Analysis) -> Table:
    table = bare_table()
    table.add_column(headline.word(analysis), overflow="fold", min_width=14, max_width=24)
    rates = {cells.throughput_unit(variant) for variant in analysis.variants}
    shown = [_COLUMNS[each] for each in summary_columns.summary_columns(analysis) if each in _COLUMNS]
    for column in shown:
        title = Text(column.title or " ".join(sorted(rates)))
        table.add_column(title, justify="right" if column.numeric else "left", min_width=column.least)
    for variant in analysis.variants:
        table.add_row(Text(variant.name, style="bold"), *_row(variant, shown))
    return table


def _row(variant: Variant, shown: Sequence[_Column]) -> list[Text]:
    if variant.status == Status.OK or isinstance(variant.step_time, Estimate):
        return [text(column.cell(variant)) for column in shown]
    status = cells.status(variant)
    return [Text(status.text, style=TONES.get(status.tone, "")), *(Text("–", style="dim") for _ in shown[1:])]
