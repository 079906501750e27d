"""Pairs the begins and ends of slices."""

import numpy as np

from perfkit.trace.readers.event_table.begin_end_pairs import pair_begins_and_ends
from perfkit.trace.readers.event_table.growing_columns import select_rows
from perfkit.trace.readers.event_table.piece_columns import Columns, EventKind


def pair_slices(rows: Columns) -> int:
    """Pair begin and end events into durations and drop the ends; returns the number without a partner.

    torch writes all begins of a group of slices, then their ends in the same order: so slices that overlap on a thread
    without nesting, such as functions of Python around the start of a recording, keep their own ends. Where begins and
    ends are written in the order of time, an end belongs to the last begin of its track that is still open.
    """
    halves = np.flatnonzero(rows["kind"] != EventKind.COMPLETE)
    is_begin = rows["kind"][halves] == EventKind.BEGIN
    bounds = np.flatnonzero(np.diff(is_begin)) + 1
    edges = np.concatenate(([0], bounds, [len(halves)]))
    lengths = np.diff(edges)
    time, thread = rows["start_ns"][halves], rows["thread"][halves]
    to_ends = bounds[~is_begin[bounds]]
    if not (len(halves) and is_begin[0] and (time[to_ends] < time[to_ends - 1]).any()):
        return pair_begins_and_ends(rows)
    begins, ends = np.flatnonzero(is_begin), np.flatnonzero(~is_begin)
    if (
        not np.array_equal(lengths[::2], lengths[1::2])
        or (thread[begins] != thread[ends]).any()
        or (time[ends] < time[begins]).any()
    ):
        return pair_begins_and_ends(rows)
    rows["duration"][halves[begins]] = time[ends] - time[begins]
    keep = np.ones(len(rows["kind"]), np.bool_)
    keep[halves[ends]] = False
    select_rows(rows, keep)
    return 0
