"""Renders a document on a terminal: headline, key figures, top findings and brief blocks; more on demand."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from rich.console import Console

from perfkit.analysis.model.finding import Finding
from perfkit.core import units
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
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fixes
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_middle
from perfkit_reports.palette import build_legend
from perfkit_reports.render.safe_text import SafeText
from perfkit_reports.render.terminal_tables import TONES, fit_table, format_row
from perfkit_reports.render.truncation import describe_other_options, truncate_rows
from perfkit_reports.wording import format_bounded, format_plural

_ROWS = {Weight.BRIEF: 10, Weight.NORMAL: 30}  # rows of a ranked table
_FINDINGS = 3  # shown at first; errors are never left out
_SEVERITIES = {"gain": "green", "warning": "yellow"}
_ORDER = {"warning": 0, "gain": 1, "note": 2}
_BAR = 60  # characters
_BLOCKS = "█▓▒░▞▚▤▦"


def render(document: Document, console: Console, *, report: Path | None = None, verbose: bool = False) -> None:
    """Print the document; `report` is the path of its page. No text is read as rich markup."""
    screen = _Screen(console, Weight.NORMAL if verbose else Weight.BRIEF)
    console.print()
    verdict = document.verdict
    verdict_part = (f"{verdict.text}: ", f"bold {TONES.get(verdict.tone, '')}") if verdict else ""
    console.print(SafeText.assemble(verdict_part, (document.headline, "bold")))
    for line in document.lead:
        console.print(SafeText(line))
    for tile in (*document.tiles, *document.badges):
        screen.print_fact(tile.title, tile.cell)
    screen.print_blocks(document.first)
    screen.print_blocks(document.summary)
    for section in document.sections:
        if verbose and any(block.weight <= Weight.NORMAL for block in section.blocks):
            console.print(SafeText(f"\n{section.title}", style="bold underline"))
            for line in section.intro:
                console.print(SafeText(line))
        screen.print_blocks(section.blocks)
    for warning in document.warnings:
        console.print(SafeText.assemble(("! ", "yellow"), warning.text))
    if report is not None:
        console.print(SafeText.assemble("\nreport: ", (str(report), "bold")), soft_wrap=True)


class _Screen:
    """A console and the maximum weight of its blocks."""

    def __init__(self, console: Console, most: Weight) -> None:
        self.console = console
        self.most = most

    def print_blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if block.weight <= self.most:
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

    def print_fact(self, name: str, value: Cell) -> None:
        line = SafeText(f"{name}: ")
        if value.known:
            line.append(value.text, style=TONES.get(value.tone, "bold"))
            line.append(f" ({value.detail})" if value.detail else "", style="dim")
        else:
            line.append(f"n/a: {value.reason}", style="dim")
        self.console.print(line)

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
        lines = text.lines[: _ROWS[self.most]]
        for line in lines:
            self.console.print(
                SafeText(f"- {line}" if text.style == "list" else line, style="dim" if text.style == "caption" else "")
            )
        if len(lines) < len(text.lines):
            self.console.print(SafeText(f"{len(text.lines) - len(lines):,} more in the report", style="dim"))

    def _print_facts(self, facts: Facts) -> None:
        self._print_title(facts.title if facts.items else "")
        for name, value in facts.items:
            self.print_fact(name, value)

    def _print_findings(self, block: Findings) -> None:
        """Warnings first, then gains, then the number left out."""
        ordered = sorted(block.items, key=lambda finding: _ORDER.get(finding.severity, len(_ORDER)))
        warnings = sum(finding.severity == "warning" for finding in ordered)
        items = ordered if self.most > Weight.BRIEF else ordered[: max(_FINDINGS, warnings)]
        for finding in items:
            self._print_finding(finding, owner=bool(block.owner))
        if hidden := len(ordered) - len(items):
            self.console.print(SafeText(f"{format_plural(hidden, 'more finding')} in the report", style="dim"))
        if not ordered and self.most > Weight.BRIEF:
            self.console.print(SafeText(block.nothing, style="dim"))

    def _print_finding(self, finding: Finding, *, owner: bool) -> None:
        """Evidence in one line (in whole if verbose) and action; notes in one line unless verbose."""
        worth = findings.format_expected_gain(finding)
        self.console.print(
            SafeText.assemble(
                (
                    f"{findings.get_icon(finding)} {findings.get_severity_word(finding)}: ",
                    _SEVERITIES.get(finding.severity, "cyan"),
                ),
                (finding.title, "bold"),
                f" [{finding.variant}]" if finding.variant and owner else "",
                f", {worth}" if worth else "",
                (f" [{finding.id}]", "dim"),
            )
        )
        if finding.severity == "note" and self.most == Weight.BRIEF:
            return
        evidence = SafeText(findings.format_evidence(finding), style="dim")
        if self.most > Weight.BRIEF:
            self._print_indented(evidence)
        else:
            self.console.print(SafeText.assemble("  ", evidence), no_wrap=True, overflow="ellipsis")
        self._print_indented(SafeText(f"→ {findings.format_action(finding)}" if finding.action else ""))

    def _print_indented(self, text: SafeText) -> None:
        for line in text.wrap(self.console, self.console.width - 2):
            self.console.print(SafeText.assemble("  ", line), no_wrap=True)

    def _print_table(self, block: Table) -> None:
        rows, hidden = truncate_rows(block, _ROWS[self.most])
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
                if detail_block.weight <= self.most:
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
        """Bars of characters with one legend; parts below half a percent are omitted."""
        categories = build_legend(
            [[share.category for share in bar.shares if share.share >= 0.005] for bar in block.bars]
        )
        if not categories:
            return
        self._print_title(block.title if self.most > Weight.BRIEF else "")
        single = len(block.bars) == 1
        room = 0 if single else min(24, max(len(bar.name) for bar in block.bars))
        marks = [(name, fill.color, mark) for (name, fill), mark in zip(categories, cycle(_BLOCKS), strict=False)]
        for bar in block.bars[: _ROWS[self.most]]:
            line = SafeText("" if single else f"{shorten_middle(bar.name, room):<{room}}  ")
            shares = {share.category: share for share in bar.shares}
            for name, color, mark in marks:
                line.append(mark * round(shares[name].share * _BAR) if name in shares else "", style=color)
            self.console.print(line, no_wrap=True)
        if len(block.bars) > _ROWS[self.most]:
            self.console.print(SafeText(f"{len(block.bars) - _ROWS[self.most]:,} more in the report", style="dim"))
        key = SafeText()
        shares = {share.category: share for share in block.bars[0].shares} if single else {}
        for name, color, mark in marks:
            share = shares.get(name)
            key.append(f"{mark} ", style=color)
            key.append(
                f"{name} {format_bounded(units.format_percent(share.share, 0), share.bound)}  "
                if share
                else f"{name}  "
            )
        self.console.print(key)

    def _print_group(self, group: Details | Group) -> None:
        if any(block.weight <= self.most for block in group.blocks):
            self._print_title(group.title)
            self.print_blocks(group.blocks)

    def _print_choice(self, choice: Choice) -> None:
        first = next(iter(choice.options.values()), None)
        if first is None or first.weight > self.most:
            return
        self.print_blocks([first])
        if others := describe_other_options(choice):
            self.console.print(SafeText(others, style="dim"))
