import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfkit.analysis.model.fleet import LATE, STEP, WAIT, Fleet
from perfkit.analysis.model.launches import Overlap
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import COMMUNICATION, COMPUTE_BOUND, IDLE_QUEUED, MEMORY_BOUND, WAITING_FOR_CPU
from perfkit.analysis.model.trace import RankTrace, StepRow
from perfkit.analysis.ranks.arrivals import Arrivals, CollectiveKind
from perfkit.analysis.ranks.fleet import FleetReducer
from perfkit.analysis.ranks.jobs import TraceOrigin
from perfkit.trace.model import NONE
from tests.fixtures.rank_traces import rank_trace
from tests.fixtures.suites import changed

WORLD = CollectiveKind("0", "default_pg", 3, "all-reduce")
US, MS, S = 1_000, 1_000_000, 1_000_000_000


def came(
    starts: Sequence[int],
    ends: Sequence[int],
    *,
    steps: Sequence[int] | None = None,
    elements: Sequence[int] | None = None,
    kind: CollectiveKind = WORLD,
    clock: int = 0,
) -> Arrivals:
    """A rank's collectives of one kind; its clock is `clock` ns ahead."""
    steps = [1] * len(starts) if steps is None else steps
    seen: dict[int, itertools.count[int]] = {}
    return Arrivals(
        kinds=(kind,),
        kind=np.zeros(len(starts), np.int32),
        step=np.asarray(steps, np.int64),
        number=np.asarray([next(seen.setdefault(step, itertools.count())) for step in steps], np.int64),
        elements=np.asarray([NONE] * len(starts) if elements is None else elements, np.int64),
        start_ns=np.asarray(starts, np.int64) + clock,
        end_ns=np.asarray(ends, np.int64) + clock,
    )


def rank(number: int | None, **changes: object) -> RankTrace:
    label = "some.json" if number is None else f"rank {number}"
    return rank_trace(label=label, rank=number, world_size=3, **changes)


def reduced(*ranks: tuple[RankTrace, Arrivals]) -> Fleet:
    reducer = FleetReducer()
    for trace, arrived in ranks:
        reducer.add(trace, arrived)
    fleet = reducer.build_fleet()
    assert fleet is not None
    return fleet


# Two steps with two collectives each. In ms, when each rank comes and when all leave:
#            rank 0  rank 1  rank 2  all leave   waits          late
# step 1 a   10      12      13      14          3, 1, 0        0, 2, 3
#        b   20      20      26      27          6, 6, 0        0, 0, 6
# step 2 a   30      31      35      36          5, 4, 0        0, 1, 5
#        b   40      44      42      46          4, 0, 2        0, 4, 2
COMES = ([10, 20, 30, 40], [12, 20, 31, 44], [13, 26, 35, 42])
LEAVE = [14, 27, 36, 46]
STEPS = [1, 1, 2, 2]


def three(clocks: Sequence[int] = (0, 0, 0), base: int = 1_700_000_000 * S) -> list[tuple[RankTrace, Arrivals]]:
    ends = [base + end * MS for end in LEAVE]
    return [
        (rank(number), came([base + start * MS for start in COMES[number]], ends, steps=STEPS, clock=clocks[number]))
        for number in range(3)
    ]


def test_waits_lateness_and_the_straggler_by_hand() -> None:
    fleet = reduced(*three())
    (row,) = fleet.skew
    assert (row.name, row.group, row.calls) == ("all-reduce", "default_pg", 2)
    # Mean waits 4/3, 12/3, 9/3, 6/3 ms; over two steps.
    assert row.wait_s == pytest.approx((4 + 12 + 9 + 6) / 3 / 2 * 1e-3)
    assert row.worst_wait_s == pytest.approx(6e-3)
    assert row.latest_rank == "rank 2"
    assert row.latest_share == pytest.approx(3 / 4)
    assert [each.late_s for each in fleet.ranks] == pytest.approx([0.0, 7 / 2 * 1e-3, 16 / 2 * 1e-3])
    # 8 ms is 4.5 ms more than the middle rank: less than a hundredth of a step of 1 s.
    assert fleet.straggler == ""
    assert fleet.notes == ()


def test_who_waits_and_who_is_last_step_by_step() -> None:
    steps = tuple(StepRow(number=number, start_s=0.0, seconds=number / 10, time_split=()) for number in (1, 2))
    fleet = reduced(*((changed(trace, steps=steps), arrived) for trace, arrived in three()))
    # Waits of step 1 and 2: 9 and 9, 7 and 4, 0 and 2 ms; lateness: 0 and 0, 2 and 5, 9 and 7 ms.
    assert [each.wait_s for each in fleet.ranks] == pytest.approx([9e-3, 5.5e-3, 1e-3])
    assert [each.last_share for each in fleet.ranks] == [0.0, 0.0, 1.0]
    grid = fleet.grid
    assert grid is not None
    assert (grid.ranks, grid.steps) == (("rank 0", "rank 1", "rank 2"), (1, 2))
    assert grid.figures[STEP] == ((0.1, 0.2),) * 3
    assert [list(row) for row in grid.figures[WAIT]] == [
        pytest.approx([9e-3, 9e-3]), pytest.approx([7e-3, 4e-3]), pytest.approx([0.0, 2e-3]),
    ]  # fmt: skip


def test_one_late_rank_saves_the_time_until_the_next_and_all_save_the_time_until_the_others() -> None:
    """Ranks 1 and 3 come 36 and 37.5 ms late to the first of two collectives, rank 2 1 ms to the second."""
    begins = [[10, 60], [46, 60], [10, 61], [47.5, 60]]
    ends = [50 * MS, 64 * MS]
    job = [
        (rank(number), came([round(begin * MS) for begin in mine], ends, steps=[1, 1]))
        for number, mine in enumerate(begins)
    ]
    fleet = reduced(*job)
    assert (fleet.straggler, fleet.stragglers) == ("rank 3", ("rank 3", "rank 1"))
    assert [row.caused_s for row in fleet.ranks] == pytest.approx([0.0, 0.0, 1e-3, 1.5e-3])
    assert fleet.stragglers_saved_s == pytest.approx(37.5e-3)
    alone = reduced(*job[1:3], job[0])  # without rank 3
    assert (alone.straggler, alone.stragglers, alone.stragglers_saved_s) == ("rank 1", (), None)


def test_ranks_that_come_last_by_turns_are_the_stragglers_if_they_come_late_together() -> None:
    steps = range(6)
    begins = {0: [0] * 6, 1: [30 + number % 2 * 5 for number in steps], 2: [32] * 6, 3: [0] * 6}
    fleet = reduced(
        *(
            (
                rank(number),
                came(
                    [(100 * step + late) * MS for step, late in enumerate(mine)],
                    [(100 * step + 40) * MS for step in steps],
                    steps=list(steps),
                ),
            )
            for number, mine in begins.items()
        )
    )
    assert [row.last_share for row in fleet.ranks] == [0.0, 0.5, 0.5, 0.0]
    assert (fleet.straggler, fleet.stragglers) == ("rank 1", ("rank 1", "rank 2"))
    assert fleet.stragglers_saved_s == pytest.approx((3 * 35e-3 + 3 * 32e-3) / 6)


@pytest.mark.parametrize("host", ["node-a", ""])
def test_ranks_of_one_host_are_late_by_their_common_clock_however_apart_they_leave(host: str) -> None:
    """Rank 1 comes 3 ms late and leaves up to 9 ms later or earlier: durations show rank 0 as last half of the time."""
    count, base = 24, 1_700_000_000 * S
    steps = tuple(StepRow(number=step, start_s=step / 20, seconds=0.05, time_split=()) for step in range(count))
    reducer = FleetReducer()
    for number in range(2):
        starts = [base + (50 * step + 3 * number) * MS for step in range(count)]
        ends = [base + (50 * step + 20 + number * (9 if step % 2 else -9)) * MS for step in range(count)]
        origin = TraceOrigin(f"{number}.json", number, "", base, base + S, has_date=True)
        arrived = replace(came(starts, ends, steps=range(count)), origin=origin)
        label = f"rank {number}"
        reducer.add(rank_trace(label=label, rank=number, world_size=2, step_s=0.05, steps=steps, host=host), arrived)
    fleet = reducer.build_fleet()
    assert fleet is not None
    late = [each.late_s for each in fleet.ranks]
    if host:
        assert late == pytest.approx([0.0, 3e-3])
        assert [each.clock_offset_s for each in fleet.ranks] == [0.0, 0.0]
        assert (fleet.straggler, fleet.ranks[1].last_share) == ("rank 1", 1.0)
        assert (fleet.skew[0].latest_rank, fleet.skew[0].worst_wait_s) == ("rank 1", pytest.approx(3e-3))
    else:  # clocks may differ: only durations are known
        assert fleet.ranks[1].last_share == pytest.approx(0.5)


def test_where_two_come_last_at_once_neither_is_the_last() -> None:
    ends = [14 * MS, 27 * MS]
    begins = [[10 * MS, 20 * MS], [12 * MS, 20 * MS], [12 * MS, 21 * MS]]
    fleet = reduced(*((rank(number), came(begin, ends, steps=[1, 2])) for number, begin in enumerate(begins)))
    assert [each.last_share for each in fleet.ranks] == [0.0, 0.0, 1 / 2]


def test_where_all_come_at_once_nobody_is_the_last() -> None:
    ends = [14 * MS, 27 * MS]
    fleet = reduced(*((rank(number), came([10 * MS, 20 * MS], ends, steps=[1, 2])) for number in range(2)))
    assert [each.last_share for each in fleet.ranks] == [0.0, 0.0]


def test_many_ranks_and_one_that_is_late_in_every_step() -> None:
    """256 ranks, 40 steps of 10 ms with a collective each; rank 200 is a millisecond late."""
    count, steps = 256, 40
    ends = [(10 * step + 9) * MS for step in range(steps)]
    marked = tuple(StepRow(number=step, start_s=step / 100, seconds=0.01, time_split=()) for step in range(steps))
    kind = CollectiveKind("0", "default_pg", count, "all-reduce")
    reducer = FleetReducer()
    for number in range(count):
        starts = [end - (1 if number == 200 else 2) * MS for end in ends]
        arrived = came(starts, ends, steps=range(steps), kind=kind, clock=number * MS)
        reducer.add(
            rank_trace(label=f"rank {number}", rank=number, world_size=count, step_s=0.01, steps=marked), arrived
        )
    fleet = reducer.build_fleet()
    assert fleet is not None
    assert fleet.straggler == "rank 200"
    late = fleet.ranks[200]
    assert (late.wait_s, late.last_share) == (0.0, 1.0)
    assert all(each.wait_s == pytest.approx(1e-3) for each in fleet.ranks if each is not late)
    grid = fleet.grid
    assert grid is not None
    assert (grid.all_ranks, grid.all_steps, len(grid.figures[LATE])) == (256, 40, 128)
    assert [place for place, row in enumerate(grid.figures[LATE]) if max(filter(None, row), default=0.0)] == [100]
    assert set(grid.worst_rank[LATE][100]) == {"rank 200"}
    assert WAIT not in grid.figures  # the longest wait of two ranks says nothing of the one that waits for nobody


def test_who_comes_much_later_than_the_middle_rank_is_the_straggler() -> None:
    shorter = [(rank(number, step_s=0.3), arrived) for number, (_, arrived) in enumerate(three())]
    assert reduced(*shorter).straggler == "rank 2"


def test_clocks_that_differ_are_found_to_the_nanosecond_and_change_nothing_else() -> None:
    clocks = (0, 3 * 3600 * S + 17, -250 * MS - 1)
    same, shifted = reduced(*three()), reduced(*three(clocks))
    assert [each.clock_offset_s for each in same.ranks] == [0.0, 0.0, 0.0]
    assert [each.clock_offset_s for each in shifted.ranks] == [clock / S for clock in clocks]
    assert shifted.skew == same.skew
    assert [each.late_s for each in shifted.ranks] == [each.late_s for each in same.ranks]


def test_who_is_last_by_a_hair_is_not_the_one_waited_for() -> None:
    ends = [100 * MS, 200 * MS, 300 * MS]
    fleet = reduced(
        (rank(0), came([50 * MS + 10, 150 * MS + 10, 250 * MS], ends)),
        (rank(1), came([50 * MS, 150 * MS, 290 * MS], ends)),
    )
    assert fleet.skew[0].latest_rank == "rank 1"
    assert fleet.skew[0].latest_share == pytest.approx(1 / 3)


def test_the_order_of_adding_changes_nothing() -> None:
    ranks = three((0, 5 * S, -7 * S))
    expected = reduced(*ranks)
    assert all(reduced(*order) == expected for order in itertools.permutations(ranks))


def test_a_collective_that_one_trace_lacks_does_not_shift_the_others() -> None:
    """Rank 1's profiler dropped the first record of step 1: its `b` now has the number of `a`."""
    (zero, first), (one, second), (two, third) = three((0, 40 * S, -3 * S))
    kept = [1, 2, 3]
    second = came(second.start_ns[kept].tolist(), second.end_ns[kept].tolist(), steps=[STEPS[index] for index in kept])
    fleet = reduced((zero, first), (one, second), (two, third))
    (row,) = fleet.skew
    assert [each.clock_offset_s for each in fleet.ranks] == [0.0, 40.0, -3.0]
    # As by hand, but that `a` of step 1 has two ranks with waits of 3 and 0 ms.
    assert row.wait_s == pytest.approx((3 / 2 + (12 + 9 + 6) / 3) / 2 * 1e-3)
    assert [each.late_s for each in fleet.ranks] == pytest.approx([0.0, 5 / 2 * 1e-3, 16 / 2 * 1e-3])
    (note,) = fleet.notes
    assert (note.id, note.figures) == ("ranks.partial", {"collectives": 1})


def test_the_first_trace_may_be_the_one_that_lacks_a_collective() -> None:
    (zero, first), (one, second), (two, third) = three()
    kept = [1, 2, 3]
    first = came(first.start_ns[kept].tolist(), first.end_ns[kept].tolist(), steps=[STEPS[index] for index in kept])
    fleet = reduced((zero, first), (one, second), (two, third))
    (row,) = fleet.skew
    # `a` of step 1 has the waits of ranks 1 and 2 alone: 1 and 0 ms.
    assert row.wait_s == pytest.approx((1 / 2 + (12 + 9 + 6) / 3) / 2 * 1e-3)
    assert [each.late_s for each in fleet.ranks] == pytest.approx([0.0, 5 / 2 * 1e-3, 14 / 2 * 1e-3])


def test_ranks_without_a_common_collective_are_aligned_through_others() -> None:
    """Two tensor-parallel pairs (0, 1), (2, 3), and data parallel between 1 and 2: 3 is reached through 2."""
    pairs = {name: CollectiveKind(name, "", 2, "all-gather") for name in ("tp0", "tp1", "dp")}
    hours = 3600 * S

    def member(number: int, clock: int, *groups: tuple[str, int]) -> tuple[RankTrace, Arrivals]:
        parts = [came([at * MS], [(at + 5) * MS], kind=pairs[name], clock=clock) for name, at in groups]
        merged = Arrivals(
            kinds=tuple(part.kinds[0] for part in parts),
            kind=np.arange(len(parts), dtype=np.int32),
            **{
                field: np.concatenate([getattr(part, field) for part in parts])
                for field in ("step", "number", "elements", "start_ns", "end_ns")
            },
        )
        return rank(number), merged

    fleet = reduced(
        member(0, 0, ("tp0", 10)),
        member(1, hours, ("tp0", 10), ("dp", 20)),
        member(2, 2 * hours, ("dp", 20), ("tp1", 30)),
        member(3, 3 * hours, ("tp1", 30)),
    )
    assert [each.clock_offset_s for each in fleet.ranks] == [0.0, 3600.0, 7200.0, 10800.0]


def test_ranks_that_share_no_collective_have_no_common_clock() -> None:
    one = came([0], [5 * MS], kind=CollectiveKind("a", "", 2, "all-reduce"))
    other = came([0], [5 * MS], kind=CollectiveKind("b", "", 2, "all-reduce"))
    fleet = reduced((rank(0), one), (rank(1), other))
    assert [each.clock_offset_s for each in fleet.ranks] == [0.0, None]
    assert [each.late_s for each in fleet.ranks] == [None, None]
    assert fleet.skew == ()
    assert fleet.straggler == ""
    assert ("ranks.no_clock_skew", {"sets": 2}) in [(note.id, note.figures) for note in fleet.notes]


def test_collectives_of_different_sizes_are_not_the_same() -> None:
    fleet = reduced(
        (rank(0), came([0, 10 * MS], [5 * MS, 15 * MS], elements=[64, 128])),
        (rank(1), came([2 * MS, 11 * MS], [5 * MS, 15 * MS], elements=[64, 256])),
        (rank(2), came([2 * MS, 11 * MS], [5 * MS, 15 * MS], elements=[64, 256])),
    )
    assert fleet.skew[0].calls == 1
    assert fleet.skew[0].worst_wait_s == pytest.approx(2e-3)
    (note,) = fleet.notes
    assert (note.id, note.figures) == ("ranks.sizes_differ", {"collectives": 1})


def test_collectives_that_do_not_name_their_group_are_counted() -> None:
    """Two of five were launched before the recording, and only their kernels are known."""
    unnamed = CollectiveKind("", "", NONE, "all-reduce")

    def member(number: int, late: int) -> tuple[RankTrace, Arrivals]:
        named = came([30 * MS + late, 50 * MS, 70 * MS], [34 * MS, 54 * MS, 74 * MS])
        before = came([10 * MS, 20 * MS], [14 * MS, 24 * MS], kind=unnamed)
        return rank(number), Arrivals(
            kinds=(WORLD, unnamed),
            kind=np.asarray([0, 0, 0, 1, 1], np.int32),
            **{
                field: np.concatenate([getattr(named, field), getattr(before, field)])
                for field in ("step", "number", "elements", "start_ns", "end_ns")
            },
        )

    fleet = reduced(*(member(number, number * US) for number in range(3)))
    assert [(note.id, note.figures) for note in fleet.notes] == [("ranks.no_groups", {"collectives": 2})]


def test_what_ran_outside_of_steps_is_not_in_figures_per_step() -> None:
    starts, ends = [0, 10 * MS], [5 * MS, 15 * MS]
    fleet = reduced(
        (rank(0), came(starts, ends, steps=[NONE, 1])),
        (rank(1), came([1 * MS, 13 * MS], ends, steps=[NONE, 1])),
    )
    assert fleet.skew[0].calls == 1
    assert fleet.ranks[1].late_s == pytest.approx(3e-3)


def test_without_steps_figures_are_of_the_whole_trace() -> None:
    whole: tuple[StepRow, ...] = ()
    fleet = reduced(
        (rank(0, steps=whole), came([0, 10 * MS], [5 * MS, 15 * MS], steps=[NONE, NONE])),
        (rank(1, steps=whole), came([1 * MS, 13 * MS], [5 * MS, 15 * MS], steps=[NONE, NONE])),
    )
    assert fleet.skew[0].calls == 2
    assert fleet.ranks[1].late_s == pytest.approx(4e-3)


def test_a_ranks_row_holds_its_own_figures() -> None:
    parts = {COMPUTE_BOUND: 0.2, MEMORY_BOUND: 0.3, COMMUNICATION: 0.1, WAITING_FOR_CPU: 0.25, IDLE_QUEUED: 0.15}
    split = tuple(TimeShare(category=name, seconds=value, share=value) for name, value in parts.items())
    overlap = Overlap(communication_s=0.4, exposed_communication_s=0.1, copies_s=0.0, exposed_copies_s=0.0)
    traces = three()
    traces[0] = (rank(0, time_split=split, overlap=overlap, step_s=0.9), traces[0][1])
    fleet = reduced(*traces)
    first = fleet.ranks[0]
    assert first.compute_s == pytest.approx(0.5)
    assert (first.communication_s, first.exposed_communication_s) == (0.4, 0.1)
    assert first.idle_s == pytest.approx(0.4)
    assert fleet.step_spread == pytest.approx((1.0 - 0.9) / 1.0)


def test_ranks_that_are_missing_or_given_twice_are_told() -> None:
    traces = three()
    fleet = reduced(traces[0], traces[2], traces[2])
    assert [each.label for each in fleet.ranks] == ["rank 0", "rank 2", "rank 2"]
    assert fleet.skew[0].wait_s == pytest.approx((3 + 6 + 5 + 2) / 2 / 2 * 1e-3)  # of ranks 0 and 2, once each
    assert [(note.id, note.figures) for note in fleet.notes] == [
        ("ranks.missing", {"missing": 1, "ranks": 3}),
        ("ranks.repeated", {"rank": 2, "files": 2}),
    ]


def test_one_trace_is_no_fleet() -> None:
    reducer = FleetReducer()
    assert reducer.build_fleet() is None
    reducer.add(*three()[0])
    assert reducer.build_fleet() is None


def test_traces_without_ranks_or_common_collectives_are_no_fleet() -> None:
    nothing = came([], [])
    reducer = FleetReducer()
    reducer.add(rank(None), nothing)
    reducer.add(rank(None), nothing)
    assert reducer.build_fleet() is None


def test_ranks_without_collectives_are_still_compared() -> None:
    nothing = came([], [])
    fleet = reduced((rank(0, step_s=1.0), nothing), (rank(1, step_s=1.5), nothing))
    assert fleet.step_spread == pytest.approx(0.5 / 1.25)
    assert fleet.straggler == ""
    assert "ranks.no_collectives" in [note.id for note in fleet.notes]


def test_the_same_numbers_of_other_steps_are_not_matched() -> None:
    fleet = reduced((rank(0), came([0], [5 * MS], steps=[1])), (rank(1), came([90 * MS], [95 * MS], steps=[2])))
    assert fleet.skew == ()
    assert ("ranks.alone", {"collectives": 2}) in [(note.id, note.figures) for note in fleet.notes]


@pytest.mark.parametrize("ranks", [4, 32])
def test_what_the_reducer_keeps_of_a_rank_does_not_grow_with_its_collectives(ranks: int) -> None:
    reducer = FleetReducer()
    ends = np.arange(1, 2001, dtype=np.int64) * MS
    for number in range(ranks):
        reducer.add(rank(number), came((ends - 100 * US).tolist(), ends.tolist()))
    kept = [value for member in reducer._members for value in member]
    assert not any(isinstance(value, np.ndarray | list | Arrivals | RankTrace) for value in kept)


@pytest.mark.parametrize(
    ("late_ms", "together", "caused_ms", "saved_ms"),
    [
        ((37, 35, 0), 2, 2, 37),
        ((37, 35, 1, 0), 2, 2, 36),
        ((37, 30, 22, 3, 0, 0), 3, 7, 34),  # the third waits 15 ms for the first where it is late itself
        ((30, 29, 20, 18, 0, 0, 0), 4, 1, 30),
    ],
)
def test_ranks_that_are_late_by_different_delays_are_late_together(
    late_ms: tuple[int, ...], together: int, caused_ms: int, saved_ms: int
) -> None:
    """Without the latest alone the others wait for the next; without all of them only for the rest."""
    kind = CollectiveKind("0", "default_pg", len(late_ms), "all-reduce")
    steps = range(1, 7)
    fleet = reduced(
        *(
            (
                rank_trace(label=f"rank {number}", rank=number, world_size=len(late_ms)),
                came(
                    [S + (100 * step + late) * MS for step in steps],
                    [S + (100 * step + max(late_ms) + 1) * MS for step in steps],
                    steps=steps,
                    kind=kind,
                ),
            )
            for number, late in enumerate(late_ms)
        )
    )
    assert fleet.stragglers == tuple(f"rank {number}" for number in range(together))
    assert fleet.ranks[0].caused_s == pytest.approx(caused_ms / 1e3)
    assert fleet.stragglers_saved_s == pytest.approx(saved_ms / 1e3)
