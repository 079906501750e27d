"""Roofline of planned steps and ops, by predicted time."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.analysis.model.step import OpRow
from perfkit.core import units
from perfkit_reports.cells import make_optional_cell, make_text_cell
from perfkit_reports.charts.roofline_plane import RooflinePlane, RooflineSeries, select_ceilings
from perfkit_reports.document.blocks import Block, Choice, Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import Style
from perfkit_reports.subjects.plan import plan_cells, plan_headline
from perfkit_reports.subjects.tables import SHORT
from perfkit_reports.subjects.trace.rows import costs
from perfkit_reports.subjects.trace.step import build_roofline_section
from perfkit_reports.wording import format_plural

_INTRO = (
    "FLOPs and compulsory bytes are modeled by formula, op times are predicted. CPU time, communication and "
    "offloading count only in the time of whole steps."
)
_NO_TIME = "No roofline: the step time is unknown"
_NO_OPS = "No roofline: this plan, made by an older perfkit, lacks the ops of its steps."
_ARROW = "the baseline's step to that of a variant"

# Maximum rows over all variants' tables, and minimum rows of each.
_ALL_ROWS = 1_000
_LEAST_ROWS = 10


def build_plan_roofline(plan: Plan, styles: dict[str, Style]) -> Section:
    """The roofline with its figures, or the reason for a missing step time."""
    planned, plane = [variant for variant in plan.variants if variant.ops], build_plane(plan, styles)
    arrow = _ARROW if any(series.origin for series in plane.series) else ""
    section = build_roofline_section(plane, "variant", "" if planned else _explain_missing(plan), arrow)
    return replace(section, blocks=(*section.blocks, *_build_tables(plan, planned)), intro=(_INTRO,) if planned else ())


def build_plane(plan: Plan, styles: dict[str, Style]) -> RooflinePlane:
    """Ops and whole step of every variant, with arrows from the baseline's step on the same number of ranks.

    Baselines and the fastest other variant are shown at first: of those that fit, if any does for sure.
    """
    others = tuple(variant for variant in plan.variants if not variant.is_baseline)
    compared = structs.replace(plan, variants=others)
    best = plan_headline.find_fastest(compared) or plan_headline.find_fastest(
        structs.replace(compared, limit_bytes=None)
    )
    return RooflinePlane(
        tuple(
            RooflineSeries(
                variant.name,
                variant.ops,
                styles[variant.name],
                variant.is_baseline or variant is best,
                _get_origin(variant, plan),
                _get_device(variant, plan),
                select_ceilings(plan.ceilings, _get_threads(variant)),
            )
            for variant in plan.variants
            if variant.ops
        )
    )


def _get_origin(variant: PlannedVariant, plan: Plan) -> str:
    baseline = plan_cells.find_baseline(variant, plan)
    return "" if baseline is None or baseline is variant or not baseline.ops else baseline.name


def _get_device(variant: PlannedVariant, plan: Plan) -> str:
    """Device and threads: ranks that share a CPU have fewer threads each, and other ceilings."""
    threads, name = _get_threads(variant), plan.ceilings.device_name if plan.ceilings else ""
    return name if threads is None else f"{name}, {format_plural(threads, 'thread')}"


def _get_threads(variant: PlannedVariant) -> int | None:
    return None if variant.step_s is None else variant.step_s.threads


def _explain_missing(plan: Plan) -> str:
    if any(variant.step_s is not None for variant in plan.variants):
        return _NO_OPS
    reasons = dict.fromkeys(variant.step_reason for variant in plan.variants if variant.step_reason)
    return f"{_NO_TIME}{': ' if reasons else ''}{'; '.join(reasons)}."


def _build_tables(plan: Plan, planned: list[PlannedVariant]) -> Iterator[Block]:
    """Whole steps, then the ops of each step."""
    if not planned:
        return
    yield Table(
        id="roofline-steps",
        title="Whole steps",
        columns=_STEPS,
        rows=[(variant, variant.ops[0]) for variant in planned],
        what="variant",
        data="ops",
        weight=Weight.NORMAL,
    )
    limit = max(_LEAST_ROWS, min(SHORT, _ALL_ROWS // len(planned)))
    yield Choice(
        id="roofline-ops",
        title="Ops",
        keys=("Variant",),
        options={
            (variant.name,): _build_ops_table(variant, place, limit, plan) for place, variant in enumerate(planned)
        },
        filter="name, dtype, bound",
    )


def _build_ops_table(variant: PlannedVariant, place: int, limit: int, plan: Plan) -> Table:
    return Table(
        id=f"roofline-ops-{place}",
        title=f"Ops of {variant.name}",
        columns=costs.build_cost_columns("ops", plan.ceilings.device_name if plan.ceilings else ""),
        rows=variant.ops[1:],
        what="op",
        data="ops",
        limit=limit,
        sorted="Time",
        caption="Predicted time of all calls in a step.",
    )


def _format_percent(value: float) -> str:
    return units.format_percent(value, 0)


_Row = tuple[PlannedVariant, OpRow]
_STEPS: tuple[Column[_Row], ...] = (
    Column("Variant", lambda row: Cell(row[0].name), numeric=False),
    Column("FLOPs", lambda row: make_optional_cell(row[1].flops, units.format_flops, ""), help="all ops of a step"),
    Column(
        "Bytes",
        lambda row: make_optional_cell(row[1].bytes, units.format_bytes, ""),
        help="compulsory traffic of all ops",
    ),
    Column(
        "FLOP/byte", lambda row: make_optional_cell(row[1].intensity, units.format_significant, "no memory traffic")
    ),
    Column("Step time", lambda row: plan_cells.make_step_time_cell(row[0])),
    Column("FLOP/s", lambda row: make_optional_cell(row[1].flops_per_s, units.format_flop_rate, "no predicted time")),
    Column(
        "Roofline time",
        lambda row: make_optional_cell(row[1].attainable_s, units.format_seconds, "no roofline"),
        help="sum of its ops' times at their rooflines",
    ),
    Column("% of roofline", lambda row: make_optional_cell(row[1].efficiency, _format_percent, "no roofline")),
    Column(
        "Bound",
        lambda row: make_text_cell(row[1].bound),
        numeric=False,
        help="the roof that limits most of that time",
    ),
)
