"""The search for what fits: which candidates are tried, in what order, and what is found."""

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from perfkit.core.fit_search import Trials, find_largest_fitting

RESOLUTION = 1 / 16


def tried(
    limit: int, first: int | None, most: int, step: int | None = None, *, resolution: float = RESOLUTION
) -> tuple[int | None, list[int]]:
    """What is found among the sizes up to `most`, of which those up to `limit` fit, and the sizes tried."""
    sizes: list[int] = []

    def fits(size: int) -> bool:
        sizes.append(size)
        return size <= limit

    return find_largest_fitting(range(1, most + 1), fits, first=first, step=step, resolution=resolution), sizes


def test_sizes_are_doubled_then_bisected() -> None:
    assert tried(11, 2, 1024) == (11, [2, 4, 8, 16, 12, 10, 11])
    assert tried(1000, 4, 16) == (16, [4, 8, 16])
    assert tried(1000, 4, 24) == (24, [4, 8, 16, 24])
    assert tried(0, 4, 64) == (None, [4, 2, 1])
    assert tried(1, 4, 64) == (1, [4, 2, 1])
    assert tried(1000, 64, 16) == (16, [16])
    assert tried(20, 20, 21) == (20, [20, 21])


def test_without_a_first_place_candidates_are_only_bisected() -> None:
    assert tried(3, None, 4) == (3, [2, 3, 4])
    assert tried(100, None, 100, resolution=0.0) == (100, [50, 75, 88, 94, 97, 99, 100])
    assert tried(0, None, 5) == (None, [3, 1])


def test_nothing_is_tried_of_no_candidates() -> None:
    for first in (None, 1, 8):
        assert tried(8, first, 0) == (None, [])


def test_sizes_within_a_sixteenth_are_not_told_apart() -> None:
    found, sizes = tried(777, 512, 4096)
    assert found is not None
    assert 777 * 15 / 16 <= found <= 777
    assert len(sizes) <= 8


def test_from_a_near_place_few_sizes_are_tried() -> None:
    assert tried(103, 100, 1024, 6) == (100, [100, 106])
    assert tried(130, 100, 1024, 6) == (130, [100, 106, 118, 142, 130, 136])
    assert tried(97, 100, 1024, 6) == (97, [100, 94, 97])
    assert tried(9, 100, 1024, 6) == (9, [100, 94, 82, 58, 10, 5, 7, 8, 9])
    assert tried(0, 3, 1024, 1) == (None, [3, 2, 1])


@given(st.data())
def test_the_largest_that_fits_is_found_in_few_trials(data: st.DataObject) -> None:
    most = data.draw(st.integers(0, 3000))
    limit = data.draw(st.integers(0, 4000))
    first = data.draw(st.none() | st.integers(1, 4000))
    step = data.draw(st.none() | st.integers(1, 300))
    found, sizes = tried(limit, first, most, step, resolution=0.0)
    assert (found or 0) == min(limit, most)
    assert len(sizes) == len({*sizes})
    assert len(sizes) <= 2 * log2(most + 1) + 2
    coarse, fewer = tried(limit, first, most, step)
    assert min(limit, most) * (1 - RESOLUTION) <= (coarse or 0) <= min(limit, most)
    assert sizes[: len(fewer)] == fewer


def tried_until_unknown(limit: int, unknown: int, first: int | None) -> tuple[int | None, list[int]]:
    sizes: list[int] = []

    def fits(size: int) -> bool | None:
        sizes.append(size)
        return None if size == unknown else size <= limit

    return find_largest_fitting(range(1, 1025), fits, first=first), sizes


def test_the_search_ends_at_the_size_that_is_unknown() -> None:
    assert tried_until_unknown(59, 48, 8) == (32, [8, 16, 32, 64, 48])
    assert tried_until_unknown(59, 8, 8) == (None, [8])


@given(st.integers(0, 1100), st.integers(1, 1024), st.none() | st.integers(1, 1024))
def test_what_is_found_was_tried_before_the_unknown(limit: int, unknown: int, first: int | None) -> None:
    found, sizes = tried_until_unknown(limit, unknown, first)
    assert unknown not in sizes[:-1]
    assert found == max((size for size in sizes if size <= limit and size != unknown), default=None)


def test_candidates_need_not_be_sizes() -> None:
    assert find_largest_fitting("abcdef", lambda letter: letter < "d") == "c"


def test_a_candidate_is_tried_once_and_its_result_told_once() -> None:
    tried_sizes: list[int] = []
    told: list[int] = []

    def judge(size: int) -> int:
        tried_sizes.append(size)
        return 10 * size

    trials = Trials(judge, str, told.append)
    assert [trials.try_candidate(size) for size in (3, 9, 3, 7, 9)] == [30, 90, 30, 70, 90]
    assert tried_sizes == [3, 9, 7]
    assert told == [30, 90, 70]
    assert trials.results == {"3": 30, "9": 90, "7": 70}


def test_a_trial_that_tries_another_candidate_comes_after_it() -> None:
    def judge(size: int) -> int:
        return size if size < 4 else trials.try_candidate(size // 2)

    trials: Trials[int, int] = Trials(judge, lambda size: size)
    assert trials.try_candidate(8) == 2
    assert [*trials.results] == [2, 4, 8]
