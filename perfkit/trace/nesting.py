"""Which event lies within which: the events of a thread form a tree by time."""

import numpy as np

from perfkit.trace.read import NONE, Ints, Trace


def parents(trace: Trace, events: Ints) -> Ints:
    """For each of `events` (indices in the order of time) the position in `events` of the innermost one around it.

    Two events nest if they are of one thread and the inner one starts within the outer one. Rounded times may let
    an inner event end a nanosecond after the outer one; it still belongs to it.
    """
    result = np.full(len(events), NONE, np.int64)
    threads = trace.thread[events]
    starts, ends = trace.start_ns[events], trace.end_ns[events]
    for thread in np.unique(threads).tolist():
        mine = np.flatnonzero(threads == thread)
        stack: list[tuple[int, int]] = []
        found: list[int] = []
        for position, start, end in zip(mine.tolist(), starts[mine].tolist(), ends[mine].tolist(), strict=True):
            while stack and stack[-1][0] <= start:
                stack.pop()
            found.append(stack[-1][1] if stack else NONE)
            stack.append((end, position))
        result[mine] = found
    return result


def self_time(starts: Ints, ends: Ints, parent: Ints) -> Ints:
    """Durations without what children cover, never negative."""
    durations = ends - starts
    inner = np.zeros(len(starts), np.int64)
    nested = parent != NONE
    # A child covers its parent only as far as the parent lasts.
    covered = np.minimum(ends[nested], ends[parent[nested]]) - starts[nested]
    np.add.at(inner, parent[nested], np.maximum(covered, 0))
    own: Ints = np.maximum(durations - inner, 0)
    return own
