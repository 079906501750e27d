"""CPU threads as lanes: ops, ranges, runtime calls and Python functions, nested by time."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model import timeline as words
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.trace.event_nesting import compute_depths, find_parents, sort_by_group
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

HOST = (Category.OP, Category.RANGE, Category.LAUNCH, Category.PYTHON)

_TITLE = re.compile(r"thread -?\d+ \((.*)\)")  # as Kineto has them
_KINDS = {Category.RANGE: words.RANGE, Category.LAUNCH: words.CALL, Category.PYTHON: words.PYTHON}


def build_thread_lanes(whole: TraceContext, texts: TextTable, events: Ints) -> Iterator[LaneSlices]:
    """Build a lane per thread of `events` (of the CPU, in order of time), threads with step marks first."""
    ops, trace = whole.ops, whole.ops.trace
    if not len(events):
        return
    depth = compute_depths(find_parents(trace, events)).astype(np.int64)
    name = texts.add_texts(trace.name[events].astype(np.int64), trace.names.__getitem__)
    kind = _classify_events(trace, texts, events)
    row = np.searchsorted(ops.event, events)
    are_ops = trace.category[events] == Category.OP
    of_op = np.append(ops.module, NONE)[np.where(are_ops, row, NONE)]
    module = texts.add_texts(of_op.astype(np.int64), ops.modules.__getitem__)
    shapes = texts.add_texts(np.where(are_ops, trace.signature[events], NONE).astype(np.int64), whole.format_shapes)
    thread = trace.thread[events]
    for mine in group_by_thread(ops, thread):
        chosen = events[mine]
        yield make_slices(
            words.THREAD, format_thread_title(trace, int(thread[mine[0]])),
            trace.start_ns[chosen], trace.end_ns[chosen],
            name=name[mine], kind=kind[mine], depth=depth[mine], module=module[mine], shapes=shapes[mine], event=chosen,
        )  # fmt: skip


def format_thread_title(trace: Trace, thread: int) -> str:
    """The thread's number, with its name where that differs from the program's: `pt_autograd_0 2919752`."""
    _, number = trace.threads[thread]
    written = trace.thread_names[thread] if trace.thread_names else ""
    match = _TITLE.fullmatch(written)
    name = match[1] if match else written
    return f"thread {number}" if not name or name.startswith("python") or number in name else f"{name} {number}"


def _classify_events(trace: Trace, texts: TextTable, events: Ints) -> Ints:
    category = trace.category[events]
    result = np.full(len(events), NONE, np.int64)
    for of, word in _KINDS.items():
        result[category == of] = texts.number(word)
    are_ops = category == Category.OP
    result[are_ops] = texts.add_texts(
        trace.name[events[are_ops]].astype(np.int64), lambda name: _classify_op_name(trace.names[name])
    )
    return result


def _classify_op_name(name: str) -> str:
    """The class of an op; "op" without one."""
    kind = classify_op(name)
    return words.OP if kind == OpClass.OTHER else kind.value


def group_by_thread(ops: Ops, thread: NDArray[np.integer]) -> list[Ints]:
    """Rows by their thread: those of the thread that steps run on first, then the most."""
    steps = set(np.unique(ops.steps.thread).tolist())
    order = sort_by_group(thread)
    groups = np.split(order, np.flatnonzero(np.diff(thread[order])) + 1) if len(order) else []
    return sorted(groups, key=lambda mine: (int(thread[mine[0]]) not in steps, -len(mine)))
