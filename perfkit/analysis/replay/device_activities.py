"""Kernels, copies and fills of devices as columns, for the rules of the replay."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.replay.edges import Flags
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

# Above this the clocks of host and device are not shifted against each other: a single kernel has the wrong launch.
_MOST_SKEW_NS = 1_000_000


@dataclass(frozen=True)
class DeviceActivities:
    """Columns, one row a kernel, copy or fill in the order of its start; times in nanoseconds.

    Attributes:
        begun, ended: when it ran, moved so that nothing runs before its launch where the clocks differ.
        kind: of `Category` its kernel, copy or fill.
        lane: number of its stream, over all devices.
        launch: event of its launch, NONE where that was not recorded; `called` and `returned` are that call's times
            (of no meaning without one), `thread` the thread of the call.
        leads: whether it is the first that its launch started: a graph starts many.
        before: row of what its stream ran before it, the one that ended last; NONE for the first.
    """

    begun: Ints
    ended: Ints
    kind: NDArray[np.int8]
    lane: Ints
    launch: Ints
    called: Ints
    returned: Ints
    thread: Ints
    leads: Flags
    before: Ints

    def __len__(self) -> int:
        return len(self.begun)

    @cached_property
    def launched(self) -> Flags:
        has_launch: Flags = self.launch != NONE
        return has_launch

    @cached_property
    def by_call(self) -> Ints:
        """Rows that lead a launch, in the order of the calls."""
        rows = np.flatnonzero(self.launched & self.leads)
        return rows[np.argsort(self.called[rows], kind="stable")]

    @cached_property
    def by_end(self) -> Ints:
        """Rows in the order of their end."""
        return np.argsort(self.ended, kind="stable")

    @property
    def streams(self) -> int:
        return int(self.lane.max(initial=-1)) + 1


def collect_device_activities(ops: Ops) -> DeviceActivities:
    """The columns of a trace."""
    trace, kernels = ops.trace, ops.kernels
    event, launch = kernels.event.astype(np.int64), kernels.launch.astype(np.int64)
    begun, ended = trace.start_ns[event], trace.end_ns[event]
    device = trace.device[event].astype(np.int64)
    for number, skew_ns in kernels.clock_skew_ns.items():
        if skew_ns < _MOST_SKEW_NS:
            begun, ended = begun + skew_ns * (device == number), ended + skew_ns * (device == number)
    lane = group_rows(ops.devices.of, trace.stream[event]).of.astype(np.int64)
    # Those without a launch lead themselves.
    own = np.where(launch == NONE, -np.arange(len(event)) - 2, launch)
    leads = np.zeros(len(event), np.bool_)
    leads[np.unique(own, return_index=True)[1]] = True
    return DeviceActivities(
        begun=begun,
        ended=ended,
        kind=trace.category[event],
        lane=lane,
        launch=launch,
        called=np.append(trace.start_ns, 0)[launch],
        returned=np.append(trace.end_ns, 0)[launch],
        thread=np.append(trace.thread, NONE)[launch].astype(np.int64),
        leads=leads,
        before=_find_predecessors(begun, ended, lane),
    )


def _find_predecessors(begun: Ints, ended: Ints, lane: Ints) -> Ints:
    """For each row, the row of its stream that began before it and ended last."""
    order = np.lexsort((begun, lane))
    result = np.full(len(order), NONE, np.int64)
    if not len(order):
        return result
    fresh = np.flatnonzero(np.diff(lane[order], prepend=-1))
    for begin, end in zip(fresh.tolist(), [*fresh[1:].tolist(), len(order)], strict=True):
        rows = order[begin:end]
        latest = np.maximum.accumulate(ended[rows])
        holder = np.maximum.accumulate(np.where(ended[rows] == latest, np.arange(len(rows)), 0))
        result[rows[1:]] = rows[holder[:-1]]
    return result
