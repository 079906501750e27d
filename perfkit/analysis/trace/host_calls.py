"""Calls of the host that can leave the device without work: waiting for it, allocating, and fetching data."""

import re
from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model.trace import HostCallRow
from perfkit.analysis.trace.intervals import covered, union
from perfkit.analysis.trace.work.fetching import fetches
from perfkit.analysis.trace.work.grouping import group
from perfkit.analysis.trace.work.launches import runtime_calls, synchronises
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.nesting import around_times
from perfkit.trace.ops import Ops
from perfkit.trace.read import DEVICE_CATEGORIES, NONE, Ints

# Of each kind.
MOST_CALLS = 1000

WAIT = "wait"
ALLOCATION = "allocation"
FETCH = "data"

# Calls of CUDA's, HIP's and Level Zero's runtimes that take or release memory. A release waits, too: CUDA orders it
# after everything that was launched.
_ALLOCATION = re.compile(
    r"(cuda|hip)(Host)?(Malloc|Free|Alloc)(Managed|Host|Pitch|Array)?(_v\d+)?|cuMem(Create|Map|Unmap)|"
    r"ze\w*MemAlloc\w*|zeMemFree"
)


def host_calls(ops: Ops, windows: Windows) -> tuple[HostCallRow, ...]:
    """Equal calls within the windows together, per step, those with the most idle time of the device first.

    A call's idle time is that of the device from the call's beginning to the first kernel that starts after the call,
    or to the next call of its kind if that comes first: until then the device waited for this thread. None where no
    device was traced.
    """
    steps = max(len(windows), 1)
    rows = [row for kind, events in _calls(ops, windows) for row in _rows(ops, windows, kind, events, steps)]
    return tuple(sorted(rows, key=lambda row: (-(row.idle_s or 0.0), -row.seconds)))


def _calls(ops: Ops, windows: Windows) -> Iterator[tuple[str, Ints]]:
    trace = ops.trace
    yield WAIT, runtime_calls(trace, windows, synchronises)
    yield ALLOCATION, runtime_calls(trace, windows, lambda name: _ALLOCATION.fullmatch(name) is not None)
    loading = fetches(trace)
    yield FETCH, loading[windows.at(trace.start_ns[loading]) != NONE]


def _rows(ops: Ops, windows: Windows, kind: str, events: Ints, steps: int) -> Iterator[HostCallRow]:
    trace = ops.trace
    if not len(events):
        return
    idle = _idle_ns(ops, windows, events)
    around = around_times(trace, ops.event, trace.thread[events], trace.start_ns[events], ops.parent)
    op = np.append(trace.name[ops.event], NONE)[around]  # NONE (-1) takes the last entry, which is NONE
    name = trace.name[events].astype(np.int64)
    alike = group(name, op.astype(np.int64))
    calls, taken = alike.counts(), alike.sums(trace.end_ns[events] - trace.start_ns[events])
    idle_ns = None if idle is None else alike.sums(idle)
    for number in np.argsort(-(taken if idle_ns is None else idle_ns), kind="stable")[:MOST_CALLS].tolist():
        first = alike.first[number]
        yield HostCallRow(
            kind=kind,
            name=trace.names[int(name[first])],
            op="" if op[first] == NONE else trace.names[int(op[first])],
            calls=int(calls[number]) / steps,
            seconds=float(taken[number]) / steps / 1e9,
            idle_s=None if idle_ns is None else float(idle_ns[number]) / steps / 1e9,
        )


def _idle_ns(ops: Ops, windows: Windows, events: Ints) -> Ints | None:
    trace = ops.trace
    device = trace.of(*DEVICE_CATEGORIES)
    if not len(device):
        return None
    starts = trace.start_ns[device]
    busy = union(starts, trace.end_ns[device])
    begin, end = trace.start_ns[events], trace.end_ns[events]
    following = np.searchsorted(starts, end)
    until = np.where(following < len(starts), np.append(starts, 0)[following], end)
    until = np.minimum(until, np.append(begin[1:], np.iinfo(np.int64).max))
    # Only what lies within the step, which the split of its time is about.
    until = np.minimum(until, windows.spans[windows.at(begin), 1])
    until = np.maximum(until, begin)
    idle: Ints = until - begin - covered(begin, until, busy)
    return idle
