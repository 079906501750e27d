"""Renders a document on a terminal: on one screen, or in whole on demand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from perfkit_reports import findings
from perfkit_reports.document.blocks import (
    Bars,
    Block,
    Chart,
    Choice,
    Details,
    Facts,
    Findings,
    Flame,
    Group,
    Narrow,
    Table,
    Text,
    Timeline,
)
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fixes
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.safe_text import SafeText
from perfkit_reports.render.terminal_lines import build_bar_lines, build_fact_line, build_finding_title, sort_findings
from perfkit_reports.render.terminal_summary import print_summary
from perfkit_reports.render.terminal_tables import TONES, fit_table, format_row
from perfkit_reports.render.truncation import describe_other_options, truncate_rows

_ROWS = 30  # rows of a ranked table


def render(document: Document, console: Console, *, report: Path | None = None, verbose: bool = False) -> None:
    """Print the document on one screen, in whole if `verbose`; `report` is the path of its page.

    No text is read as rich markup.
    """
    if verbose:
        _print_whole(document, console)
    else:
        print_summary(document, console)
    if report is not None:
        console.print(SafeText.assemble("report: ", (str(report), "bold")), soft_wrap=True)


def _print_whole(document: Document, console: Console) -> None:
    screen = _Screen(console)
    verdict = document.verdict
    verdict_part = (f"{verdict.text}: ", f"bold {TONES.get(verdict.tone, '')}") if verdict else ""
    console.print(SafeText.assemble(verdict_part, (document.headline, "bold")))
    for line in document.lead:
        console.print(SafeText(line))
    for tile in (*document.tiles, *document.badges):
        console.print(build_fact_line(tile.title, tile.cell))
    screen.print_blocks(document.first)
    screen.print_blocks(document.summary)
    for section in document.sections:
        if any(block.weight <= Weight.NORMAL for block in section.blocks):
            console.print(SafeText(f"\n{section.title}", style="bold underline"))
            for line in section.intro:
                console.print(SafeText(line))
        screen.print_blocks(section.blocks)
    for warning in document.warnings:
        console.print(SafeText.assemble(("! ", "yellow"), warning.text))


class _Screen:
    """A console, on which blocks are printed up to the normal weight."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def print_blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if block.weight <= Weight.NORMAL:
                self._print_block(block)

    def _print_block(self, block: Block) -> None:
        draw: dict[type[Block], Callable[[Any], None]] = {
            Text: self._print_text,
            Facts: self._print_facts,
            Findings: self._print_findings,
            Table: self._print_table,
            Chart: self._print_chart,
            Flame: self._print_chart,
            Bars: self._print_bars,
            Timeline: self._print_timeline,
            Details: self._print_group,
            Group: self._print_group,
            Choice: self._print_choice,
            Narrow: self._skip_block,
            Fixes: self._skip_block,
            Pick: self._skip_block,
        }
        draw[type(block)](block)

    def _print_title(self, title: str) -> None:
        if title:
            self.console.print(SafeText(f"\n{title}", style="bold"))

    def _print_text(self, text: Text) -> None:
        if text.style in ("callout", "alarm"):
            first, *hidden = text.lines
            title = f"{text.title}: " if text.title else ""
            self.console.print(SafeText.assemble(("! ", "yellow"), (title, "yellow"), first))
            for line in hidden:
                self.console.print(SafeText(f"  {line}"))
            return
        self._print_title(text.title)
        if text.style == "code":
            self.console.print(SafeText("\n".join(text.lines)), soft_wrap=True)
            return
        lines = text.lines[:_ROWS]
        for line in lines:
            self.console.print(
                SafeText(f"- {line}" if text.style == "list" else line, style="dim" if text.style == "caption" else "")
            )
        if len(lines) < len(text.lines):
            self.console.print(SafeText(f"{len(text.lines) - len(lines):,} more in the report", style="dim"))

    def _print_facts(self, facts: Facts) -> None:
        self._print_title(facts.title if facts.items else "")
        for name, value in facts.items:
            self.console.print(build_fact_line(name, value))

    def _print_findings(self, block: Findings) -> None:
        for finding in sort_findings(block.items):
            gain = findings.format_expected_gain(finding)
            title = build_finding_title(finding, finding.title, gain, owner=bool(block.owner))
            self.console.print(title.append(f" [{finding.id}]", "dim"))
            self._print_indented(SafeText(findings.format_evidence(finding), style="dim"))
            self._print_indented(SafeText(f"→ {findings.format_action(finding)}" if finding.action else ""))
        if not block.items:
            self.console.print(SafeText(block.nothing, style="dim"))

    def _print_indented(self, text: SafeText) -> None:
        for line in text.wrap(self.console, self.console.width - 2):
            self.console.print(SafeText.assemble("  ", line), no_wrap=True)

    def _print_table(self, block: Table) -> None:
        rows, hidden = truncate_rows(block, _ROWS)
        if not rows:
            return
        self._print_title(block.title if block.show_title else "")
        if (fitting := fit_table(block, rows, self.console.width)) is not None:
            self.console.print(fitting)
        for row in rows if fitting is None else ():
            self.console.print(SafeText(f"- {format_row(block, row)}"))
        if hidden:
            self.console.print(SafeText(f"{hidden} in the report", style="dim"))
        for row in rows if block.details else ():
            assert block.details is not None
            for detail_block in block.details(row):
                if detail_block.weight <= Weight.NORMAL:
                    name = block.columns[0].cell(row).text
                    self._print_title(
                        "" if isinstance(detail_block, Text) and detail_block.style == "callout" else name
                    )
                    self.print_blocks([detail_block])

    def _print_chart(self, chart: Chart | Flame) -> None:
        if chart.words is not None:
            self._print_block(chart.words)

    def _print_timeline(self, timeline: Timeline) -> None:
        self._print_block(timeline.words)

    def _skip_block(self, block: Narrow | Fixes | Pick) -> None:
        """Nothing to do: everything is shown."""

    def _print_bars(self, block: Bars) -> None:
        lines = build_bar_lines(block, _ROWS, self.console.width)
        if not lines:
            return
        self._print_title(block.title)
        for line in lines[:-1]:
            self.console.print(line, no_wrap=True)
        if len(block.bars) > _ROWS:
            self.console.print(SafeText(f"{len(block.bars) - _ROWS:,} more in the report", style="dim"))
        self.console.print(lines[-1])

    def _print_group(self, group: Details | Group) -> None:
        if any(block.weight <= Weight.NORMAL for block in group.blocks):
            self._print_title(group.title)
            self.print_blocks(group.blocks)

    def _print_choice(self, choice: Choice) -> None:
        first = next(iter(choice.options.values()), None)
        if first is None or first.weight > Weight.NORMAL:
            return
        self.print_blocks([first])
        if others := describe_other_options(choice):
            self.console.print(SafeText(others, style="dim"))
