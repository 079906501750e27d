"""The work of traces as flame graphs: by layer, module, Python stack and phase."""

from collections.abc import Mapping, Sequence

from perfkit.analysis.model.step import BY_STACK
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.units import format_percent
from perfkit_reports.charts.flame import BY, build_flame, build_tree
from perfkit_reports.document.blocks import FlameTree, Section
from perfkit_reports.subjects.trace.series import list_detailed_traces

_INTRO = (
    "Block width is its total, children included. Click a block to zoom in and see its details. Keyboard: arrows move, "
    "Enter selects, Backspace zooms out."
)
_BACKWARD = "Backward ops appear under the caller of their forward op."
_GONE = "Hatched blocks keep their earlier width: they are gone or too small now."
_SUMMED = "Work on several streams or threads is summed."
_LEFT_OUT = "Blocks below {} of the total are omitted."


def build_flame_section(analysis: TraceAnalysis) -> Section | None:
    """Build the flame graphs of the detailed traces, colored by difference where compared."""
    change = analysis.difference
    return build_section(list_detailed_traces(analysis), {change.after: change.before_trace} if change else {}, "trace")


def build_section(traces: Sequence[RankTrace], before: Mapping[str, RankTrace], what: str) -> Section | None:
    """Build the section; traces are a `what` each; `before` are the comparison traces by label."""
    trees: dict[tuple[str, ...], FlameTree] = {}
    for by, title in BY.items():
        for trace in traces:
            now = {graph.grouping: graph for graph in trace.flames}
            then = {graph.grouping: graph for graph in before[trace.label].flames} if trace.label in before else {}
            if by in now:
                trees[title, trace.label] = build_tree(now[by], then.get(by))
    notes = (
        [_LEFT_OUT.format(format_percent(max(graph.min_share for trace in traces for graph in trace.flames))), _SUMMED]
        if trees
        else []
    )
    notes += [_GONE] if trees and before else []
    notes += [_BACKWARD] if any(title == BY[BY_STACK] for title, _ in trees) else []
    block = build_flame(trees, ("By", what.capitalize()), "flame", " ".join(notes), "of the work in a step")
    return None if block is None else Section("flame", "Flame graph", (block,), intro=(_INTRO,))
