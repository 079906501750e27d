"""Losses where a variant takes another trajectory: what each comes to in as many steps, and in as much time."""

from collections.abc import Iterator
from dataclasses import dataclass

from perfkit import units
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.parity import NOT_COMPARABLE
from perfkit_reports.charts import curves
from perfkit_reports.charts.curves import StepCurve
from perfkit_reports.document.blocks import Group, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.palette import Style
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles

_HOW = (
    "Time is steps times the variant's step time, without start-up and compilation.",
    "Each point is the loss of one batch. Batches differ between steps, so small differences mean nothing.",
)
_MORE = "To train each variant for more steps: --rounds 0 --steps 300."


@dataclass(frozen=True)
class _TrainedVariant:
    """The losses of a variant, and how long its steps take; None where they only emulate a technique."""

    variant: Variant
    style: Style
    step_s: float | None

    @property
    def losses(self) -> tuple[float | None, ...]:
        return self.variant.losses


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """None where losses can be compared step by step, or only one variant has some."""
    look = assign_variant_styles(analysis)
    trained = [
        _TrainedVariant(variant, look[variant.name], None if variant.emulated else variant.step_time.value)
        for variant in analysis.variants
        if variant.losses and isinstance(variant.step_time, MedianEstimate)
    ]
    if len(trained) < 2 or not any(each.variant.parity.verdict == NOT_COMPARABLE for each in trained):
        return
    lines = [(_build_curve(each), each.step_s) for each in trained]
    timed = [(line, step_s) for line, step_s in lines if step_s is not None]
    drawn = (
        curves.build_loss_chart([line for line, _ in lines]),
        curves.build_loss_time_chart([line for line, _ in timed], [step_s for _, step_s in timed]),
    )
    charts = Group(id="losses-beside", blocks=tuple(chart for chart in drawn if chart is not None), beside=True)
    yield Section("loss", "Loss over steps and time", (charts, _build_table(trained)), nav="Loss", intro=(*_HOW, _MORE))


def _build_curve(each: _TrainedVariant) -> StepCurve:
    return StepCurve(each.variant.name, each.style, (each.losses,), reference=each.variant.is_baseline)


def _build_table(trained: list[_TrainedVariant]) -> Table:
    """At the last step that all have run, and at the moment when the first has run all of its own."""
    steps = min(len(each.losses) for each in trained)
    seconds = min((len(each.losses) * each.step_s for each in trained if each.step_s is not None), default=0.0)

    def in_time(each: _TrainedVariant) -> Cell:
        if each.step_s is None:
            return make_unknown_cell(f"emulated: {each.variant.emulated}")
        by = min(len(each.losses), int(seconds / each.step_s * (1 + 1e-9)))  # steps that have ended by then
        return _make_loss_cell(each, by) if by else make_unknown_cell("its first step is slower")

    return Table(
        id="losses-reached",
        title="Losses reached",
        columns=[
            Column("Variant", _make_name_cell, numeric=False),
            Column(f"After {_format_steps(steps)}", lambda each: _make_loss_cell(each, steps)),
            Column(f"After {units.format_seconds(seconds)}", in_time),
        ],
        rows=trained,
        what="variant",
        data="losses",
        emphasis=lambda each: each.variant.is_baseline,
    )


def _make_name_cell(each: _TrainedVariant) -> Cell:
    return Cell(each.variant.name, value=each.variant.name, swatch=(each.style.colour, each.style.symbol))


def _make_loss_cell(each: _TrainedVariant, step: int) -> Cell:
    loss = each.losses[step - 1]
    return (
        make_unknown_cell("not finite")
        if loss is None
        else Cell(f"{loss:#.4g}", detail=_format_steps(step), value=loss)
    )


def _format_steps(count: int) -> str:
    return f"{count:,} step{'s' if count != 1 else ''}"
