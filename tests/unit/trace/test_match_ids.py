import numpy as np

from perfkit.trace.match_ids import find_latest_before
from perfkit.trace.model import NONE


def test_an_id_means_the_last_that_began_before() -> None:
    known_keys = np.asarray([7, 5, 7, 9, 7, NONE])
    known_times = np.asarray([10, 11, 20, 21, 30, 1])
    keys = np.asarray([7, 7, 7, 7, 5, 9, 8, NONE])
    times = np.asarray([10, 29, 30, 9, 99, 5, 99, 99])
    # Too early for all: the first of them. Unknown ids and no id: none.
    assert find_latest_before(keys, times, known_keys, known_times).tolist() == [0, 2, 4, 0, 1, 3, NONE, NONE]


def test_nothing_is_known() -> None:
    nothing = np.empty(0, np.int64)
    assert find_latest_before(np.asarray([3]), np.asarray([1]), nothing, nothing).tolist() == [NONE]
    assert find_latest_before(nothing, nothing, np.asarray([3]), np.asarray([1])).tolist() == []
