"""Renders a document as Markdown for pull requests and chat: no charts, the first rows of ranked tables."""

from collections.abc import Callable, Sequence
from typing import Any

from perfkit.analysis.model.finding import Finding
from perfkit.core import units
from perfkit.core.note import list_texts
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
    Section,
    Table,
    Text,
    Timeline,
)
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fixes
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.tables import drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import order_categories
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.render.markdown_text import (
    escape_markdown,
    format_cell,
    format_code_block,
    format_folded_block,
    format_heading,
    format_id,
    format_table,
)
from perfkit_reports.render.truncation import describe_other_options, truncate_rows
from perfkit_reports.wording import format_bounded

_ROWS = 15  # rows of a ranked table


def render(document: Document) -> str:
    """The whole document. Text from the analysis is escaped and forms no markup."""
    first = [
        f"# {escape_markdown(document.title)}: perfkit report",
        f"**{format_verdict(document)}{escape_markdown(document.headline)}**",
    ]
    return "\n\n".join([*first, *(part for some in render_parts(document) for part in some)]) + "\n"


def render_parts(document: Document, rows: int = _ROWS, lines: int | None = None) -> list[list[str]]:
    """All parts after the headline: beginning, sections, footnotes; tables and lists are truncated."""
    page = _Page(rows, lines)
    beginning = [escape_markdown(line) for line in document.lead]
    if figures := (*document.tiles, *document.badges):
        beginning.append("\n".join(f"- {escape_markdown(tile.title)}: {_format_cell(tile.cell)}" for tile in figures))
    beginning += page.render_blocks(document.first, 2)
    beginning += page.render_blocks(document.summary, 2)
    if document.warnings:
        beginning += [format_heading(2, "Caveats"), _format_list(list_texts(document.warnings))]
    sections = [page.render_section(section) for section in document.sections]
    reasons = [f"{number}. n/a: {escape_markdown(reason)}" for number, reason in enumerate(page.notes.reasons, 1)]
    return [beginning, *filter(None, sections), ["\n".join(reasons)] if reasons else []]


class _Page:
    """The footnotes of a page."""

    def __init__(self, rows: int = _ROWS, lines: int | None = None) -> None:
        self.notes = Footnotes()
        self._rows = rows
        self._lines = lines

    def render_section(self, section: Section) -> list[str]:
        """Empty if none of the section's blocks is shown."""
        parts = self.render_blocks(section.blocks, 3)
        intro = [escape_markdown(" ".join(section.intro))] if section.intro else []
        return [format_heading(2, section.title), *intro, *parts] if parts else []

    def render_blocks(self, blocks: Sequence[Block], level: int) -> list[str]:
        return [part for block in blocks if block.weight <= Weight.NORMAL for part in self._render_block(block, level)]

    def _render_block(self, block: Block, level: int) -> list[str]:
        draw: dict[type[Block], Callable[[Any, int], list[str]]] = {
            Text: self._render_text,
            Facts: self._render_facts,
            Findings: self._render_findings,
            Table: self._render_table,
            Chart: self._render_chart,
            Flame: self._render_chart,
            Bars: self._render_bars,
            Timeline: self._render_timeline,
            Details: self._render_group,
            Group: self._render_group,
            Choice: self._render_choice,
            Narrow: self._skip_block,
            Fixes: self._skip_block,
            Pick: self._skip_block,
        }
        return draw[type(block)](block, level)

    def _render_text(self, text: Text, level: int) -> list[str]:
        if text.style == "code":
            code = "\n".join(text.lines)
            return [format_folded_block(text.title, code) if text.title else format_code_block(code)]
        if text.style in ("callout", "alarm"):
            lines = [f"**{escape_markdown(text.title)}**"] if text.title else []
            return ["\n>\n".join(f"> {line}" for line in (*lines, *map(escape_markdown, text.lines)))]
        if text.style != "list":
            return [*_format_title(text.title, level), escape_markdown(" ".join(text.lines))]
        shown = text.lines[: self._lines]
        hidden = [f"and {len(text.lines) - len(shown):,} more"] if len(shown) < len(text.lines) else []
        return [*_format_title(text.title, level), _format_list([*shown, *hidden])]

    def _render_facts(self, facts: Facts, level: int) -> list[str]:
        lines = "\n".join(f"- {escape_markdown(name)}: {_format_cell(value)}" for name, value in facts.items)
        return [*_format_title(facts.title, level), lines] if facts.items else []

    def _render_findings(self, block: Findings, level: int) -> list[str]:
        lines = [f"- {format_finding(finding, block.owner)}" for finding in block.items]
        return ["\n".join(lines) if lines else escape_markdown(block.nothing)]

    def _render_table(self, block: Table, level: int) -> list[str]:
        rows, hidden = truncate_rows(block, self._rows)
        columns = [column for column in drop_empty_columns(block.columns, rows) if column.weight <= Weight.NORMAL]
        if not rows or not columns:
            return []
        lines = [[format_cell(column.cell(row), self.notes) for column in columns] for row in rows]
        if block.emphasis is not None:
            for row, line in zip(rows, lines, strict=True):
                line[0] = f"**{line[0]}**" if block.emphasis(row) else line[0]
        parts = [format_table([escape_markdown(column.title) for column in columns], lines)]
        parts += (
            [escape_markdown(f"{hidden}{f', all in tables/{block.data}.parquet' if block.data else ''}")]
            if hidden
            else []
        )
        parts += [escape_markdown(block.caption)] if block.caption else []
        for row in rows if block.details else ():
            assert block.details is not None
            if unfolded := self.render_blocks(block.details(row), level + 1):
                parts += [f"**{format_cell(columns[0].cell(row))}**", *unfolded]
        return [*_format_title(block.title if block.show_title else "", level), *parts]

    def _render_chart(self, chart: Chart | Flame, level: int) -> list[str]:
        return self._render_block(chart.words, level) if chart.words else []

    def _render_timeline(self, timeline: Timeline, level: int) -> list[str]:
        return self._render_block(timeline.words, level)

    def _skip_block(self, block: Narrow | Fixes | Pick, level: int) -> list[str]:
        return []

    def _render_bars(self, block: Bars, level: int) -> list[str]:
        categories = order_categories([bar.categories for bar in block.bars])
        if not categories:
            return []
        lines = []
        for bar in block.bars[: self._rows]:
            shares = {
                share.category: format_bounded(units.format_percent(share.share), share.bound) for share in bar.shares
            }
            lines.append(
                [
                    escape_markdown(bar.name),
                    *(escape_markdown(shares.get(name, units.format_percent(0.0))) for name in categories),
                ]
            )
        left_out = len(block.bars) - len(lines)
        hidden = [f"{left_out:,} more, all in tables/time.parquet"] if left_out else []
        return [
            *_format_title(block.title, level),
            format_table(["", *map(escape_markdown, categories)], lines),
            *hidden,
        ]

    def _render_group(self, group: Details | Group, level: int) -> list[str]:
        parts = self.render_blocks(group.blocks, level + 1 if group.title else level)
        return [*_format_title(group.title, level), *parts] if parts else []

    def _render_choice(self, choice: Choice, level: int) -> list[str]:
        first = next(iter(choice.options.values()), None)
        parts = self.render_blocks([first], level) if first else []
        return (
            [*parts, *([escape_markdown(others)] if (others := describe_other_options(choice)) else [])]
            if parts
            else []
        )


def format_finding(finding: Finding, owner: str = "") -> str:
    """A finding in one line, for issues and chat; `owner` labels its subject."""
    parts = [f"**{findings.get_severity_word(finding)}: {escape_markdown(finding.title)}** ({format_id(finding.id)})."]
    if finding.variant and owner:
        parts.append(f"{escape_markdown(owner)}: {escape_markdown(finding.variant)}.")
    if worth := findings.format_expected_gain(finding):
        parts.append(f"{worth[0].upper()}{worth[1:]}.")
    parts += [escape_markdown(line) for line in (findings.format_evidence(finding), *findings.list_details(finding))]
    if finding.action:
        parts.append(f"**Fix:** {escape_markdown(findings.format_action(finding))}")
    return " ".join(parts)


def format_verdict(document: Document) -> str:
    return f"{escape_markdown(document.verdict.text)}: " if document.verdict else ""


def _format_title(title: str, level: int) -> list[str]:
    return [format_heading(level, title)] if title else []


def _format_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)


def _format_cell(value: Cell) -> str:
    return format_cell(value) if value.known else escape_markdown(f"n/a: {value.reason}")
