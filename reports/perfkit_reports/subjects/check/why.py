"""Why the sides of a check differ: blocks of each variant, and their tables."""

from collections.abc import Iterator, Sequence

from perfkit import units
from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.result import CheckedVariant, ClaimChange, CountChange, MemoryChange, SetupChange, Why
from perfkit_reports.cells import count, text
from perfkit_reports.document.blocks import Block, Details, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import middle
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import story
from perfkit_reports.subjects.trace.parts import table
from perfkit_reports.wording import signed_seconds

# What the evidence of a change of an op is worth, in words.
_EVIDENCE = {
    "new": "it was not called before",
    "gone": "it is not called any more",
    "more calls": "counted exactly",
    "fewer calls": "counted exactly",
    "other inputs": "it is called as often, with other shapes or dtypes",
    "slower": "in every traced step, beyond what other ops vary by",
    "faster": "in every traced step, beyond what other ops vary by",
    "noise": "no more than equal work varies by in these traces",
}


def blocks(variants: Sequence[CheckedVariant]) -> tuple[Block, ...]:
    """What is known of each variant, open for those that need a look."""
    explained = [(number, variant) for number, variant in enumerate(variants) if variant.why]
    return tuple(
        Details(
            id=f"why-{number}",
            title=story.name(variant),
            blocks=tuple(_blocks(variant, variant.why, number)),
            open=len(variants) == 1 or not story.uneventful(variant),
        )
        for number, variant in explained
        if variant.why
    )


def _blocks(variant: CheckedVariant, why: Why, number: int) -> Iterator[Block]:
    """The surest first: what stands out, what torch.compile and techniques did, ops, memory, set-up."""
    suspects = tuple(story.suspects(variant))
    if suspects:
        yield Text(id=f"suspects-{number}", lines=suspects, style="list")
    else:
        nothing = "Nothing stands out: what differs is no more than these traces vary by."
        yield Text(id=f"suspects-{number}", lines=(nothing,), style="empty")
    yield from table(f"compiled-{number}", "torch.compile", COMPILED, why.compiled, "change", data="")
    yield from table(f"claims-{number}", "Claims of techniques that changed", CLAIMS, why.claims, "claim", data="")
    if why.time is not None:
        before, after = units.seconds(why.time.before_step_s), units.seconds(why.time.after_step_s)
        took = f"A step took {before} before and {after} after, under the profiler."
        ops = why.time.changes
        yield from table(f"ops-{number}", "Ops", op_columns(ops), ops, "op", caption=took)
    categories = sorted(
        (each for each in why.memory if each.before or each.after), key=lambda each: -max(each.before, each.after)
    )
    columns, title = _category_columns(categories), "Memory at the peak"
    yield from table(f"categories-{number}", title, columns, categories, "category", whats="categories", data="")
    made, title = "Bytes at the peak by what made them.", "What made the difference"
    yield from table(f"memory-{number}", title, MAKERS, why.memory_rows, "change", caption=made)
    if why.setup:
        title = "Set-up costs, of one process of each side"
        costs = table(f"setup-costs-{number}", "Set-up costs", SETUP, why.setup, "cost", data="")
        yield Details(id=f"setup-{number}", title=title, blocks=costs, weight=Weight.DETAIL)
    if why.notes:
        yield Text(id=f"why-notes-{number}", lines=tuple(map(one_line, why.notes)), style="list")


def op_columns(rows: Sequence[ChangeRow]) -> list[Column[ChangeRow]]:
    """What an op took before and after, bars of both on one scale, and what the change rests on."""
    most = max((value or 0.0 for row in rows for value in (row.before_s, row.after_s)), default=0.0) or 1.0
    step = "per step, median over the traced steps"
    return [
        Column("Op", lambda row: _name(row.name), numeric=False, code=True),
        Column("Evidence", _evidence, numeric=False),
        Column("Change", _grown_s, help="per step"),
        Column("Before", lambda row: _seconds(row.before_s), meter=True, most=most, help=step),
        Column("After", lambda row: _seconds(row.after_s), meter=True, most=most, help=step),
        Column("Calls", _calls, help="per step, before → after"),
        Column("Module", lambda row: _name(row.module), numeric=False, wrap=True),
        Column("Phase", lambda row: text(one_line(row.phase)), numeric=False),
        Column("Shapes", lambda row: _name(row.shapes), numeric=False, wrap=True, weight=Weight.DETAIL),
    ]


def _category_columns(rows: Sequence[MemoryChange]) -> list[Column[MemoryChange]]:
    most = max((float(max(row.before, row.after)) for row in rows), default=1.0)
    return [
        Column("Category", lambda row: text(one_line(row.category)), numeric=False),
        Column("Before", lambda row: _bytes(row.before), meter=True, most=most),
        Column("After", lambda row: _bytes(row.after), meter=True, most=most),
        Column("Change", _grown),
    ]


def signed_bytes(value: int) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{units.nbytes(abs(value))}"


def _name(name: str) -> Cell:
    plain = one_line(name)
    short = middle(plain, 48)
    return Cell(short or NOTHING, value=plain, whole=plain if short != plain else "")


def _bytes(value: int) -> Cell:
    return Cell(units.nbytes(value), value=value)


def _grown_s(row: ChangeRow) -> Cell:
    change = row.change_s
    return Cell(signed_seconds(change), value=change, tone="bad" if change > 0 else "good" if change < 0 else "")


def _seconds(value: float | None) -> Cell:
    return Cell(NOTHING, value=0.0) if value is None else Cell(units.seconds(value), value=value)


def _evidence(row: ChangeRow) -> Cell:
    if not row.evidence:
        return Cell(NOTHING)
    worse = "bad" if row.change_s > 0 else "good"
    tone = "" if row.evidence == "noise" else worse
    return Cell(row.evidence, reason=_EVIDENCE.get(row.evidence, ""), value=row.evidence, tone=tone)


def _calls(row: ChangeRow) -> Cell:
    was, now = row.before_calls or 0.0, row.after_calls or 0.0
    return Cell(count(now) if was == now else f"{count(was)} → {count(now)}", value=now)


def _grown(row: MemoryChange) -> Cell:
    change = row.after - row.before
    tone = "bad" if change > 0 else "good" if change < 0 else ""
    return Cell(signed_bytes(change) if change else NOTHING, value=change, tone=tone)


MAKERS: tuple[Column[MemoryChange], ...] = (
    Column("Made by", lambda row: Cell(one_line(row.op) or "not known", value=row.op), numeric=False, code=True),
    Column("Module", lambda row: text(one_line(row.module)), numeric=False, wrap=True),
    Column("Category", lambda row: text(one_line(row.category)), numeric=False),
    Column("Change", _grown),
    Column("Before", lambda row: _bytes(row.before)),
    Column("After", lambda row: _bytes(row.after)),
)
COMPILED: tuple[Column[CountChange], ...] = (
    Column("What", lambda row: text(row.kind), numeric=False),
    Column("Before", lambda row: Cell(f"{row.before:,}", value=row.before)),
    Column("After", lambda row: Cell(f"{row.after:,}", value=row.after)),
    Column("Why", lambda row: text(one_line(row.what)), numeric=False, wrap=True),
)
SETUP: tuple[Column[SetupChange], ...] = (
    Column("Set-up", lambda row: text(one_line(row.name)), numeric=False),
    Column("Before", lambda row: _seconds(row.before_s)),
    Column("After", lambda row: _seconds(row.after_s)),
    Column(
        "Change",
        lambda row: (
            Cell(NOTHING)
            if row.before_s is None or row.after_s is None
            else Cell(signed_seconds(row.after_s - row.before_s), value=row.after_s - row.before_s)
        ),
    ),
)


def _holds(held: bool | None) -> str:
    return "not decided" if held is None else "holds" if held else "does not hold"


CLAIMS: tuple[Column[ClaimChange], ...] = (
    Column("Technique", lambda row: text(one_line(row.technique)), numeric=False),
    Column("Claim", lambda row: text(one_line(row.statement)), numeric=False, wrap=True),
    Column("Before", lambda row: text(_holds(row.before)), numeric=False),
    Column("After", lambda row: text(_holds(row.after)), numeric=False),
    Column("Evidence", lambda row: text(one_line(row.evidence)), numeric=False, wrap=True),
)
