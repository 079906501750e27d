"""The report on a plan: memory and step time of variants before they run."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.analysis.model.provenance import Provenance
from perfkit.core import units
from perfkit.core.note import Note
from perfkit.core.record import QuantityOrigin
from perfkit.store.summary import PLAN_FILE, SUMMARY_FILE
from perfkit_reports import palette
from perfkit_reports.document.blocks import Block, Facts, Group, Section, Table, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import method, recomputation
from perfkit_reports.subjects.memory.memory_tables import build_data as memory_tables
from perfkit_reports.subjects.plan import plan_cells, plan_columns, plan_headline
from perfkit_reports.subjects.plan.memory import build_memory_section, list_holders
from perfkit_reports.subjects.plan.plan_data import build_data
from perfkit_reports.subjects.plan.plan_scaling import build_scaling_sections
from perfkit_reports.subjects.plan.plan_summary import summarize_plan
from perfkit_reports.subjects.plan.roofline import build_plan_roofline
from perfkit_reports.subjects.plan.step_time import build_time_sections
from perfkit_reports.subjects.tables import make_list

# Tables of an account over time, which a step that never ran lacks.
_TIMED = ("memory_timeline", "memory_bands")


def build_document(plan: Plan) -> Document:
    """Draw the variants in planned order."""
    styles = palette.assign_styles([(variant.name, variant.is_baseline) for variant in plan.variants])
    tables = memory_tables(list_holders(plan, styles), "variant")
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
            _build_variants(plan, styles),
            *make_list("became", recomputation.describe_searches(plan.recomputations), weight=Weight.BRIEF),
            *_build_not_known(plan),
        ),
        sections=(
            build_memory_section(plan, styles),
            *build_time_sections(plan),
            build_plan_roofline(plan, styles),
            *recomputation.build_sections(plan.recomputations),
            *build_scaling_sections(plan),
            Section("method", "Method", tuple(_build_method(plan))),
        ),
        data=(*build_data(plan), *(table for table in tables if table.name not in _TIMED)),
        raw={PLAN_FILE: plan, SUMMARY_FILE: summarize_plan(plan)},
        saves=PLAN_FILE,
    )


def _build_tiles(plan: Plan) -> Iterator[Tile]:
    least, best = plan_headline.find_leanest(plan), plan_headline.find_fastest(plan)
    if least is not None:
        amount = plan_cells.make_needed_cell(least)
        yield Tile("Least memory", Cell(amount.text, detail=f"{least.name}, modeled"))
    if best is not None:
        time = plan_cells.make_step_time_cell(best)
        yield Tile("Shortest step", Cell(time.text, detail=f"{best.name}, {time.detail or 'modeled'}"))
    if plan.limit_bytes is not None:
        yield Tile("Memory limit", Cell(units.format_bytes(plan.limit_bytes), detail=plan.device_name or plan.device))
    yield Tile("Variants", Cell(f"{len(plan.variants):,}", detail="nothing was trained"))


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
    yield from (replace(remark, text=f"{', '.join(variants)}: {remark}") for remark, variants in names.items())


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
