"""Which mismatch holds up which: a job of eight ranks (tp 4 x dp 2) whose CPUs enqueue ahead of their devices."""

from collections import Counter, defaultdict
from typing import Any

from perfkit.analysis.flight.flight_findings import build_flight_findings
from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.match import find_mismatches
from perfkit.flight.mismatch import Mismatch, MismatchedCollective
from tests.fixtures.flight_dumps import WORLD, dump, entry

RANKS, TP, AHEAD = range(8), 4, 12
PG = {"tp": ("1", "tp"), "dp": ("2", "dp"), "w": WORLD}

Step = tuple[str, str, int]  # group, op, elements


def members(group: str, rank: int) -> tuple[int, ...]:
    by_name = {"tp": [other for other in RANKS if other // TP == rank // TP], "w": [*RANKS]}
    return tuple(by_name.get(group, [other for other in RANKS if other % TP == rank % TP]))


def program() -> list[Step]:
    return [*[("tp", "all_reduce", 64)] * 4, ("dp", "reduce_scatter", 64), ("w", "all_reduce", 1)] * 5


def run_job(programs: dict[int, list[Step]], lost: tuple[str, int] | None = None) -> dict[int, FlightRecord]:
    """Devices finish their calls in order, each once all of its group reach it with equal calls; `lost` never ends."""
    numbers: dict[int, list[int]] = {}
    for rank, steps in programs.items():
        counted: Counter[str] = Counter()
        numbers[rank] = [counted.update([group]) or counted[group] for group, _, _ in steps]
    done = dict.fromkeys(RANKS, 0)
    moved = True
    while moved:
        moved = False
        for rank in RANKS:
            if done[rank] == len(programs[rank]):
                continue
            at = (programs[rank][done[rank]], numbers[rank][done[rank]])
            peers = members(at[0][0], rank)
            if (at[0][0], at[1]) != lost and all(
                done[other] < len(programs[other]) and (programs[other][done[other]], numbers[other][done[other]]) == at
                for other in peers
            ):
                for other in peers:
                    done[other] += 1
                moved = True
    records = {}
    for rank in RANKS:
        calls: list[dict[str, Any]] = []
        for place, (group, op, elements) in enumerate(programs[rank][: done[rank] + AHEAD]):
            call = entry(
                place,
                op,
                group=PG[group],
                sequence=numbers[rank][place],
                sizes=[[elements]],
                ended=place < done[rank],
            )
            # The second machine's clock is behind by more than all of the job takes.
            calls.append(call | {"time_created_ns": 10**9 + place - (10**8 if rank >= TP else 0)})
        groups = {PG[name]: members(name, rank) for name in PG}
        records[rank] = decode_dump(dump(*calls, groups=groups), f"rank{rank}")
    return records


def find_roots(found: tuple[MismatchedCollective, ...]) -> list[tuple[Mismatch, str]]:
    return [(meeting.mismatch, meeting.name) for meeting in found if meeting.blocked_by is None]


def test_another_shape_comes_before_all_that_waits_behind_it_whatever_the_clocks_say() -> None:
    programs = {rank: program() for rank in RANKS}
    programs[2][13] = ("tp", "all_reduce", 63)  # the 10th of its tp group
    found = find_mismatches(run_job(programs))
    assert find_roots(found) == [(Mismatch.SIZES, "all_reduce 10 of tp")]
    assert found[0].mismatch is Mismatch.SIZES
    assert len(found) > 4
    assert {meeting.blocked_by for meeting in found[1:]} == {0}
    findings = build_flight_findings(found, ())
    assert [finding.id for finding in findings] == ["collective.shapes"]
    assert f" {len(found) - 1} " in findings[0].evidence


def test_a_call_that_one_rank_leaves_out_has_ranks_wait_for_each_other() -> None:
    """All calls have been enqueued by all; the rank that left one out is at a later one than the others."""
    programs = {rank: program() for rank in RANKS}
    del programs[6][14]
    found = find_mismatches(run_job(programs))
    [(mismatch, _)] = find_roots(found)
    assert mismatch is Mismatch.CROSSED
    behind = defaultdict(list)
    for rank, name in found[0].crossed.items():
        behind[name].append(rank)
    assert behind["all_reduce 12 of tp"] == [4, 5, 7]
    assert [ranks for name, ranks in behind.items() if 6 in ranks and not name.endswith("tp")]
    assert [finding.id for finding in build_flight_findings(found, ())] == ["collective.order"]


def test_a_collective_that_all_reach_and_none_finishes_is_the_first_of_its_kind() -> None:
    found = find_mismatches(run_job({rank: program() for rank in RANKS}, lost=("dp", 3)))
    assert find_roots(found) == [(Mismatch.UNFINISHED, "reduce_scatter 3 of dp")] * TP
    assert {finding.id for finding in build_flight_findings(found, ())} == {"collective.unfinished"}


def test_what_differs_is_plainer_than_what_all_entered_before_it() -> None:
    programs = {rank: program() for rank in RANKS}
    programs[0][18] = ("tp", "all_reduce", 65)
    found = find_mismatches(run_job(programs, lost=("dp", 3)))
    assert found[0].mismatch is Mismatch.SIZES
    assert ("reduce_scatter 3 of dp", None) in {(meeting.name, meeting.blocked_by) for meeting in found[1:]}


def test_two_ranks_that_first_receive_wait_for_each_other() -> None:
    waits = [entry(0, op, p2p=True, ended=False) for op in ("recv 0<-1", "recv 1<-0")]
    found = find_mismatches({rank: decode_dump(dump(call), str(rank)) for rank, call in enumerate(waits)})
    assert [meeting.mismatch for meeting in found] == [Mismatch.CROSSED] * 2
    assert set(found[0].crossed) == {0, 1}
    assert [finding.id for finding in build_flight_findings(found, ())] == ["collective.order"]


def test_pairs_of_ranks_that_wait_for_each_other_are_apart() -> None:
    pairs = {WORLD: (0, 1, 2, 3)}
    waits = [entry(0, f"recv {rank}<-{rank ^ 1}", p2p=True, ended=False) for rank in range(4)]
    found = find_mismatches({rank: decode_dump(dump(call, groups=pairs), "") for rank, call in enumerate(waits)})
    assert sorted(tuple(meeting.crossed) for meeting in found if meeting.blocked_by is None) == [(0, 1), (2, 3)]
