"""Orders mismatched collectives by what holds up what, as each rank's own record tells it.

No clock is compared: those of two machines differ by more than a collective takes. A rank that waits in a collective
holds up all that it enters after it, and all that it has not entered.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from perfkit.flight.mismatch import DIFFERING, Mismatch, MismatchedCollective

Edges = Mapping[int, Collection[int]]  # places of mismatches


def order_mismatches(mismatches: Sequence[MismatchedCollective]) -> tuple[MismatchedCollective, ...]:
    """Those that nothing holds up first, the plainest kind before the others; each of the rest with its cause.

    Of those that hold up each other the plainest is the cause.
    """
    followers = _find_followers(mismatches)
    held_up = dict.fromkeys(range(len(mismatches)), 0)  # by how many of those that are still to come
    for places in followers.values():
        for place in places:
            held_up[place] += 1
    kinds = list(Mismatch)
    keys = {place: (kinds.index(meeting.mismatch), place) for place, meeting in enumerate(mismatches)}
    ready = [keys[place] for place, count in held_up.items() if count == 0]
    heapq.heapify(ready)
    causes: dict[int, int | None] = dict.fromkeys((place for _, place in ready), None)
    cycles: dict[int, set[int]] = {}
    order: list[int] = []
    while held_up:
        if not ready:
            cycle = _find_cycle(set(held_up), followers)
            first = min(cycle, key=keys.__getitem__)
            causes.setdefault(first, None)
            cycles |= dict.fromkeys(cycle, cycle)
            ready.append(keys[first])
        _, place = heapq.heappop(ready)
        del held_up[place]
        order.append(place)
        for follower in followers.get(place, ()):
            cause = causes[place]
            causes.setdefault(follower, place if cause is None else cause)
            if follower in held_up:
                held_up[follower] -= 1
                if held_up[follower] == 0:
                    heapq.heappush(ready, keys[follower])
    order.sort(key=lambda place: causes[place] is not None)
    positions = {place: position for position, place in enumerate(order)}
    return tuple(
        msgspec.structs.replace(
            _mark_crossed(mismatches[place], [mismatches[other] for other in cycles.get(place, ())]),
            blocked_by=None if (cause := causes[place]) is None else positions[cause],
        )
        for place in order
    )


def _find_followers(mismatches: Sequence[MismatchedCollective]) -> Edges:
    """The mismatches that each one holds up: by rank, those that it entered later, and those that it did not enter."""
    entered: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    awaited: defaultdict[int, list[int]] = defaultdict(list)
    for place, meeting in enumerate(mismatches):
        for rank, call in meeting.calls.items():
            entered[rank].append((call.number, place))
        for rank in meeting.absent:
            awaited[rank].append(place)
    followers: defaultdict[int, set[int]] = defaultdict(set)
    for rank, numbers in entered.items():
        places = [place for _, place in sorted(numbers)]
        waits = [place for place in places if _is_stuck(mismatches[place], rank)]
        if waits:
            followers[waits[0]].update(awaited[rank])
        for index, place in enumerate(places):
            later = places[index + 1 :]
            if mismatches[place].mismatch in DIFFERING:
                followers[place].update(later)
            elif place in waits:
                # What a rank passes does not depend on a collective that all have entered.
                all_entered = mismatches[place].mismatch is Mismatch.UNFINISHED
                followers[place].update(
                    other for other in later if not (all_entered and mismatches[other].mismatch in DIFFERING)
                )
    return followers


def _is_stuck(meeting: MismatchedCollective, rank: int) -> bool:
    """True if a rank waits in it; Gloo ends it with an error where another did not come."""
    call = meeting.calls[rank]
    return not call.finished or (call.backend == "gloo" and meeting.mismatch is Mismatch.ABSENT)


def _find_cycle(places: set[int], followers: Edges) -> set[int]:
    """Some of `places` that hold up each other, directly or through others; each of `places` is held up by another."""
    left = places
    while True:  # leaves out those that hold up none of the rest
        holding = {place for place in left if not left.isdisjoint(followers.get(place, ()))}
        if holding == left:
            break
        left = holding
    start = min(left)
    return {place for place in _reach(start, followers, left) if start in _reach(place, followers, left)}


def _reach(start: int, followers: Edges, within: Collection[int]) -> set[int]:
    """All of `within` that `start` holds up, directly or through others."""
    reached: set[int] = set()
    ends = [start]
    while ends:
        new = {place for place in followers.get(ends.pop(), ()) if place in within} - reached
        reached |= new
        ends.extend(new)
    return reached


def _mark_crossed(meeting: MismatchedCollective, cycle: Sequence[MismatchedCollective]) -> MismatchedCollective:
    """Name the first collective of a cycle that each rank waits in, if that alone is what is wrong."""
    if not cycle or meeting.mismatch in DIFFERING:
        return meeting
    first: dict[int, tuple[int, str]] = {}
    for other in cycle:
        for rank in other.waiting:
            call = other.calls[rank]
            if rank not in first or call.number < first[rank][0]:
                first[rank] = call.number, f"{call.op} {other.sequence} of {other.group.label}"
    waits = {rank: name for rank, (_, name) in sorted(first.items())}
    return msgspec.structs.replace(meeting, mismatch=Mismatch.CROSSED, crossed=waits)
