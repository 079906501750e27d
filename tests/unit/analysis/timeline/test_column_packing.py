"""Columns as text."""

import numpy as np
import pytest

from perfkit.analysis.timeline.column_packing import (
    pack_column,
    pack_links,
    sum_differences,
    take_differences,
    unpack_column,
    unpack_links,
)


@pytest.mark.parametrize("values", [[], [0], [-7], [3, -1, 2**53], [5, 5, 5]])
def test_a_column_comes_back_as_it_was(values: list[int]) -> None:
    column = np.asarray(values, np.int64)
    assert unpack_column(pack_column(column)).tolist() == values
    assert sum_differences(unpack_column(pack_column(take_differences(column)))).tolist() == values


def test_times_are_written_as_the_differences_between_them() -> None:
    assert pack_column(take_differences(np.asarray([1_000_000, 1_000_010, 1_000_030]))) == "1000000 10 20"


@pytest.mark.parametrize("links", [[0], [-1, 0, 0], [7, -1, 3, 3, 4, -1], [0, 1, 0]])
def test_links_come_back_with_those_that_there_are_none_of(links: list[int]) -> None:
    text = pack_links(np.asarray(links, np.int64))
    assert unpack_links(text, len(links)).tolist() == links


def test_a_lane_without_links_has_no_column_of_them() -> None:
    assert pack_links(np.asarray([-1, -1])) == ""
    assert unpack_links("", 2).tolist() == [-1, -1]
