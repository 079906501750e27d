"""CPU calls that can leave the device without work: synchronization, allocation, and data fetching."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.trace.time.data_fetching import find_fetches
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.intervals import measure_covered
from perfkit.analysis.trace.time.launch_queue import find_runtime_calls, is_synchronizing
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

# Of each kind.
MOST_CALLS = 1000

WAIT = "wait"
ALLOCATION = "allocation"
FETCH = "data"

# Calls of CUDA's, HIP's, Level Zero's and Ascend's runtimes that take or release memory. A release waits, too: CUDA
# orders it after everything that was launched.
_ALLOCATION = re.compile(
    r"(cuda|hip)(Host)?(Malloc|Free|Alloc)(Managed|Host|Pitch|Array)?(_v\d+)?|cuMem(Create|Map|Unmap)|"
    r"ze\w*MemAlloc\w*|zeMemFree|(AscendCL@)?aclrt(Malloc|Free)\w*"
)


# On a device, not pinned memory of the host.
_TAKEN, _RELEASED = re.compile(r"(cuda|hip)Malloc(_v\d+)?"), re.compile(r"(cuda|hip)Free(_v\d+)?")
_NEW_TENSOR = re.compile(r"aten::empty(_strided)?")
_FEW_CALLS = 20
_OFTEN = 0.5  # of the calls that make a tensor; a cache takes memory for few of them
_ALTERNATING = 0.1  # of the calls; a cache that is emptied releases its segments one after another


class HostCalls(NamedTuple):
    """Events of calls in the order of time: those that wait or allocate and begin within the windows, and those that
    fetch a batch while one of them lasts."""

    waits: Ints
    allocations: Ints
    fetching: Ints

    @property
    def blocking(self) -> Ints:
        """Calls of the runtime that can leave the device without work."""
        events: Ints = np.union1d(self.waits, self.allocations)
        return events


def is_allocation(name: str) -> bool:
    """True if a runtime call allocates or releases memory."""
    return _ALLOCATION.fullmatch(name) is not None


def is_allocator_uncached(ops: Ops, calls: HostCalls) -> bool:
    """True if each tensor takes its memory from the driver: as many requests as tensors, between releases."""
    trace = ops.trace
    taken = mark_named(trace, calls.allocations, lambda name: _TAKEN.fullmatch(name) is not None)
    released = mark_named(trace, calls.allocations, lambda name: _RELEASED.fullmatch(name) is not None)
    order = taken[taken | released]
    if taken.sum() < _FEW_CALLS or released.sum() < _OFTEN * taken.sum():
        return False
    tensors = mark_named(trace, ops.event, lambda name: _NEW_TENSOR.fullmatch(name) is not None)
    changes = int((order[1:] != order[:-1]).sum())
    return bool(taken.sum() >= _OFTEN * max(int(tensors.sum()), 1)) and changes >= _ALTERNATING * len(order)


def find_host_calls(ops: Ops, windows: StepWindows) -> HostCalls:
    """The calls of each kind."""
    trace = ops.trace
    loading = find_fetches(trace)
    begun = windows.find_windows(trace.start_ns[loading]) != NONE
    # A device is behind: its step may wait for a fetch that began while it ran an outlier step.
    return HostCalls(
        find_runtime_calls(trace, windows, is_synchronizing),
        find_runtime_calls(trace, windows, is_allocation),
        loading[begun | (measure_covered(trace.start_ns[loading], trace.end_ns[loading], windows.spans) > 0)],
    )


def build_call_rows(
    ops: Ops, windows: StepWindows, calls: HostCalls, idle_ns: Mapping[int, int] | None
) -> tuple[HostCallRow, ...]:
    """Equal calls together, per step, those with the most idle time of the device first.

    `idle_ns` is what each event is charged with of the device's idle time, None where no device was traced.
    """
    kinds = ((WAIT, calls.waits), (ALLOCATION, calls.allocations), (FETCH, calls.fetching))
    rows = [row for kind, events in kinds for row in _build_kind_rows(ops, windows, kind, events, idle_ns)]
    return tuple(sorted(rows, key=lambda row: (-(row.idle_s or 0.0), -row.seconds)))


def _build_kind_rows(
    ops: Ops, windows: StepWindows, kind: str, events: Ints, charged: Mapping[int, int] | None
) -> Iterator[HostCallRow]:
    trace, steps = ops.trace, max(len(windows), 1)
    if not len(events):
        return
    idle = None if charged is None else np.asarray([charged[event] for event in events.tolist()], np.int64)
    around = find_around_times(trace, ops.event, trace.thread[events], trace.start_ns[events], ops.parent)
    op = np.append(trace.name[ops.event], NONE)[around]  # NONE (-1) takes the last entry, which is NONE
    name = trace.name[events].astype(np.int64)
    groups = group_rows(name, op.astype(np.int64))
    calls = groups.count_by_group()
    start, end = trace.start_ns[events], trace.end_ns[events]
    spent = groups.sum_by_group(measure_covered(start, end, windows.spans) if kind == FETCH else end - start)
    idle_ns = None if idle is None else groups.sum_by_group(idle)
    for number in np.argsort(-(spent if idle_ns is None else idle_ns), kind="stable")[:MOST_CALLS].tolist():
        first = groups.first[number]
        yield HostCallRow(
            kind=kind,
            name=trace.names[int(name[first])],
            op="" if op[first] == NONE else trace.names[int(op[first])],
            calls=int(calls[number]) / steps,
            seconds=float(spent[number]) / steps / 1e9,
            idle_s=None if idle_ns is None else float(idle_ns[number]) / steps / 1e9,
        )
