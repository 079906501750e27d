"""The interactive figures of the HTML report, one file each, by the name the page asks for them."""

from collections.abc import Callable

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.charts.frame import Figure
from perfkit_reports.charts.roofline import roofline
from perfkit_reports.charts.time_bars import time_split
from perfkit_reports.figures.pareto import pareto
from perfkit_reports.figures.steps import losses, step_times, warm_up
from perfkit_reports.holders import of_variants
from perfkit_reports.memory_section import memory_figures
from perfkit_reports.variants import plane, time_bars

_FIGURES: dict[str, Callable[[Analysis], Figure | None]] = {
    "pareto": pareto,
    "roofline": lambda analysis: roofline(plane(analysis)),
    "time-split": lambda analysis: time_split(time_bars(analysis)),
    "step-times": step_times,
    "warm-up": warm_up,
    "losses": losses,
}


def all_figures(analysis: Analysis) -> dict[str, Figure]:
    """Every figure there is data for."""
    drawn = {name: draw(analysis) for name, draw in _FIGURES.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None} | memory_figures(
        of_variants(analysis)
    )
