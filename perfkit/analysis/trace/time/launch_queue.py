"""Launch queues of devices: when work was queued, launch latencies, and calls that block."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import Launches, QueuedIdle
from perfkit.analysis.model.step import AT_MOST
from perfkit.analysis.model.time_split import DATA, IDLE, WAITING_FOR_CPU
from perfkit.analysis.trace.time.host_times import find_backlog
from perfkit.analysis.trace.time.intervals import (
    EMPTY,
    Intervals,
    join_intervals,
    measure_covered,
    merge_intervals,
    subtract_intervals,
)
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.analysis.trace.time.unrecorded_time import find_unrecorded_time
from perfkit.analysis.trace.time.wall_time_split import TimeSplit
from perfkit.devices.device_calls import is_graph_launch
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

# Starting a kernel costs the device and the host some 5 us, so that shorter ones are not worth their launch.
SHORT_S = 5e-6

# Gaps of this many times the clock skew have a cause: it is the wrong one for at most a tenth of them.
_TIMES_SKEW = 10

_SYNCHRONISING = re.compile(
    r"(cuda|hip)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize"
    r"|(cuda|hip)Memcpy(2D|3D)?|hipMemcpyWithStream|cuMemcpy(DtoH|HtoD)(_v2)?"
    r"|ze(CommandQueue|CommandList|Event|Fence)?HostSynchronize|zeCommandQueueSynchronize|ur(QueueFinish|EventWait)"
    r"|(AscendCL@)?aclrt(Synchronize(Device|Stream|Event)(WithTimeout)?|Memcpy)"
)
# Ops that need a result on the CPU. Where runtime calls are recorded, these contain one, and count once.
_SYNCHRONISING_OPS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::_unique2")


def is_synchronizing(name: str) -> bool:
    """True if a runtime call makes the CPU wait for a device."""
    return _SYNCHRONISING.fullmatch(name) is not None


@dataclass(frozen=True)
class LaunchQueue:
    """The queued time of kernels: `start_ns` to `begun_ns` (the kernel's start), one row per kernel.

    `launched` marks kernels with a known launch; the others may have been queued since the previous kernel ended.
    `known` is False, with the reason in `note`, where the trace has no launches. `unrecorded` is the time in which
    devices may have run unrecorded work, so that idleness is unknown. Of gaps shorter than `least_gap_ns` nothing is
    known, since the clocks disagree. `ended_ns` is when each kernel ended.
    """

    known: bool
    note: str
    start_ns: Ints
    begun_ns: Ints
    ended_ns: Ints
    launched: NDArray[np.bool_]
    unrecorded: Intervals
    least_gap_ns: int = 0

    def find_queued_time(self, rows: NDArray[np.int64] | slice) -> Intervals:
        """The time with work queued."""
        return subtract_intervals(self._merge_spans(rows, self.launched[rows]), self._find_short_gaps(rows))

    def find_possibly_queued_time(self, rows: NDArray[np.int64] | slice) -> Intervals:
        """The time with work possibly queued: before kernels without a recorded launch, and in too short gaps."""
        return join_intervals(self._merge_spans(rows, ~self.launched[rows]), self._find_short_gaps(rows))

    def _find_short_gaps(self, rows: NDArray[np.int64] | slice) -> Intervals:
        if not self.least_gap_ns:
            return EMPTY
        gaps = _find_gaps(self.begun_ns[rows], self.ended_ns[rows])
        return gaps[gaps[:, 1] - gaps[:, 0] < self.least_gap_ns]

    def _merge_spans(self, rows: NDArray[np.int64] | slice, chosen: NDArray[np.bool_]) -> Intervals:
        return merge_intervals(self.start_ns[rows][chosen], self.begun_ns[rows][chosen])


def build_launch_queue(ops: Ops) -> LaunchQueue:
    """Build the queue: each kernel waits from the end of its launch call until it begins.

    Kernels that were launched before the recording began waited from its start. What precedes a later kernel without a
    launch is not known to be either: nobody knows when it was queued.
    """
    trace, kernels = ops.trace, ops.kernels
    begun, ended = trace.start_ns[kernels.event], trace.end_ns[kernels.event]
    launched = kernels.launch != NONE
    hidden = find_unrecorded_time(ops)
    if not launched.any():
        return LaunchQueue(False, "no launches recorded", begun, begun, ended, launched, hidden)
    least_gap_ns = find_least_gap_ns(ops)
    gaps = _find_gaps(begun, ended)
    if least_gap_ns > (gaps[:, 1] - gaps[:, 0]).max(initial=0):
        return LaunchQueue(False, "clock skew: all gaps are too short", begun, begun, ended, launched, hidden)
    since = np.where(launched, np.append(trace.end_ns, 0)[kernels.launch], find_idle_starts(ops))
    before = find_backlog(ops)
    since = np.where(before, int(trace.start_ns.min()), since)
    return LaunchQueue(True, "", since, begun, ended, launched | before, hidden, least_gap_ns)


def find_least_gap_ns(ops: Ops) -> int:
    """The shortest gap whose cause can be told in spite of the clocks; 0 where they agree."""
    return _TIMES_SKEW * ops.skew.size_ns if ops.skew is not None and not ops.skew.shifted_ns else 0


def _find_gaps(begun: Ints, ended: Ints) -> Intervals:
    """The gaps between kernels."""
    busy = merge_intervals(begun, ended)
    return np.column_stack((busy[:-1, 1], busy[1:, 0]))


def find_idle_starts(ops: Ops) -> Ints:
    """For each kernel, the end of the last one before it on its device; its own start for the first."""
    events = ops.kernels.event
    start, end = ops.trace.start_ns[events], ops.trace.end_ns[events]
    since = np.empty(len(events), np.int64)
    for rows in ops.devices.rows:
        begun, ended = start[rows], np.maximum.accumulate(end[rows])
        since[rows] = np.minimum(np.append(begun[:1], ended[:-1]), begun)
    return since


def summarize_launches(
    ops: Ops,
    windows: StepWindows,
    waiting: LaunchQueue,
    split: TimeSplit,
    late_s: float | None = None,
    queued: QueuedIdle | None = None,
    device: int = 0,
) -> Launches | None:
    """Summarize the launches onto a device (a row of `ops.devices`) within the windows; None without kernels.

    `late_s` is how long per step the device waited for the next launch of a host that was launching, `queued` what it
    was idle for with work queued.
    """
    trace, kernels = ops.trace, ops.kernels
    begun = trace.start_ns[kernels.event]
    mine = ops.devices.of == device
    within = mine & (windows.find_windows(begun) != NONE)
    if not within.any():
        return None
    parts = len(windows)
    delay, depth = _measure_delays(trace, ops, waiting, within, mine)
    durations = trace.end_ns[kernels.event] - begun
    computing = within & (trace.category[kernels.event] == Category.KERNEL)  # neither copies nor fills
    short = computing & (durations < SHORT_S * 1e9)
    since = find_idle_starts(ops)
    gaps = (begun - since - measure_covered(since, begun, waiting.unrecorded))[short]
    calls, waited = _sum_synchronization(ops, windows)
    return Launches(
        kernels=float(computing.sum()) / parts,
        delay_s=None if delay is None else float(np.median(delay)) / 1e9,
        delay_p90_s=None if delay is None else float(np.percentile(delay, 90)) / 1e9,
        queue_depth=None if depth is None else float(np.median(depth)),
        idle_s=split.sum_categories(DATA, *IDLE) / 1e9 / parts,
        starved_s=split.sum_categories(DATA, WAITING_FOR_CPU) / 1e9 / parts if waiting.known else None,
        sync_calls=calls / parts,
        sync_s=waited / 1e9 / parts,
        short_below_s=SHORT_S,
        short_kernels=float(short.sum()) / parts,
        short_s=float(durations[short].sum()) / 1e9 / parts,
        short_gap_s=float(gaps.sum()) / 1e9 / parts,
        graph_launches=len(find_runtime_calls(trace, windows, is_graph_launch)) / parts,
        note=waiting.note,
        late_s=late_s,
        queued_idle=queued,
        idle_bound=AT_MOST if split.are_bounds else "",
    )


def _measure_delays(
    trace: Trace, ops: Ops, waiting: LaunchQueue, within: NDArray[np.bool_], mine: NDArray[np.bool_]
) -> tuple[Ints, Ints] | tuple[None, None]:
    """The delay from each launch to its kernel's start, and the number of the device's kernels queued then."""
    launched = mine & (ops.kernels.launch != NONE)
    if not waiting.known or not (launched & within).any() or waiting.least_gap_ns:
        return None, None
    begun = trace.start_ns[ops.kernels.event]
    called = trace.start_ns[np.maximum(ops.kernels.launch, 0)]
    chosen = launched & within
    at = begun[chosen]
    ahead = np.searchsorted(np.sort(called[launched]), at, side="right")
    started = np.searchsorted(np.sort(begun[launched]), at, side="right")
    return np.maximum(at - called[chosen], 0), np.maximum(ahead - started, 0)


def find_runtime_calls(trace: Trace, windows: StepWindows, fits: Callable[[str], bool]) -> Ints:
    """Calls of the runtime within the windows whose name fits."""
    events = trace.select_events(Category.LAUNCH)
    events = events[mark_named(trace, events, fits)]
    calls: Ints = events[windows.find_windows(trace.start_ns[events]) != NONE]
    return calls


def _sum_synchronization(ops: Ops, windows: StepWindows) -> tuple[int, int]:
    """The calls that made the CPU wait for the device, and their nanoseconds; nested ones count once.

    An op waits in its call of the runtime, which is as long as the wait: it counts itself only without one.
    """
    trace = ops.trace
    # On CPU tensors these ops do not wait: they count only where they started device work.
    rows = np.flatnonzero(np.bincount(ops.kernel_op[ops.kernel_op != NONE], minlength=1))
    waiting = ops.event[rows[mark_named(trace, ops.event[rows], _SYNCHRONISING_OPS.__contains__)]]
    waiting = waiting[windows.find_windows(trace.start_ns[waiting]) != NONE]
    events = find_runtime_calls(trace, windows, is_synchronizing)
    calls = waited = 0
    for thread in np.union1d(trace.thread[events], trace.thread[waiting]).tolist():
        mine = _select_outermost(trace, events[trace.thread[events] == thread])
        alone = _select_outermost(trace, waiting[trace.thread[waiting] == thread])
        following = np.searchsorted(trace.start_ns[mine], trace.start_ns[alone])
        alone = alone[np.append(trace.start_ns[mine], np.iinfo(np.int64).max)[following] >= trace.end_ns[alone]]
        calls += len(mine) + len(alone)
        waited += int(sum((trace.end_ns[each] - trace.start_ns[each]).sum() for each in (mine, alone)))
    return calls, waited


def _select_outermost(trace: Trace, events: Ints) -> Ints:
    """The events, of one thread in the order of time, that lie in no other of them."""
    until = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(trace.end_ns[events])[:-1])
    outermost: Ints = events[trace.start_ns[events] >= until[: len(events)]]
    return outermost
