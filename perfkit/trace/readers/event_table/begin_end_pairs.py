"""Merges begin and end events of some writers into complete events."""

import numpy as np

from perfkit.trace.readers.event_table.growing_columns import select_rows
from perfkit.trace.readers.event_table.piece_columns import Columns, EventKind


def pair_begins_and_ends(rows: Columns) -> int:
    """Pair begin and end events into durations and drop the ends; returns the number without a partner.

    As the format demands, begins and ends of a thread nest: an end belongs to the last begin that is still open.
    """
    kind = rows["kind"]
    halves = np.flatnonzero(kind != EventKind.COMPLETE)
    if not len(halves):
        return 0
    halves = halves[np.lexsort((halves, rows["start_ns"][halves], rows["thread"][halves]))]
    thread = rows["thread"][halves]
    is_begin = kind[halves] == EventKind.BEGIN
    depth = np.cumsum(np.where(is_begin, 1, -1)) + ~is_begin  # a begin and its end share one
    order = np.lexsort((np.arange(len(halves)), depth, thread))
    first, second = order[:-1], order[1:]
    match = is_begin[first] & ~is_begin[second] & (thread[first] == thread[second]) & (depth[first] == depth[second])
    begins, ends = halves[first[match]], halves[second[match]]
    rows["duration"][begins] = rows["start_ns"][ends] - rows["start_ns"][begins]
    keep = kind == EventKind.COMPLETE
    keep[begins] = True
    select_rows(rows, keep)
    return len(halves) - 2 * len(begins)
