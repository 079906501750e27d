"""Calls that start work on a device, and those of them of which no work is recorded."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.host_times import find_backlog
from perfkit.devices.device_calls import is_capture_begin, is_capture_end, is_cuda_graph_launch, is_kernel_launch
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_parents
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.ops.ops import Ops

Flags = NDArray[np.bool_]


def find_silent_calls(trace: Trace, calls: Ints, answered: Flags) -> tuple[Flags, Flags]:
    """Masks of the calls that start a kernel or graph of their own, and of those of them that have no kernel."""
    rows = np.flatnonzero(mark_named(trace, calls, lambda name: is_kernel_launch(name) or is_cuda_graph_launch(name)))
    answered = answered[rows]
    around = find_parents(trace, calls[rows])
    nested = around != NONE
    np.logical_or.at(answered, around[nested], answered[nested])
    started = ~nested & ~_is_in_capture(trace, calls, trace.start_ns[calls[rows]])
    starting, silent = np.zeros(len(calls), np.bool_), np.zeros(len(calls), np.bool_)
    starting[rows[started]] = True
    silent[rows[started & ~answered]] = True
    return starting, silent


def _is_in_capture(trace: Trace, calls: Ints, times: Ints) -> Flags:
    """True where a time lies in a graph capture, on any stream; one may have begun before the recording."""

    def sorted_times(test: Callable[[str], bool], of: Ints) -> Ints:
        times: Ints = np.sort(of[calls[mark_named(trace, calls, test)]])
        return times

    begins, ends = sorted_times(is_capture_begin, trace.start_ns), sorted_times(is_capture_end, trace.end_ns)
    before = int((np.arange(1, len(ends) + 1) - np.searchsorted(begins, ends, "right")).max(initial=0))
    open_captures = before + np.searchsorted(begins, times, "right") - np.searchsorted(ends, times, "right")
    captured: Flags = open_captures > 0
    return captured


def has_mixed_up_ids(ops: Ops, graphs: Ints) -> bool:
    """True if kernels without a launch match these graph launches, which have no kernels."""
    if not len(graphs):
        return False
    kernels = ops.kernels
    loose = (kernels.launch == NONE) & ~find_backlog(ops)
    begun = ops.trace.start_ns[kernels.event[loose]]
    return int((begun > ops.trace.start_ns[graphs].min()).sum()) >= len(graphs)
