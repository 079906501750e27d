import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.trace.time.grouping import group_rows


def test_rows_with_equal_keys_are_together() -> None:
    found = group_rows(np.asarray([3, -1, 3, 3]), np.asarray([0, 5, 0, 1]))
    assert len(found) == 3
    assert found.of[0] == found.of[2] != found.of[3]
    assert found.count_by_group()[found.of].tolist() == [2, 1, 2, 1]
    assert found.sum_by_group(np.asarray([1.0, 2.0, 4.0, 8.0]))[found.of].tolist() == [5.0, 2.0, 5.0, 8.0]
    assert np.isnan(found.sum_by_group(np.asarray([1.0, np.nan, 4.0, 8.0]))).sum() == 1


def test_no_rows_no_groups() -> None:
    assert len(group_rows(np.empty(0, np.int64), np.empty(0, np.int64))) == 0


wide = st.integers(-(2**40), 2**40)


@given(st.lists(st.tuples(wide, wide, wide), min_size=1, max_size=30))
def test_keys_of_any_width_make_the_same_groups_as_a_dictionary(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.asarray(column, np.int64) for column in zip(*rows, strict=True)]
    found = group_rows(*columns)
    by_group: dict[int, set[tuple[int, int, int]]] = {}
    for row, number in zip(rows, found.of.tolist(), strict=True):
        by_group.setdefault(number, set()).add(row)
    assert all(len(keys) == 1 for keys in by_group.values())
    assert len(by_group) == len(set(rows)) == len(found)
    assert all(rows[first] in by_group[number] for number, first in enumerate(found.first.tolist()))


def test_keys_of_32_bits_do_not_overflow() -> None:
    keys = np.asarray([-1, 2**31 - 1, -1, 2**31 - 2], np.int32)
    found = group_rows(keys, keys)
    assert found.of.tolist() == [0, 2, 0, 1]
