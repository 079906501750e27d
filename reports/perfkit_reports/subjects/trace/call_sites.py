"""The lines of the program that launched an op or a kernel, where a trace recorded Python's stacks."""

from collections import defaultdict
from collections.abc import Mapping

from perfkit.analysis.model.flame import BY_STACK, FRAME, KERNEL, OP, TIME
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.idle.idle_gaps import format_frame
from perfkit.core import units
from perfkit_reports.charts.flame import list_paths
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING
from perfkit_reports.selection import make_key

_PLACES = 3
_FRAMES = 6  # the innermost ones


def find_call_sites(trace: RankTrace) -> Mapping[str, Cell]:
    """The functions that launched most of each name, by its key, and the stack of the first one."""
    spent: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for flame in (graph for graph in trace.flames if graph.grouping == BY_STACK):
        for path, seconds in zip(list_paths(flame), flame.values.get(TIME, ()), strict=True):
            kind, name = path[-1]
            frames = tuple(format_frame(step) for of, step in path if of == FRAME)
            if kind in (OP, KERNEL):
                spent[make_key(kind, name)][frames] += seconds
    return {name: _make_cell(stacks) for name, stacks in spent.items()}


def _make_cell(stacks: Mapping[tuple[str, ...], float]) -> Cell:
    ordered = sorted(stacks, key=lambda frames: -stacks[frames])
    if not ordered or not ordered[0]:
        return Cell(NOTHING)
    places = [f"{frames[-1]} {units.format_seconds(stacks[frames])}" for frames in ordered[:_PLACES] if frames]
    more = f" and {len(ordered) - _PLACES} more" if len(ordered) > _PLACES else ""
    return Cell("; ".join(places) + more, detail=" > ".join(ordered[0][-_FRAMES:]))
