"""Begins and ends of slices, in the two orders in which they are written."""

import numpy as np

from perfkit.trace.readers.event_table.piece_columns import EventKind
from perfkit.trace.readers.pftrace.pair_slices import pair_slices

B, E, X = EventKind.BEGIN, EventKind.END, EventKind.COMPLETE


def pair(*events: tuple[int, int, int]) -> tuple[list[tuple[int, int, int]], int]:
    """Thread, start and duration of events given as (kind, thread, time), and how many have no partner."""
    kind, thread, time = (np.asarray(column, np.int64) for column in zip(*events, strict=True))
    rows = {"kind": kind, "thread": thread, "start_ns": time, "duration": np.zeros(len(kind), np.int64)}
    unpaired = pair_slices(rows)
    columns = (rows[name].tolist() for name in ("thread", "start_ns", "duration"))
    return sorted(zip(*columns, strict=True)), unpaired


def test_in_the_order_of_time_they_nest() -> None:
    assert pair((B, 1, 0), (B, 1, 10), (E, 1, 20), (E, 1, 50), (X, 2, 5)) == ([(1, 0, 50), (1, 10, 10), (2, 5, 0)], 0)


def test_ends_after_all_begins_follow_in_their_order() -> None:
    group = [(B, 1, 0), (B, 1, 10), (B, 2, 60), (E, 1, 20), (E, 1, 50), (E, 2, 70)]
    assert pair(*group, (X, 3, 5), (B, 4, 1), (E, 4, 3)) == (
        [(1, 0, 20), (1, 10, 40), (2, 60, 10), (3, 5, 0), (4, 1, 2)],
        0,
    )


def test_a_file_that_is_cut_between_nests() -> None:
    assert pair((B, 1, 0), (B, 1, 10), (E, 1, 5)) == ([(1, 0, 5)], 1)


def test_no_slices_at_all() -> None:
    assert pair((X, 1, 0)) == ([(1, 0, 0)], 0)
