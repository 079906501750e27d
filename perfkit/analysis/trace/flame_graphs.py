"""The work of a trace's steps as trees: modules, Python frames or phases, and in them ops and their kernels."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.step import (
    ABOVE,
    BY_LAYER,
    BY_MODULE,
    BY_PHASE,
    BY_STACK,
    BYTES,
    CRITICAL,
    FLOPS,
    FRAME,
    KERNEL,
    MODULE,
    OP,
    PHASE,
    TIME,
    FlameGraph,
)
from perfkit.analysis.trace.op_tables import OTHER_OPS
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.roofline_groups import NO_OP
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkItems
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import compute_depths, find_around_times, find_parents
from perfkit.trace.memory.source_lines import parse_line
from perfkit.trace.model import NONE, Category, Ints


def find_stack_paths(work: WorkItems) -> tuple[list[tuple[int, ...]], Ints]:
    """Paths (the names of frames, the outermost first, as indices of the trace's names) and that of each piece.

    Only of frames of the program and what it uses, not of torch and of Python's library. Work of backward stands where
    its forward op was called. NONE where no frame is known.
    """
    trace, ops = work.ops.trace, work.ops
    frames = trace.select_events(Category.PYTHON)
    none = np.full(len(work), NONE, np.int64)
    frames = frames[mark_named(trace, frames, lambda name: parse_line(name) is not None)] if len(frames) else frames
    if not len(frames):
        return [], none
    parent = find_parents(trace, frames)
    node, paths = _merge_paths(parent, trace.name[frames].astype(np.int64))
    op = np.append(ops.forward, NONE)[work.owner].astype(np.int64)
    op = np.where(op == NONE, work.owner, op)
    event = np.append(ops.event, NONE)[op].astype(np.int64)
    known = event != NONE
    threads, times = trace.thread[event[known]], trace.start_ns[event[known]]
    own = trace.thread[frames]
    if not np.isin(own, threads).any():  # see `Modules.at`
        threads = np.full(len(times), int(np.bincount(own).argmax()))
    around = find_around_times(trace, frames, threads, times, parent)
    none[known] = np.append(node, NONE)[around]
    return paths, none


def _merge_paths(parent: Ints, name: Ints) -> tuple[Ints, list[tuple[int, ...]]]:
    """The number of each frame's path, and the paths: frames of one name in one path are the same."""
    node = np.full(len(parent), NONE, np.int64)
    depth = compute_depths(parent)
    order = np.argsort(depth, kind="stable")
    paths: list[tuple[int, ...]] = []
    for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(parent[rows] == NONE, NONE, node[parent[rows]])
        pairs, of = np.unique(np.stack([above, name[rows]]), axis=1, return_inverse=True)
        node[rows] = len(paths) + of.reshape(-1)
        paths += [(*(paths[up] if up != NONE else ()), here) for up, here in pairs.T.tolist()]
    return node, paths


Floats = NDArray[np.float64]
Step = tuple[str, str]  # kind and name of a node

# Nodes that are less of every value are too narrow to see; of very many the largest are kept.
LEAST = 1e-3
MOST_NODES = 1200
# Ops and kernels beyond these (numbered names, damaged ones) share a node.
MOST_LEAVES = 20_000

_LEVEL = "/"  # of a module's path
_NO_MODULE: tuple[Step, ...] = ((MODULE, "no module"),)


def build_flame_graphs(engine: WorkAnalysis) -> tuple[FlameGraph, ...]:
    """Build the trees that the trace supports: by phase always, by module and stack where recorded."""
    work = engine.pieces
    within = engine.within
    if not within.any():
        return ()
    values = {name: np.where(within, value, 0.0) / engine.parts for name, value in _collect_values(engine).items()}
    modules = [_split_module_path(path) for path in work.ops.modules]
    paths, of = find_stack_paths(work)
    names = work.ops.trace.names
    frames = [tuple((FRAME, names[name]) for name in path) for path in paths]
    phases = [((PHASE, name),) for name in PHASES]
    outer: list[tuple[str, Sequence[tuple[Step, ...]], Ints]] = []
    if (work.module[within] != NONE).any():
        layers = [_split_module_path(fold_layer_numbers(f"{path}{_LEVEL}")[:-1]) for path in work.ops.modules]
        column = work.module.astype(np.int64)
        if len(set(layers)) < len(set(modules)):
            outer.append((BY_LAYER, [*layers, _NO_MODULE], column))
        outer.append((BY_MODULE, [*modules, _NO_MODULE], column))
    if (of[within] != NONE).any():
        outer.append((BY_STACK, [*frames, ((FRAME, "no frame"),)], of))
    outer.append((BY_PHASE, [*phases, ((PHASE, "no phase"),)], work.phase.astype(np.int64)))
    return tuple(_build_flame_graph(by, engine, known, column, values) for by, known, column in outer)


def _split_module_path(path: str) -> tuple[Step, ...]:
    return tuple((MODULE, name) for name in path.split(_LEVEL))


def _collect_values(engine: WorkAnalysis) -> dict[str, Floats]:
    """The known values of each piece."""
    work, costs = engine.pieces, engine.costs
    placed = engine.placed
    above = np.where(placed.limits.above_roof, 0.0, np.nan_to_num(placed.wasted))
    share = np.divide(above, placed.seconds, out=np.zeros(len(placed)), where=placed.seconds > 0)
    on_path = {} if work.critical is None else {CRITICAL: work.busy_ns * work.critical / 1e9}
    return {
        TIME: work.busy_ns / 1e9,
        **on_path,
        ABOVE: share[placed.groups.of] * work.busy_ns / 1e9,
        FLOPS: np.nan_to_num(costs.flops),
        BYTES: np.nan_to_num(costs.bytes),
    }


def _build_flame_graph(
    by: str, engine: WorkAnalysis, outer: Sequence[tuple[Step, ...]], column: Ints, values: dict[str, Floats]
) -> FlameGraph:
    """`outer` are the nodes around each piece, by the numbers in `column`; those of NONE are the last."""
    work = engine.pieces
    label = np.where((work.owner == NONE) & work.on_device, NONE, work.label)
    within = engine.within
    groups = group_rows(column, label, work.name, within.astype(np.int8))
    longest = np.argsort(-groups.sum_by_group(values[TIME]), kind="stable")
    longest = longest[within[groups.first[longest]]]
    tree = _FlameBuilder()
    leaves = [
        tree.add([*outer[int(column[first])], *_list_inner_steps(engine, int(label[first]), first)])
        for first in groups.first[longest[:MOST_LEAVES]].tolist()
    ]
    if len(longest) > MOST_LEAVES:
        leaves += [tree.add([(OP, OTHER_OPS)])] * (len(longest) - MOST_LEAVES)
    sums = {name: tree.sum_subtrees(leaves, groups.sum_by_group(value)[longest]) for name, value in values.items()}
    return tree.build_flame_graph(by, sums)


def _list_inner_steps(engine: WorkAnalysis, label: int, piece: int) -> Iterator[Step]:
    """The op of a piece, and on a device its kernel."""
    work, names = engine.pieces, engine.pieces.ops.trace.names
    yield OP, NO_OP if label == NONE else names[label]
    if work.on_device and (label == NONE or int(work.name[piece]) != label):
        yield KERNEL, names[int(work.name[piece])]


class _FlameBuilder:
    """Nodes in the order in which they were added, parents first."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.step: list[Step] = []
        self._number: dict[tuple[int, Step], int] = {}

    def add(self, path: Sequence[Step]) -> int:
        """The number of the node at the end of a path from the top."""
        node = NONE
        for step in path:
            number = self._number.setdefault((node, step), len(self.step))
            if number == len(self.step):
                self.parent.append(node)
                self.step.append(step)
            node = number
        return node

    def sum_subtrees(self, leaves: Sequence[int], values: Floats) -> Floats:
        """The sum of each node and its descendants."""
        sums: list[float] = np.bincount(leaves, weights=values, minlength=len(self.step)).tolist()
        for node in range(len(self.step) - 1, -1, -1):
            if self.parent[node] != NONE:
                sums[self.parent[node]] += sums[node]
        return np.asarray(sums, np.float64)

    def build_flame_graph(self, by: str, sums: dict[str, Floats]) -> FlameGraph:
        """The nodes that can be seen, siblings by their time."""
        top = np.asarray(self.parent) == NONE
        shares = [value / whole if (whole := float(value[top].sum())) > 0 else value * 0 for value in sums.values()]
        largest = np.max(shares, axis=0)
        least = max(LEAST, float(np.sort(largest)[-MOST_NODES])) if len(largest) > MOST_NODES else LEAST
        order = [int(node) for node in np.argsort(-sums[TIME], kind="stable") if largest[node] >= least]
        order = self._sort_outer_first(order)
        place = {node: number for number, node in enumerate(order)} | {NONE: NONE}
        names = list(dict.fromkeys(self.step[node][1] for node in order))
        kinds = list(dict.fromkeys(self.step[node][0] for node in order))
        name, kind = ({text: number for number, text in enumerate(texts)} for texts in (names, kinds))
        return FlameGraph(
            grouping=by,
            names=tuple(names),
            kinds=tuple(kinds),
            parent=tuple(place[self.parent[node]] for node in order),
            name=tuple(name[self.step[node][1]] for node in order),
            kind=tuple(kind[self.step[node][0]] for node in order),
            values={measure: tuple(value[order].tolist()) for measure, value in sums.items() if value.any()},
            min_share=least,
        )

    def _sort_outer_first(self, nodes: list[int]) -> list[int]:
        """Sort nodes by depth; the stable sort keeps siblings in order."""
        depth = [0] * len(self.step)
        for node, parent in enumerate(self.parent):
            depth[node] = 0 if parent == NONE else depth[parent] + 1
        return sorted(nodes, key=lambda node: depth[node])
