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
from perfkit.analysis.trace.time.mixed_up_ids import has_mixed_up_ids
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.devices import cupti
from perfkit.devices.device_calls import TOLERATED, is_device_sync
from perfkit.trace.event_names import mark_named
from perfkit.trace.match_ids import map_processes
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.launch_records import LaunchRecords
from perfkit.trace.ops.ops import Ops

Flags = NDArray[np.bool_]


def count_lost_kernels(ops: Ops, windows: StepWindows) -> LostKernels | None:
    """Count the lost kernels of the steps (of the whole trace without steps).

    None where a trace has no launches, or none that share an id with device work.
    """
    trace, launches = ops.trace, ops.launches
    if not (launches.kernels.any() or launches.untimed.any()):
        return None
    inside = _is_within_steps(ops, windows)
    silent = launches.starts_work & ~launches.has_record & inside
    if silent.any():
        silent &= trace.start_ns[launches.event] < _find_deadlines(ops)
    graphs = silent & launches.is_graph
    are_mixed_up = has_mixed_up_ids(ops, launches.event[graphs])
    of_graph = 0 if are_mixed_up else int(graphs.sum()) * _estimate_graph_kernels(launches)
    without_record = int((silent & ~graphs).sum()) + of_graph
    without_time = int(launches.untimed[inside].sum())
    lost = without_record + without_time
    launched = int(launches.kernels[inside].sum()) + lost
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
    launches = ops.launches
    if not launches.kernels.any():
        return np.empty(0, np.int64)
    silent = launches.starts_work & ~launches.has_record & ~launches.is_graph
    if silent.any():
        silent &= ops.trace.start_ns[launches.event] < _find_deadlines(ops)
    lost: Ints = launches.event[silent & (silent.sum() > TOLERATED * launches.starts_work.sum())]
    return lost


def _is_within_steps(ops: Ops, windows: StepWindows) -> Flags:
    calls = ops.launches.event
    if not windows.are_steps or ops.steps.on_device:
        return np.ones(len(calls), np.bool_)
    return np.isin(ops.steps.locate_times(ops.trace.start_ns[calls]), windows.row)


def _find_deadlines(ops: Ops) -> Ints:
    """For each call, the time by which its process's launches must have run: see the module."""
    trace, kernels, calls, process = ops.trace, ops.kernels, ops.launches.event, ops.launches.process
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


def _estimate_graph_kernels(launches: LaunchRecords) -> int:
    """The median over the launches of graphs that have kernels; one where none has."""
    counts = launches.kernels[launches.is_graph & (launches.kernels > 0)]
    return round(float(np.median(counts))) if len(counts) else 1
