"""Memory, step time and efficiency of the same techniques over numbers of ranks."""

from collections.abc import Callable, Iterator, Sequence

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.analysis.suite.suite_scaling import compute_efficiency as of_steps
from perfkit.core import units
from perfkit.core.spec import Scaling
from perfkit_reports import palette
from perfkit_reports.cells import make_integer_cell, make_share_cell
from perfkit_reports.charts.frame import choose_byte_scale, choose_time_scale
from perfkit_reports.charts.scaling_charts import MEANING, ScalingLine, build_chart
from perfkit_reports.document.blocks import Block, Group, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_cells

Sizes = dict[str, list[PlannedVariant]]  # by techniques, from the fewest ranks on


def build_scaling_sections(plan: Plan) -> Iterator[Section]:
    """Scaling of the plan; none for a single number of ranks."""
    sizes = {name: variants for name, variants in _group_by_techniques(plan).items() if len(variants) > 1}
    if sizes:
        blocks = tuple(_build_blocks(sizes, plan.scaling))
        yield Section("scaling", "Scaling over ranks", blocks, nav="Scaling", intro=(MEANING[plan.scaling],))


def compute_efficiency(mode: Scaling, variant: PlannedVariant, fewest: PlannedVariant) -> float | None:
    """Efficiency relative to the fewest ranks; None if a step is unknown."""
    if variant.step_s is None or fewest.step_s is None:
        return None
    ratio = variant.step_s.total.value / fewest.step_s.total.value
    return of_steps(mode, variant.world_size, fewest.world_size, ratio)


def _group_by_techniques(plan: Plan) -> Sizes:
    groups: Sizes = {}
    for variant in sorted(plan.variants, key=lambda variant: variant.world_size):
        groups.setdefault(variant.name.partition("@")[0], []).append(variant)
    return groups


def _build_blocks(sizes: Sizes, mode: Scaling) -> Iterator[Block]:
    memory = _build_lines(sizes, lambda variant: None if variant.needed_bytes is None else variant.needed_bytes.value)
    times = _build_lines(sizes, lambda variant: None if variant.step_s is None else variant.step_s.total.value)
    drawn = (
        build_chart(
            memory,
            "scaling-memory",
            "Needed per rank",
            *choose_byte_scale(_get_largest_value(memory)),
            units.format_bytes,
        ),
        build_chart(
            times, "scaling-time", "Step time", *choose_time_scale(_get_largest_value(times)), units.format_seconds
        ),
    )
    if charts := tuple(each for each in drawn if each is not None):
        yield Group(id="scaling-charts", blocks=charts, beside=True)
    yield Table(
        id="scaling-table",
        title="",
        columns=_build_columns(mode),
        rows=[(variant, _find_fewest(variants)) for variants in sizes.values() for variant in variants],
        what="variant",
        data="variants",
        weight=Weight.BRIEF,
    )


def _find_fewest(variants: Sequence[PlannedVariant]) -> PlannedVariant:
    """The variant on the fewest ranks with a known time; not all run on one rank."""
    return next((each for each in variants if each.step_s is not None), variants[0])


def _build_lines(sizes: Sizes, value: Callable[[PlannedVariant], float | None]) -> list[ScalingLine]:
    styles = palette.assign_styles([(name, variants[0].is_baseline) for name, variants in sizes.items()])
    return [
        ScalingLine(
            name,
            styles[name],
            tuple((each.world_size, y) for each in variants if (y := value(each)) is not None),
        )
        for name, variants in sizes.items()
    ]


def _get_largest_value(lines: Sequence[ScalingLine]) -> float:
    return max((value for line in lines for _, value in line.points), default=0.0)


def _make_efficiency_cell(mode: Scaling, row: tuple[PlannedVariant, PlannedVariant]) -> Cell:
    efficiency = compute_efficiency(mode, *row)
    return make_unknown_cell("no predicted time") if efficiency is None else make_share_cell(efficiency)


def _make_dominant_cell(variant: PlannedVariant) -> Cell:
    """The largest part of the step."""
    step = variant.step_s
    if step is None or not step.dominant:
        return make_unknown_cell("no predicted time")
    part = step.parts[step.dominant]
    return Cell(step.dominant, detail=f"{units.format_percent(part / sum(step.parts.values()), 0)} of the step")


def _build_columns(mode: Scaling) -> tuple[Column[tuple[PlannedVariant, PlannedVariant]], ...]:
    return (
        Column("Variant", lambda row: Cell(row[0].name), numeric=False, weight=Weight.BRIEF),
        Column("Ranks", lambda row: make_integer_cell(row[0].world_size), weight=Weight.BRIEF),
        Column("Needed per rank", lambda row: plan_cells.make_needed_cell(row[0]), weight=Weight.BRIEF),
        Column("Step time", lambda row: plan_cells.make_step_time_cell(row[0]), weight=Weight.BRIEF),
        Column(
            "Scaling efficiency",
            lambda row: _make_efficiency_cell(mode, row),
            weight=Weight.BRIEF,
            help="relative to the same techniques on the fewest ranks",
        ),
        Column("Largest part", lambda row: _make_dominant_cell(row[0]), numeric=False, weight=Weight.BRIEF),
    )
