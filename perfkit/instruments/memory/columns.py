"""Builds the written columns from allocations with places and labels."""

from collections.abc import Mapping, Sequence

import msgspec
import torch

from perfkit.core.allocations import NONE, Allocations, InitialBlock, TextNumbers, build_allocations, round_cuda_size
from perfkit.devices.accelerator import is_cpu
from perfkit.instruments.memory.allocation_places import PlaceIndex
from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.profiler_events import ProfiledAllocation
from perfkit.instruments.memory.unseen_frees import Event


def build_columns(
    device: torch.device,
    events: Sequence[Event],
    known: Sequence[InitialBlock],
    places: PlaceIndex,
    source: str,
    start: int = 0,
) -> Allocations:
    """Build columns of the events from `start`, with the live blocks at that time.

    Args:
        device: the allocator's device.
        events: allocations and frees in time order, each with its place and its block's label.
        known: storages alive at `start` with a known purpose.
        places: for the bands.
        source: source of the events.
        start: the first event that counts; earlier ones only define the live blocks.
    """
    before = _find_survivors(events[:start])
    sizes = _find_freed_first(events[start:]) | {event.address: event.size for event, _, _ in before}
    blocks = tuple(_set_allocated_size(block, device, sizes) for block in known)
    addresses = {block.address for block in blocks}
    # What nothing but its allocation tells of keeps that event, outside of any step.
    survivors = [
        (event, place._replace(step=NONE), label) for event, place, label in before if event.address not in addresses
    ]
    explained = sum(block.size_bytes for block in blocks) + sum(event.size for event, _, _ in survivors)
    recorded, there, labels = (
        zip(*survivors, *events[start:], strict=True) if survivors or events[start:] else ((), (), ())
    )
    names = TextNumbers()
    return build_allocations(
        device=str(device),
        source=source,
        time_ns=[event.time_ns for event in recorded],
        address=[event.address for event in recorded],
        size=[event.size for event in recorded],
        phase=[place.phase for place in there],
        visit=[place.visit for place in there],
        step=[place.step for place in there],
        op=[names.number(_get_op(event, label)) for event, label in zip(recorded, labels, strict=True)],
        module=[names.number(label.module) for label in labels],
        line=[names.number(label.line) for label in labels],
        shape=[names.number(label.shape) for label in labels],
        dtype=[names.number(label.dtype) for label in labels],
        category=[names.number(label.category) for label in labels],
        names=names.list_texts(),
        known=blocks,
        unexplained_bytes=_compute_unexplained_bytes(device, events[start:], explained),
        bands=tuple(
            band for band in places.build_bands() if start < len(events) and band.end_ns > events[start][0].time_ns
        ),
    )


def _get_op(event: ProfiledAllocation, label: BlockLabel) -> str:
    return label.op if event.size > 0 else label.keeper


def _find_survivors(events: Sequence[Event]) -> list[Event]:
    """Allocations without a free among `events`, in time order."""
    alive: dict[int, Event] = {}
    for event in events:
        alive.pop(event[0].address, None)
        if event[0].size > 0:
            alive[event[0].address] = event
    return list(alive.values())


def _find_freed_first(events: Sequence[Event]) -> dict[int, int]:
    """Sizes by address of blocks that existed before the events, from their frees."""
    first: dict[int, int] = {}
    for event, _, _ in events:
        first.setdefault(event.address, event.size)
    return {address: -size for address, size in first.items() if size < 0}


def _set_allocated_size(block: InitialBlock, device: torch.device, sizes: Mapping[int, int]) -> InitialBlock:
    """The block with the allocator's size: as reported, else the minimum of CUDA's allocator."""
    rounded = block.size_bytes if is_cpu(device) else round_cuda_size(block.size_bytes)
    return msgspec.structs.replace(block, size_bytes=sizes.get(block.address, rounded))


def _compute_unexplained_bytes(device: torch.device, recorded: Sequence[Event], explained: int) -> int:
    """Compute the bytes that CUDA's allocator had allocated before the first event, besides `explained` (a CPU's keeps
    no such count)."""
    if is_cpu(device) or not recorded:
        return 0
    first = recorded[0][0]
    return max(0, first.allocated - first.size - explained)
