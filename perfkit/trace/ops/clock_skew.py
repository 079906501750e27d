"""Offsets of devices' clocks from the CPU's, as far as kernels show them that begin before their launch.

CUPTI's clock may be some microseconds early or late (pytorch/kineto#1380: negative launch latencies; 8 to 9 us in
tile-ai/TileOPs#1838). Where most kernels that are launched onto an idle device begin early, by as much at the beginning
of the recording as at its end, the clock is shifted, and so are the device's times in turn. Where only some do, it is
not known which ones are right: no time is changed, and times are uncertain by the largest of these differences.
"""

from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Ints, Trace
from perfkit.trace.ops.kernels import Kernels

# With fewer kernels that begin before their launch, some launches are wrong, not the clock.
_LEAST_SHARE = 0.05
_PARTS = 3  # of a recording, all of which show a shift


class ClockSkew(NamedTuple):
    """By how much a `share` of the launched kernels begin before their launch: all but the last percent of them.

    `shifted_ns` is what was added to the device's times, 0 where that is unclear.
    """

    size_ns: int
    share: float
    shifted_ns: int = 0


def measure_skew(trace: Trace, kernels: Kernels) -> ClockSkew | None:
    """The largest skew of any device; None where no device has any."""
    skews = (_measure_device_skew(trace, kernels, number) for number in kernels.clock_skew_ns)
    return max((skew for skew in skews if skew is not None), key=lambda skew: skew.size_ns, default=None)


def align_clocks(trace: Trace, kernels: Kernels) -> Trace:
    """The trace with the times of shifted devices moved to the CPU's clock; itself where none is shifted."""
    shift = np.zeros(len(trace), np.int64)
    on_device = trace.are(*DEVICE_CATEGORIES, Category.GPU_RANGE)
    for number in kernels.clock_skew_ns:
        skew = _measure_device_skew(trace, kernels, number)
        if skew is not None and skew.shifted_ns:
            shift[on_device & (trace.device == number)] = skew.shifted_ns
    return _move_events(trace, shift) if shift.any() else trace


def _measure_device_skew(trace: Trace, kernels: Kernels, number: int) -> ClockSkew | None:
    rows = np.flatnonzero(trace.device[kernels.event] == number)
    start, end = trace.start_ns[kernels.event[rows]], trace.end_ns[kernels.event[rows]]
    launched = kernels.launch[rows] != NONE
    called = np.append(trace.start_ns, 0)[kernels.launch[rows]]
    delay = start - called
    early = launched & (delay < 0)
    share = float(early.sum() / max(launched.sum(), 1))
    if share <= _LEAST_SHARE:
        return None
    size_ns = -int(np.percentile(delay[early], 1, method="lower"))
    # The device was idle when these were launched, so that they began at once.
    until = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end)[:-1])
    idle = delay[launched & (called >= until + size_ns)]
    parts = np.array_split(idle, _PARTS)
    is_shift = (
        len(idle) >= _PARTS and (idle < 0).mean() >= 1 / 2 and max(int(part.min()) for part in parts) <= -size_ns / 2
    )
    return ClockSkew(size_ns, share, size_ns if is_shift else 0)


def _move_events(trace: Trace, shift: Ints) -> Trace:
    start, end = trace.start_ns + shift, trace.end_ns + shift
    order = np.lexsort((-end, start))
    columns = {
        column.name: values[order]
        for column in fields(trace)
        if isinstance(values := getattr(trace, column.name), np.ndarray)
    }
    of_thread = np.zeros(len(trace.threads), np.int64)
    np.maximum.at(of_thread, trace.thread, shift)
    flows = replace(trace.flows, time_ns=trace.flows.time_ns + of_thread[trace.flows.thread])
    return replace(trace, flows=flows, **columns | {"start_ns": start[order], "end_ns": end[order]})
