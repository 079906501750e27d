"""Losses of variants that train differently, over steps and over time."""

from collections.abc import Iterator
from dataclasses import dataclass

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.parity import NOT_COMPARABLE
from perfkit.core import units
from perfkit_reports.charts import curves
from perfkit_reports.charts.curves import StepCurve
from perfkit_reports.document.blocks import Group, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.palette import Style
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles

_HOW = (
    "Time = steps × the variant's step time, excluding start-up and compilation.",
    "Each point is the loss of one batch. Batches differ between steps, so small differences mean nothing.",
)
_MORE = "To train each variant for more steps: --rounds 0 --steps 300."


@dataclass(frozen=True)
class _TrainedVariant:
    """Losses and step time of a variant; step time None if a technique is only emulated."""

    variant: Variant
    style: Style
    step_s: float | None

    @property
    def losses(self) -> tuple[float | None, ...]:
        return self.variant.losses


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """Loss curves; none if losses compare step by step or only one variant has any."""
    look = assign_variant_styles(analysis)
    trained = [
        _TrainedVariant(variant, look[variant.name], None if variant.emulation_reason else variant.step_time.value)
        for variant in analysis.variants
        if variant.losses and isinstance(variant.step_time, MedianEstimate)
    ]
    if len(trained) < 2 or not any(entry.variant.parity.verdict == NOT_COMPARABLE for entry in trained):
        return
    lines = [(_build_curve(entry), entry.step_s) for entry in trained]
    timed = [(line, step_s) for line, step_s in lines if step_s is not None]
    drawn = (
        curves.build_loss_chart([line for line, _ in lines]),
        curves.build_loss_time_chart([line for line, _ in timed], [step_s for _, step_s in timed]),
    )
    charts = Group(id="losses-beside", blocks=tuple(chart for chart in drawn if chart is not None), beside=True)
    yield Section("loss", "Loss over steps and time", (charts, _build_table(trained)), nav="Loss", intro=(*_HOW, _MORE))


def _build_curve(entry: _TrainedVariant) -> StepCurve:
    return StepCurve(entry.variant.name, entry.style, (entry.losses,), reference=entry.variant.is_baseline)


def _build_table(trained: list[_TrainedVariant]) -> Table:
    """Losses at the last common step, and when the first variant has run all its steps."""
    steps = min(len(entry.losses) for entry in trained)
    seconds = min((len(entry.losses) * entry.step_s for entry in trained if entry.step_s is not None), default=0.0)

    def in_time(entry: _TrainedVariant) -> Cell:
        if entry.step_s is None:
            return make_unknown_cell(f"emulated: {entry.variant.emulation_reason}")
        elapsed_s = min(len(entry.losses), int(seconds / entry.step_s * (1 + 1e-9)))  # steps completed by then
        return _make_loss_cell(entry, elapsed_s) if elapsed_s else make_unknown_cell("its first step is slower")

    return Table(
        id="losses-reached",
        title="Losses reached",
        columns=[
            Column("Variant", _make_name_cell, numeric=False),
            Column(f"After {_format_steps(steps)}", lambda entry: _make_loss_cell(entry, steps)),
            Column(f"After {units.format_seconds(seconds)}", in_time),
        ],
        rows=trained,
        what="variant",
        data="losses",
        emphasis=lambda entry: entry.variant.is_baseline,
    )


def _make_name_cell(entry: _TrainedVariant) -> Cell:
    return Cell(entry.variant.name, value=entry.variant.name, swatch=(entry.style.color, entry.style.symbol))


def _make_loss_cell(entry: _TrainedVariant, step: int) -> Cell:
    loss = entry.losses[step - 1]
    return (
        make_unknown_cell("not finite")
        if loss is None
        else Cell(f"{loss:#.4g}", detail=_format_steps(step), value=loss)
    )


def _format_steps(count: int) -> str:
    return f"{count:,} step{'s' if count != 1 else ''}"
