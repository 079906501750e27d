"""The time window of each step.

On a CPU a step is its marked range. A device runs behind the host, so that there a step begins when the host begins it
or, where the device is still busy with earlier steps, when their last kernel ends; it lasts until the next step begins,
the last one until its last kernel ends. So steps tile the time from the first to the last. Kernels launched before the
first step that the device ran late lie before it.

Steps without records of the device (`step_coverage`) have no window, and neither are they part of others: the step
after one begins with its own first kernel if that was queued, as its predecessor's end is unknown.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.host_times import find_backlog, find_host_times
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals
from perfkit.analysis.trace.time.outlier_steps import find_outlier_steps
from perfkit.analysis.trace.time.step_coverage import measure_step_coverage
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

# From its launch to its start on an idle device, a kernel takes less.
_QUEUED_NS = 50_000


@dataclass(frozen=True)
class StepWindows:
    """Disjoint spans in the order of time, (n, 2); `number` is that of the step, NONE for a trace without steps.

    A trace without steps is one window from its first event to its last. `row` are the rows of the trace's steps,
    empty without any. `unlike` are the spans of outlier steps, with `unlike_number`: their work is in no window.
    `unrecorded_number` are the steps of whose work on the device too little is recorded.
    """

    spans: Intervals
    number: Ints
    span: tuple[int, int]
    row: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    unlike: Intervals = field(default_factory=lambda: EMPTY)
    unlike_number: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    unrecorded_number: Ints = field(default_factory=lambda: np.empty(0, np.int64))

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
    """The windows of a trace's steps; one in which nothing began is none (the profiler leaves it open at its end)."""
    first, last = find_trace_span(ops.trace)
    row, coverage = np.arange(len(ops.steps)), measure_step_coverage(ops)
    if len(ops):
        row = row[(np.bincount(ops.step[ops.step != NONE], minlength=len(row)) > 0) | coverage.has_launches]
    start, end = ops.steps.start_ns[row], ops.steps.end_ns[row]
    if not len(row):
        whole = np.asarray([[first, last]] if last > first else np.empty((0, 2)), np.int64)
        return StepWindows(whole, np.full(len(whole), NONE, np.int64), (first, last))
    recorded = coverage.is_recorded[row]
    if ops.trace.has_device_events:
        start, end = _shift_to_device(ops, start, end, recorded)
    else:
        start = np.maximum(start, np.append(start[0], np.maximum.accumulate(end)[:-1]))
    unrecorded = ops.steps.number[row[~recorded]]
    keep = (end > start) & recorded
    spans, row = np.column_stack((start, end))[keep], row[keep]
    number = ops.steps.number[row]
    far = find_outlier_steps(spans, ops.trace)
    return StepWindows(spans[~far], number[~far], (first, last), row[~far], spans[far], number[far], unrecorded)


def _shift_to_device(ops: Ops, start: Ints, end: Ints, recorded: NDArray[np.bool_]) -> tuple[Ints, Ints]:
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
    after_gap = np.flatnonzero(recorded[1:] & ~recorded[:-1]) + 1
    for index in after_gap.tolist():
        begins[index] = max(begins[index], _find_queued_start(ops, step == index + 1))
    last = max(int(end[-1]), int(finished[-1]))
    # Kernels whose launch was not recorded belong to the last step if they begin within it.
    last = max(last, int(ended[~known & (begun < last)].max(initial=last)))
    begins = np.minimum(np.maximum.accumulate(begins), last)
    return begins, np.append(begins[1:], last)


def _find_queued_start(ops: Ops, chosen: NDArray[np.bool_]) -> int:
    """The start of the first of some kernels if the device was busy when it was launched, else 0."""
    trace, kernels = ops.trace, ops.kernels
    rows = np.flatnonzero(chosen & (kernels.launch != NONE))
    if not len(rows):
        return 0
    first = rows[int(trace.start_ns[kernels.event[rows]].argmin())]
    start = int(trace.start_ns[kernels.event[first]])
    return start if start - int(trace.end_ns[kernels.launch[first]]) > _QUEUED_NS else 0


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
