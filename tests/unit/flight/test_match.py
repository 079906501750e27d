"""Which collective it is that ranks do not meet in, who is absent, and what differs."""

from typing import Any

import pytest

from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.match import find_mismatches
from perfkit.flight.mismatch import Mismatch
from tests.fixtures.flight_dumps import WORLD, dump, entry

TP, DP = ("1", "tp"), ("2", "dp")


def records(*ranks: dict[str, Any] | None) -> dict[int, FlightRecord]:
    return {rank: decode_dump(each, f"rank{rank}") for rank, each in enumerate(ranks) if each is not None}


def test_ranks_that_met_in_everything_are_no_mismatch() -> None:
    assert find_mismatches(records(*(dump(entry(1), entry(2)) for _ in range(2)))) == ()
    assert find_mismatches({}) == ()


def test_the_rank_that_did_not_enter_is_absent_and_the_other_waits() -> None:
    [meeting] = find_mismatches(records(dump(entry(1), entry(2, ended=False)), dump(entry(1))))
    assert (meeting.mismatch, meeting.sequence, meeting.absent, meeting.waiting) == (Mismatch.ABSENT, 2, (1,), (0,))
    assert meeting.name.startswith("all_reduce 2 ")


def test_what_follows_tells_nothing_more() -> None:
    ahead = dump(entry(1), *(entry(number, ended=False) for number in (2, 3, 4)))
    [meeting] = find_mismatches(records(ahead, dump(entry(1))))
    assert meeting.sequence == 2


def test_a_rank_without_a_record_is_not_called_absent() -> None:
    [meeting] = find_mismatches(records(dump(entry(1, ended=False)), None))
    assert (meeting.absent, meeting.unrecorded, meeting.waiting) == ((), (1,), (0,))


def test_gloo_ends_what_it_was_in_when_a_peer_goes() -> None:
    lost = dump(entry(1, backend="gloo"), entry(2, backend="gloo"))
    [meeting] = find_mismatches(records(lost, dump(entry(1, backend="gloo"))))
    assert (meeting.sequence, meeting.absent, meeting.waiting) == (2, (1,), ())
    # NCCL's that has ended was entered by all: the other record was only made earlier.
    assert find_mismatches(records(dump(entry(1), entry(2)), dump(entry(1)))) == ()


def test_all_entered_and_not_all_finished() -> None:
    [meeting] = find_mismatches(records(dump(entry(1)), dump(entry(1, ended=False))))
    assert (meeting.mismatch, meeting.absent, meeting.waiting) == (Mismatch.UNFINISHED, (), (1,))


@pytest.mark.parametrize(
    ("other", "mismatch"),
    [
        (entry(1, "broadcast", ended=False), Mismatch.ORDER),
        (entry(1, sizes=[[4, 1023]], ended=False), Mismatch.SIZES),
        (entry(1, dtype="BFloat16", ended=False), Mismatch.DTYPES),
    ],
)
def test_what_differs(other: dict[str, Any], mismatch: Mismatch) -> None:
    [meeting] = find_mismatches(records(dump(entry(1, ended=False)), dump(other)))
    assert meeting.mismatch == mismatch
    assert set(meeting.calls) == {0, 1}


@pytest.mark.parametrize(
    ("op", "sizes", "outputs"),
    [("all_to_all", ([3], [5]), ([5], [3])), ("scatter", ([8], []), ([4], [4])), ("gather", ([4], [4]), ([8], []))],
)
def test_sizes_that_may_differ(op: str, sizes: Any, outputs: Any) -> None:
    both = (entry(1, op, sizes=[sizes[rank]], outputs=[outputs[rank]]) for rank in range(2))
    assert find_mismatches(records(*(dump(each) for each in both))) == ()


def test_rings_are_compared_from_where_all_of_them_begin() -> None:
    late = dump(*(entry(number) for number in (3, 4)), entry(5, ended=False))
    [meeting] = find_mismatches(records(dump(*(entry(number) for number in range(1, 5))), late))
    assert (meeting.sequence, meeting.absent) == (5, (0,))


def test_the_rank_that_waits_for_nothing_comes_first() -> None:
    """Rank 0 waits in dp for rank 2, which waits in tp for rank 3, which waits for nothing."""
    world = {WORLD: (0, 1, 2, 3)}
    found = find_mismatches(
        records(
            dump(entry(0, group=DP, sequence=1, ended=False), groups={**world, DP: (0, 2)}),
            dump(groups=world),
            dump(entry(0, group=TP, sequence=1, ended=False), groups={**world, DP: (0, 2), TP: (2, 3)}),
            dump(groups={**world, TP: (2, 3)}),
        )
    )
    assert [(meeting.group.label, meeting.absent, meeting.waiting) for meeting in found] == [
        ("tp", (3,), (2,)),
        ("dp", (2,), (0,)),
    ]


def test_groups_of_one_name_with_other_ranks_are_others() -> None:
    left, right = {TP: (0, 1)}, {TP: (2, 3)}
    pairs = records(
        dump(entry(1, group=TP), groups=left),
        dump(entry(1, group=TP), groups=left),
        dump(entry(1, "broadcast", group=TP), groups=right),
        dump(entry(1, "broadcast", group=TP), groups=right),
    )
    assert find_mismatches(pairs) == ()


def test_a_message_that_nobody_answers() -> None:
    waits = dump(entry(1, "recv 1<-0", p2p=True, ended=False), groups={TP: (4, 6)})
    waits["entries"][0]["process_group"] = TP
    idle = dump(groups={TP: (4, 6)})
    [meeting] = find_mismatches({4: decode_dump(idle, "4"), 6: decode_dump(waits, "6")})
    assert (meeting.absent, meeting.waiting, meeting.name) == ((4,), (6,), "recv 1 of tp")
    idle["entries"] = [entry(1, "send 0->1", p2p=True, ended=False, group=TP)]
    assert find_mismatches({4: decode_dump(idle, "4"), 6: decode_dump(waits, "6")}) == ()


def message(number: int, op: str, batch: int, *, ended: bool = True) -> dict[str, Any]:
    return entry(number, op, sequence=batch, p2p=True, ended=ended)


def test_of_messages_launched_as_one_the_peer_that_did_not_call_is_absent() -> None:
    """A pipeline: rank 1 waits in one launch for both neighbours, and rank 0's own launch has ended."""
    pipeline = {WORLD: (0, 1, 2)}
    first = dump(message(0, "send 0->1", 1), message(1, "send 0->1", 2), groups=pipeline)
    middle = dump(
        message(0, "recv 1<-0", 1),
        message(1, "recv 1<-2", 1),
        message(2, "recv 1<-0", 2, ended=False),
        message(3, "recv 1<-2", 2, ended=False),
        groups=pipeline,
    )
    last = dump(message(0, "send 2->1", 1), groups=pipeline)
    [meeting] = find_mismatches(records(first, middle, last))
    assert (meeting.absent, meeting.waiting) == ((2,), (1,))
    assert meeting.name.startswith("recv 2 ")


def test_of_messages_launched_as_one_all_that_are_not_answered_are_told() -> None:
    pipeline = {WORLD: (0, 1, 2)}
    middle = dump(
        message(0, "recv 1<-0", 1, ended=False),
        message(1, "recv 1<-2", 1, ended=False),
        message(2, "recv 1<-2", 2, ended=False),
        groups=pipeline,
    )
    found = find_mismatches(records(dump(groups=pipeline), middle, dump(groups=pipeline)))
    assert [(meeting.sequence, meeting.absent) for meeting in found] == [(1, (0,)), (1, (2,))]


@pytest.mark.parametrize("waiting", [1, 2])
def test_of_a_full_ring_no_peer_of_several_is_blamed(waiting: int) -> None:
    pipeline = {WORLD: (0, 1, 2)}
    batch = [message(number, f"recv 1<-{peer}", 9, ended=False) for number, peer in ((90, 0), (91, 2))]
    ended = [dump(message(0, f"send {rank}->1", 1), groups=pipeline) for rank in (0, 2)]
    found = find_mismatches(records(ended[0], dump(*batch[:waiting], groups=pipeline), ended[1]))
    assert [meeting.absent for meeting in found] == [(0,)] * (waiting == 1)


def test_the_peers_of_a_message_are_places_in_the_order_of_the_group() -> None:
    """As of `new_group([4, 0, 2], sort_ranks=False)`: its place 1 is rank 0."""
    unsorted = {TP: (4, 0, 2)}
    waits = dump(entry(0, "recv 2<-1", group=TP, p2p=True, ended=False), groups=unsorted)
    idle = dump(groups=unsorted)
    [meeting] = find_mismatches(records(idle, None, waits, None, idle))
    assert (meeting.absent, meeting.waiting) == ((0,), (2,))


def coalesced(number: int, sequence: int) -> list[dict[str, Any]]:
    """Two collectives that are launched as one, with the entry that stands for both."""
    ops = ("all_reduce", "_all_gather_base", "allreduce_coalesced")
    return [entry(number + place, op, sequence=sequence) for place, op in enumerate(ops)]


def test_collectives_launched_as_one_are_compared_as_one() -> None:
    assert find_mismatches(records(*(dump(*coalesced(0, 1), *coalesced(3, 2)) for _ in range(2)))) == ()
    other = coalesced(3, 2)
    other[0]["profiling_name"] = "nccl:broadcast"
    [meeting] = find_mismatches(records(dump(*coalesced(0, 1), *coalesced(3, 2)), dump(*coalesced(0, 1), *other)))
    assert (meeting.mismatch, meeting.sequence) == (Mismatch.ORDER, 2)


def test_what_a_full_ring_has_dropped_of_a_launch_is_no_difference() -> None:
    whole, cut = coalesced(10, 1), coalesced(10, 1)[1:]
    after = [entry(13, sequence=2), entry(14, sequence=3, ended=False)]
    [meeting] = find_mismatches(records(dump(*whole, *after[:1]), dump(*cut, *after)))
    assert (meeting.mismatch, meeting.sequence, meeting.absent) == (Mismatch.ABSENT, 3, (0,))
