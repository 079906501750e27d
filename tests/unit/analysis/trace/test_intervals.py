import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.trace.intervals import EMPTY, clipped, difference, joined, length, union


def test_union_merges_what_overlaps_or_touches() -> None:
    assert union([5, 0, 1, 3], [6, 2, 3, 4]).tolist() == [[0, 4], [5, 6]]
    assert union([3], [3]).tolist() == []


def test_difference_and_clipping_by_hand() -> None:
    window = union([0, 10], [4, 14])
    assert difference(window, union([1, 3], [2, 11])).tolist() == [[0, 1], [2, 3], [11, 14]]
    assert clipped(union([3], [12]), window).tolist() == [[3, 4], [10, 12]]
    assert difference(window, EMPTY).tolist() == window.tolist()


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def cells(pairs: list[tuple[int, int]]) -> set[int]:
    return {cell for start, end in pairs for cell in range(start, end)}


@given(spans, spans)
def test_intervals_behave_like_sets(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = (union(np.array([s for s, _ in each]), np.array([e for _, e in each])) for each in (first, second))
    assert length(a) == len(cells(first))
    assert length(joined(a, b)) == len(cells(first) | cells(second))
    assert length(difference(a, b)) == len(cells(first) - cells(second))
    assert length(clipped(a, b)) == len(cells(first) & cells(second))
