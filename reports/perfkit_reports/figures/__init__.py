"""The interactive figures of the HTML report, one file each, by the name the page asks for them."""

from collections.abc import Callable

from perfkit.analysis.result import Analysis
from perfkit_reports.figures.frame import Figure
from perfkit_reports.figures.memory import accounted, memory_peak, memory_timeline
from perfkit_reports.figures.pareto import pareto
from perfkit_reports.figures.roofline import roofline
from perfkit_reports.figures.steps import losses, step_times, warm_up
from perfkit_reports.figures.time_split import time_split
from perfkit_reports.variants import plane, time_bars

_FIGURES: dict[str, Callable[[Analysis], Figure | None]] = {
    "pareto": pareto,
    "roofline": lambda analysis: roofline(plane(analysis)),
    "time-split": lambda analysis: time_split(time_bars(analysis)),
    "memory-peak": memory_peak,
    "step-times": step_times,
    "warm-up": warm_up,
    "losses": losses,
}


def all_figures(analysis: Analysis) -> dict[str, Figure]:
    """Every figure there is data for; timelines are `memory-timeline-<position of the variant>`."""
    drawn = {name: draw(analysis) for name, draw in _FIGURES.items()}
    for position, variant in enumerate(analysis.variants):
        if variant.memory is not None:
            drawn[f"memory-timeline-{position}"] = memory_timeline(variant.memory)
    return {name: figure for name, figure in drawn.items() if figure is not None}


__all__ = ["accounted", "all_figures"]
