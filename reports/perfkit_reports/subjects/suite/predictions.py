"""Predictions of a plan compared with measurements of the variants."""

from collections.abc import Callable, Iterator, Sequence

from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.prediction import PredictedFigure, PredictedPart, Prediction
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core import units
from perfkit_reports.cells import format_error
from perfkit_reports.charts.memory_bars import MemoryStack, build_memory_figure, list_fills
from perfkit_reports.document.blocks import Bar, Bars, Block, Chart, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan.plan_cells import format_size_span, format_time_span
from perfkit_reports.subjects.plan.step_time import compute_shares
from perfkit_reports.subjects.tables import make_list

PredictionRow = tuple[Variant, Prediction]

_MEMORY = "Upper bar: predicted peak memory; lower bar: measured."
_TIME = "Upper bar: predicted step time; lower bar: traced step, including profiler overhead."


def build_prediction_sections(analysis: Analysis) -> Iterator[Section]:
    """Predictions of the stored plan; none without a plan."""
    rows = [(variant, variant.prediction) for variant in analysis.variants if variant.prediction is not None]
    if rows:
        yield Section(
            "predicted", "Predicted and measured", tuple(_build_blocks(rows)), nav="Predicted", intro=_build_intro(rows)
        )


def _build_intro(rows: Sequence[PredictionRow]) -> tuple[str, ...]:
    late = [variant.name for variant, prediction in rows if not prediction.planned_before_run]
    dates = ", ".join(dict.fromkeys(prediction.planned_at[:16].replace("T", " ") for _, prediction in rows))
    when = f"after measuring {', '.join(late)}" if late else "before any measurement"
    bases = dict.fromkeys(prediction.basis for _, prediction in rows if prediction.basis)
    return (f"Planned on {dates}, {when}.", *(f"Compared with the plan of {basis}." for basis in bases))


def _build_blocks(rows: Sequence[PredictionRow]) -> Iterator[Block]:
    yield Table(
        id="predictions",
        title="",
        columns=_build_columns(rows),
        rows=rows,
        what="variant",
        data="predictions",
        caption="Errors of peak and step time are relative; category errors are shares of the peak.",
        weight=Weight.BRIEF,
    )
    stacks = [stack for row in rows if row[1].categories for stack in _build_stacks(*row)]
    if stacks:
        yield Chart(
            id="predicted-memory",
            title="Memory by category",
            figure=build_memory_figure(stacks, "allocated at the peak", "of the peak"),
            label="Peak memory by category, predicted and measured; errors are in the table above",
            caption=_MEMORY,
            legend=[(name, fill.color, fill.pattern) for name, fill in list_fills(stacks)],
        )
    bars = tuple(bar for row in rows if row[1].parts for bar in _build_bars(*row))
    if bars:
        yield Bars(
            id="predicted-time",
            title="Time by op class",
            bars=bars,
            label="Step time by op class, predicted and traced",
            caption=_TIME,
            to_scale=True,
        )
    yield from _build_not_predicted(rows)


def _build_columns(rows: Sequence[PredictionRow]) -> list[Column[PredictionRow]]:
    """Columns for quantities predicted for any variant."""
    peak = _build_figure_columns("Peak", lambda prediction: prediction.peak, units.format_bytes, format_size_span)
    process = _build_figure_columns(
        "Process", lambda prediction: prediction.process, units.format_bytes, format_size_span
    )
    step = _build_figure_columns("Step", lambda prediction: prediction.step, units.format_seconds, format_time_span)
    return [
        Column("Variant", lambda row: Cell(row[0].name), numeric=False, weight=Weight.BRIEF),
        *peak,
        Column("Largest category error", lambda row: _make_furthest_cell(row[1]), numeric=False),
        *(process if any(prediction.process for _, prediction in rows) else ()),
        *(step if any(prediction.step for _, prediction in rows) else ()),
    ]


def _build_figure_columns(
    what: str,
    of: Callable[[Prediction], PredictedFigure | None],
    show: Callable[[float], str],
    span: Callable[[Interval], str],
) -> tuple[Column[PredictionRow], ...]:
    """Columns of prediction with bounds, measurement and error."""

    def make_builder(make_cell: Callable[[PredictedFigure], Cell]) -> Callable[[PredictionRow], Cell]:
        def build_cell(row: PredictionRow) -> Cell:
            figure = of(row[1])
            return (
                make_unknown_cell(row[1].reason or "not predicted or not measured")
                if figure is None
                else make_cell(figure)
            )

        return build_cell

    def expected(figure: PredictedFigure) -> Cell:
        return Cell(show(figure.predicted.value), detail=span(figure.predicted), value=figure.predicted.value)

    def measured(figure: PredictedFigure) -> Cell:
        return Cell(show(figure.measured), value=figure.measured)

    return (
        Column(f"{what} predicted", make_builder(expected), weight=Weight.BRIEF),
        Column(f"{what} measured", make_builder(measured), weight=Weight.BRIEF),
        Column(f"{what} error", make_builder(_make_error_cell), weight=Weight.BRIEF),
    )


def _make_error_cell(figure: PredictedFigure) -> Cell:
    """The error, and the measurement's place relative to the bounds, if any."""
    exact = figure.predicted.low == figure.predicted.high
    within = "" if exact else "within the bounds" if figure.within else "outside the bounds"
    return Cell(format_error(figure.error), detail=within, value=figure.error)


def _make_furthest_cell(prediction: Prediction) -> Cell:
    part = prediction.furthest_category
    if part is None:
        return make_unknown_cell(prediction.reason or "memory not recorded")
    named = part.name if abs(part.error) >= 0.0005 else "all equal"
    return Cell(named, detail=f"{format_error(part.error)} of the peak", value=abs(part.error))


def _build_stacks(variant: Variant, prediction: Prediction) -> tuple[MemoryStack, MemoryStack]:
    def stack(which: str, amount: Callable[[PredictedPart], float]) -> MemoryStack:
        parts = tuple((part.name, amount(part)) for part in prediction.categories if amount(part))
        return MemoryStack(f"{variant.name}, {which}", sum(size for _, size in parts), parts)

    return stack("predicted", lambda part: part.predicted), stack("measured", lambda part: part.measured)


def _build_bars(variant: Variant, prediction: Prediction) -> tuple[Bar, Bar]:
    def bar(which: str, seconds: Callable[[PredictedPart], float]) -> Bar:
        return Bar(f"{variant.name}, {which}", compute_shares({part.name: seconds(part) for part in prediction.parts}))

    return bar("predicted", lambda part: part.predicted), bar("traced", lambda part: part.measured)


def _build_not_predicted(rows: Sequence[PredictionRow]) -> Iterator[Block]:
    reasons = [
        f"{variant.name} was not planned: {prediction.reason}" for variant, prediction in rows if prediction.reason
    ]
    reasons += [
        f"{variant.name}: step time not compared, {prediction.step_reason}"
        for variant, prediction in rows
        if prediction.step_reason
    ]
    yield from make_list("not-predicted", reasons)
