"""Nesting by time against a stack, which is what nesting means."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfkit.trace import event_nesting
from perfkit.trace.event_nesting import compute_depths, compute_parents, compute_self_time, find_nearest
from perfkit.trace.model import NONE, Ints


@dataclass(frozen=True)
class Events:
    thread: NDArray[np.int32]
    start: Ints
    end: Ints


@st.composite
def events(draw: st.DrawFn) -> Events:
    """Events of a few threads that nest, touch, coincide, overlap in part or last no time, in the order of time."""
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 12)), max_size=60))
    rows.sort(key=lambda row: (row[1], -row[2]))
    thread, start, duration = np.asarray(rows, np.int64).reshape(-1, 3).T
    return Events(thread.astype(np.int32), start, start + duration)


def by_stack(given: Events) -> list[int]:
    result, stacks = [], dict[int, list[int]]()
    for row, (thread, start) in enumerate(zip(given.thread.tolist(), given.start.tolist(), strict=True)):
        stack = stacks.setdefault(thread, [])
        while stack and given.end[stack[-1]] <= start:
            stack.pop()
        result.append(stack[-1] if stack else NONE)
        stack.append(row)
    return result


@given(events())
def test_parents_are_those_of_a_stack(given: Events) -> None:
    assert compute_parents(given.thread, given.start, given.end).tolist() == by_stack(given)


@given(events())
def test_depths_count_the_events_around(given: Events) -> None:
    parent = np.asarray(by_stack(given), np.int64)
    expected: list[int] = []
    for outer in parent.tolist():
        expected.append(0 if outer == NONE else expected[outer] + 1)
    assert compute_depths(parent).tolist() == expected


@given(events(), st.integers(0, 2**32 - 1))
def test_nearest_marked_row_around(given: Events, seed: int) -> None:
    parent = np.asarray(by_stack(given), np.int64)
    marked = np.random.default_rng(seed).random(len(parent)) < 0.3
    expected: list[int] = []
    for row, outer in enumerate(parent.tolist()):
        expected.append(row if marked[row] else NONE if outer == NONE else expected[outer])
    assert find_nearest(parent, marked).tolist() == expected


@given(events())
def test_self_times_add_up_where_events_nest(given: Events) -> None:
    parent = np.asarray(by_stack(given), np.int64)
    end = given.end.copy()
    for row in range(len(end)):  # events that overlap in part are cut off
        if parent[row] != NONE:
            end[row] = min(end[row], end[parent[row]])
    own = compute_self_time(given.start, end, parent)
    assert (own >= 0).all()
    assert own.sum() == (end - given.start)[parent == NONE].sum()


def test_a_child_that_ends_later_takes_no_more_than_its_parent_has() -> None:
    start, end = np.asarray([0, 5, 10]), np.asarray([10, 11, 12])
    parent = compute_parents(np.zeros(3, np.int32), start, end)
    assert parent.tolist() == [NONE, 0, 1]
    assert compute_self_time(start, end, parent).tolist() == [5, 5, 2]


def test_blocks_of_rows_are_all_of_them_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_nesting, "_BLOCK", 4)
    rows = list(range(10))
    assert [rows[block] for block in event_nesting.split_blocks(len(rows))] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(event_nesting.split_blocks(0)) == []


def test_a_long_row_of_siblings_and_a_deep_nest() -> None:
    siblings = np.arange(0, 2000, 2)
    thread = np.zeros(len(siblings), np.int32)
    assert (compute_parents(thread, siblings, siblings + 1) == NONE).all()
    start = np.arange(1000)
    parent = compute_parents(np.zeros(1000, np.int32), start, 5000 - start)
    assert parent.tolist() == list(range(-1, 999))
    assert compute_depths(parent).tolist() == list(range(1000))
