import numpy as np
import pytest

from perfkit.analysis.ranks.clocks import RankClock, align_clocks, assign_common_numbers
from perfkit.analysis.ranks.skew import compute_lateness, reduce_collectives
from perfkit.analysis.ranks.slots import CollectiveRows, Slots
from perfkit.trace.model import NONE

MS, S = 1_000_000, 1_000_000_000


def rows(ends: list[int], clock: int = 0, duration: int = 1000) -> CollectiveRows:
    """Collectives of one kind in one step, numbered as they come."""
    count = len(ends)
    end = np.asarray(ends, np.int64) + clock
    return CollectiveRows(
        np.zeros(count, np.int64),
        np.ones(count, np.int64),
        np.arange(count),
        np.full(count, NONE),
        end - duration,
        end,
        np.full(count, NONE),
        np.full(count, duration),
    )


def aligned(ranks: list[CollectiveRows]) -> list[RankClock | None]:
    return align_clocks(ranks.__getitem__, len(ranks), Slots(ranks.__getitem__, len(ranks)))


def test_true_pairs_outvote_false_ones_although_these_are_more() -> None:
    """Rank 1 lacks the third of seven: from there on its numbers stand for others, at other distances."""
    ends = [10 * MS, 20 * MS, 33 * MS, 47 * MS, 65 * MS, 90 * MS, 130 * MS]
    ranks = [rows(ends), rows(ends[:2] + ends[3:], clock=5 * S)]
    assert aligned(ranks) == [RankClock(0, 0), RankClock(5 * S, 0)]


def test_a_small_spread_of_ends_is_averaged_by_the_median() -> None:
    ends = [10 * MS, 20 * MS, 30 * MS]
    late = [10 * MS + 5_000, 20 * MS + 1_000, 30 * MS + 20_000]
    assert aligned([rows(ends), rows(late, clock=S)]) == [RankClock(0, 0), RankClock(S + 5_000, 0)]


def test_a_rank_without_collectives_has_no_clock_and_is_no_reference() -> None:
    ends = [10 * MS, 20 * MS]
    assert aligned([rows([]), rows(ends, clock=S), rows(ends)]) == [None, RankClock(0, 0), RankClock(-S, 0)]


def test_numbers_stand_where_none_is_lost_however_apart_ranks_leave() -> None:
    """Gloo's ranks leave milliseconds apart on a busy host, and are in the collective together all the same."""
    ends = [10 * MS, 20 * MS, 30 * MS]
    ranks = [rows(ends, duration=6 * MS), rows([10 * MS, 24 * MS, 30 * MS], duration=6 * MS)]
    assign_common_numbers(ranks.__getitem__, ranks.__setitem__, 2, aligned(ranks))
    assert ranks[1].number.tolist() == [0, 1, 2]


def test_what_ended_alone_gets_a_number_that_no_other_has() -> None:
    ends = [10 * MS, 20 * MS, 30 * MS, 40 * MS]
    ranks = [rows(ends), rows([10 * MS, 20 * MS, 25 * MS, 40 * MS])]
    assign_common_numbers(ranks.__getitem__, ranks.__setitem__, 2, aligned(ranks))
    assert ranks[0].number.tolist() == [0, 1, 2, 3]
    assert ranks[1].number.tolist() == [0, 1, 4, 3]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_whose_profilers_lost_records_are_compared_as_if_they_had_not(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, members = 200, 6
    ends = np.cumsum(random.integers(4 * MS, 30 * MS, count))
    durations = random.integers(1000, 3 * MS, (members, count))
    present = random.random((members, count)) > 0.1
    clocks = random.integers(-(10**12), 10**12, members)
    ranks = [
        CollectiveRows(
            np.zeros(int(kept.sum()), np.int64),
            np.ones(int(kept.sum()), np.int64),
            np.arange(int(kept.sum())),
            np.full(int(kept.sum()), NONE),
            (ends - durations[rank] + clocks[rank])[kept],
            (ends + clocks[rank])[kept],
            np.full(int(kept.sum()), NONE),
            durations[rank][kept],
        )
        for rank, kept in enumerate(present)
    ]
    found = aligned(ranks)
    assert found == [RankClock(int(clock - clocks[0]), 0) for clock in clocks]
    assign_common_numbers(ranks.__getitem__, ranks.__setitem__, members, found)
    slots = Slots(ranks.__getitem__, members)
    matched = reduce_collectives(ranks.__getitem__, members, slots, found)
    assert sorted(matched.ranks.tolist()) == sorted(present.sum(axis=0)[present.any(axis=0)].tolist())
    longest = np.where(present, durations, 0).max(axis=0)
    several = present.sum(axis=0) > 1
    for rank in range(members):
        mine = present[rank] & several
        assert compute_lateness(ranks[rank], slots, matched) == int((longest - durations[rank])[mine].sum())


def test_short_collectives_follow_each_other_faster_than_clocks_are_known() -> None:
    """Rank 1 lacks the first of eight within a millisecond: each is the one that ended when it did."""
    ends = [10 * MS + place * MS // 10 for place in range(8)]
    ranks = [rows([*ends, 50 * MS, 90 * MS]), rows([*ends[1:], 50 * MS, 90 * MS])]
    assign_common_numbers(ranks.__getitem__, ranks.__setitem__, 2, [RankClock(0, 0), RankClock(0, 0)])
    assert ranks[1].number.tolist() == list(range(1, 10))
