"""Scaling efficiency over numbers of ranks: measured and, with a stored plan, predicted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.scaling import Efficiency, PlannedPoint, ScalingCurve, ScalingPoint, SuiteScaling
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core import units
from perfkit_reports import palette
from perfkit_reports.cells import format_range, make_integer_cell, make_optional_cell
from perfkit_reports.charts.frame import choose_time_scale
from perfkit_reports.charts.scaling_charts import MEANING, ScalingLine, Span, build_chart
from perfkit_reports.document.blocks import Block, Group, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import Style
from perfkit_reports.subjects.plan.plan_cells import format_time_span
from perfkit_reports.subjects.suite import suite_cells
from perfkit_reports.subjects.tables import make_list

_UNPAIRED = "Runs on different numbers of ranks are not paired; 95 % intervals use the process medians of both."
_PREDICTED = (
    "Hollow points and dotted lines are predicted. The plan gives each rank its own cores or GPU, and models known "
    "links. Bars are the plan's bounds. Efficiencies compare two steps at the same bound: an op's error does not "
    "depend on the number of ranks."
)
_HIGHEST = 1.5  # end of the efficiency axis: a plan's bounds may exceed it


class _ScalingRow(NamedTuple):
    """One point of a curve: measured and planned."""

    curve: ScalingCurve
    ranks: int
    point: ScalingPoint | None
    variant: Variant | None
    planned: PlannedPoint | None


def build_scaling_sections(analysis: Analysis) -> Iterator[Section]:
    """Scaling of a suite over several numbers of ranks; none for a single number."""
    scaling = analysis.scaling
    if scaling is not None:
        intro = (MEANING[scaling.mode], _UNPAIRED)
        yield Section(
            "scaling", "Scaling over ranks", tuple(_build_blocks(analysis, scaling)), nav="Scaling", intro=intro
        )


def _build_blocks(analysis: Analysis, scaling: SuiteScaling) -> Iterator[Block]:
    by_name = {variant.name: variant for variant in analysis.variants}
    styles = palette.assign_styles([(curve.name, curve.is_baseline) for curve in scaling.curves])
    charts = (_build_efficiency_chart(scaling, styles), _build_time_chart(scaling, styles, by_name))
    if drawn := tuple(chart for chart in charts if chart is not None):
        yield Group(id="scaling-charts", blocks=drawn, beside=True)
    for place, note in enumerate(scaling.notes):
        yield from make_list(f"scaling-note-{place}", [note], style="callout", weight=Weight.BRIEF)
    rows = [row for curve in scaling.curves for row in _list_rows(curve, by_name)]
    planned = any(row.planned for row in rows)
    yield Table(
        id="scaling-table",
        title=f"{scaling.mode.capitalize()} scaling",
        columns=_build_columns(scaling, planned=planned),
        rows=[row for row in rows if row.point is not None],
        what="variant",
        data="scaling",
        caption=f"{_PREDICTED} Op efficiencies: {scaling.basis}." if planned else "",
        weight=Weight.BRIEF,
    )
    if onwards := [row for row in rows if row.point is None]:
        yield Table(
            id="scaling-onwards",
            title="Predicted scaling",
            columns=[*_NAMES, *_PLANNED],
            rows=onwards,
            what="variant",
            data="scaling",
            caption="Nothing was measured on this many ranks.",
        )
    yield from make_list("scaling-not-planned", scaling.plan_notes)


def _list_rows(curve: ScalingCurve, by_name: dict[str, Variant]) -> Iterator[_ScalingRow]:
    points = {point.world_size: point for point in curve.points}
    planned = {point.world_size: point for point in curve.planned}
    for ranks in sorted({*points, *planned}):
        point = points.get(ranks)
        yield _ScalingRow(curve, ranks, point, None if point is None else by_name[point.variant], planned.get(ranks))


def _build_efficiency_chart(scaling: SuiteScaling, styles: dict[str, Style]) -> Block | None:
    lines = [line for curve in scaling.curves for line in _build_efficiency_lines(curve, styles[curve.name])]
    most = max((value for line in lines for _, value in line.points), default=1.0)
    return build_chart(
        lines,
        "scaling-efficiency",
        "Efficiency",
        0.01,
        "%",
        lambda value: units.format_percent(value, 0),
        max(_HIGHEST, most),
    )


def _build_efficiency_lines(curve: ScalingCurve, style: Style) -> Iterator[ScalingLine]:
    points: list[tuple[int, float]] = []
    spans: list[Span] = []
    for point in curve.points:
        if not isinstance(point.efficiency, MissingEstimate):
            points.append((point.world_size, 1.0 if point.efficiency is None else point.efficiency.value))
            spans.append(_get_span(point.efficiency))
    yield ScalingLine(curve.name, style, tuple(points), tuple(spans))
    fewest = curve.points[0].world_size
    planned = [point for point in curve.planned if point.efficiency or point.world_size == fewest]
    yield ScalingLine(
        curve.name,
        style,
        tuple((point.world_size, point.efficiency.value if point.efficiency else 1.0) for point in planned),
        tuple((each.low, each.high) if (each := point.efficiency) else None for point in planned),
        predicted=True,
    )


def _build_time_chart(scaling: SuiteScaling, styles: dict[str, Style], by_name: dict[str, Variant]) -> Block | None:
    lines = [line for curve in scaling.curves for line in _build_time_lines(curve, styles[curve.name], by_name)]
    most = max((value for line in lines for _, value in line.points), default=0.0)
    return build_chart(lines, "scaling-time", "Step time", *choose_time_scale(most), units.format_seconds)


def _build_time_lines(curve: ScalingCurve, style: Style, by_name: dict[str, Variant]) -> Iterator[ScalingLine]:
    times = [(point.world_size, by_name[point.variant].step_time) for point in curve.points]
    known = [(ranks, time) for ranks, time in times if isinstance(time, MedianEstimate)]
    yield ScalingLine(
        curve.name,
        style,
        tuple((ranks, time.value) for ranks, time in known),
        tuple(_get_span(time) for _, time in known),
    )
    planned = [(point.world_size, point.step_s) for point in curve.planned]
    yield ScalingLine(
        curve.name,
        style,
        tuple((ranks, step.value) for ranks, step in planned),
        tuple((step.low, step.high) for _, step in planned),
        predicted=True,
    )


def _get_span(figure: Efficiency | MedianEstimate | None) -> Span:
    return None if figure is None or figure.low is None or figure.high is None else (figure.low, figure.high)


def _build_columns(scaling: SuiteScaling, *, planned: bool) -> list[Column[_ScalingRow]]:
    whole_batch = next((point.variant for curve in scaling.curves for point in curve.points if curve.is_baseline), "")
    others = any(not curve.is_baseline for curve in scaling.curves)
    against = Column[_ScalingRow](
        f"Efficiency vs {whole_batch}",
        lambda row: _NOT if row.point is None else _make_efficiency_cell(row.point.baseline_efficiency),
        weight=Weight.BRIEF,
        help="relative to the baseline on the fewest ranks",
    )
    return [
        *_NAMES,
        Column(
            "Step time",
            lambda row: suite_cells.make_step_time_cell(row.variant) if row.variant else _NOT,
            weight=Weight.BRIEF,
        ),
        Column(
            "Efficiency",
            lambda row: _NOT if row.point is None else _make_efficiency_cell(row.point.efficiency),
            weight=Weight.BRIEF,
            help="relative to the same techniques on the fewest ranks",
        ),
        *([against] if others and whole_batch else []),
        Column("Exposed communication", _make_communication_cell, weight=Weight.BRIEF, help="share of the traced step"),
        *(_PLANNED if planned else ()),
    ]


_NOT = make_unknown_cell("not measured on this many ranks")


def _make_efficiency_cell(efficiency: Efficiency | MissingEstimate | None) -> Cell:
    match efficiency:
        case None:
            return Cell("reference")
        case MissingEstimate():
            return make_unknown_cell(efficiency.reason)
        case Efficiency():
            low, high = efficiency.low, efficiency.high
            detail = "" if low is None or high is None else _format_percent_span(low, high)
            return Cell(units.format_percent(efficiency.value, 0), detail=detail, value=efficiency.value)


def _format_percent_span(low: float, high: float) -> str:
    return format_range(units.format_percent(low, 0), units.format_percent(high, 0), " %")


def _make_communication_cell(row: _ScalingRow) -> Cell:
    share = None if row.point is None else row.point.communication_share
    return make_optional_cell(share, units.format_percent, "no traced step")


def _make_planned_step_cell(row: _ScalingRow) -> Cell:
    if row.planned is None:
        return make_unknown_cell("not planned on this many ranks")
    step = row.planned.step_s
    return Cell(units.format_seconds(step.value), detail=format_time_span(step), value=step.value)


def _make_planned_efficiency_cell(row: _ScalingRow) -> Cell:
    if row.planned is None:
        return make_unknown_cell("not planned on this many ranks")
    efficiency: Interval | None = row.planned.efficiency
    if efficiency is None:
        return (
            Cell("reference")
            if row.ranks == row.curve.points[0].world_size
            else make_unknown_cell("the reference was not planned")
        )
    return Cell(
        units.format_percent(efficiency.value, 0),
        detail=_format_percent_span(efficiency.low, efficiency.high),
        value=efficiency.value,
    )


_NAMES: Sequence[Column[_ScalingRow]] = (
    Column("Variant", lambda row: Cell(row.curve.name), numeric=False, weight=Weight.BRIEF),
    Column("Ranks", lambda row: make_integer_cell(row.ranks), weight=Weight.BRIEF),
)
_PLANNED: Sequence[Column[_ScalingRow]] = (
    Column("Predicted step", _make_planned_step_cell, weight=Weight.BRIEF),
    Column("Predicted efficiency", _make_planned_efficiency_cell, weight=Weight.BRIEF),
)
