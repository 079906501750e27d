"""Kernels that were launched and of which a trace has no record, or none with a time.

Missing kernels make a device seem idle: busy time, FLOPs and gains are then lower bounds, and idle time an upper bound.
So kernels are counted by their launches, which are recorded separately (`perfkit.devices.device_calls`).

No loss is:

- what was launched while a graph was captured: it does not run;
- a launch that is part of another call (a driver's call within the runtime's): one of the two has the kernel;
- what was launched last, where the recording ended before the device came to it: after the last launch that the busiest
  stream has a kernel of, and with no wait for the whole device after it;
- a call of a process of which no kernel at all is recorded, and calls without a correlation id;
- a graph's launch where as many kernels are there that no launch has the id of: CUPTI mixes up their ids
  (`perfkit.devices.cupti`).

Where only some kernels of a graph are missing, the loss is not detected.
"""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import LostKernels
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.silent_launches import find_silent_calls, has_mixed_up_ids
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.devices import cupti
from perfkit.devices.device_calls import TOLERATED, is_cuda_graph_launch, is_device_sync
from perfkit.trace.event_names import mark_named
from perfkit.trace.match_ids import find_latest_before, map_processes
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

Flags = NDArray[np.bool_]


def count_lost_kernels(ops: Ops, windows: StepWindows) -> LostKernels | None:
    """Count the lost kernels of the steps (of the whole trace without steps).

    None where a trace has no launches, or none that share an id with device work.
    """
    trace, kernels = ops.trace, ops.kernels
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[trace.correlation[calls] != NONE]
    kernel_counts = np.bincount(kernels.launch[kernels.launch != NONE], minlength=len(trace))[calls]
    untimed = _count_untimed(trace, calls)
    if not (kernel_counts.any() or untimed.any()):
        return None
    inside = _is_within_steps(ops, windows, calls)
    _, silent = find_silent_calls(trace, calls, kernel_counts + untimed > 0)
    silent &= inside & (trace.start_ns[calls] < _find_deadlines(ops, calls))
    graphs = silent & mark_named(trace, calls, is_cuda_graph_launch)
    are_mixed_up = has_mixed_up_ids(ops, calls[graphs])
    of_graph = 0 if are_mixed_up else int(graphs.sum()) * _estimate_graph_kernels(trace, calls, kernel_counts)
    without_record = int((silent & ~graphs).sum()) + of_graph
    without_time = int(untimed[inside].sum())
    lost = without_record + without_time
    launched = int(kernel_counts[inside].sum()) + lost
    version = cupti.read_trace_version(trace.properties)
    return LostKernels(
        launched=launched,
        lost=lost,
        without_time=without_time,
        share=lost / launched if launched else 0.0,
        mixed_up_graphs=int(graphs.sum()) if are_mixed_up else 0,
        profiler="" if version is None else str(version),
        known_fault=version is not None and version.loses_records,
    )


def find_lost_launches(ops: Ops) -> Ints:
    """The calls whose kernel is lost, graphs' aside, where so many are lost that it matters; none otherwise."""
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[trace.correlation[calls] != NONE]
    has_kernel = np.zeros(len(trace), np.bool_)
    has_kernel[ops.kernels.launch[ops.kernels.launch != NONE]] = True
    if not has_kernel.any():
        return np.empty(0, np.int64)
    starting, silent = find_silent_calls(trace, calls, has_kernel[calls] | (_count_untimed(trace, calls) > 0))
    silent &= ~mark_named(trace, calls, is_cuda_graph_launch)
    if silent.any():
        silent &= trace.start_ns[calls] < _find_deadlines(ops, calls)
    lost: Ints = calls[silent & (silent.sum() > TOLERATED * starting.sum())]
    return lost


def _count_untimed(trace: Trace, calls: Ints) -> Ints:
    """For each call, its records without a time."""
    of_untimed = find_latest_before(
        trace.untimed.correlation.astype(np.int64),
        np.full(len(trace.untimed.start_ns), trace.start_ns.min(initial=0)),
        trace.correlation[calls].astype(np.int64),
        trace.start_ns[calls],
    )
    return np.bincount(of_untimed[of_untimed != NONE], minlength=len(calls))


def _is_within_steps(ops: Ops, windows: StepWindows, calls: Ints) -> Flags:
    if not windows.are_steps or ops.steps.on_device:
        return np.ones(len(calls), np.bool_)
    return np.isin(ops.steps.locate_times(ops.trace.start_ns[calls]), windows.row)


def _find_deadlines(ops: Ops, calls: Ints) -> Ints:
    """For each call, the time by which its process's launches must have run: see the module."""
    trace, kernels = ops.trace, ops.kernels
    process = map_processes(trace)[trace.thread[calls]]
    waits = mark_named(trace, calls, is_device_sync)
    until = np.full(len(calls), np.iinfo(np.int64).min, np.int64)
    launched = kernels.launch[kernels.launch != NONE]
    its = map_processes(trace)[trace.thread[launched]]
    event = kernels.event[kernels.launch != NONE]
    lane = group_rows(trace.device[event], trace.stream[event]).of
    for number in np.unique(its).tolist():
        busiest = lane[its == number] == int(np.bincount(lane[its == number]).argmax())
        last = int(trace.start_ns[launched[its == number][busiest]].max())
        mine = process == number
        waited = trace.start_ns[calls[mine & waits]]
        until[mine] = max(last, int(waited.max(initial=last)))
    return until


def _estimate_graph_kernels(trace: Trace, calls: Ints, kernel_counts: Ints) -> int:
    """The median over the launches of graphs that have kernels; one where none has."""
    counts = kernel_counts[mark_named(trace, calls, is_cuda_graph_launch) & (kernel_counts > 0)]
    return round(float(np.median(counts))) if len(counts) else 1
