"""The steps of which a trace has the device's work: others have marks and launches, but no time.

A profiler's buffers may fill up, its records may get lost at the start, and the recording may end long before the
device has done what was launched. Such a step has no time, and what followed it on the device did not begin with it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.host_times import find_host_times
from perfkit.analysis.trace.time.mixed_up_ids import has_mixed_up_ids
from perfkit.trace.model import NONE
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
    count = len(ops.steps)
    every, none = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    if not len(ops.kernels) or ops.steps.on_device:
        return StepCoverage(none, every)
    launches = ops.launches
    if not launches.kernels.any():
        step = ops.steps.locate_times(find_host_times(ops))
        recorded = np.bincount(step[step != NONE], minlength=count) > 0
        return StepCoverage(none, recorded if recorded.any() else every)
    starting = launches.starts_work & np.isin(launches.process, launches.process[launches.kernels > 0])
    silent = launches.starts_work & ~launches.has_kernel
    graphs = silent & launches.is_graph
    if has_mixed_up_ids(ops, launches.event[graphs]):
        starting &= ~graphs
    step = ops.steps.locate_times(ops.trace.start_ns[launches.event])
    inside = starting & (step != NONE)
    launched = np.bincount(step[inside], minlength=count)
    missing = np.bincount(step[inside & silent], minlength=count)
    recorded = missing <= (1 - _LEAST) * launched
    return StepCoverage(launched > 0, recorded if (recorded & (launched > 0)).any() else every)
