"""The report on a plan: memory and step time of variants before they run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.core import units
from perfkit.core.note import Note
from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown
from perfkit.store.summary import PLAN_FILE, SUMMARY_FILE, ReportSummary, RowFigures, make_unknown_figures
from perfkit_reports import palette
from perfkit_reports.charts.memory_bars import MemoryStack, build_memory_figure, is_limit_visible, list_fills
from perfkit_reports.document.blocks import Block, Chart, Facts, Group, Section, Table, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.subjects import method, recomputation
from perfkit_reports.subjects.memory.memory_tables import build_data as memory_tables
from perfkit_reports.subjects.memory.section import build_section as account
from perfkit_reports.subjects.plan import plan_cells, plan_columns, plan_headline, plan_largest
from perfkit_reports.subjects.plan.plan_data import build_data
from perfkit_reports.subjects.plan.plan_lengths import build_lengths_table
from perfkit_reports.subjects.plan.plan_offers import build_next_steps, build_offers_table
from perfkit_reports.subjects.plan.plan_packing import build_packing_table
from perfkit_reports.subjects.plan.plan_phases import build_phases_table
from perfkit_reports.subjects.plan.plan_scaling import build_scaling_sections
from perfkit_reports.subjects.plan.roofline import build_plan_roofline
from perfkit_reports.subjects.plan.step_time import build_time_bars
from perfkit_reports.subjects.tables import make_list, make_table

# Tables of an account over time, which a step that never ran lacks.
_TIMED = ("memory_timeline", "memory_bands")
_INTRO = "Modeled memory of one rank: non-tensor memory, then the allocator's peak of each variant."


def build_document(plan: Plan) -> Document:
    """Draw the variants in planned order."""
    styles = palette.assign_styles([(variant.name, variant.is_baseline) for variant in plan.variants])
    tables = memory_tables(_list_holders(plan, styles), "variant")
    device = plan.device_name or plan.device
    return Document(
        kind="plan",
        title=f"Plan of {plan.workload.label} for {device}",
        headline=plan_headline.build_headline(plan),
        perfkit=plan.perfkit,
        created_at=plan.created_at,
        eyebrow=("Plan", plan.workload.label, device, plan.created_at[:10]),
        lead=tuple(plan_headline.list_remarks(plan)),
        tiles=tuple(_build_tiles(plan)),
        summary=(
            *_build_picture(plan),
            *build_offers_table(plan),
            *plan_largest.build_largest_table(plan),
            *build_lengths_table(plan),
            *build_packing_table(plan),
            _build_variants(plan, styles),
            *make_list("became", recomputation.describe_searches(plan.recomputations), weight=Weight.BRIEF),
            *_build_not_known(plan),
            *build_phases_table(plan),
            *build_next_steps(plan),
        ),
        sections=(
            _build_memory_section(plan, styles),
            replace(build_plan_roofline(plan, styles), folded=True),
            *recomputation.build_sections(plan.recomputations),
            *build_scaling_sections(plan),
            Section("method", "Method", tuple(_build_method(plan)), folded=True),
        ),
        data=(*build_data(plan), *(table for table in tables if table.name not in _TIMED)),
        raw={PLAN_FILE: plan, SUMMARY_FILE: _summarize_plan(plan)},
        saves=PLAN_FILE,
    )


def _build_tiles(plan: Plan) -> Iterator[Tile]:
    least, best = plan_headline.find_leanest(plan), plan_headline.find_fastest(plan)
    alone = len(plan.variants) == 1  # compared with none
    largest = plan_largest.find_largest(plan)
    if largest is not None:
        size = plan_largest.format_size(largest.parameter, largest.chosen.size)
        yield Tile(f"Largest {plan_largest.NAMES[largest.parameter]}", Cell(size, detail=largest.variant))
    elif least is not None:
        amount = plan_cells.make_needed_cell(least)
        yield Tile("Needed memory" if alone else "Least memory", Cell(amount.text, detail=f"{least.name}, modeled"))
    if best is not None:
        time = plan_cells.make_step_time_cell(best)
        yield Tile(
            "Step time" if alone else "Shortest step",
            Cell(time.text, detail=f"{best.name}, {time.detail or 'modeled'}"),
        )
    if plan.limit_bytes is not None:
        yield Tile("Memory limit", Cell(units.format_bytes(plan.limit_bytes), detail=plan.device_name or plan.device))


def _build_variants(plan: Plan, styles: dict[str, palette.Style]) -> Table:
    return Table(
        id="variants",
        title="Variants",
        columns=plan_columns.build_variant_columns(plan, styles),
        rows=plan.variants,
        what="variant",
        data="variants",
        caption="Modeled for one rank; all ranks are identical.",
        emphasis=lambda variant: variant.is_baseline and len(plan.variants) > 1,
        weight=Weight.BRIEF,
    )


def _build_not_known(plan: Plan) -> Iterator[Block]:
    """Unplanned variants, incomplete figures, assumptions."""
    reasons = [f"{variant.name}: {variant.reason}" for variant in plan.variants if variant.reason]
    yield from make_list("not-planned", reasons, weight=Weight.BRIEF)
    yield from make_list("untried", _group_by_sentence(plan, _describe_scratch), weight=Weight.BRIEF)
    yield from make_list("assumptions", _group_remarks(plan), weight=Weight.BRIEF)


def _describe_scratch(variant: PlannedVariant) -> tuple[str, ...]:
    ops = ", ".join(variant.unmeasured_scratch)
    return (f"the peak excludes scratch memory of {ops}: too large to run in isolation",) if ops else ()


def _group_by_sentence(plan: Plan, describe: Callable[[PlannedVariant], Sequence[str]]) -> Iterator[str]:
    """Distinct sentences, each with its variants."""
    names: dict[str, list[str]] = {}
    for variant in plan.variants:
        for sentence in describe(variant):
            names.setdefault(sentence, []).append(variant.name)
    yield from (f"{', '.join(variants)}: {sentence}" for sentence, variants in names.items())


def _group_remarks(plan: Plan) -> Iterator[Note]:
    """Distinct remarks, each with its variants."""
    names: dict[Note, list[str]] = {}
    for variant in plan.variants:
        for remark in variant.remarks:
            names.setdefault(remark, []).append(variant.name)
    yield from (
        msgspec.structs.replace(remark, text=f"{', '.join(variants)}: {remark}") for remark, variants in names.items()
    )


def _build_method(plan: Plan) -> Iterator[Block]:
    planned = Facts(
        id="planned",
        title="Planned workload",
        items=(
            ("Workload", Cell(plan.workload.label)),
            ("Parameters", Cell(plan.dtype)),
            ("Microbatches per step", Cell(f"{plan.accumulation:,}")),
            ("Command", Cell(plan.command or "n/a")),
            ("perfkit", Cell(plan.perfkit)),
            ("Date", Cell(plan.created_at)),
        ),
    )
    limit = "none" if plan.limit_bytes is None else units.format_bytes(plan.limit_bytes)
    device = Facts(
        id="device",
        title="Target device",
        items=(("Device", Cell(plan.device_name or plan.device)), ("Memory limit", Cell(limit))),
    )
    yield Group(id="what-and-where", blocks=(planned, device), beside=True)
    yield method.build_provenance(tuple(_list_provenance(plan)))


def _list_provenance(plan: Plan) -> Iterator[Provenance]:
    sources = {
        "allocator peak": [variant.memory.source for variant in plan.variants if variant.memory is not None],
        "outside the allocator": [row.source for variant in plan.variants for row in variant.outside_allocator],
        "step time": [variant.step_s.source for variant in plan.variants if variant.step_s is not None],
    }
    for figure, details in sources.items():
        if details:
            yield Provenance(figure=figure, how=QuantityOrigin.MODELED.value, detail="; ".join(dict.fromkeys(details)))


def _build_memory_section(plan: Plan, styles: dict[str, palette.Style]) -> Section:
    """Non-tensor memory, then each variant's peak and step."""
    section = account(_list_holders(plan, styles), "variant", peaks=tuple(_build_beyond(plan)) or None)
    return replace(section, title="Memory in detail", intro=(_INTRO,), folded=True)


def _list_holders(plan: Plan, styles: dict[str, palette.Style]) -> list[Holder]:
    """Variants with a memory account."""
    return [
        Holder(variant.name, variant.memory, styles[variant.name])
        for variant in plan.variants
        if variant.memory is not None
    ]


def _build_picture(plan: Plan) -> Iterator[Block]:
    """Bars of needed memory beside those of the step time, one per variant."""
    known = [variant for variant in plan.variants if variant.needed_bytes is not None]
    bars = [_build_needed_chart([_build_stack(variant) for variant in known], plan.limit_bytes)] if known else []
    if picture := (*bars, *build_time_bars(plan)):
        yield Group(id="picture", blocks=picture, beside=True, weight=Weight.BRIEF)


def _build_beyond(plan: Plan) -> Iterator[Block]:
    """Rows that are equal in several variants are one."""
    rows = plan_columns.group_equal_rows(plan)
    yield from make_table(
        "beyond", "Non-tensor memory", plan_columns.BEYOND, rows, "row", data="beside_tensors", limit=None
    )


def _build_stack(variant: PlannedVariant) -> MemoryStack:
    """A bar per variant of known memory."""
    peak, needed = variant.peak_allocated_bytes, variant.needed_bytes
    assert peak is not None
    assert needed is not None
    categories = tuple(peak.categories.items())
    beyond = tuple((row.name, row.bytes.value) for row in variant.outside_allocator)
    return MemoryStack(variant.name, needed.value, categories, beyond, low=needed.low, high=needed.high)


def _build_needed_chart(stacks: list[MemoryStack], limit_bytes: int | None) -> Chart:
    """The bars with the limit, which goes into the caption if it is far above them."""
    in_sight = limit_bytes is None or is_limit_visible(stacks, limit_bytes)
    return Chart(
        id="needed",
        figure=build_memory_figure(stacks, "needed per rank", "of the total", limit_bytes),
        title="Memory needed per rank",
        label="Memory needed by each variant, by category; totals are in the variants table",
        caption="" if in_sight else f"Memory limit {units.format_bytes(limit_bytes or 0)}, far above these bars.",
        legend=[(name, fill.color, fill.pattern) for name, fill in list_fills(stacks)],
    )


def _summarize_plan(plan: Plan) -> ReportSummary:
    """Figures of the variant with the least needed memory."""
    least = plan_headline.find_leanest(plan)
    return ReportSummary(
        kind="plan",
        name=plan.workload.label,
        created_at=plan.created_at,
        device=plan.device_name or plan.device,
        figures=make_unknown_figures("no variant is known to fit")
        if least is None
        else _build_figures(least, len(plan.variants)),
    )


def _build_figures(least: PlannedVariant, count: int) -> RowFigures:
    needed, step = least.needed_bytes, least.step_s
    absent = Unknown(reason="planned, not run")
    return RowFigures(
        subject=least.name if count > 1 else "",
        step=absent if step is None else _make_modeled(step.total.value, "s", step.source),
        throughput=absent,
        peak=absent if needed is None else _make_modeled(needed.value, "bytes", "needed per rank"),
        mfu=absent,
    )


def _make_modeled(value: float, unit: str, source: str) -> Measurement:
    return Measurement(value=value, unit=unit, how=QuantityOrigin.MODELED, source=source)
