"""The call paths of launches through the Python frames of the program."""

import numpy as np

from perfkit.analysis.trace.work.work_items import WorkItems
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
