"""Propagates block labels from the step recorded in detail to steps with the same allocations."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from perfkit.core.allocations import CUDA_SMALL_BYTES, can_cuda_serve
from perfkit.devices.accelerator import is_cpu
from perfkit.instruments.memory.allocation_places import AllocationPlace
from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.profiler_events import ProfiledAllocation

# Group of a module's allocations in a phase: phase, its index in the step, module.
_Group = tuple[int, int, str]


def propagate_labels(
    events: Sequence[ProfiledAllocation],
    places: Sequence[AllocationPlace],
    detailed: Sequence[ProfiledAllocation],
    detailed_places: Sequence[AllocationPlace],
    known: Sequence[BlockLabel],
) -> list[BlockLabel]:
    """Label the events of other steps that do the same as the detailed one.

    A module's allocations in a phase match those of the detailed step in time order, if their number is equal and each
    pair may have the same request. Otherwise a block matches the n-th of its size, else the first of nearly its size
    (without its shape). CUDA's allocator may serve a request with blocks of different sizes. A block without a match
    keeps only its place.
    """
    models = _group_by_place(detailed, detailed_places, range(len(detailed)))
    labels = [BlockLabel()] * len(events)
    for group, members in _group_by_step(events, places):
        likes = models.get(group, ())
        pairs = _pair_allocations([events[at] for at in members], [detailed[at] for at in likes])
        for number, at in enumerate(members):
            if number in pairs:
                like, ordered = pairs[number]
                labels[at] = _drop_uncertain_shape(known[likes[like]], events[at], ordered)
            else:
                labels[at] = BlockLabel(op=places[at].sharding, module=places[at].module)
    alive: dict[int, BlockLabel] = {}
    for at, event in enumerate(events):
        if event.size > 0:
            alive[event.address] = labels[at]
        else:
            labels[at] = alive.pop(event.address, BlockLabel())
    return labels


def _group_by_step(
    events: Sequence[ProfiledAllocation], places: Sequence[AllocationPlace]
) -> Iterator[tuple[_Group, list[int]]]:
    """The groups of each step, step by step."""
    for _, run in groupby(range(len(events)), key=lambda at: places[at].step):
        yield from _group_by_place(events, places, run).items()


def _group_by_place(
    events: Sequence[ProfiledAllocation], places: Sequence[AllocationPlace], chosen: Iterator[int] | range
) -> Mapping[_Group, list[int]]:
    """The allocations among the `chosen` events by place, in time order."""
    groups: dict[_Group, list[int]] = defaultdict(list)
    for at in chosen:
        if events[at].size > 0:
            groups[places[at].phase, places[at].turn, places[at].module].append(at)
    return groups


def _pair_allocations(
    events: Sequence[ProfiledAllocation], models: Sequence[ProfiledAllocation]
) -> dict[int, tuple[int, bool]]:
    """Index of the matching event by index, and True if size or order proves the match."""
    if len(events) == len(models) and all(map(_is_same_request, events, models)):
        return {at: (at, True) for at in range(len(events))}
    waiting: dict[int, list[int]] = defaultdict(list)
    for like in reversed(range(len(models))):
        waiting[models[like].size].append(like)
    pairs = {at: (waiting[event.size].pop(), True) for at, event in enumerate(events) if waiting[event.size]}
    unpaired = sorted(like for likes in waiting.values() for like in likes)
    for at in sorted(set(range(len(events))) - pairs.keys()):
        near = next((like for like in unpaired if _is_same_request(events[at], models[like])), None)
        if near is not None:
            unpaired.remove(near)
            pairs[at] = near, False
    return pairs


def _is_same_request(event: ProfiledAllocation, model: ProfiledAllocation) -> bool:
    """True if an allocator may have served the same request with either block."""
    if event.size == model.size or is_cpu(event.device):
        return event.size == model.size
    smaller = min(event.size, model.size)
    return smaller > CUDA_SMALL_BYTES and abs(event.size - model.size) <= CUDA_SMALL_BYTES


def _drop_uncertain_shape(label: BlockLabel, event: ProfiledAllocation, ordered: bool) -> BlockLabel:
    """The label without shape and dtype if the block may hold another tensor."""
    fits = is_cpu(event.device) or can_cuda_serve(event.size, label.bytes)
    return label if not label.bytes or (ordered and fits) else label._replace(shape="", dtype="", bytes=0)
