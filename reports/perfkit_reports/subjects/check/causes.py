"""Causes of a check's differences: blocks of each variant, and their tables."""

from collections.abc import Iterator, Sequence

from perfkit.check.judge.result import (
    ChangeExplanation,
    CheckedVariant,
    ClaimChange,
    CountChange,
    MemoryChange,
    SetupChange,
)
from perfkit.core import units
from perfkit_reports.cells import (
    make_bytes_cell,
    make_growth_cell,
    make_integer_cell,
    make_seconds_cell,
    make_text_cell,
)
from perfkit_reports.document.blocks import Block, Details
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.notes import map_texts
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import check_sentences
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace.trace_changes import build_change_columns
from perfkit_reports.wording import format_signed_seconds

_NOTHING = "No cause found: differences are within the variation of these traces."


def build_blocks(variants: Sequence[CheckedVariant]) -> tuple[Block, ...]:
    """Causes by variant, unfolded if the variant needs attention."""
    explained = [(number, variant) for number, variant in enumerate(variants) if variant.explanation]
    return tuple(
        Details(
            id=f"why-{number}",
            title=check_sentences.get_name(variant),
            blocks=tuple(_build_variant_blocks(variant, variant.explanation, number)),
            open=len(variants) == 1 or not check_sentences.is_uneventful(variant),
        )
        for number, variant in explained
        if variant.explanation
    )


def _build_variant_blocks(variant: CheckedVariant, why: ChangeExplanation, number: int) -> Iterator[Block]:
    """Causes ordered by certainty: suspects, compilation and techniques, ops, memory, setup."""
    suspects = make_list(f"suspects-{number}", check_sentences.list_suspects(variant))
    yield from suspects or make_list(f"suspects-{number}", [_NOTHING], style="empty")
    yield from make_table(f"compiled-{number}", "torch.compile", COMPILED, why.compiled, "change", data="")
    yield from make_table(f"claims-{number}", "Changed technique checks", CLAIMS, why.claims, "claim", data="")
    if why.time is not None:
        before, after = units.format_seconds(why.time.before_step_s), units.format_seconds(why.time.after_step_s)
        took = f"Traced step time: {before} before, {after} after, with the profiler on."
        ops = why.time.changes
        yield from make_table(f"ops-{number}", "Ops", build_change_columns(ops), ops, "op", caption=took)
    categories = [share for share in why.memory if share.before or share.after]
    categories.sort(key=lambda share: -max(share.before, share.after))
    columns, title = _build_category_columns(categories), "Memory at the peak"
    yield from make_table(f"categories-{number}", title, columns, categories, "category", whats="categories", data="")
    caption, title = "Bytes at the peak by origin.", "Memory changes by origin"
    yield from make_table(f"memory-{number}", title, MAKERS, why.memory_rows, "change", caption=caption)
    if why.setup:
        title = "One-time setup, one process per side"
        costs = make_table(f"setup-costs-{number}", "Setup", SETUP, why.setup, "cost", data="")
        yield Details(id=f"setup-{number}", title=title, blocks=costs, weight=Weight.DETAIL)
    yield from make_list(f"why-notes-{number}", map_texts(flatten_text, why.notes))


def _build_category_columns(rows: Sequence[MemoryChange]) -> list[Column[MemoryChange]]:
    most = max((float(max(row.before, row.after)) for row in rows), default=1.0)
    return [
        Column("Category", lambda row: make_text_cell(flatten_text(row.category)), numeric=False),
        Column("Before", lambda row: make_bytes_cell(row.before), meter=True, most=most),
        Column("After", lambda row: make_bytes_cell(row.after), meter=True, most=most),
        Column("Change", _make_growth_cell),
    ]


def format_signed_bytes(value: float) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{units.format_bytes(abs(value))}"


def _make_growth_cell(row: MemoryChange) -> Cell:
    change = row.after - row.before
    return make_growth_cell(change, format_signed_bytes) if change else Cell(NOTHING, value=0)


MAKERS: tuple[Column[MemoryChange], ...] = (
    Column("Allocated by", lambda row: Cell(flatten_text(row.op) or "unknown", value=row.op), numeric=False, code=True),
    Column("Module", lambda row: make_text_cell(flatten_text(row.module)), numeric=False, wrap=True),
    Column("Category", lambda row: make_text_cell(flatten_text(row.category)), numeric=False),
    Column("Change", _make_growth_cell),
    Column("Before", lambda row: make_bytes_cell(row.before)),
    Column("After", lambda row: make_bytes_cell(row.after)),
)
COMPILED: tuple[Column[CountChange], ...] = (
    Column("What", lambda row: make_text_cell(row.kind), numeric=False),
    Column("Before", lambda row: make_integer_cell(row.before)),
    Column("After", lambda row: make_integer_cell(row.after)),
    Column("Why", lambda row: make_text_cell(flatten_text(row.reason)), numeric=False, wrap=True),
)


def _make_duration_cell(value: float | None) -> Cell:
    return Cell(NOTHING, value=0.0) if value is None else make_seconds_cell(value)


def _make_change_cell(row: SetupChange) -> Cell:
    if row.before_s is None or row.after_s is None:
        return Cell(NOTHING)
    change = row.after_s - row.before_s
    return Cell(format_signed_seconds(change), value=change)


SETUP: tuple[Column[SetupChange], ...] = (
    Column("Setup", lambda row: make_text_cell(flatten_text(row.name)), numeric=False),
    Column("Before", lambda row: _make_duration_cell(row.before_s)),
    Column("After", lambda row: _make_duration_cell(row.after_s)),
    Column("Change", _make_change_cell),
)


def _format_holds(holds: bool | None) -> str:
    return "unknown" if holds is None else "holds" if holds else "fails"


CLAIMS: tuple[Column[ClaimChange], ...] = (
    Column("Technique", lambda row: make_text_cell(flatten_text(row.technique)), numeric=False),
    Column("Check", lambda row: make_text_cell(flatten_text(row.statement)), numeric=False, wrap=True),
    Column("Before", lambda row: make_text_cell(_format_holds(row.before)), numeric=False),
    Column("After", lambda row: make_text_cell(_format_holds(row.after)), numeric=False),
    Column("Evidence", lambda row: make_text_cell(flatten_text(row.evidence)), numeric=False, wrap=True),
)
