"""Memory by the longest sequence of a step, how often it occurs, and when memory runs out."""

from collections.abc import Iterator

from perfkit.analysis.model.plan import Plan, PlannedLength, PlannedVariant
from perfkit.core import units
from perfkit.plan.variants.length_odds import compute_expected_steps
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_cells

_TONES = {"fits": "good", "may fit": "unsure", "does not fit": "bad"}

_VERBS = {"may fit": "may not fit", "does not fit": "do not fit"}

Row = tuple[PlannedVariant, PlannedLength]


def build_lengths_table(plan: Plan) -> Iterator[Table]:
    """A row per variant and length; none where all sequences have one length."""
    rows = [(variant, length) for variant in plan.variants for length in variant.lengths]
    if rows:
        yield Table(
            id="lengths",
            title="Memory by sequence length",
            columns=_COLUMNS if plan.limit_bytes is not None else [each for each in _COLUMNS if each.title != "Fits"],
            rows=rows,
            what="length",
            data="lengths",
            caption="A step counts by its longest sequence on any rank; needed is that rank's memory.",
            weight=Weight.BRIEF,
        )


def list_expected_failures(plan: Plan) -> Iterator[str]:
    """When each variant whose longer batches exceed the limit runs out of memory, on average."""
    for variant in plan.variants:
        share = variant.exceeding_share
        if share is None or not share.high or len(variant.lengths) < 2:
            continue
        shortest = next(each for each in variant.lengths if each.fit in ("does not fit", "may fit"))
        often = f"{variant.name}: batches of {shortest.tokens:,} tokens {_VERBS[shortest.fit]}"
        soonest, latest = (_format_steps(bound) for bound in (share.high, share.low))
        if soonest == latest:
            yield f"{often}; out of memory once in {soonest} steps."
        elif share.low:
            yield f"{often}; out of memory once in {soonest} to {latest} steps."
        else:
            yield f"{often}; out of memory at most once in {soonest} steps."


def _format_steps(share: float) -> str:
    return units.format_significant(compute_expected_steps(share))


def _make_often_cell(row: Row) -> Cell:
    steps = compute_expected_steps(row[1].step_share)
    return Cell("every step" if steps < 1.005 else f"{units.format_significant(steps)} steps", value=steps)


def _make_needed_cell(row: Row) -> Cell:
    needed = row[1].needed
    if needed is None:
        return make_unknown_cell(row[0].reason or "memory is unknown")
    return Cell(units.format_bytes(needed.value), detail=plan_cells.format_size_span(needed), value=needed.value)


def _make_share_cell(share: float) -> Cell:
    return Cell(units.format_percent(share, 1 if share >= 0.01 else 3), value=share)


_COLUMNS: list[Column[Row]] = [
    Column("Variant", lambda row: Cell(row[0].name), numeric=False, weight=Weight.BRIEF),
    Column("Longest sequence", lambda row: Cell(f"{row[1].tokens:,}", value=row[1].tokens), weight=Weight.BRIEF),
    Column("Batches", lambda row: _make_share_cell(row[1].batch_share), help="of one rank"),
    Column("Steps", lambda row: _make_share_cell(row[1].step_share), weight=Weight.BRIEF),
    Column("Once in", _make_often_cell, weight=Weight.BRIEF),
    Column("Needed", _make_needed_cell, weight=Weight.BRIEF),
    Column(
        "Fits",
        lambda row: Cell(row[1].fit, id=row[1].fit, tone=_TONES.get(row[1].fit, "")),
        numeric=False,
        pill=True,
        weight=Weight.BRIEF,
    ),
]
