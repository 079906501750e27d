import numpy as np
import pytest

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.ranks.step_lateness import StepLateness
from perfkit.analysis.ranks.straggler import find_late_ranks, find_straggler


def find(*late_ms: list[float]) -> str:
    """The straggler of ranks that are so late in each step of 50 ms."""
    late = np.asarray(late_ms) / 1e3
    rows = [
        RankRow(
            label=f"rank {number}",
            rank=number,
            step_s=0.05,
            compute_s=0.0,
            communication_s=0.0,
            exposed_communication_s=0.0,
            idle_s=0.0,
            late_s=float(mean),
            clock_offset_s=0.0,
        )
        for number, mean in enumerate(late.mean(axis=1))
    ]
    return find_straggler(rows, StepLateness(np.arange(late.shape[1]), late, late, late))


def test_of_many_ranks_one_is_rarely_last_in_three_of_four_steps() -> None:
    others = [[0.1, 0.2, 0.1, 0.3]] * 9
    assert find([12.0, 0.0, 9.0, 7.0], [0.2, 6.0, 0.1, 0.2], *others) == "rank 0"


@pytest.mark.parametrize("last", [[9.0, 0.0, 9.0], [9.0, 9.0, 0.0, 9.0]])
def test_of_two_ranks_one_often_is(last: list[float]) -> None:
    assert find(last, [0.0 if late else 8.0 for late in last]) == ""


def test_steps_in_which_nobody_stands_out_do_not_count() -> None:
    quiet = [0.1, 0.1, 0.1]  # another rank is the last by a hair
    assert find([7.0, 8.0, 9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, *quiet], *[[0.0] * 6] * 2) == "rank 0"


def test_of_two_ranks_two_long_delays_may_be_chance() -> None:
    assert find([20.0, 0.0, 0.0, 20.0, 0.0, 0.0], [0.0, 0.1, 0.2, 0.0, 0.1, 0.1]) == ""


def test_a_rank_that_is_late_in_every_step_is_the_straggler_and_one_that_hardly_is_not() -> None:
    assert find([3.0, 2.0], [0.0, 0.0]) == "rank 0"
    assert find([0.3, 0.2], [0.0, 0.0]) == ""


def test_one_long_delay_is_none() -> None:
    assert find([40.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 5.0]) == ""


def find_late(*late_ms: list[float], wait_ms: list[list[float]] | None = None) -> list[int]:
    late = np.asarray(late_ms) / 1e3
    waits = np.zeros_like(late) if wait_ms is None else np.asarray(wait_ms) / 1e3
    return find_late_ranks(0.05, StepLateness(np.arange(late.shape[1]), late, waits, waits))


def test_ranks_that_are_half_as_late_as_the_latest_are_late_with_it() -> None:
    assert find_late([0.0] * 3, [9.0, 8.0, 9.0], [0.1] * 3, [7.0, 9.5, 7.0]) == [1, 3]
    assert find_late([0.0] * 3, [3.9] * 3, [0.1] * 3, [8.0] * 3) == [3]
    assert find_late([0.0] * 3, [9.0] * 3, [8.0] * 3) == [1, 2]


def test_most_ranks_are_not_late_nor_are_any_by_a_hair_or_by_turns() -> None:
    assert find_late([0.0] * 3, [9.0] * 3, [8.0] * 3, [8.5] * 3) == []
    assert find_late([0.0] * 3, [0.4] * 3, [0.3] * 3) == []
    assert find_late([9.0, 0.0, 9.0], [0.0, 9.0, 9.0], [9.0, 9.0, 0.0]) == []
    assert find_late([0.0] * 3) == []


def test_a_rank_that_comes_late_because_it_waited_elsewhere_is_not_named() -> None:
    late = [[0.0] * 4, [16.0] * 4, [8.0] * 4, [0.0] * 4]
    waits = [[8.0] * 4, [0.0] * 4, [8.0] * 4, [0.0] * 4]
    assert find_late(*late) == [1, 2]
    assert find_late(*late, wait_ms=waits) == []
