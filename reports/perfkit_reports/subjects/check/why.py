"""Why the sides of a check differ: blocks of each variant, and their tables."""

from collections.abc import Iterator, Sequence

from perfkit import units
from perfkit.check.result import ChangeExplanation, CheckedVariant, ClaimChange, CountChange, MemoryChange, SetupChange
from perfkit_reports.cells import grown, seconds, size, text, whole
from perfkit_reports.document.blocks import Block, Details
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import story
from perfkit_reports.subjects.tables import listed, table
from perfkit_reports.subjects.trace.columns import changes
from perfkit_reports.wording import signed_seconds

_NOTHING = "Nothing stands out: what differs is no more than these traces vary by."


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


def _blocks(variant: CheckedVariant, why: ChangeExplanation, number: int) -> Iterator[Block]:
    """The surest first: what stands out, what torch.compile and techniques did, ops, memory, set-up."""
    suspects = listed(f"suspects-{number}", story.suspects(variant))
    yield from suspects or listed(f"suspects-{number}", [_NOTHING], style="empty")
    yield from table(f"compiled-{number}", "torch.compile", COMPILED, why.compiled, "change", data="")
    yield from table(f"claims-{number}", "Claims of techniques that changed", CLAIMS, why.claims, "claim", data="")
    if why.time is not None:
        before, after = units.seconds(why.time.before_step_s), units.seconds(why.time.after_step_s)
        took = f"A step took {before} before and {after} after, under the profiler."
        ops = why.time.changes
        yield from table(f"ops-{number}", "Ops", changes(ops), ops, "op", caption=took)
    categories = [share for share in why.memory if share.before or share.after]
    categories.sort(key=lambda share: -max(share.before, share.after))
    columns, title = _category_columns(categories), "Memory at the peak"
    yield from table(f"categories-{number}", title, columns, categories, "category", whats="categories", data="")
    made, title = "Bytes at the peak by what made them.", "What made the difference"
    yield from table(f"memory-{number}", title, MAKERS, why.memory_rows, "change", caption=made)
    if why.setup:
        title = "Set-up costs, of one process of each side"
        costs = table(f"setup-costs-{number}", "Set-up costs", SETUP, why.setup, "cost", data="")
        yield Details(id=f"setup-{number}", title=title, blocks=costs, weight=Weight.DETAIL)
    yield from listed(f"why-notes-{number}", map(one_line, why.notes))


def _category_columns(rows: Sequence[MemoryChange]) -> list[Column[MemoryChange]]:
    most = max((float(max(row.before, row.after)) for row in rows), default=1.0)
    return [
        Column("Category", lambda row: text(one_line(row.category)), numeric=False),
        Column("Before", lambda row: size(row.before), meter=True, most=most),
        Column("After", lambda row: size(row.after), meter=True, most=most),
        Column("Change", _grown),
    ]


def signed_bytes(value: float) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{units.nbytes(abs(value))}"


def _grown(row: MemoryChange) -> Cell:
    change = row.after - row.before
    return grown(change, signed_bytes) if change else Cell(NOTHING, value=0)


MAKERS: tuple[Column[MemoryChange], ...] = (
    Column("Made by", lambda row: Cell(one_line(row.op) or "not known", value=row.op), numeric=False, code=True),
    Column("Module", lambda row: text(one_line(row.module)), numeric=False, wrap=True),
    Column("Category", lambda row: text(one_line(row.category)), numeric=False),
    Column("Change", _grown),
    Column("Before", lambda row: size(row.before)),
    Column("After", lambda row: size(row.after)),
)
COMPILED: tuple[Column[CountChange], ...] = (
    Column("What", lambda row: text(row.kind), numeric=False),
    Column("Before", lambda row: whole(row.before)),
    Column("After", lambda row: whole(row.after)),
    Column("Why", lambda row: text(one_line(row.what)), numeric=False, wrap=True),
)


def _took(value: float | None) -> Cell:
    return Cell(NOTHING, value=0.0) if value is None else seconds(value)


def _longer(row: SetupChange) -> Cell:
    if row.before_s is None or row.after_s is None:
        return Cell(NOTHING)
    change = row.after_s - row.before_s
    return Cell(signed_seconds(change), value=change)


SETUP: tuple[Column[SetupChange], ...] = (
    Column("Set-up", lambda row: text(one_line(row.name)), numeric=False),
    Column("Before", lambda row: _took(row.before_s)),
    Column("After", lambda row: _took(row.after_s)),
    Column("Change", _longer),
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
