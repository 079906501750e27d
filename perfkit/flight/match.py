"""Finds mismatched collectives of a job: not entered by all ranks, or entered with different arguments.

Collectives of a group are matched by their number in it, as NCCL and Gloo do themselves. After the first mismatch
nothing more can be learned, so there is at most one per group; messages are matched by sender and receiver.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from perfkit.core.spec import Struct
from perfkit.flight.flight_record import FlightRecord, ProcessGroup, RecordedCollective, Records

Calls = tuple[RecordedCollective, ...]  # of one rank: several where launched together


class Mismatch(StrEnum):
    """The kinds of mismatch, the plainest first."""

    ORDER = "order differs"
    SIZES = "shapes differ"
    DTYPES = "dtypes differ"
    ABSENT = "not entered by all"
    UNFINISHED = "entered by all, not finished by all"


class MismatchedCollective(Struct):
    """A mismatched collective, with the call of each rank.

    `calls` has the ranks that entered it or, for an unanswered message, the rank that waits. `absent` ranks have a
    record and did not enter it; `unrecorded` ranks of the group have no record: their state is unknown.
    """

    mismatch: Mismatch
    group: ProcessGroup
    sequence: int
    calls: dict[int, RecordedCollective]
    absent: tuple[int, ...] = ()
    unrecorded: tuple[int, ...] = ()

    @property
    def waiting(self) -> tuple[int, ...]:
        """Ranks that entered it and have not finished."""
        return tuple(rank for rank, call in self.calls.items() if not call.finished)

    @property
    def name(self) -> str:
        """`all_reduce 12 of default_pg`, by the call of the first rank that waits in it."""
        call = self.calls[next(iter(self.waiting or tuple(self.calls)))]
        return f"{call.op} {self.sequence} of {self.group.label}"


def find_mismatches(records: Records) -> tuple[MismatchedCollective, ...]:
    """The first meeting of each group that did not come about, and messages without their other side.

    First those in which an absent rank waits for nothing itself: it holds up the others.
    """
    mismatches = [
        meeting
        for group in _list_groups(records)
        for meeting in (*_find_first_mismatch(records, group), *_find_unanswered_messages(records, group))
    ]
    waiting = {rank for meeting in mismatches for rank in meeting.waiting}

    def last(meeting: MismatchedCollective) -> tuple[bool, int]:
        held_up = bool(meeting.absent) and waiting.issuperset(meeting.absent)
        return held_up, min((call.created_ns for call in meeting.calls.values()), default=0)

    return tuple(sorted(mismatches, key=last))


def _list_groups(records: Records) -> tuple[ProcessGroup, ...]:
    """Every group once. Groups of one name that have other ranks are others, as those of `split_group` are."""
    used = {
        rank: {call.group for call in record.collectives}
        | {name for name, group in record.groups.items() if group.ranks}
        for rank, record in records.items()
    }
    groups: dict[tuple[str, tuple[int, ...]], ProcessGroup] = {}
    for rank, record in sorted(records.items()):
        for name in sorted(used[rank]):
            group = record.groups[name]
            ranks = group.ranks or tuple(sorted(other for other in records if name in used[other]))
            groups.setdefault((name, ranks), ProcessGroup(name=name, description=group.description, ranks=ranks))
    return tuple(groups.values())


def _find_first_mismatch(records: Records, group: ProcessGroup) -> Iterator[MismatchedCollective]:
    """The first collective of a group, of those that no ring has dropped, at which its ranks do not meet."""
    here = {rank: _group_by_number(records[rank], group) for rank in sorted(group.ranks) if rank in records}
    # A ring that is full may have dropped all that a rank called of the group.
    here = {rank: numbers for rank, numbers in here.items() if numbers or not records[rank].dropped}
    unrecorded = tuple(rank for rank in sorted(group.ranks) if rank not in here)
    begun = [min(numbers) for numbers in here.values() if numbers]
    if not begun:
        return
    for sequence in sorted({number for numbers in here.values() for number in numbers if number >= max(begun)}):
        entered = {rank: numbers[sequence] for rank, numbers in here.items() if sequence in numbers}
        absent = tuple(rank for rank in here if rank not in entered)
        calls = {rank: _pick_call(coalesced) for rank, coalesced in entered.items()}
        differs = _find_difference(entered)
        if differs is None and any(_is_held_up(call, absent) for call in calls.values()):
            differs = Mismatch.ABSENT if absent or unrecorded else Mismatch.UNFINISHED
        if differs is not None:
            yield MismatchedCollective(
                mismatch=differs, group=group, sequence=sequence, calls=calls, absent=absent, unrecorded=unrecorded
            )
            return


def _is_held_up(call: RecordedCollective, absent: tuple[int, ...]) -> bool:
    """True if a call waits, or ended with an error: Gloo does not distinguish that from success, but no other rank
    came."""
    return not call.finished or (bool(absent) and call.backend == "gloo")


def _group_by_number(record: FlightRecord, group: ProcessGroup) -> dict[int, Calls]:
    numbers: defaultdict[int, list[RecordedCollective]] = defaultdict(list)
    for call in record.collectives:
        if call.group == group.name and not call.p2p:
            numbers[call.sequence].append(call)
    begin = next(iter(numbers), None)
    if begin is not None and record.dropped and any(call.op.endswith("coalesced") for call in numbers[begin]):
        del numbers[begin]  # the ring may begin within a group launched together
    return {number: tuple(calls) for number, calls in numbers.items()}


def _pick_call(calls: Calls) -> RecordedCollective:
    """Of calls launched together, the first unfinished one, else the first."""
    return next((call for call in calls if not call.finished), calls[0])


def _find_difference(entered: Mapping[int, Calls]) -> Mismatch | None:
    """The kind of mismatch of a collective's calls."""
    aspects: tuple[tuple[Mismatch, Callable[[RecordedCollective], object]], ...] = (
        (Mismatch.ORDER, lambda call: call.op),
        (Mismatch.SIZES, _get_compared_sizes),
        (Mismatch.DTYPES, lambda call: {*call.inputs.dtypes, *call.outputs.dtypes}),
    )
    for mismatch, aspect in aspects:
        compared = [[aspect(call) for call in calls] for calls in entered.values()]
        if any(values != compared[0] for values in compared):
            return mismatch
    return None


def _get_compared_sizes(call: RecordedCollective) -> object:
    """The sizes that must be equal on all ranks; none for all-to-all, or for possibly uneven parts (`all_gather_v`)."""
    if "all_to_all" in call.op or "alltoall" in call.op or call.op.endswith("_v"):
        return None
    inputs = None if "reduce" not in call.op and "scatter" in call.op else call.inputs.shapes
    outputs = None if call.op == "gather" else call.outputs.shapes
    return inputs, outputs


def _find_unanswered_messages(records: Records, group: ProcessGroup) -> Iterator[MismatchedCollective]:
    """Messages that a rank waits for while its peer has not called the other side.

    Of each rank those of its first launch that has any: they hold up what follows.
    """
    messages = {
        rank: [call for call in records[rank].collectives if call.p2p and call.peers and call.group == group.name]
        for rank in sorted(group.ranks)
        if rank in records
    }
    for rank in messages:
        for call, peer in _list_unanswered(rank, messages, records, group):
            known = peer in records
            yield MismatchedCollective(
                mismatch=Mismatch.ABSENT,
                group=group,
                sequence=call.sequence,
                calls={rank: call},
                absent=(peer,) if known else (),
                unrecorded=() if known else (peer,),
            )


def _list_unanswered(
    rank: int, messages: Mapping[int, list[RecordedCollective]], records: Records, group: ProcessGroup
) -> list[tuple[RecordedCollective, int]]:
    """The messages of a rank's first launch that some peers have not called, each with its peer.

    A peer's call may have ended while this rank's has not: a launch waits for its last. So the calls of both are
    counted. Where a full ring has dropped some, only a peer that waits as well is known to have called, and of a launch
    with several peers that do not it is not known which: nothing is told.
    """
    unanswered: list[tuple[RecordedCollective, int]] = []
    counted = True
    begun: Counter[tuple[int, int] | None] = Counter()
    for call in messages[rank]:
        begun[call.peers] += 1
        peer = _get_peer(call, group)
        if call.finished or peer is None:
            continue
        if unanswered and call.sequence != unanswered[0][0].sequence:
            break
        answers = [each for each in messages.get(peer, ()) if each.peers == call.peers]
        both = all(not records[each].dropped for each in (rank, peer) if each in records)
        if len(answers) < begun[call.peers] if both else all(each.finished for each in answers):
            unanswered.append((call, peer))
            counted = counted and both
    return unanswered if counted or len(unanswered) == 1 else []


def _get_peer(call: RecordedCollective, group: ProcessGroup) -> int | None:
    """The job rank at the other end of a message; None where the group's ranks are unknown."""
    assert call.peers is not None
    source, destination = call.peers
    other = destination if call.op == "send" else source
    return group.ranks[other] if other < len(group.ranks) else None
