"""The launches of a trace: what is recorded of the device work that each of them started.

A launch is part of another call where that lies around it (a driver's call within the runtime's): one of the two has
the kernel. What is launched while a graph is captured does not run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.devices.device_calls import is_capture_begin, is_capture_end, is_cuda_graph_launch, is_kernel_launch
from perfkit.trace.event_names import EventNames
from perfkit.trace.event_nesting import find_parents
from perfkit.trace.match_ids import find_latest_before, map_processes
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.kernels import Kernels

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LaunchRecords:
    """Columns, one row a runtime call with a correlation id, in the order of time.

    Attributes:
        event: the call's row in the trace; `process`: that of its thread.
        kernels: the number of its kernels, copies and fills; `untimed`: of its records without a time.
        starts_work: calls that start a kernel or graph of their own; `is_graph`: calls that launch a CUDA graph.
        has_kernel: calls with a kernel, of their own or of a call within; `has_record`: the same, with a time or not.
    """

    event: Ints
    process: Ints
    kernels: Ints
    untimed: Ints
    starts_work: Flags
    is_graph: Flags
    has_kernel: Flags
    has_record: Flags


def find_launch_records(trace: Trace, kernels: Kernels) -> LaunchRecords:
    """Match the launches of a trace with its device work."""
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[trace.correlation[calls] != NONE]
    names = EventNames.from_events(trace, calls)
    is_graph = names.are(is_cuda_graph_launch)
    starting = np.flatnonzero(is_graph | names.are(is_kernel_launch))
    around = find_parents(trace, calls[starting])
    counts = np.bincount(kernels.launch[kernels.launch != NONE], minlength=len(trace))[calls]
    untimed = _count_untimed(trace, calls)
    starts_work = np.zeros(len(calls), np.bool_)
    starts_work[starting] = (around == NONE) & ~_is_in_capture(trace, calls, names, trace.start_ns[calls[starting]])
    has_kernel = _mark_outer(counts > 0, starting, around)
    return LaunchRecords(
        event=calls,
        process=map_processes(trace)[trace.thread[calls]],
        kernels=counts,
        untimed=untimed,
        starts_work=starts_work,
        is_graph=is_graph,
        has_kernel=has_kernel,
        has_record=_mark_outer(counts + untimed > 0, starting, around) if untimed.any() else has_kernel,
    )


def _count_untimed(trace: Trace, calls: Ints) -> Ints:
    """For each call, its records without a time."""
    if not len(trace.untimed.start_ns):
        return np.zeros(len(calls), np.int64)
    of_untimed = find_latest_before(
        trace.untimed.correlation.astype(np.int64),
        np.full(len(trace.untimed.start_ns), trace.start_ns.min(initial=0)),
        trace.correlation[calls].astype(np.int64),
        trace.start_ns[calls],
    )
    return np.bincount(of_untimed[of_untimed != NONE], minlength=len(calls))


def _mark_outer(marked: Flags, rows: Ints, around: Ints) -> Flags:
    """Marks of calls, and of those around a marked one among some rows, by their position there."""
    inner = np.flatnonzero((around != NONE) & marked[rows])
    marked[rows[around[inner]]] = True
    return marked


def _is_in_capture(trace: Trace, calls: Ints, names: EventNames, times: Ints) -> Flags:
    """True where a time lies in a graph capture, on any stream; one may have begun before the recording."""

    def sort_times(test: Callable[[str], bool], of: Ints) -> Ints:
        times: Ints = np.sort(of[calls[names.are(test)]])
        return times

    begins, ends = sort_times(is_capture_begin, trace.start_ns), sort_times(is_capture_end, trace.end_ns)
    before = int((np.arange(1, len(ends) + 1) - np.searchsorted(begins, ends, "right")).max(initial=0))
    open_captures = before + np.searchsorted(begins, times, "right") - np.searchsorted(ends, times, "right")
    captured: Flags = open_captures > 0
    return captured
