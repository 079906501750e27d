"""Idle time of a device while another device of its process works."""

import numpy as np

from perfkit.analysis.model.idle import OTHER_DEVICE
from perfkit.analysis.trace.idle.idle_pieces import IdleCollector
from perfkit.analysis.trace.time.intervals import (
    EMPTY,
    Intervals,
    exclude_intervals,
    find_overlaps,
    merge_intervals,
)
from perfkit.trace.ops.ops import Ops


def find_busy_beside(ops: Ops, device: int) -> Intervals:
    """When any other device of the same process works."""
    devices = ops.devices
    beside = [
        index for index, process in enumerate(devices.process) if index != device and process == devices.process[device]
    ]
    if not beside:
        return EMPTY
    event = ops.kernels.event[np.isin(devices.of, beside)]
    return merge_intervals(ops.trace.start_ns[event], ops.trace.end_ns[event])


def charge_others(
    gaps: Intervals, pieces: Intervals, others: Intervals, least_ns: int, collector: IdleCollector
) -> Intervals:
    """Charge the part of long gaps in which other devices work; returns the rest of the pieces."""
    if not len(others) or not len(pieces):
        return pieces
    gap = np.searchsorted(gaps[:, 0], pieces[:, 0], side="right") - 1
    long = gaps[gap, 1] - gaps[gap, 0] > least_ns
    taken = find_overlaps(pieces[long], others[:, 0], others[:, 1])[0]
    collector.add(OTHER_DEVICE, taken)
    return exclude_intervals(pieces, taken)
