"""Frees that no profiler reports: those of a collective's buffers, when the last to hold them is a thread of gloo.

torch's profiler sees what happens on threads that the recorded one started or handed work to. A process group's own
threads are neither, so that a buffer whose last reference they drop would stay in the books for ever.
"""

from collections.abc import Sequence

from perfkit.capture.memory.labels import Label
from perfkit.capture.memory.places import Place
from perfkit.capture.memory.profiler import Allocation

_COLLECTIVE = ("c10d::", "_c10d_functional::", "fsdp::")

Event = tuple[Allocation, Place, Label]


def with_unseen_frees(events: Sequence[Event]) -> list[Event]:
    """The events with a free at the end of its phase for every collective's block that is not seen freed.

    The collectives of a phase are over when it is, as what follows needs their results.
    """
    missing: dict[int, list[Event]] = {}
    for index, following in _never_freed([event for event, _, _ in events]):
        event, place, label = events[index]
        if place.sharding or label.op.startswith(_COLLECTIVE):
            # Up to the next block at its address, which ends it as it is.
            later = range(index, following)
            end = next((i for i in later if events[i][1].visit != place.visit), None)
            if end is not None:
                first, there, _ = events[end]
                free = event._replace(size=-event.size, time_ns=first.time_ns, allocated=first.allocated)
                missing.setdefault(end, []).append((free, there, label))
    return [each for index, event in enumerate(events) for each in (*missing.get(index, ()), event)]


def _never_freed(events: Sequence[Allocation]) -> list[tuple[int, int]]:
    """The allocations that no free follows, each with the next allocation at its address, or the number of events."""
    alive: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for index, event in enumerate(events):
        before = alive.pop(event.address, None)
        if event.size > 0:
            alive[event.address] = index
            if before is not None:
                found.append((before, index))
    return found + [(index, len(events)) for index in alive.values()]
