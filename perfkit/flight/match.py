"""Finds mismatched collectives of a job: not entered by all ranks, or entered with different arguments.

Collectives of a group are matched by their number in it, as NCCL and Gloo do themselves. After the first mismatch
nothing more can be learned, so there is at most one per group; messages are matched by sender and receiver.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perfkit.flight.flight_columns import Bools, Ints, JobRecords, RankCalls, collect_records
from perfkit.flight.flight_record import ProcessGroup, RecordedCollective, Records
from perfkit.flight.mismatch import Mismatch, MismatchedCollective
from perfkit.flight.order_mismatches import order_mismatches

Calls = tuple[RecordedCollective, ...]  # of one rank: several where launched together


def find_mismatches(records: Records | JobRecords) -> tuple[MismatchedCollective, ...]:
    """The first meeting of each group that did not come about, and messages without their other side.

    First those that nothing holds up.
    """
    job = records if isinstance(records, JobRecords) else collect_records(records)
    table = _build_table(job.calls)
    mismatches = [
        meeting
        for group in _list_groups(job)
        for meeting in (*_find_first_mismatch(job, table, group), *_find_unanswered_messages(job, table, group))
    ]
    return order_mismatches(mismatches)


class _CallTable(NamedTuple):
    """Columns of the distinct calls of a job: `group` by `names`, and a number equal for calls in which no aspect
    differs."""

    names: dict[str, int]
    group: Ints
    p2p: Bools
    with_peers: Bools
    gloo: Bools
    coalesced: Bools
    aspects: Ints

    def mark_group(self, name: str) -> Bools:
        """The calls of a group."""
        marked: Bools = self.group == self.names.get(name, -1)
        return marked


def _build_table(calls: Sequence[RecordedCollective]) -> _CallTable:
    names: dict[str, int] = {}
    aspects: dict[tuple[object, ...], int] = {}
    keys = (tuple(aspect(call) for _, aspect in _ASPECTS) for call in calls)
    return _CallTable(
        names,
        group=np.asarray([names.setdefault(call.group, len(names)) for call in calls], np.int64),
        p2p=np.asarray([call.p2p for call in calls], np.bool_),
        with_peers=np.asarray([bool(call.peers) for call in calls], np.bool_),
        gloo=np.asarray([call.backend == "gloo" for call in calls], np.bool_),
        coalesced=np.asarray([call.op.endswith("coalesced") for call in calls], np.bool_),
        aspects=np.asarray([aspects.setdefault(key, len(aspects)) for key in keys], np.int64),
    )


def _list_groups(job: JobRecords) -> tuple[ProcessGroup, ...]:
    """Every group once. Groups of one name that have other ranks are others, as those of `split_group` are."""
    users: defaultdict[str, list[int]] = defaultdict(list)
    used: dict[int, set[str]] = {}
    for rank, rows in sorted(job.ranks.items()):
        names = {job.calls[number].group for number in np.unique(rows.call).tolist()}
        used[rank] = names | {name for name, group in rows.groups.items() if group.ranks}
        for name in used[rank]:
            users[name].append(rank)
    groups: dict[tuple[str, tuple[int, ...]], ProcessGroup] = {}
    seen: set[int] = set()
    for rank, names in used.items():
        for name in sorted(names):
            group = job.ranks[rank].groups[name]
            if id(group) in seen:  # equal ones are one object, and hashing the ranks of each takes long
                continue
            seen.add(id(group))
            ranks = group.ranks or tuple(users[name])
            groups.setdefault((name, ranks), ProcessGroup(name=name, description=group.description, ranks=ranks))
    return tuple(groups.values())


def _find_first_mismatch(job: JobRecords, table: _CallTable, group: ProcessGroup) -> Iterator[MismatchedCollective]:
    """The first collective of a group, of those that no ring has dropped, at which its ranks do not meet."""
    chosen = table.mark_group(group.name) & ~table.p2p
    here = {rank: _select_rows(job.ranks[rank], table, chosen) for rank in sorted(group.ranks) if rank in job.ranks}
    # A ring that is full may have dropped all that a rank called of the group.
    here = {rank: rows for rank, rows in here.items() if len(rows) or not job.ranks[rank].dropped}
    unrecorded = tuple(rank for rank in sorted(group.ranks) if rank not in here)
    sequence = _find_first_sequence(job, table, here)
    if sequence is None:
        return
    entered: dict[int, Calls] = {}
    for rank, mine in here.items():
        if found := mine[job.ranks[rank].sequence[mine] == sequence].tolist():
            entered[rank] = tuple(job.build_call(rank, row) for row in found)
    absent = tuple(rank for rank in here if rank not in entered)
    calls = {rank: _pick_call(coalesced) for rank, coalesced in entered.items()}
    differs = _find_difference(entered)
    if differs is None:
        differs = Mismatch.ABSENT if absent or unrecorded else Mismatch.UNFINISHED
    yield MismatchedCollective(
        mismatch=differs, group=group, sequence=sequence, calls=calls, absent=absent, unrecorded=unrecorded
    )


def _find_first_sequence(job: JobRecords, table: _CallTable, here: Mapping[int, Ints]) -> int | None:
    """The number of the first collective that differs between ranks or that a rank is held up in."""
    numbers = {rank: job.ranks[rank].sequence[rows] for rank, rows in here.items()}
    begun = [int(mine.min()) for mine in numbers.values() if len(mine)]
    if not begun:
        return None
    known = np.empty(0, np.int64)
    for mine in numbers.values():
        known = np.union1d(known, mine[mine >= max(begun)])
    launches: dict[tuple[int, ...], int] = {}
    entered, first = np.zeros(len(known), np.int64), np.full(len(known), -1)
    differs, held_up, lost = (np.zeros(len(known), np.bool_) for _ in range(3))
    for rank, mine in numbers.items():
        order = np.argsort(mine, kind="stable")
        order = order[mine[order] >= max(begun)]
        rows = here[rank][order]
        calls = job.ranks[rank].call[rows]
        own, start, count = np.unique(mine[order], return_index=True, return_counts=True)
        if not len(own):
            continue
        what = table.aspects[calls[start]]
        for place in np.flatnonzero(count > 1).tolist():  # launched together
            launched = tuple(table.aspects[calls[start[place] : start[place] + count[place]]].tolist())
            what[place] = launches.setdefault(launched, len(table.aspects) + len(launches))
        at = np.searchsorted(known, own)
        entered[at] += 1
        first[at] = np.where(first[at] < 0, what, first[at])
        differs[at] |= first[at] != what
        held_up[at] |= ~np.logical_and.reduceat(job.ranks[rank].finished[rows], start)
        lost[at] |= table.gloo[calls[start]]
    wrong = np.flatnonzero(differs | held_up | (lost & (entered < len(here))))
    return int(known[wrong[0]]) if len(wrong) else None


def _select_rows(rows: RankCalls, table: _CallTable, chosen: Bools) -> Ints:
    """The rows of a rank's chosen collectives, those of a group."""
    mine: Ints = np.flatnonzero(chosen[rows.call])
    if len(mine) and rows.dropped:
        first = rows.sequence[mine] == rows.sequence[mine[0]]
        if table.coalesced[rows.call[mine[first]]].any():
            mine = mine[~first]  # the ring may begin within a group launched together
    return mine


def _pick_call(calls: Calls) -> RecordedCollective:
    """Of calls launched together, the first unfinished one, else the first."""
    return next((call for call in calls if not call.finished), calls[0])


def _find_difference(entered: Mapping[int, Calls]) -> Mismatch | None:
    """The kind of mismatch of a collective's calls."""
    for mismatch, aspect in _ASPECTS:
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


# What must be equal on all ranks, by the mismatch where it is not.
_ASPECTS: tuple[tuple[Mismatch, Callable[[RecordedCollective], object]], ...] = (
    (Mismatch.ORDER, lambda call: call.op),
    (Mismatch.SIZES, _get_compared_sizes),
    (Mismatch.DTYPES, lambda call: frozenset((*call.inputs.dtypes, *call.outputs.dtypes))),
)


def _find_unanswered_messages(
    job: JobRecords, table: _CallTable, group: ProcessGroup
) -> Iterator[MismatchedCollective]:
    """Messages that a rank waits for while its peer has not called the other side.

    Of each rank those of its first launch that has any: they hold up what follows.
    """
    is_message = table.mark_group(group.name) & table.p2p & table.with_peers
    for rank in sorted(group.ranks):
        if rank not in job.ranks or not (is_message[job.ranks[rank].call] & ~job.ranks[rank].finished).any():
            continue
        for row, peer in _list_unanswered(job, rank, is_message, group):
            known = peer in job.ranks
            call = job.build_call(rank, row)
            yield MismatchedCollective(
                mismatch=Mismatch.ABSENT,
                group=group,
                sequence=call.sequence,
                calls={rank: call},
                absent=(peer,) if known else (),
                unrecorded=() if known else (peer,),
            )


def _list_unanswered(job: JobRecords, rank: int, is_message: Bools, group: ProcessGroup) -> list[tuple[int, int]]:
    """The messages of a rank's first launch that some peers have not called: the row of each, with its peer.

    A peer's call may have ended while this rank's has not: a launch waits for its last. So the calls of both are
    counted. Where a full ring has dropped some, only a peer that waits as well is known to have called, and of a launch
    with several peers that do not it is not known which: nothing is told.
    """
    unanswered: list[tuple[int, int]] = []
    counted = True
    begun: Counter[tuple[int, int] | None] = Counter()
    rows = job.ranks[rank]
    for row in np.flatnonzero(is_message[rows.call]).tolist():
        call = job.calls[int(rows.call[row])]
        begun[call.peers] += 1
        peer = _get_peer(call, group)
        if call.finished or peer is None:
            continue
        if unanswered and rows.sequence[row] != rows.sequence[unanswered[0][0]]:
            break
        answers = _list_answers(job, peer, is_message, call)
        both = all(not job.ranks[each].dropped for each in (rank, peer) if each in job.ranks)
        if len(answers) < begun[call.peers] if both else all(answer.finished for answer in answers):
            unanswered.append((row, peer))
            counted = counted and both
    return unanswered if counted or len(unanswered) == 1 else []


def _list_answers(job: JobRecords, peer: int, is_message: Bools, call: RecordedCollective) -> list[RecordedCollective]:
    """The calls of the peer between the same two ranks."""
    if peer not in job.ranks:
        return []
    messages = (job.calls[number] for number in job.ranks[peer].call.tolist() if is_message[number])
    return [message for message in messages if message.peers == call.peers]


def _get_peer(call: RecordedCollective, group: ProcessGroup) -> int | None:
    """The job rank at the other end of a message; None where the group's ranks are unknown."""
    assert call.peers is not None
    source, destination = call.peers
    other = destination if call.op == "send" else source
    return group.ranks[other] if other < len(group.ranks) else None
