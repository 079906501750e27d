"""The critical path of a step as a lane."""

from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model import timeline as words
from perfkit.analysis.replay.path_spans import KINDS
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import NONE, Ints


def build_path_lane(whole: TraceContext, texts: TextTable, host: Ints, begin: int, end: int) -> Iterator[LaneSlices]:
    """Its pieces within a step; those of one kind on one thread that follow each other are one.

    A piece lies on the kernel that runs, or on what the thread was in (of `host`, events in the order of time).
    """
    ops, path = whole.ops, whole.path
    if path is None:
        return
    here = np.flatnonzero((path.end_ns > begin) & (path.begin_ns < end))
    if not len(here):
        return
    kind, thread, kernel = path.kind[here].astype(np.int64), path.thread[here], path.kernel[here]
    alone = kernel != NONE
    same = (np.diff(kind) == 0) & (np.diff(thread) == 0) & ~alone[1:] & ~alone[:-1]
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    last = np.append(first[1:], len(here)) - 1
    start, until = path.begin_ns[here[first]], path.end_ns[here[last]]
    kind, thread, kernel = kind[first], thread[first], kernel[first]
    runs = path.runs[here[first]]
    # The host between two launches is in many things: where it is in the middle stands for them.
    on_host = np.append(host, NONE)[find_around_times(ops.trace, host, thread.astype(np.int32), (start + until) // 2)]
    event = np.where(runs, np.append(ops.kernels.event, NONE)[kernel], np.where(thread == NONE, NONE, on_host))
    name = texts.add_texts(kind, KINDS.__getitem__)
    op = texts.add_texts(np.append(ops.trace.name, NONE)[event].astype(np.int64), ops.trace.names.__getitem__)
    yield make_slices(words.PATH, "critical path", start, until, name=name, kind=name, op=op, link=event)
