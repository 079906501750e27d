"""The time window of each step.

On a CPU a step is its marked range. A device runs behind the host, so that there a step begins when the host begins it
or, where the device is still busy with earlier steps, when their last kernel ends; it lasts until the next step begins,
the last one until its last kernel ends. So steps tile the time from the first to the last. Kernels launched before the
first step that the device ran late lie before it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.intervals import EMPTY, Intervals
from perfkit.analysis.trace.time.outlier_steps import find_outlier_steps
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops


@dataclass(frozen=True)
class StepWindows:
    """Disjoint spans in the order of time, (n, 2); `number` is that of the step, NONE for a trace without steps.

    A trace without steps is one window from its first event to its last. `unlike` are the spans of outlier steps, with
    `unlike_number`: their work is in no window.
    """

    spans: Intervals
    number: Ints
    span: tuple[int, int]
    unlike: Intervals = field(default_factory=lambda: EMPTY)
    unlike_number: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def are_steps(self) -> bool:
        return bool(len(self.number)) and int(self.number[0]) != NONE

    def __len__(self) -> int:
        return len(self.number)

    def find_windows(self, times: Ints) -> Ints:
        """For each time, the index of its window, NONE outside of all. The end of the last one belongs to it."""
        if not len(self):
            return np.full(len(times), NONE, np.int64)
        starts, ends = self.spans[:, 0], self.spans[:, 1]
        index = np.searchsorted(starts, times, side="right") - 1
        within = (index >= 0) & ((times < ends[index]) | (times == ends[-1]))
        return np.where(within, index, NONE)


def find_step_windows(ops: Ops) -> StepWindows:
    """The windows of a trace's steps, without steps in which no op began (the profiler leaves one open at its end)."""
    first, last = find_trace_span(ops.trace)
    start, end, number = ops.steps.start_ns, ops.steps.end_ns, ops.steps.number
    if len(ops):
        used = np.bincount(ops.step[ops.step != NONE], minlength=len(number)) > 0
        start, end, number = start[used], end[used], number[used]
    if not len(number):
        whole = np.asarray([[first, last]] if last > first else np.empty((0, 2)), np.int64)
        return StepWindows(whole, np.full(len(whole), NONE, np.int64), (first, last))
    if ops.trace.has_device_events:
        start, end = _shift_to_device(ops, start, end)
    else:
        start = np.maximum(start, np.append(start[0], np.maximum.accumulate(end)[:-1]))
    keep = end > start
    spans, number = np.column_stack((start, end))[keep], number[keep]
    far = find_outlier_steps(spans[:, 1] - spans[:, 0])
    return StepWindows(spans[~far], number[~far], (first, last), spans[far], number[far])


def _shift_to_device(ops: Ops, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    trace, kernels = ops.trace, ops.kernels
    begun, ended = trace.start_ns[kernels.event], trace.end_ns[kernels.event]
    launched = find_host_times(ops)
    known = launched != NONE
    backlog = find_backlog(ops)
    step = np.where(backlog, 0, np.searchsorted(start, launched, side="right"))  # 0: before the first step
    within = backlog | (known & (launched < end[-1]))
    finished = np.full(len(start) + 1, np.iinfo(np.int64).min, np.int64)
    np.maximum.at(finished, step[within], ended[within])
    finished = np.maximum.accumulate(finished)
    begins = np.maximum(start, finished[:-1])
    last = max(int(end[-1]), int(finished[-1]))
    # Kernels whose launch was not recorded belong to the last step if they begin within it.
    last = max(last, int(ended[~known & (begun < last)].max(initial=last)))
    begins = np.minimum(np.maximum.accumulate(begins), last)
    return begins, np.append(begins[1:], last)


def find_host_times(ops: Ops) -> Ints:
    """The CPU time of each kernel's launch, else of its op's start. NONE where neither was recorded."""
    kernels, trace = ops.kernels, ops.trace
    by_op = np.append(ops.start_ns, NONE)[ops.kernel_op]
    by_launch = np.append(trace.start_ns, NONE)[kernels.launch]
    return np.where(kernels.launch != NONE, by_launch, by_op)


def find_backlog(ops: Ops) -> NDArray[np.bool_]:
    """Kernels that were launched before the recording began: without a launch, and before all of their device that
    have one.

    None where these would be most of the device's time: then launches were not recorded, which says nothing of when.
    """
    kernels, trace = ops.kernels, ops.trace
    begun = trace.start_ns[kernels.event]
    durations = trace.end_ns[kernels.event] - begun
    known = find_host_times(ops) != NONE
    backlog = np.zeros(len(kernels), np.bool_)
    for rows in ops.devices.rows:
        launched = known[rows]
        early = ~launched & (begun[rows] < begun[rows][launched].min(initial=np.iinfo(np.int64).max))
        if launched.any() and 2 * int(durations[rows][early].sum()) <= int(durations[rows].sum()):
            backlog[rows] = early
    return backlog


def find_trace_span(trace: Trace) -> tuple[int, int]:
    """The span from the first event to the last, over ops, ranges, launches and device work."""
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for events in (
        trace.are(Category.OP, Category.RANGE, Category.LAUNCH, Category.KERNEL, Category.COPY, Category.FILL),
        np.ones(len(trace), np.bool_),
    ):
        if events.any():
            first, last = trace.start_ns.min(where=events, initial=most), trace.end_ns.max(where=events, initial=least)
            return int(first), int(last)
    return 0, 0
