"""Recorded events held against the allocator's own count, which each of them states."""

import numpy as np

from perfkit.trace.memory.devices import CPU, by_device, device_of
from perfkit.trace.model import Ints, MemoryEvents


def counted(memory: MemoryEvents, mine: Ints) -> bool:
    """Whether the events of a device state how much its allocator has handed out."""
    return bool(memory.allocated[mine].any())


def bytes_before(memory: MemoryEvents, mine: Ints) -> int | None:
    """What a device's allocator had handed out before the first of its events; None where it does not tell.

    A CPU's count begins with the recording, and so tells nothing of before. (Of a process that records more than once
    it goes on counting what was alive at the end of an earlier recording, though it may have been freed since.)
    """
    if not len(mine) or memory.device_type[mine[0]] == CPU or not counted(memory, mine):
        return None
    return max(int(memory.allocated[mine[0]] - memory.size[mine[0]]), 0)


def consistency_notes(memory: MemoryEvents) -> tuple[str, ...]:
    """Where the sum of a device's events parts from its allocator's own count, in words; nothing where all agree."""
    notes = []
    for events in by_device(memory):
        mine = events[~memory.failed[events]]
        if not len(mine):
            continue
        device = device_of(memory, int(mine[0]))
        if not counted(memory, mine):
            notes.append(f"{device}: the trace does not state what the allocator counted: events may be missing")
            continue
        total = memory.allocated[mine]
        apart = total - np.cumsum(memory.size[mine])
        end = int(apart[-1] - apart[0])
        if end:
            notes.append(
                f"{device}: between the first event and the last the allocator's own count moved by {abs(end):,} bytes "
                f"{'more' if end > 0 else 'less'} than the events sum to: some are missing"
            )
        if (total < 0).any():
            notes.append(f"{device}: the allocator's own count is negative at {int((total < 0).sum()):,} events")
    return tuple(notes)
