"""Blocking calls of the runtime: the kernel that each waited for, and its own cost.

Few traces state which stream or event a call waited for. All show what ended just before the call returned.
"""

import re
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.device_activities import DeviceActivities
from perfkit.analysis.replay.edges import Flags
from perfkit.analysis.replay.recorded_waits import match_host_waits
from perfkit.analysis.trace.idle.host_calls import is_allocation
from perfkit.analysis.trace.time.launch_queue import is_synchronizing
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.ops import Ops

# The longest own time of a blocking call.
_OWN_NS = 10_000
# A call returns within this time after the work that it waited for.
_RETURNS_NS = 20_000

_OF_ALL = re.compile(
    r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize|(cuda|hip)Free\w*|cuMem(Unmap|Free)\w*|.*QueueFinish.*"
)


@dataclass(frozen=True)
class BlockingCalls:
    """Columns, one row a call in the order of time; `waits_for` is a row of `DeviceActivities`, NONE where nothing is
    known.

    `own_ns` is what it takes without waiting, `tail_ns` from the end of what it waits for (from its beginning, where
    `at_begin`) to its return. `row` is the row of the copy that it started, NONE for a call that only waits.
    """

    event: Ints
    thread: Ints
    begin: Ints
    end: Ints
    waits_for: Ints
    own_ns: Ints
    tail_ns: Ints
    at_begin: Flags
    row: Ints

    def __len__(self) -> int:
        return len(self.event)


def find_blocking_calls(ops: Ops, device: DeviceActivities, threads: Ints) -> BlockingCalls:
    """The calls of these threads that blocked, or may when the device is later."""
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[np.isin(trace.thread[calls], threads)]
    started = np.zeros(len(trace), np.bool_)
    started[device.launch[device.launched]] = True
    calls = calls[~started[calls]]
    waiting = calls[mark_named(trace, calls, is_synchronizing)]
    releasing = calls[mark_named(trace, calls, is_allocation)]
    longer = trace.end_ns[releasing] - trace.start_ns[releasing] > _RETURNS_NS
    waiting = np.union1d(waiting, releasing[longer])
    copies = np.flatnonzero(device.launched & device.leads & (device.kind != Category.KERNEL))
    copy_waits, in_begin = _find_blocking_copies(device, copies)
    copies = copies[copy_waits | in_begin]
    in_begin = in_begin[copy_waits | in_begin]
    event = np.concatenate([waiting, device.launch[copies]])
    row = np.concatenate([np.full(len(waiting), NONE, np.int64), copies])
    waits_for = np.concatenate([_find_awaited_work(ops, device, waiting), copies])
    at_begin = np.concatenate([np.zeros(len(waiting), np.bool_), in_begin])
    begin, end = trace.start_ns[event], trace.end_ns[event]
    outer = _find_outermost(trace.thread[event].astype(np.int64), begin, end)
    event, row, waits_for, at_begin = event[outer], row[outer], waits_for[outer], at_begin[outer]
    begin, end = begin[outer], end[outer]
    until = np.where(at_begin, np.append(device.begun, 0)[waits_for], np.append(device.ended, 0)[waits_for])
    known = (waits_for != NONE) & (until <= end)
    # A call that released memory without a known wait is CPU work.
    keep = (end > begin) & (known | (row != NONE) | mark_named(trace, event, is_synchronizing))
    waited = known & (until > begin)
    tails = (end - until)[waited & (end - until <= _RETURNS_NS)]
    usual = int(np.median(tails)) if len(tails) else 0
    tail = np.where(waited, end - until, np.minimum(usual, end - until))
    own = np.where(waited, np.minimum(end - begin, _OWN_NS), end - begin)
    return BlockingCalls(
        event[keep],
        trace.thread[event].astype(np.int64)[keep],
        begin[keep],
        end[keep],
        np.where(known, waits_for, NONE)[keep],
        own[keep],
        tail[keep],
        at_begin[keep],
        row[keep],
    )


def _find_blocking_copies(device: DeviceActivities, rows: Ints) -> tuple[Flags, Flags]:
    """Copies that returned after their work had ended, and long calls that returned after it had begun."""
    begun, ended, returned = device.begun[rows], device.ended[rows], device.returned[rows]
    to_end = ended <= returned
    long = returned - device.called[rows] > _RETURNS_NS
    return to_end, ~to_end & long & (begun >= device.called[rows]) & (begun <= returned)


def _find_awaited_work(ops: Ops, device: DeviceActivities, calls: Ints) -> Ints:
    trace = ops.trace
    begin, end, thread = trace.start_ns[calls], trace.end_ns[calls], trace.thread[calls].astype(np.int64)
    # What was launched before the recording began has no launch in it, and all else without one began after its own.
    launched = device.launched
    backlog = device.begun < device.begun[launched].min(initial=np.iinfo(np.int64).max)
    called = np.where(launched, device.called, np.where(backlog, np.iinfo(np.int64).min, device.begun))
    rows = np.argsort(called, kind="stable")
    result = np.full(len(calls), NONE, np.int64)
    if not len(rows) or not len(calls):
        return result
    of_all = mark_named(trace, calls, lambda name: _OF_ALL.fullmatch(name) is not None)
    # The last end of all work launched before.
    latest = _find_last_maxima(device.ended[rows])
    count = np.searchsorted(called[rows], begin)
    result[of_all] = np.where(count[of_all] > 0, rows[latest[np.maximum(count[of_all] - 1, 0)]], NONE)
    for number in np.unique(thread).tolist():
        its = rows[device.thread[rows] == number]
        mine = np.flatnonzero(~of_all & (thread == number))
        count = np.searchsorted(called[its], begin[mine])
        some = count > 0
        last = its[np.maximum(count - 1, 0)] if len(its) else np.full(len(mine), NONE)
        result[mine] = np.where(some, last, NONE)
    until = np.append(device.ended, np.iinfo(np.int64).min)[result]
    unexplained = (end - begin > _OWN_NS) & ((until > end) | (until < begin) | (end - until > _RETURNS_NS))
    order = device.by_end
    row = np.searchsorted(device.ended[order], end, side="right") - 1
    candidate = np.where(row >= 0, order[np.maximum(row, 0)], NONE)
    ended = np.append(device.ended, 0)[candidate]
    before = np.append(called, 0)[candidate] < begin
    fits = unexplained & (candidate != NONE) & (ended >= begin) & (end - ended <= _RETURNS_NS) & before
    stated = match_host_waits(ops, device, calls)
    holds = (stated != NONE) & (np.append(device.ended, 0)[stated] <= end)
    return np.where(holds, stated, np.where(fits, candidate, result))


def _find_last_maxima(values: Ints) -> Ints:
    """For each position, the last index so far of the running maximum."""
    latest = np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(values == latest, np.arange(len(values)), 0))


def _find_outermost(thread: Ints, begin: Ints, end: Ints) -> Ints:
    """Rows, in order of time, that lie in no other row of their thread."""
    order = np.lexsort((-end, begin))
    keep = []
    for number in np.unique(thread).tolist():
        mine = order[thread[order] == number]
        until = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[mine])[:-1])
        keep.append(mine[begin[mine] >= until])
    rows = np.concatenate(keep) if keep else np.empty(0, np.int64)
    return rows[np.argsort(begin[rows], kind="stable")]
