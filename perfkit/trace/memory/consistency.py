"""Checks recorded events against the allocator's own count in each event."""

import numpy as np

from perfkit.core.note import Note, make_note
from perfkit.trace.memory.device_names import CPU, get_device_name, group_by_device
from perfkit.trace.model import Ints, MemoryEvents


def has_allocator_count(memory: MemoryEvents, mine: Ints) -> bool:
    """True if the events of a device record how much its allocator has handed out."""
    return bool(memory.allocated[mine].any())


def compute_bytes_before(memory: MemoryEvents, mine: Ints) -> int | None:
    """The bytes that a device's allocator had handed out before its first event; None where unknown.

    A CPU's count begins with the recording, and so tells nothing of before. (Of a process that records more than once
    it goes on counting what was alive at the end of an earlier recording, though it may have been freed since.)
    """
    if not len(mine) or memory.device_type[mine[0]] == CPU or not has_allocator_count(memory, mine):
        return None
    return max(int(memory.allocated[mine[0]] - memory.size[mine[0]]), 0)


def describe_inconsistencies(memory: MemoryEvents) -> tuple[Note, ...]:
    """Describe differences between the sum of a device's events and its allocator's own count."""
    notes = []
    for events in group_by_device(memory):
        mine = events[~memory.failed[events]]
        if not len(mine):
            continue
        device = get_device_name(memory, int(mine[0]))
        if not has_allocator_count(memory, mine):
            text = f"{device}: the trace has no allocator totals: events may be missing"
            notes.append(make_note("memory.no_allocator_count", text, device=device))
            continue
        total = memory.allocated[mine]
        apart = total - np.cumsum(memory.size[mine])
        end = int(apart[-1] - apart[0])
        if end:
            text = (
                f"{device}: between the first event and the last the allocator's own count moved by {abs(end):,} bytes "
                f"{'more' if end > 0 else 'less'} than the events sum to: some are missing"
            )
            notes.append(make_note("memory.missing_events", text, device=device, bytes=end))
        if negative := int((total < 0).sum()):
            text = f"{device}: the allocator's own count is negative at {negative:,} events"
            notes.append(make_note("memory.negative_count", text, device=device, events=negative))
    return tuple(notes)
