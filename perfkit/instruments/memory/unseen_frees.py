"""Adds frees that no profiler reports: of collective buffers whose last holder is a gloo thread.

torch's profiler sees what happens on threads that the recorded one started or handed work to, while they are at that
work. A process group's threads let go of a collective's buffers only afterwards. Mostly the training thread is later
still and its free is seen; but which of them is the last is a race, and a buffer whose last reference they drop would
stay in the books for ever, or until another block takes its address.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch.nn.parallel import DistributedDataParallel

from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.memory.allocation_places import AllocationPlace
from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.profiler_events import ProfiledAllocation
from perfkit.instruments.training.live_objects import find_instances
from perfkit.instruments.training.tensors import get_address, list_plain_parts

_BACKWARD = PHASES.index("backward")
_COLLECTIVE = ("c10d::", "_c10d_functional::", "fsdp::")

Event = tuple[ProfiledAllocation, AllocationPlace, BlockLabel]


class _BlockLife(NamedTuple):
    """A block's life; `ended` is its free, the allocation that reuses the address, or the number of events."""

    born: int
    ended: int
    seen: bool


def find_blocks_of_hooked_programs() -> frozenset[int] | None:
    """The addresses of the blocks that Python's tensors hold; None where no module of DDP has a communication hook."""
    if not any(module.__dict__.get("_comm_hooks") for module in find_instances(DistributedDataParallel)):
        return None
    parts = (part for tensor in find_instances(torch.Tensor) for part in list_plain_parts(tensor))
    return frozenset(get_address(part.untyped_storage()) for part in parts)


def add_unseen_frees(events: Sequence[Event], held: Container[int] | None = None) -> list[Event]:
    """The events with a free for every collective block without one.

    Blocks that are freed within their phase in another step also count as a collective's (copies that DDP sends, made
    by plain ops).

    Every step does the same, so that such a block is freed after as many allocations as its like of another step,
    which the training thread was the last to hold. One that comes again in other steps and is never seen freed nobody
    but the collective holds: it ends with the range of FSDP2 that it was made in; without a range, with its phase, as
    what follows a phase needs the results of its collectives. One that never comes again is no buffer; it stays.

    `held` are the addresses that the program holds at the end, where it has a communication hook: gloo's threads run
    part of it, and let go of what its plain ops made in backward. Such a block ends with its phase, or, if the program
    holds the last of its likes, when the next one is made.
    """
    counts = list(accumulate(event.size > 0 for event, _, _ in events))
    kinds = _classify_allocations(events)
    births: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for born, kind in kinds.items():
        births[kind].append(born)
    lives: dict[tuple[object, ...], int] = {}
    unseen: list[_BlockLife] = []
    for block in _list_blocks([event for event, _, _ in events]):
        kind = kinds[block.born]
        if not block.seen:
            unseen.append(block)
        elif _is_collective(events[block.born]) or events[block.born][1].visit == events[block.ended][1].visit:
            lasted = counts[block.ended] - counts[block.born]
            lives[kind] = min(lives.get(kind, lasted), lasted)
    replaced = {kinds[block.born] for block in unseen if held and events[block.born][0].address in held}
    missing: dict[int, list[Event]] = {}
    for block in unseen:
        kind = kinds[block.born]
        event, place, label = events[block.born]
        let_go = held is not None and place.phase == _BACKWARD and event.address not in held
        if kind not in lives and not (len(births[kind]) > 1 and (let_go or _is_collective(events[block.born]))):
            continue
        end = _find_end(events, counts, block.born, lives.get(kind))
        if let_go and kind in replaced:
            end = next((born + 1 for born in births[kind] if born > block.born), end)
        if end is not None and end <= block.ended:
            last, there, _ = events[end - 1]
            free = event._replace(size=-event.size, time_ns=last.time_ns, allocated=last.allocated)
            missing.setdefault(end, []).append((free, there, label))
    return [entry for index, event in enumerate(events) for entry in (*missing.get(index, ()), event)]


def _find_end(events: Sequence[Event], counts: Sequence[int], born: int, lasted: int | None) -> int | None:
    """The event before which a block is freed; None if the recording ends earlier."""
    place = events[born][1]
    for index in range(born + 1, len(events)):
        event, there, _ = events[index]
        if lasted is not None:
            has_ended = event.size > 0 and counts[index] - counts[born] > lasted
        else:
            has_ended = there.visit != place.visit or (bool(place.sharding) and there.sharding != place.sharding)
        if has_ended:
            return index
    return None


def _is_collective(event: Event) -> bool:
    _, place, label = event
    return bool(place.sharding) or label.op.startswith(_COLLECTIVE)


def _classify_allocations(events: Sequence[Event]) -> dict[int, tuple[object, ...]]:
    """For the allocations what is the same of their likes in other steps: the n-th of its size there.

    The size is that of the tensor where it is known: that of a block of CUDA's allocator may be another in every step.
    """
    kinds: dict[int, tuple[object, ...]] = {}
    counted: Counter[tuple[object, ...]] = Counter()
    step = None
    for index, (event, place, label) in enumerate(events):
        if place.step != step:
            step = place.step
            counted.clear()
        if event.size > 0:
            kind = (place.turn, place.module, place.sharding or label.op, label.bytes or event.size)
            counted[kind] += 1
            kinds[index] = (*kind, counted[kind])
    return kinds


def _list_blocks(events: Sequence[ProfiledAllocation]) -> Iterator[_BlockLife]:
    alive: dict[int, int] = {}
    for index, event in enumerate(events):
        before = alive.pop(event.address, None)
        if event.size > 0:
            alive[event.address] = index
        if before is not None:
            yield _BlockLife(before, index, event.size < 0)
    for index in alive.values():
        yield _BlockLife(index, len(events), False)
