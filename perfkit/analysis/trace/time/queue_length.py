"""The queue length of streams over time: device work launched and not yet finished.

The counter of HolisticTraceAnalysis (`get_queue_length_time_series`, hta/analyzers/trace_counters.py), which a launch
raises when its call begins. There the beginning of a kernel, copy or fill lowers it, here its end, so that running work
counts. A graph's launch adds all of its nodes. Work without a recorded launch is left out.
"""

import numpy as np

from perfkit.analysis.model.launches import QueueSeries, StreamQueue
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.launch_queue import LaunchQueue
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

_PARTS = 240  # of a series: about as many as a chart has room for


def measure_stream_queues(ops: Ops, windows: StepWindows, waiting: LaunchQueue) -> tuple[StreamQueue, ...]:
    """The queue of each stream from the first step's begin to the last one's end; none where launches are not known."""
    if not waiting.known or not len(windows):
        return ()
    trace, kernels = ops.trace, ops.kernels
    streams = group_rows(trace.device[kernels.event], trace.stream[kernels.event])
    order = np.argsort(streams.of, kind="stable")
    rows = []
    for its in np.split(order, np.cumsum(streams.count_by_group())[:-1]):
        launched = its[kernels.launch[its] != NONE]
        if len(launched):
            event = kernels.event[its[0]]
            edges, length = _step_through(*_find_changes(ops, launched), _find_span(windows))
            rows.append(
                StreamQueue(
                    device=int(trace.device[event]),
                    stream=str(trace.stream[event]),
                    launched=len(launched),
                    without_launch=len(its) - len(launched),
                    **_summarize(edges, length),
                )
            )
    return tuple(sorted(rows, key=lambda row: -row.mean))


def _summarize(edges: Ints, length: Ints) -> dict[str, float]:
    """Mean, median, maximum and share without any, all by time."""
    spent = np.diff(edges)
    total = int(spent.sum())
    order = np.argsort(length, kind="stable")
    middle = order[np.searchsorted(np.cumsum(spent[order]), total / 2)]
    return {
        "mean": float((length * spent).sum() / total),
        "median": float(length[middle]),
        "most": float(length.max()),
        "empty_share": float(spent[length == 0].sum() / total),
    }


def build_queue_series(ops: Ops, windows: StepWindows, waiting: LaunchQueue) -> QueueSeries | None:
    """The queue of all streams together, in equal parts of the time of the steps; None where it is not known."""
    if not waiting.known or not len(windows):
        return None
    begin, end = _find_span(windows)
    times, length = _step_through(*_find_changes(ops, np.flatnonzero(ops.kernels.launch != NONE)), (begin, end))
    edges = np.linspace(begin, end, _PARTS + 1)
    area = np.concatenate(([0.0], np.cumsum(length * np.diff(times))))
    mean = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    first = np.searchsorted(times[:-1], edges[:-1], side="right") - 1
    last = np.searchsorted(times[:-1], edges[1:], side="left") - 1  # begins before the part ends
    most = np.maximum(np.maximum.reduceat(length, first), length[last])
    return QueueSeries(
        begin_s=(begin - windows.span[0]) / 1e9,
        interval_s=(end - begin) / 1e9 / _PARTS,
        mean=tuple(np.round(mean, 3).tolist()),
        most=tuple(most.tolist()),
    )


def _find_span(windows: StepWindows) -> tuple[int, int]:
    return int(windows.spans[0, 0]), int(windows.spans[-1, 1])


def _find_changes(ops: Ops, chosen: Ints) -> tuple[Ints, Ints]:
    """When the calls that launched this work began, and when the work ended."""
    trace, kernels = ops.trace, ops.kernels
    return trace.start_ns[kernels.launch[chosen]], trace.end_ns[kernels.event[chosen]]


def _step_through(launched: Ints, ended: Ints, span: tuple[int, int]) -> tuple[Ints, Ints]:
    """The edges of the times of equal length within a span, and these lengths, one fewer."""
    ended = np.maximum(ended, launched)  # clocks of host and device may differ a little
    at = np.concatenate((launched, ended))
    change = np.concatenate((np.ones(len(launched), np.int64), np.full(len(ended), -1, np.int64)))
    order = np.argsort(at, kind="stable")
    at, length = at[order], np.cumsum(change[order])
    inside = (at > span[0]) & (at < span[1])
    before = int(np.searchsorted(at, span[0], side="right"))
    start = length[before - 1] if before else 0
    edges = np.concatenate(([span[0]], at[inside], [span[1]]))
    lasts = np.diff(edges) > 0
    return np.append(edges[:-1][lasts], span[1]), np.concatenate(([start], length[inside]))[lasts]
