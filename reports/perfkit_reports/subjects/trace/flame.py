"""The work of traces as flame graphs: by layer, module, Python stack and phase."""

from collections.abc import Mapping, Sequence

from perfkit.analysis.model.flame import BY_STACK
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.units import format_percent
from perfkit_reports.charts.flame import BY, build_flame, build_tree
from perfkit_reports.document.blocks import FlameTree, Section
from perfkit_reports.subjects.trace.series import list_detailed_traces

_INTRO = (
    "A block is as wide as what it takes with all beneath it. Click one to zoom in and to see what is known of it. By "
    "the keyboard, arrows move, Enter chooses and Backspace zooms out."
)
_BACKWARD = "Backward ops stand where their forward op was called."
_GONE = "Hatched blocks are as wide as what they took before, and are gone or too small now."
_SUMMED = "Work of several streams or threads is added up."
_LEFT_OUT = "Blocks of less than {} of everything are left out."


def build_flame_section(analysis: TraceAnalysis) -> Section | None:
    """Of the traces in detail; what is compared with another trace is coloured by the difference."""
    change = analysis.difference
    return build_section(list_detailed_traces(analysis), {change.after: change.before_trace} if change else {}, "trace")


def build_section(traces: Sequence[RankTrace], before: Mapping[str, RankTrace], what: str) -> Section | None:
    """Traces are a `what` each; `before` are those that some, by their labels, are compared with."""
    trees: dict[tuple[str, ...], FlameTree] = {}
    for by, title in BY.items():
        for trace in traces:
            of = {found.by: found for found in trace.flames}
            then = {found.by: found for found in before[trace.label].flames} if trace.label in before else {}
            if by in of:
                trees[title, trace.label] = build_tree(of[by], then.get(by))
    told = (
        [_LEFT_OUT.format(format_percent(max(found.least for trace in traces for found in trace.flames))), _SUMMED]
        if trees
        else []
    )
    told += [_GONE] if trees and before else []
    told += [_BACKWARD] if any(title == BY[BY_STACK] for title, _ in trees) else []
    block = build_flame(trees, ("By", what.capitalize()), "flame", " ".join(told), "of the work in a step")
    return None if block is None else Section("flame", "Flame graph", (block,), intro=(_INTRO,))
