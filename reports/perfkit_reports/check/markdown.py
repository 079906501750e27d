"""A check as Markdown, for a comment on a pull request and a step's summary: within what the host takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfkit.analysis.model.trace import ChangeRow
from perfkit.check.result import Check, CheckedVariant, MemoryChange, Verdict, Why
from perfkit_reports import marks
from perfkit_reports.cells import Cell, plural
from perfkit_reports.check.markdown_text import escaped, link
from perfkit_reports.columns import Column, Row, text
from perfkit_reports.names import middle
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import quantities as cells
from perfkit_reports.subjects.check import story
from perfkit_reports.subjects.check import why as why_rows

# What GitHub takes. A comment is refused at 65,536 characters; counted here as bytes, of which there are no fewer.
COMMENT_BYTES = 65_536
SUMMARY_BYTES = 2**20  # a step's summary that is larger is not shown at all

# Begins every comment: by it the next run finds the comment to write anew, instead of adding one more.
MARK = "<!-- perfkit check -->"

_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.IMPROVED)
_NAME, _COMMAND = 200, 2000  # characters, of which more would hide the rest
_CHANGED = 8  # rows of each variant
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
        _table(
            "categories of memory", _CATEGORIES, _categories(check), "What changed in memory at the peak, by category"
        ),
        _table("changes of memory", _MAKERS, _makers(check), "What changed in memory at the peak, by what made it"),
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


def _suspect(variant: CheckedVariant, suspect: str) -> str:
    return f"→ {_name(variant)}, suspect: {escaped(suspect)}"


def _beside_variant(columns: Sequence[Column[Row]]) -> tuple[Column[tuple[CheckedVariant, Row]], ...]:
    """These columns, of rows that have their variant with them."""
    variant: Column[tuple[CheckedVariant, Row]] = Column("Variant", lambda row: text(row[0].name), numeric=False)
    return (variant, *map(_second, columns))


def _second(column: Column[Row]) -> Column[tuple[CheckedVariant, Row]]:
    return Column(column.title, lambda row: column.cell(row[1]), numeric=column.numeric)


_QUANTITIES = _beside_variant(cells.COLUMNS)
_OPS = _beside_variant([column for column in why_rows.op_columns(()) if column.title != "Shapes"])
_MAKERS = _beside_variant(why_rows.MAKERS)
_CATEGORIES = _beside_variant([column for column in why_rows.MAKERS if column.title not in ("Made by", "Module")])


def _reproduce(check: Check) -> list[str]:
    revision = one_line(check.after.revision)
    at = f", at {escaped(revision, _NAME)}" if revision else ""
    return [f"To reproduce{at}:", marks.fenced(middle(one_line(check.command), _COMMAND))] if check.command else []


def _explained(check: Check) -> Iterator[tuple[CheckedVariant, Why]]:
    return ((variant, variant.why) for variant in check.variants if variant.why)


def _ops(check: Check) -> list[tuple[CheckedVariant, ChangeRow]]:
    """The surest and largest changes of each variant whose traces were compared."""
    return [
        (variant, change)
        for variant, why in _explained(check)
        for change in why_rows.ops(why)[:_CHANGED]
        if change.evidence != "noise"
    ]


def _categories(check: Check) -> list[tuple[CheckedVariant, MemoryChange]]:
    return [(variant, each) for variant, why in _explained(check) for each in why.memory if each.before != each.after]


def _makers(check: Check) -> list[tuple[CheckedVariant, MemoryChange]]:
    return [(variant, each) for variant, why in _explained(check) for each in why.memory_rows[:_CHANGED]]
