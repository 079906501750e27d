"""The summary on a terminal: a table that fits 100 columns, what failed, the findings, where the report lies."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfkit.analysis.result import Analysis, Estimate, Variant
from perfkit.record import Status
from perfkit_reports import cells, findings, headline
from perfkit_reports.cells import Cell

_TONES = {"good": "green", "bad": "red", "unsure": "yellow"}
_SEVERITIES = {"gain": "green", "warning": "yellow"}
_COLUMNS = (
    ("step time", cells.step_time),
    ("speed-up", cells.speed_up),
    ("throughput", cells.throughput),
    ("peak memory", cells.peak_memory),
    ("MFU", cells.mfu),
    ("loss", cells.loss_parity),
    ("engaged", cells.engaged),
)
_LEFT = ("loss", "engaged")


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
    _findings(analysis, console)
    for warning in analysis.warnings:
        console.print(Text.assemble(("! ", "yellow"), warning))
    if folder is not None:
        console.print(Text.assemble("\nreport: ", (str(folder / "report.html"), "bold")), soft_wrap=True)


def _summary(analysis: Analysis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("variant", overflow="fold", min_width=8, max_width=24)
    for title, _ in _COLUMNS:
        table.add_column(title, justify="left" if title in _LEFT else "right", overflow="fold")
    for variant in analysis.variants:
        table.add_row(Text(variant.name, style="bold"), *_row(variant))
    return table


def _row(variant: Variant) -> list[Text]:
    if variant.status == Status.OK or isinstance(variant.step_time, Estimate):
        return [_text(column(variant)) for _, column in _COLUMNS]
    status = cells.status(variant)
    return [Text(status.text, style=_TONES.get(status.tone, "")), *(Text("–", style="dim") for _ in _COLUMNS[1:])]


def _text(cell: Cell) -> Text:
    text = Text(cell.text, style=_TONES.get(cell.tone, ""))
    if cell.detail:
        text.append(f"\n{cell.detail}", style="dim")
    return text


def _findings(analysis: Analysis, console: Console) -> None:
    for finding in analysis.findings:
        gain = findings.gain(finding)
        console.print(
            Text.assemble(
                (f"{findings.icon(finding)} {findings.word(finding)}: ", _SEVERITIES.get(finding.severity, "cyan")),
                (finding.title, "bold"),
                f" [{finding.variant}]" if finding.variant else "",
                f", up to {gain}" if gain else "",
            )
        )
        console.print(Text(f"  {finding.evidence} {finding.action}".rstrip(), style="dim"))
