"""Phases and modules as lanes: from the first of a row of ops that share one to the end of the last."""

from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model import timeline as words
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.thread_lanes import format_thread_title, group_by_thread
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

# Rows of the module lane; deeper ones show in the names of the ops below.
MOST_LEVELS = 8


def build_phase_lane(whole: TraceContext, texts: TextTable, begin: int, end: int) -> Iterator[LaneSlices]:
    """The phases of the CPU over time."""
    spans = whole.phases
    here = (spans.end_ns > begin) & (spans.start_ns < end)
    if here.any():
        name = texts.add_texts(spans.phase[here], lambda phase: PHASES[phase])
        yield make_slices(words.PHASES, "phases", spans.start_ns[here], spans.end_ns[here], name=name, kind=name)


def build_module_lanes(ops: Ops, texts: TextTable, rows: Ints) -> Iterator[LaneSlices]:
    """Build a lane per thread of modules, backward passes included, from ops (`rows`, in order of time)."""
    thread = ops.trace.thread[ops.event[rows]]
    of_modules = [mine for mine in group_by_thread(ops, thread) if (ops.module[rows[mine]] != NONE).any()]
    for mine in of_modules:
        name = format_thread_title(ops.trace, int(thread[mine[0]]))
        yield _build_thread_modules(ops, texts, rows[mine], "modules" if len(of_modules) == 1 else f"modules, {name}")


def _build_thread_modules(ops: Ops, texts: TextTable, rows: Ints, title: str) -> LaneSlices:
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    module = ops.module[rows].astype(np.int64)
    prefixes, names = _list_prefixes(ops.modules, np.unique(module[module != NONE]))
    modules = []
    for level in range(prefixes.shape[1]):
        key = np.append(prefixes[:, level], NONE)[module]  # NONE (-1) takes the last
        first = np.flatnonzero(np.diff(key, prepend=NONE - 1))
        until = np.maximum.reduceat(end, first)
        known = key[first] != NONE
        modules.append((start[first][known], until[known], key[first][known], np.full(int(known.sum()), level)))
    begin, until, key, depth = (np.concatenate(columns) for columns in zip(*modules, strict=True))
    path = texts.add_texts(key, names.__getitem__)
    kind = np.full(len(key), texts.number(words.MODULES))
    return make_slices(words.MODULES, title, begin, until, name=path, kind=kind, depth=depth, module=path)


def _list_prefixes(paths: list[str], used: Ints) -> tuple[Ints, list[str]]:
    """For each path, the numbers of its prefixes, level by level (NONE beyond its end), and their names."""
    numbers: dict[str, int] = {}
    table = np.full((len(paths), MOST_LEVELS), NONE, np.int64)
    for path in used.tolist():
        steps = paths[path].split("/")
        for level in range(min(len(steps), MOST_LEVELS)):
            table[path, level] = numbers.setdefault("/".join(steps[: level + 1]), len(numbers))
    deepest = int((table != NONE).any(axis=0).sum())
    return table[:, :deepest], list(numbers)
