"""A check as Markdown, for a comment on a pull request and a step's summary: within what the host takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit import units
from perfkit.analysis.check.result import Check, CheckedVariant, Judged, MemoryChange, Verdict
from perfkit.analysis.traces.result import ChangeRow
from perfkit_reports import marks, trace_columns
from perfkit_reports.cells import Cell, plural
from perfkit_reports.check import cells, story
from perfkit_reports.check.markdown_text import escaped, link
from perfkit_reports.check.plain import one_line
from perfkit_reports.columns import Column, Row, text
from perfkit_reports.names import middle

# What GitHub takes. A comment is refused at 65,536 characters; counted here as bytes, of which there are no fewer.
COMMENT_BYTES = 65_536
SUMMARY_BYTES = 2**20  # a step's summary that is larger is not shown at all

# Begins every comment: by it the next run finds the comment to write anew, instead of adding one more.
MARK = "<!-- perfkit check -->"

_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.IMPROVED)
_NAME, _COMMAND = 200, 2000  # characters, of which more would hide the rest
_CHANGED_OPS, _CHANGED_MEMORY = 8, 6
_ROOM = 600  # bytes for what is said of what was left out


@dataclass(frozen=True)
class Block:
    """A piece of the document that may be cut after any of its lines: `lines` of `what`, between `before`, `after`."""

    what: str
    lines: Sequence[str]
    before: str = ""
    after: str = ""


def render(check: Check, *, report: str = "", limit: int = COMMENT_BYTES) -> str:
    """The document, of at most `limit` bytes. `report` is the address of the HTML report, or its file's name.

    Text of the check is escaped, so that it can form no markup and call nobody. What has no room is left out from the
    end on, and said to be.
    """
    head = [
        MARK,
        f"## {escaped(cells.said(check.verdict))}: {escaped(story.headline(check))}",
        f"Compared {escaped(story.sides(check))}: {escaped(story.sampled(check))}.",
    ]
    tail = [escaped(story.to_do(check)), *_reproduce(check), link("Report", report) if report else ""]
    fixed = _joined([*head, *tail])
    return _joined([*head, *_within(_blocks(check), limit - len(fixed.encode()) - _ROOM), *tail])


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _within(blocks: Sequence[Block], room: int) -> list[str]:
    """As many lines of each block, in order, as there is room for; at the end how many of what were left out."""
    parts, left_out = [], []
    for block in blocks:
        room_left = room - len(f"{block.before}{block.after}".encode()) - 4
        shown = 0
        for line in block.lines:
            room_left -= len(line.encode()) + 1
            if room_left < 0:
                break
            shown += 1
        if shown:
            part = "\n".join(filter(None, [block.before, *block.lines[:shown], block.after]))
            parts.append(part)
            room -= len(part.encode()) + 2
        if shown < len(block.lines):
            left_out.append(f"{len(block.lines) - shown:,} of {len(block.lines):,} {block.what}")
    if left_out:
        parts.append(f"Left out, for there is a limit to the size of this text: {', '.join(left_out)}.")
    return parts


def _blocks(check: Check) -> list[Block]:
    """All that may be left out, what matters most first."""
    first = [pair for verdict in _FIRST for pair in story.having(check, verdict)]
    every = [(variant, judged) for variant in check.variants for judged in variant.judged]
    title = f"All {plural(len(every), 'quantity', 'quantities')}"
    return [
        _table("quantities that did not simply pass", _QUANTITIES, first),
        _list("reasons", [_reason(variant, each) for variant in check.variants for each in story.reasons(variant)]),
        _list("suspects", [_suspect(variant, each) for variant in check.variants for each in story.suspects(variant)]),
        _list("warnings", [f"⚠ {escaped(warning)}" for warning in story.warnings(check)]),
        _list(
            "notes",
            [f"{_name(variant)}: {escaped(note)}" for variant in check.variants for note in story.notes(variant)],
        ),
        _table("changed ops", _OPS, _ops(check), "What changed by op"),
        _table("changes of memory", _MEMORY, _memory(check), "What changed in memory at the peak"),
        _table("quantities", _QUANTITIES, every, title),
    ]


def _list(what: str, lines: Sequence[str]) -> Block:
    return Block(what, [f"- {line}" for line in lines])


def _table(what: str, columns: Sequence[Column[Row]], rows: Sequence[Row], folded: str = "") -> Block:
    """A table, with `folded` as the title of a fold that it lies in."""
    titles, rule, *lines = marks.table(
        [escaped(column.title) for column in columns],
        [[_cell(column.cell(row)) for column in columns] for row in rows],
    ).splitlines()
    before = f"{titles}\n{rule}"
    if not folded:
        return Block(what, lines, before)
    return Block(what, lines, f"<details><summary>{escaped(folded)}</summary>\n\n{before}", "\n</details>")


def _cell(item: Cell) -> str:
    return escaped(f"{item.text} ({item.detail})" if item.detail else item.text, _NAME)


def _name(variant: CheckedVariant) -> str:
    return f"**{escaped(variant.name, _NAME)}**"


def _reason(variant: CheckedVariant, reason: story.Reason) -> str:
    return f"{cells.SYMBOLS[reason.verdict]} {_name(variant)}: {escaped(story.line(reason))}"


def _note(variant: CheckedVariant, note: str) -> str:
    return f"{_name(variant)}: {escaped(note)}"


def _suspect(variant: CheckedVariant, suspect: str) -> str:
    return f"→ {_name(variant)}, suspect: {escaped(suspect)}"


def _of(column: Column[Judged]) -> Column[tuple[CheckedVariant, Judged]]:
    return Column(column.title, lambda row: column.cell(row[1]), numeric=column.numeric)


_QUANTITIES: tuple[Column[tuple[CheckedVariant, Judged]], ...] = (
    Column("Variant", lambda row: text(row[0].name), numeric=False),
    *map(_of, cells.COLUMNS),
)


def _reproduce(check: Check) -> list[str]:
    revision = one_line(check.after.revision)
    at = f", at {escaped(revision, _NAME)}" if revision else ""
    return [f"To reproduce{at}:", marks.fenced(middle(one_line(check.command), _COMMAND))] if check.command else []


def _ops(check: Check) -> list[tuple[CheckedVariant, ChangeRow]]:
    """The largest changes of each variant whose traces were compared."""
    return [
        (variant, change)
        for variant in check.variants
        if variant.why and variant.why.time
        for change in variant.why.time.changes[:_CHANGED_OPS]
    ]


def _memory(check: Check) -> list[tuple[CheckedVariant, MemoryChange]]:
    """Of each variant the largest changes by category, and by what made it."""
    return [
        (variant, change)
        for variant in check.variants
        if variant.why
        for change in (*variant.why.memory[:_CHANGED_MEMORY], *variant.why.memory_rows[:_CHANGED_MEMORY])
        if change.before != change.after
    ]


def _of_change(column: Column[ChangeRow]) -> Column[tuple[CheckedVariant, ChangeRow]]:
    return Column(column.title, lambda row: column.cell(row[1]), numeric=column.numeric)


_OPS: tuple[Column[tuple[CheckedVariant, ChangeRow]], ...] = (
    Column("Variant", lambda row: text(row[0].name), numeric=False),
    *(
        _of_change(column)
        for column in trace_columns.CHANGES
        if column.title in ("Op", "Change", "Before", "Now", "Calls before", "Calls now", "Phase", "Module")
    ),
)
_MEMORY: tuple[Column[tuple[CheckedVariant, MemoryChange]], ...] = (
    Column("Variant", lambda row: text(row[0].name), numeric=False),
    Column("Category", lambda row: text(row[1].category), numeric=False),
    Column("Module", lambda row: text(row[1].module), numeric=False),
    Column("Op", lambda row: text(row[1].op), numeric=False),
    Column("Change", lambda row: Cell(_signed_bytes(row[1].after - row[1].before))),
    Column("Before", lambda row: Cell(units.nbytes(row[1].before))),
    Column("After", lambda row: Cell(units.nbytes(row[1].after))),
)


def _signed_bytes(value: int) -> str:
    return f"{'+' if value > 0 else ''}{units.nbytes(value)}"
