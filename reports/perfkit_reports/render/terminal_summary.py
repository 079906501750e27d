"""Prints a document on one screen of a terminal: headline, bar, table and fixes, the most important lines that fit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import partial

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table as Drawn
from rich.text import Text as RichText

from perfkit.analysis.model.finding import Finding
from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars, Chart, Facts, Findings, Flame, Table, Text, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fix, Fixes
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_middle
from perfkit_reports.render.safe_text import SafeText
from perfkit_reports.render.terminal_lines import (
    build_bar_lines,
    build_fact_line,
    build_finding_title,
    build_fix_title,
    sort_findings,
)
from perfkit_reports.render.terminal_tables import TONES, fit_table, format_row
from perfkit_reports.wording import format_plural

LINES = 22  # with the report's path and the next prompt they fill a terminal of 24 lines
_HEADLINE = 3  # lines
_BARS = 6
_ROWS = 10  # of a table
_FIRST_ROWS = 6  # of them before the lead
_WARNINGS = 2  # of a document, before its table
_FINDINGS = 3
_LONG_CODE = 40  # characters of what would be cut in a cell
_LEAST_TITLE = 20  # characters of a finding's

Line = RichText | Segments


class _Rank(IntEnum):
    """How important lines are: those of later ranks are left out first."""

    HEADLINE = auto()
    ANSWER = auto()
    WARNING = auto()
    FIRST_ROWS = auto()
    FINDING = auto()
    BAR = auto()
    LEAD = auto()
    REASON = auto()
    ROWS = auto()
    TABLE = auto()
    TILE = auto()
    REST = auto()
    LEFT_OUT = auto()


@dataclass(frozen=True)
class _Part:
    """Lines that are shown together or not at all; `counted` is (one, several) of what is missing without them.

    `whole` are the same lines uncut, for a document that leaves room.
    """

    rank: _Rank
    lines: Sequence[Line]
    counted: tuple[str, str] | None = None
    whole: Sequence[Line] = ()


def print_summary(document: Document, console: Console) -> None:
    """Print at most `LINES` lines in the order of the document; the last counts rows and findings that are left out."""
    parts = [*_build_head(document, console), *_build_body(document, console)]
    by_rank = sorted(range(len(parts)), key=lambda place: (parts[place].rank, place))
    room = LINES - 1
    shown: dict[int, Sequence[Line]] = {}
    missing = Counter[tuple[str, str]]()
    for place in by_rank:
        part = parts[place]
        if part.rank != _Rank.LEFT_OUT and len(part.lines) <= room:
            room -= len(part.lines)
            shown[place] = part.lines
        elif part.counted is not None:
            missing[part.counted] += 1
    for place in by_rank:
        added = len(parts[place].whole) - len(shown.get(place, parts[place].whole))
        if 0 < added <= room:
            room -= added
            shown[place] = parts[place].whole
    for place in sorted(shown):
        for line in shown[place]:
            console.print(line, no_wrap=True, overflow="ellipsis")
    if missing:
        names = [format_plural(number, f"more {one}", f"more {many}") for (one, many), number in missing.items()]
        console.print(SafeText(f"{', '.join(names)} in the report", style="dim"), no_wrap=True, overflow="ellipsis")


def _build_head(document: Document, console: Console) -> Iterator[_Part]:
    verdict = document.verdict
    text = (f"{verdict.text}: ", f"bold {TONES.get(verdict.tone, '')}") if verdict else ""
    yield _Part(_Rank.HEADLINE, _wrap(SafeText.assemble(text, (document.headline, "bold")), console, _HEADLINE))
    for line in document.lead:
        yield _Part(_Rank.LEAD, _wrap(SafeText(line), console, _HEADLINE))
    for tile in (*document.tiles, *document.badges):
        yield _make_line_part(_Rank.TILE, build_fact_line(tile.title, tile.cell), console)


def _make_line_part(rank: _Rank, text: RichText, console: Console, counted: tuple[str, str] | None = None) -> _Part:
    return _Part(rank, (text,), counted, _wrap(text, console, _HEADLINE))


def _wrap(text: RichText, console: Console, most: int) -> list[RichText]:
    """Its lines; of more than `most` the first."""
    lines = list(text.wrap(console, console.width))
    for line in lines:
        line.rstrip()
    if len(lines) > most:
        lines = lines[:most]
        lines[-1].truncate(console.width - 1)
        lines[-1].append("…")
    return lines


def _build_body(document: Document, console: Console) -> Iterator[_Part]:
    blocks = [
        (drawn.words or drawn) if isinstance(drawn, Chart | Flame) else drawn
        for drawn in walk_blocks(document.blocks, Weight.BRIEF, every=False)
    ]
    fixes = [fix for block in document.first if isinstance(block, Fixes) for fix in block.items]
    bars = [block for block in blocks if isinstance(block, Bars)]
    tables = sorted((block for block in blocks if isinstance(block, Table) and block.rows), key=lambda each: each.whole)
    for bar in bars[:1]:
        yield _Part(_Rank.BAR if len(bar.bars) == 1 else _Rank.REST, _build_bar(bar, console))
    for place, table in enumerate(tables):
        yield from _build_table(table, console, first=not place)
    for block in blocks:
        if isinstance(block, Text):
            yield from _build_text(block, console)
        elif isinstance(block, Facts):
            for name, cell in block.items:
                yield _make_line_part(_Rank.TILE, build_fact_line(name, cell), console)
        elif isinstance(block, Findings):
            yield from _build_findings(block, fixes, console)
    for place, warning in enumerate(document.warnings):
        rank = _Rank.WARNING if place < _WARNINGS else _Rank.REST
        yield _make_line_part(rank, _make_warning(warning.text), console, ("warning", "warnings"))


def _build_bar(block: Bars, console: Console) -> list[Line]:
    *bars, key = build_bar_lines(block, _BARS, console.width) or [SafeText()]
    return [*bars, *_wrap(key, console, _HEADLINE)] if bars else []


def _build_table(table: Table, console: Console, *, first: bool) -> Iterator[_Part]:
    """Its heading with its first rows, then a row each; of tables after the first only such as have room in whole."""
    counted = (table.what, table.whats or f"{table.what}s")
    most = _ROWS if table.limit is None else min(table.limit, _ROWS)
    rows = list(table.rows[:most])
    heading, lines = _draw_rows(table, rows, console)
    title = [SafeText(table.title, style="bold")] if table.title and table.show_title and not first else []
    whole = [*title, *_draw_lines(fit_table(table, rows, console.width), console)]
    if table.whole:
        yield from _build_whole_rows(table, title, whole, console, counted)
        return
    # Texts that wrap (commands, commits) are there to be copied.
    wraps = any(column.wrap and not column.code and column.weight == Weight.BRIEF for column in table.columns)
    if wraps and len(rows) == len(table.rows) and len(whole) <= (_ROWS if first else 2 * _ROWS):
        yield _Part(_Rank.FIRST_ROWS if first else _Rank.REASON, whole)
        return
    if not first:
        yield _Part(_Rank.TABLE, [*title, *heading, *lines], None, whole)
        return
    yield _Part(_Rank.FIRST_ROWS, [*heading, *lines[:1]], counted)
    for place, line in enumerate(lines[1:], 1):
        yield _Part(_Rank.FIRST_ROWS if place < _FIRST_ROWS else _Rank.ROWS, (line,), counted)
    for _ in range(len(table.rows) - len(rows)):
        yield _Part(_Rank.LEFT_OUT, (), counted)
    for row in rows if table.details else ():
        assert table.details is not None
        for detail in walk_blocks(table.details(row), Weight.BRIEF):
            if isinstance(detail, Text) and detail.style in ("callout", "alarm"):
                yield from _build_text(detail, console)


def _build_whole_rows(
    table: Table, title: Sequence[Line], whole: Sequence[Line], console: Console, counted: tuple[str, str]
) -> Iterator[_Part]:
    """A table that nothing is cut from: in rows of cells, or row by row with what can be copied on lines of its own."""
    codes = [column for column in table.columns if column.code]
    if all(len(column.cell(row).text) < _LONG_CODE for column in codes for row in table.rows):
        yield _Part(_Rank.ANSWER, whole, counted)
        return
    for place, row in enumerate(table.rows):
        told = [column.cell(row).text for column in table.columns if not column.code]
        texts = (": ".join(told), *(column.cell(row).text for column in codes))
        lines = [line for text in texts for line in _wrap(SafeText(text), console, _ROWS)]
        yield _Part(_Rank.ANSWER, [*([] if place else title), *lines], counted)


def _draw_rows(table: Table, rows: Sequence[object], console: Console) -> tuple[list[Line], list[Line]]:
    """The lines of its heading, and one for each row."""
    fitting = fit_table(table, rows, console.width, one_line=True)
    if fitting is None:
        return [], [SafeText(f"- {format_row(table, row)}") for row in rows]
    lines = _draw_lines(fitting, console)
    heading = len(lines) - len(rows)
    return lines[:heading], lines[heading:]


def _draw_lines(drawn: Drawn | None, console: Console) -> list[Line]:
    """Its lines without empty ones and the rule below its heading; none of a table that does not fit."""
    lines = [] if drawn is None else console.render_lines(drawn, pad=False)
    texts = ["".join(part.text for part in line) for line in lines]
    return [Segments([*line, Segment.line()]) for line, text in zip(lines, texts, strict=True) if text.strip(" ─")]


def _build_text(block: Text, console: Console) -> Iterator[_Part]:
    """A line for each of its lines: alarms first, then reasons, then all else."""
    if block.style in ("callout", "alarm"):
        title = f"{block.title}: " if block.title else ""
        yield _make_line_part(_Rank.REASON, _make_warning(f"{title}{block.lines[0]}"), console)
        return
    rank = _Rank.REASON if block.style == "list" else _Rank.REST
    for line in block.lines:
        yield _make_line_part(rank, SafeText(f"- {line}" if block.style == "list" else line), console)


def _make_warning(text: str) -> RichText:
    return SafeText.assemble(("! ", "yellow"), text)


def _build_findings(block: Findings, fixes: Sequence[Fix], console: Console) -> Iterator[_Part]:
    """The fixes on the first screen of the page, then other findings, warnings first.

    Each is a title and an action (evidence without one), which ends with its id.
    """
    by_anchor = dict(block.anchored)
    fixed = [(fix, by_anchor.pop(fix.anchor)) for fix in fixes[:_FINDINGS] if fix.anchor in by_anchor]
    for fix, finding in fixed:
        yield _make_finding_part(partial(build_fix_title, fix), fix.instruction, f"→ {fix.how}", finding, console)
    others = sort_findings(list(by_anchor.values()))
    room = _FINDINGS - len(fixed)
    for finding in others[:room]:
        gain = findings.format_brief_gain(finding)
        build_title = partial(build_finding_title, finding, gain=gain, owner=bool(block.owner))
        action = f"→ {findings.format_action(finding)}" if finding.action else findings.format_evidence(finding)
        yield _make_finding_part(build_title, finding.title, action, finding, console)
    for finding in others[room:]:
        yield _Part(_Rank.LEFT_OUT, (), _name_finding(finding))


def _make_finding_part(
    build_title: Callable[[str], RichText], title: str, action: str, finding: Finding, console: Console
) -> _Part:
    room = console.width - cell_len(build_title("").plain)
    ending = SafeText(f" [{finding.id}]", "dim")
    cut = SafeText(f"  {action}")
    cut.truncate(console.width - cell_len(ending.plain), overflow="ellipsis")
    whole = [build_title(title), SafeText.assemble(f"  {action}", ending)]
    return _Part(
        _Rank.FINDING,
        (build_title(shorten_middle(title, max(room, _LEAST_TITLE))), SafeText.assemble(cut, ending)),
        _name_finding(finding),
        [line for text in whole for line in _wrap(text, console, _HEADLINE)],
    )


def _name_finding(finding: Finding) -> tuple[str, str]:
    return ("warning", "warnings") if finding.severity == "warning" else ("finding", "findings")
