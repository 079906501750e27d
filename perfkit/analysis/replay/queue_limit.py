"""The limit of a stream's queue: a launch blocks while the queue is full, until its oldest kernel begins."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.device_activities import DeviceActivities
from perfkit.analysis.replay.edges import Flags
from perfkit.trace.model import Ints

# CUDA's queues take 1024; what the profiler itself launches and lacks makes it appear a little less.
_LEAST, _MOST = 900, 1100
# Kernels that begin within this after a launch returned made room for it: times are rounded.
_ROUNDED_NS = 10
# This many launches at the limit are not a coincidence.
_PLATEAU = 20


@dataclass(frozen=True)
class ThrottledLaunches:
    """Launches on streams whose queue was full: rows of `DeviceActivities`, the kernel whose start each waits for, and
    its own duration.

    `full` marks those that did wait; the others would if the device were slower.
    """

    row: Ints
    waits_for: Ints
    own_ns: Ints
    full: Flags


def find_throttled_launches(device: DeviceActivities) -> ThrottledLaunches:
    """The launches that a full queue held up, by the depth at which a stream's queue stops growing."""
    rows, sources, owns, fulls = [], [], [], []
    calls = device.by_call
    took = device.returned - device.called
    for lane in range(device.streams):
        its = calls[device.lane[calls] == lane]
        if len(its) <= _LEAST:
            continue
        begun = np.sort(device.begun[its])
        number = np.arange(len(its))
        depth = number - np.searchsorted(begun, device.returned[its] + _ROUNDED_NS, side="right")
        limit = int(depth.max())
        full = depth >= limit - 2
        if not _LEAST <= limit <= _MOST or int(full.sum()) < _PLATEAU:
            continue
        # At the limit `limit` kernels had not begun: the one before them is what made room, if it had begun by then.
        after = number > limit
        begun_by = np.searchsorted(begun, device.returned[its], side="right")
        waits_for = its[np.minimum(number - limit, begun_by)[after] - 1]
        free = its[~full]
        usual = int(np.median(took[free])) if len(free) else int(took[its].min())
        rows.append(its[after])
        sources.append(waits_for)
        owns.append(np.where(full, np.minimum(took[its], usual), took[its])[after])
        fulls.append(full[after])
    nothing = np.empty(0, np.int64)
    if not rows:
        return ThrottledLaunches(nothing, nothing, nothing, np.empty(0, np.bool_))
    return ThrottledLaunches(*(np.concatenate(part) for part in (rows, sources, owns, fulls)))
