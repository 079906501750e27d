"""Memory of planned variants by category, compared with the limit."""

from collections.abc import Iterator
from dataclasses import replace

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.core import units
from perfkit_reports.charts.memory_bars import MemoryStack, build_memory_figure, is_limit_visible, list_fills
from perfkit_reports.document.blocks import Block, Chart, Section
from perfkit_reports.holders import Holder
from perfkit_reports.palette import Style
from perfkit_reports.subjects.memory.section import build_section as account
from perfkit_reports.subjects.plan import plan_columns
from perfkit_reports.subjects.tables import make_table

_INTRO = "Modeled peak memory of one rank: allocator memory by category, and memory outside torch's allocator."


def build_memory_section(plan: Plan, styles: dict[str, Style]) -> Section:
    """Bars of needed memory, then each variant's peak and step."""
    holders = list_holders(plan, styles)
    if not holders:
        return account(holders, "variant")
    return replace(account(holders, "variant", peaks=tuple(_build_needed(plan))), intro=(_INTRO,))


def list_holders(plan: Plan, styles: dict[str, Style]) -> list[Holder]:
    """Variants with a memory account."""
    return [
        Holder(variant.name, variant.memory, styles[variant.name])
        for variant in plan.variants
        if variant.memory is not None
    ]


def _build_needed(plan: Plan) -> Iterator[Block]:
    known = [variant for variant in plan.variants if variant.needed_bytes is not None]
    yield build_needed_chart([build_stack(variant) for variant in known], plan.limit_bytes)
    rows = [
        (variant, row) for variant in plan.variants for row in (*variant.within_allocator, *variant.outside_allocator)
    ]
    yield from make_table(
        "beyond", "Non-tensor memory", plan_columns.BEYOND, rows, "row", data="beside_tensors", limit=None
    )


def build_stack(variant: PlannedVariant) -> MemoryStack:
    """A bar per variant of known memory."""
    peak, needed = variant.peak_allocated_bytes, variant.needed_bytes
    assert peak is not None
    assert needed is not None
    categories = tuple(peak.categories.items())
    beyond = tuple((row.name, row.bytes.value) for row in variant.outside_allocator)
    return MemoryStack(variant.name, needed.value, categories, beyond, low=needed.low, high=needed.high)


def build_needed_chart(stacks: list[MemoryStack], limit_bytes: int | None) -> Chart:
    """The bars with the limit, which goes into the caption if it is far above them."""
    in_sight = limit_bytes is None or is_limit_visible(stacks, limit_bytes)
    return Chart(
        id="needed",
        figure=build_memory_figure(stacks, "needed per rank", "of the total", limit_bytes),
        label="Memory needed by each variant, by category; totals are in the variants table",
        caption="" if in_sight else f"Memory limit {units.format_bytes(limit_bytes or 0)}, far above these bars.",
        legend=[(name, fill.color, fill.pattern) for name, fill in list_fills(stacks)],
    )
