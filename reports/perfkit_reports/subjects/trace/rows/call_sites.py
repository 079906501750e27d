"""The source lines that launched the work of a trace, from its flame graph by Python stack."""

from collections import defaultdict
from collections.abc import Mapping

from perfkit.analysis.model.step import BY_STACK, FRAME, KERNEL, OP, TIME
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.idle.idle_gaps import format_frame
from perfkit.core import units
from perfkit_reports.charts.flame import list_paths
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING
from perfkit_reports.selection import make_key

_PLACES = 3
_FRAMES = 6  # the innermost ones

CallSites = Mapping[str, Mapping[tuple[str, ...], float]]  # seconds by stack, by the key of an op or a kernel


def find_call_sites(trace: RankTrace) -> CallSites:
    """Seconds of each stack of frames, by the key of the op or kernel that it launched; empty without stacks."""
    spent: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for flame in (graph for graph in trace.flames if graph.grouping == BY_STACK):
        for path, seconds in zip(list_paths(flame), flame.values.get(TIME, ()), strict=True):
            kind, name = path[-1]
            frames = tuple(format_frame(step) for of, step in path if of == FRAME)
            if kind in (OP, KERNEL):
                spent[make_key(kind, name)][frames] += seconds
    return spent


def make_line_cell(sites: CallSites, key: str) -> Cell:
    """The innermost function that launched most of it."""
    stacks = sites.get(key, {})
    best = max(stacks, key=lambda frames: stacks[frames], default=())
    return Cell(best[-1]) if best else Cell(NOTHING)


def make_stacks_cell(sites: CallSites, key: str) -> Cell:
    """The functions that launched most of it with their time, and the stack of the first one."""
    stacks = sites.get(key, {})
    ordered = sorted(stacks, key=lambda frames: -stacks[frames])
    if not ordered or not ordered[0]:
        return Cell(NOTHING)
    places = [f"{frames[-1]} {units.format_seconds(stacks[frames])}" for frames in ordered[:_PLACES] if frames]
    more = f" and {len(ordered) - _PLACES} more" if len(ordered) > _PLACES else ""
    return Cell("; ".join(places) + more, detail=" > ".join(ordered[0][-_FRAMES:]))
