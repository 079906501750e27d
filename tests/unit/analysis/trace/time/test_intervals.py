import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.trace.time.intervals import (
    EMPTY,
    clip_intervals,
    join_intervals,
    measure_length,
    merge_intervals,
    subtract_intervals,
)


def test_union_merges_what_overlaps_or_touches() -> None:
    assert merge_intervals([5, 0, 1, 3], [6, 2, 3, 4]).tolist() == [[0, 4], [5, 6]]
    assert merge_intervals([3], [3]).tolist() == []


def test_difference_and_clipping_by_hand() -> None:
    window = merge_intervals([0, 10], [4, 14])
    assert subtract_intervals(window, merge_intervals([1, 3], [2, 11])).tolist() == [[0, 1], [2, 3], [11, 14]]
    assert clip_intervals(merge_intervals([3], [12]), window).tolist() == [[3, 4], [10, 12]]
    assert subtract_intervals(window, EMPTY).tolist() == window.tolist()


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def cells(pairs: list[tuple[int, int]]) -> set[int]:
    return {cell for start, end in pairs for cell in range(start, end)}


@given(spans, spans)
def test_intervals_behave_like_sets(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = (merge_intervals(np.array([s for s, _ in each]), np.array([e for _, e in each])) for each in (first, second))
    assert measure_length(a) == len(cells(first))
    assert measure_length(join_intervals(a, b)) == len(cells(first) | cells(second))
    assert measure_length(subtract_intervals(a, b)) == len(cells(first) - cells(second))
    assert measure_length(clip_intervals(a, b)) == len(cells(first) & cells(second))
