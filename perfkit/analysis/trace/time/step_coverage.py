"""The steps of which a trace has the device's work: others have marks and launches, but no time.

A profiler's buffers may fill up, its records may get lost at the start, and the recording may end long before the
device has done what was launched. Such a step has no time, and what followed it on the device did not begin with it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.host_times import find_host_times
from perfkit.analysis.trace.time.silent_launches import find_silent_calls, has_mixed_up_ids
from perfkit.devices.device_calls import is_cuda_graph_launch
from perfkit.trace.event_names import mark_named
from perfkit.trace.match_ids import map_processes
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.ops import Ops

# With a smaller part of its launches recorded on the device, the length of a step is unknown.
_LEAST = 1 / 2


class StepCoverage(NamedTuple):
    """Masks of the steps of a trace that launched anything, and of those of which the device's work is recorded."""

    has_launches: NDArray[np.bool_]
    is_recorded: NDArray[np.bool_]


def measure_step_coverage(ops: Ops) -> StepCoverage:
    """Find the steps with at least half of what they launched recorded on the device.

    Without recorded launches, those with any kernel. All of them where no step has any, or nothing tells.
    """
    trace, kernels = ops.trace, ops.kernels
    count = len(ops.steps)
    every, none = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    if not len(kernels) or ops.steps.on_device:
        return StepCoverage(none, every)
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[trace.correlation[calls] != NONE]
    answered = np.bincount(kernels.launch[kernels.launch != NONE], minlength=len(trace))[calls] > 0
    if not answered.any():
        step = ops.steps.locate_times(find_host_times(ops))
        recorded = np.bincount(step[step != NONE], minlength=count) > 0
        return StepCoverage(none, recorded if recorded.any() else every)
    process = map_processes(trace)[trace.thread[calls]]
    starting, silent = find_silent_calls(trace, calls, answered)
    starting &= np.isin(process, process[answered])
    graphs = silent & mark_named(trace, calls, is_cuda_graph_launch)
    if has_mixed_up_ids(ops, calls[graphs]):
        starting &= ~graphs
    step = ops.steps.locate_times(trace.start_ns[calls])
    inside = starting & (step != NONE)
    launched = np.bincount(step[inside], minlength=count)
    missing = np.bincount(step[inside & silent], minlength=count)
    recorded = missing <= (1 - _LEAST) * launched
    return StepCoverage(launched > 0, recorded if (recorded & (launched > 0)).any() else every)
