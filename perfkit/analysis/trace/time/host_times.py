"""When the CPU handed kernels to a device."""

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops


def find_host_times(ops: Ops) -> Ints:
    """The CPU time of each kernel's launch, else of its op's start. NONE where neither was recorded."""
    kernels, trace = ops.kernels, ops.trace
    by_op = np.append(ops.start_ns, NONE)[ops.kernel_op]
    by_launch = np.append(trace.start_ns, NONE)[kernels.launch]
    return np.where(kernels.launch != NONE, by_launch, by_op)


def find_backlog(ops: Ops) -> NDArray[np.bool_]:
    """Kernels that were launched before the recording began: without a launch, and before all of their device that
    have one.

    None where these would be most of the device's time: then launches were not recorded, which says nothing of when.
    """
    kernels, trace = ops.kernels, ops.trace
    begun = trace.start_ns[kernels.event]
    durations = trace.end_ns[kernels.event] - begun
    known = find_host_times(ops) != NONE
    backlog = np.zeros(len(kernels), np.bool_)
    for rows in ops.devices.rows:
        launched = known[rows]
        early = ~launched & (begun[rows] < begun[rows][launched].min(initial=np.iinfo(np.int64).max))
        if launched.any() and 2 * int(durations[rows][early].sum()) <= int(durations[rows].sum()):
            backlog[rows] = early
    return backlog
