"""Nests events: those of a thread form a tree by time.

All functions take and give NumPy columns; loops are over threads and over depths, never over events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints, Trace

_BLOCK = 1 << 16


def find_parents(trace: Trace, events: Ints) -> Ints:
    """For each of `events` (indices in order of time), the position in `events` of the innermost one around it.

    Two events nest if they are of one thread and the inner one starts within the outer one. Rounded times may let
    an inner event end a nanosecond after the outer one; it still belongs to it.
    """
    return compute_parents(trace.thread[events], trace.start_ns[events], trace.end_ns[events])


def compute_parents(threads: NDArray[np.integer], starts: Ints, ends: Ints) -> Ints:
    """The same for columns: rows in order of start, outer ones first among equal starts.

    The parent of a row is the last one before it on its thread that ends after it starts.
    """
    order = sort_by_group(threads)
    sorted_threads = threads[order]
    starts, ends = starts[order], ends[order]
    # A row points to the one before it. Where that has already ended, so has everything between it and the row that
    # it points to itself: follow the pointers, all rows at once. Pointers of unfinished rows grow as they are
    # followed, so that a row passes n siblings in log n rounds.
    around = np.arange(-1, len(order) - 1, dtype=np.int64)
    around[np.flatnonzero(np.diff(sorted_threads, prepend=-1))] = NONE
    pending = np.flatnonzero(around != NONE)
    while len(pending):
        pending = pending[ends[around[pending]] <= starts[pending]]
        around[pending] = around[around[pending]]
        pending = pending[around[pending] != NONE]
    result = np.full(len(order), NONE, np.int64)
    nested = np.flatnonzero(around != NONE)
    result[order[nested]] = order[around[nested]]
    return result


def sort_by_group(numbers: NDArray[np.integer]) -> Ints:
    """Rows sorted by a number of theirs (a thread, a depth), in their own order among equal ones."""
    few = len(numbers) == 0 or int(numbers.max()) < 2**15
    # NumPy sorts 16-bit numbers in linear time.
    return np.argsort(numbers.astype(np.int16) if few else numbers, kind="stable").astype(np.int64, copy=False)


def compute_self_time(starts: Ints, ends: Ints, parent: Ints) -> Ints:
    """Durations minus their children's, never negative."""
    nested = np.flatnonzero(parent != NONE)
    outer = parent[nested]
    # A child covers its parent only as far as the parent lasts.
    covered = np.maximum(np.minimum(ends[nested], ends[outer]) - starts[nested], 0)
    inner = np.zeros(len(starts), np.int64)
    np.add.at(inner, outer, covered)
    own: Ints = np.maximum(ends - starts - inner, 0)
    return own


def compute_depths(parent: Ints) -> NDArray[np.int32]:
    """The number of rows around each."""
    depth: NDArray[np.int32] = (parent != NONE).astype(np.int32)
    above = parent.copy()
    pending = np.flatnonzero(above != NONE)
    while len(pending):
        # Both columns are read before they are written: each round doubles the distance looked at.
        outer = above[pending]
        depth[pending] += depth[outer]
        above[pending] = above[outer]
        pending = pending[above[pending] != NONE]
    return depth


def find_nearest(parent: Ints, marked: NDArray[np.bool_]) -> Ints:
    """For each row, the innermost marked one around it, or itself; NONE without one."""
    innermost = np.where(marked, np.arange(len(parent)), parent)
    pending = np.flatnonzero(~marked & (innermost != NONE))
    pending = pending[~marked[innermost[pending]]]
    while len(pending):
        innermost[pending] = innermost[innermost[pending]]
        pending = pending[innermost[pending] != NONE]
        pending = pending[~marked[innermost[pending]]]
    return innermost


def find_around_times(
    trace: Trace, intervals: Ints, threads: NDArray[np.integer], times: Ints, parent: Ints | None = None
) -> Ints:
    """For each time on its thread, the position in `intervals` (events in order of time) of the innermost one.

    An interval that begins at that time counts, however short it is. NONE where none of the thread's is open.
    `parent` are the intervals' own `find_parents`, where they are known already.
    """
    return EventNest(trace, intervals, find_parents(trace, intervals) if parent is None else parent).find_around(
        threads, times
    )


@dataclass(frozen=True)
class EventNest:
    """Events in the order of time and for each the position of the one around it, to look times up in repeatedly."""

    trace: Trace
    events: Ints
    parent: Ints

    @cached_property
    def starts(self) -> Ints:
        return self.trace.start_ns[self.events]

    @cached_property
    def ends(self) -> Ints:
        return self.trace.end_ns[self.events]

    @cached_property
    def of_threads(self) -> dict[int, tuple[Ints, Ints]]:
        """The positions of each thread's events, and their start times."""
        thread = self.trace.thread[self.events]
        order = sort_by_group(thread)
        in_order = thread[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=NONE - 1))
        runs = np.split(order, begins[1:]) if len(order) else []
        return {number: (run, self.starts[run]) for number, run in zip(in_order[begins].tolist(), runs, strict=True)}

    def find_around(self, threads: NDArray[np.integer], times: Ints) -> Ints:
        """See `find_around_times`."""
        result = np.full(len(times), NONE, np.int64)
        for block in split_blocks(len(times)):
            self._look_up_block(threads[block], times[block], result[block])
        return result

    def _look_up_block(self, threads: NDArray[np.integer], times: Ints, result: Ints) -> None:
        asked = sort_by_group(threads)
        of_asked = threads[asked]
        for thread, (mine, starts) in self.of_threads.items():
            wanted = asked[_find_run(of_asked, thread)]
            if len(wanted):
                last = np.searchsorted(starts, times[wanted], side="right") - 1
                result[wanted] = np.where(last >= 0, mine[last], NONE)
        pending = np.flatnonzero(result != NONE)
        while len(pending):
            position = result[pending]
            over = (self.ends[position] <= times[pending]) & (self.starts[position] != times[pending])
            pending = pending[over]
            result[pending] = self.parent[position[over]]
            pending = pending[result[pending] != NONE]


def split_blocks(count: int) -> Iterator[slice]:
    """Split rows into blocks whose temporaries fit the processor's cache."""
    return (slice(begin, begin + _BLOCK) for begin in range(0, count, _BLOCK))


def _find_run(values: NDArray[np.integer], value: int) -> slice:
    """The range of a value in sorted values."""
    return slice(int(np.searchsorted(values, value, "left")), int(np.searchsorted(values, value, "right")))
