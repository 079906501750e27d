"""The interactive figures of a report on traces, by the name the page asks for them."""

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports.charts.frame import Figure
from perfkit_reports.charts.roofline import roofline
from perfkit_reports.charts.time_bars import time_split
from perfkit_reports.figures.changes import changes
from perfkit_reports.figures.ranks import ranks
from perfkit_reports.memory_section import memory_figures
from perfkit_reports.plane import Plane
from perfkit_reports.trace_series import detailed, memory_holders, step_bars, stream_bars, trace_bars


def trace_figures(analysis: TraceAnalysis, plane: Plane) -> dict[str, Figure]:
    """Every figure there is data for; `time-steps-<place>` and `time-streams-<place>` are those in detail."""
    drawn = {
        "roofline": roofline(plane),
        "time-traces": time_split(trace_bars(analysis)),
        "ranks": ranks(analysis.fleet.ranks) if analysis.fleet else None,
        "changes": changes(analysis.difference) if analysis.difference else None,
    }
    for place, trace in enumerate(detailed(analysis)):
        steps = step_bars(trace)
        drawn[f"time-steps-{place}"] = time_split(steps) if len(steps) > 1 else None
        drawn[f"time-streams-{place}"] = time_split(stream_bars(trace), "of the trace")
    return {name: figure for name, figure in drawn.items() if figure is not None} | memory_figures(
        memory_holders(analysis)
    )
