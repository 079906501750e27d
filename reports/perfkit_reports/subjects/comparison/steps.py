"""Timed steps and losses of the runs, and step times over an attached loop."""

from perfkit.analysis.model.comparison import Comparison
from perfkit_reports.charts import curves, step_times
from perfkit_reports.charts.curves import StepCurve
from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.palette import assign_styles


def build_section(comparison: Comparison) -> Section | None:
    """Steps of the runs; none without timed steps."""
    look = assign_styles([(side.name, place == 0) for place, side in enumerate(comparison.sides)])
    rows = [step_times.StepTimesRow(side.name, look[side.name], side.step_samples) for side in comparison.sides]
    trained = [
        StepCurve(side.name, look[side.name], (side.losses,), reference=place == 0)
        for place, side in enumerate(comparison.sides)
    ]
    watched = [
        curves.WatchedCurve(side.name, look[side.name], [(point.last_step, point.step_s) for point in side.live])
        for side in comparison.sides
        if side.live
    ]
    charts = (step_times.build_chart(rows), curves.build_step_time_chart(watched), curves.build_loss_chart(trained))
    blocks: list[Block] = [block for block in charts if block is not None]
    return Section("samples", "Steps", tuple(blocks)) if blocks else None
