"""Allocated bytes over a step, thinned for drawing."""

from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model.timeline import MemoryLine
from perfkit.analysis.timeline.column_packing import pack_column, take_differences
from perfkit.trace.memory.consistency import compute_bytes_before, has_allocator_count
from perfkit.trace.memory.device_names import get_device_name, group_by_device
from perfkit.trace.model import Ints, MemoryEvents

_BINS = 400


def build_memory_lines(memory: MemoryEvents, begin: int, end: int) -> Iterator[MemoryLine]:
    """A line for each device whose allocations were recorded; of a CPU that counts nothing since the first event."""
    for mine in group_by_device(memory):
        served = mine[~memory.failed[mine]]
        if not len(served):
            continue
        time = memory.time_ns[served]
        level = memory.allocated[served] if has_allocator_count(memory, served) else _sum_sizes(memory, served)
        here = np.flatnonzero((time >= begin) & (time < end))
        if len(here) < 2:
            continue
        kept = here[_thin_rows(time[here] - begin, level[here], end - begin)]
        yield MemoryLine(
            device=get_device_name(memory, int(served[0])),
            time_ns=pack_column(take_differences(time[kept] - begin)),
            bytes=pack_column(take_differences(level[kept])),
        )


def _sum_sizes(memory: MemoryEvents, mine: Ints) -> Ints:
    total: Ints = np.cumsum(memory.size[mine]) + (compute_bytes_before(memory, mine) or 0)
    return total


def _thin_rows(time: Ints, level: Ints, length: int) -> Ints:
    """The rows that are kept: of each of `_BINS` equal parts the fullest moment and the last."""
    bins = np.minimum(time * _BINS // length, _BINS - 1)
    order = np.lexsort((level, bins))
    last_of = np.append(np.flatnonzero(np.diff(bins)), len(bins) - 1)
    fullest = order[last_of]  # bins ascend, so that those sorted by bin and bytes end where these do
    return np.unique(np.concatenate((fullest, last_of)))
