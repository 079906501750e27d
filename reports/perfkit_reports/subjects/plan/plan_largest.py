"""The largest batch or sequence that fits: its sentence, its remark, and a row per variant."""

from collections.abc import Iterator

from perfkit.analysis.model.plan import GpuOffer, LargestSize, Plan
from perfkit.core import units
from perfkit_reports.cells import make_integer_cell
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_answer, plan_cells

NAMES = {"batch_size": "batch", "seq_len": "sequence"}
_UNITS = {"batch_size": "sample", "seq_len": "token"}


def find_largest(plan: Plan) -> LargestSize | None:
    """The largest size of all variants, of equal ones the cheapest or fastest; None if none is known to fit."""
    places = {offer.variant: place for place, offer in enumerate(plan.offers)}
    return max(
        (each for each in plan.largest if each.size is not None),
        key=lambda each: (each.size or 0, -places.get(each.chosen.variant, 0)),
        default=None,
    )


def describe_largest(plan: Plan) -> str:
    """`Largest batch: 9 samples on 1 x l40s, amp: fits with 40 to 43 of 48 GiB, 1.45 s a step, 36 % MFU.`"""
    largest = find_largest(plan)
    name = NAMES[plan.largest[0].parameter]
    if largest is None:
        known = [each for each in plan.largest if each.chosen.needed_bytes is not None]
        if not known:
            return f"Largest {name} unknown: {plan.largest[0].chosen.reason}."
        least = min(known, key=lambda each: (each.chosen.size, _get_needed(each)))
        size = format_size(least.parameter, least.chosen.size)
        needed, limit = units.format_bytes(_get_needed(least)), units.format_bytes(least.limit_bytes)
        kept = units.format_percent(least.margin, 0)
        return f"No {name} fits: {least.variant} with {size} needs {needed} of {limit}, {kept} of which stay free."
    size = format_size(largest.parameter, largest.chosen.size)
    offer = _find_offer(plan, largest)
    if offer is None:
        needed, limit = units.format_bytes(_get_needed(largest)), units.format_bytes(largest.limit_bytes)
        return f"Largest {name}: {size} with {largest.variant}, needs {needed} of {limit}."
    where = f"{offer.count} x {offer.device}, {largest.variant}"
    return f"Largest {name}: {size} on {where}: {plan_answer.describe_offer(offer)}."


def list_conditions(plan: Plan) -> Iterator[str]:
    """What was kept free, and where the search ended at the largest size that it tries."""
    for largest in plan.largest[:1]:
        kept = units.format_percent(largest.margin, 0)
        yield f"{kept} of {units.format_bytes(largest.limit_bytes)} stay free; sizes are found to within a sixteenth."
    capped = [each.variant for each in plan.largest if each.size == each.most]
    if capped:
        yield f"{', '.join(capped)}: the largest size tried; --cap raises it."


def build_largest_table(plan: Plan) -> Iterator[Table]:
    """A row per variant; none where no size was searched."""
    if plan.largest:
        yield Table(
            id="largest",
            title=f"Largest {NAMES[plan.largest[0].parameter]}",
            columns=_COLUMNS,
            rows=plan.largest,
            what="variant",
            data="largest",
            weight=Weight.BRIEF,
        )


def format_size(parameter: str, size: int) -> str:
    """`9 samples`, `7,680 tokens`."""
    return f"{size:,} {_UNITS[parameter]}{'' if size == 1 else 's'}"


def _find_offer(plan: Plan, largest: LargestSize) -> GpuOffer | None:
    return next((offer for offer in plan.offers if offer.variant == largest.chosen.variant), None)


def _get_needed(largest: LargestSize) -> float:
    needed = largest.chosen.needed_bytes
    return 0.0 if needed is None else needed.high


def _make_size_cell(largest: LargestSize) -> Cell:
    if largest.size is None:
        last = largest.chosen
        return Cell("none", detail=last.reason or f"{format_size(largest.parameter, last.size)}: too much")
    return Cell(format_size(largest.parameter, largest.size), value=float(largest.size))


def _make_needed_cell(largest: LargestSize) -> Cell:
    needed = largest.chosen.needed_bytes
    if needed is None:
        return make_unknown_cell(largest.chosen.reason)
    detail = f"{plan_cells.format_size_span(needed) or 'exact'} of {units.format_bytes(largest.limit_bytes)}"
    return Cell(units.format_bytes(needed.value), detail=detail, value=needed.value)


_COLUMNS: tuple[Column[LargestSize], ...] = (
    Column("Variant", lambda each: Cell(each.variant), numeric=False, weight=Weight.BRIEF),
    Column("Largest", _make_size_cell, weight=Weight.BRIEF),
    Column("Needed", _make_needed_cell, weight=Weight.BRIEF),
    Column("Sizes planned", lambda each: make_integer_cell(len(each.sizes))),
)
