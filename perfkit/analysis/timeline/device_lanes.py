"""Streams of devices as lanes, and collectives."""

from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model import timeline as words
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.collective_messages import build_message
from perfkit.core import units
from perfkit.cost.calls.op_call import OpClass
from perfkit.trace.event_nesting import compute_depths, compute_parents
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.ops import Ops


def build_stream_lanes(whole: TraceContext, texts: TextTable, rows: Ints) -> Iterator[LaneSlices]:
    """A lane for each stream on which any of the kernels (`rows`, in the order of time) ran: those of a device beside
    each other, the busiest first."""
    if not len(rows):
        return
    ops = whole.ops
    trace, kernels = ops.trace, ops.kernels
    event = kernels.event[rows].astype(np.int64)
    start, end = trace.start_ns[event], trace.end_ns[event]
    device = ops.devices.of[rows]
    groups = group_rows(device, trace.stream[event], np.where(trace.stream[event] == NONE, trace.thread[event], NONE))
    owner = ops.kernel_owner[rows].astype(np.int64)
    op_event = np.append(ops.event, NONE)[owner].astype(np.int64)
    name = texts.add_texts(trace.name[event].astype(np.int64), trace.names.__getitem__)
    op = texts.add_texts(
        np.where(op_event == NONE, NONE, trace.name[op_event]).astype(np.int64), trace.names.__getitem__
    )
    module = texts.add_texts(ops.kernel_module[rows].astype(np.int64), ops.modules.__getitem__)
    shapes = texts.add_texts(
        np.where(op_event == NONE, NONE, trace.signature[op_event]).astype(np.int64), whole.format_shapes
    )
    kind = _classify_kernels(whole, texts, rows)
    launch = kernels.launch[rows].astype(np.int64)
    link = np.where(launch == NONE, op_event, launch)
    depth = compute_depths(compute_parents(groups.of, start, end)).astype(np.int64)
    busy = np.bincount(groups.of, end - start)
    for number in np.lexsort((-busy, device[groups.first])).tolist():
        mine = np.flatnonzero(groups.of == number)
        yield make_slices(
            words.STREAM, _format_stream_title(ops, int(event[mine[0]]), int(device[mine[0]])), start[mine], end[mine],
            name=name[mine], kind=kind[mine], depth=depth[mine], op=op[mine], module=module[mine],
            shapes=shapes[mine], event=event[mine], link=link[mine],
            device=ops.devices.number[int(device[mine[0]])],
        )  # fmt: skip


def _format_stream_title(ops: Ops, event: int, device: int) -> str:
    trace = ops.trace
    stream = int(trace.stream[event])
    title = f"stream {stream}" if stream != NONE else " ".join(trace.threads[int(trace.thread[event])])
    return f"{ops.devices.format_device(device)}, {title}" if len(ops.devices) > 1 else title


def _classify_kernels(whole: TraceContext, texts: TextTable, rows: Ints) -> Ints:
    """The class of each kernel; data movement is a copy."""
    ops = whole.ops
    category = ops.trace.category[ops.kernels.event[rows]]
    classes = whole.classes[rows].astype(np.int64)
    moves = (category == Category.COPY) | (category == Category.FILL)
    classes[moves] = list(OpClass).index(OpClass.COPY)
    return texts.add_texts(classes, lambda number: list(OpClass)[number].value)


def build_collectives_lane(whole: TraceContext, texts: TextTable, begin: int, end: int) -> Iterator[LaneSlices]:
    """The times of data exchange between ranks, on all streams and threads."""
    ops, events = whole.ops, whole.collectives
    trace = ops.trace
    events = events[(trace.end_ns[events] > begin) & (trace.start_ns[events] < end)]
    if not len(events):
        return
    start, until = trace.start_ns[events], trace.end_ns[events]
    which = trace.collective[events].astype(np.int64)
    name = texts.add_texts(trace.name[events].astype(np.int64), trace.names.__getitem__)
    shapes = texts.add_texts(which, lambda number: _describe_collective(ops, number))
    kind = np.full(len(events), texts.number(OpClass.COMMUNICATION.value))
    depth = compute_depths(compute_parents(np.zeros(len(events), np.int64), start, until)).astype(np.int64)
    yield make_slices(words.COLLECTIVES, "collectives", start, until, name=name, kind=kind, depth=depth, shapes=shapes)


def _describe_collective(ops: Ops, number: int) -> str:
    """`allreduce, 33.6 MB, bf16, default_pg`."""
    about = ops.trace.collectives[number]
    moved = build_message(about)
    parts = (
        about.name,
        units.format_bytes(moved.bytes) if moved else "",
        about.dtype,
        about.group_description or about.group,
    )
    return ", ".join(filter(None, parts))
