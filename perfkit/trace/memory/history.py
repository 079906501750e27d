"""Columns of one device's part of an allocator snapshot: its events, and its blocks at the end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import contains, itemgetter, methodcaller
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import CUDA_UNIT_BYTES, SHARED_POOL, Ints, PoolId
from perfkit.trace.memory.pools import Kinds, parse_pool

# Pools: the one that all share, those of CUDA graphs and those that the program made.
SHARED, GRAPHS, PROGRAMS = range(3)

ALLOC, FREE_REQUESTED, FREE_COMPLETED, OBTAINED, RETURNED, MAPPED, UNMAPPED, OOM, OTHER = range(9)

_ACTIONS = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE_COMPLETED,
    "free": FREE_COMPLETED,  # of the first snapshots
    "segment_alloc": OBTAINED,
    "segment_free": RETURNED,
    "segment_map": MAPPED,
    "segment_unmap": UNMAPPED,
    "oom": OOM,
}
_ALLOCATED, _INACTIVE = "active_allocated", "inactive"
_NOT_COMPILED = "N/A"
_MOST_BYTES = 1 << 50  # of a block or segment: more than any memory holds, and sums of them stay within 64 bits
_MOST_US = 1 << 53  # 285 years: the latest time that fits 64 bits in ns
_ADDRESSES = 1 << 64
HIGH = 1 << 63  # from here on lie the addresses of Intel's GPUs, sign-extended; the columns hold them as negative

Entry = Mapping[str, Any]


class _ActionCodes(dict[str, int]):
    def __missing__(self, action: str) -> int:
        return OTHER


@dataclass(frozen=True)
class AllocatorHistory:
    """The entries of a trace, in the order in which they were recorded.

    Attributes:
        action: ALLOC ...
        address, size: as recorded, addresses from `HIGH` on less 2**64. Sizes of blocks are those requested, of
            segments what the device gave.
        time_ns: None where it was not recorded (torch before 2.2). It never goes back: the clock of another thread's
            entry may have been read a little earlier.
        stack: index into `stacks`, each a list of frames or what stood in its place.
        in_pool: the pool: SHARED ...; None where entries do not say (torch before 2.10).
        context: index into `contexts`: what the program or the compiler named the time of the entry.
        device_free: of OOM entries, in their order: bytes that the device had free.
    """

    action: NDArray[np.int8]
    address: Ints
    size: Ints
    time_ns: Ints | None
    stack: Ints
    stacks: tuple[object, ...]
    in_pool: NDArray[np.int8] | None
    context: Ints
    contexts: tuple[str, ...]
    device_free: tuple[int | None, ...]

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True)
class HeldMemory:
    """Segments, and the blocks in them that were in use, both in the order of addresses.

    `in_pool` is the kind of a segment's pool: SHARED ... `allocated` tells blocks that the program held from those that
    only waited for a stream to be done with them.
    """

    segment: Ints
    segment_size: Ints
    expandable: NDArray[np.bool_]
    in_pool: NDArray[np.int8]
    block: Ints
    block_size: Ints
    allocated: NDArray[np.bool_]
    stacks: tuple[object, ...]
    granular: bool  # every size is a multiple of the caching allocator's granularity


def build_history(entries: list[Entry], pools: Kinds = MappingProxyType({})) -> AllocatorHistory:
    """Build the columns of a trace's entries; `pools` gives the kinds of private pools.

    A malformed one is an `AttributeError`, `KeyError`, `TypeError`, `ValueError` or `OverflowError`.
    """
    count = len(entries)

    def column(values: Iterable[Any], kind: Any = np.int64) -> Any:
        return np.fromiter(values, kind, count)

    action = column(map(_ActionCodes(_ACTIONS).__getitem__, map(itemgetter("action"), entries)), np.int8)
    timed = bool(count) and all(contains(entry, "time_us") for entry in entries)
    size = column(map(itemgetter("size"), entries))
    # A failed request may have any size.
    if ((size < 0) | (size > _MOST_BYTES))[action != OOM].any():
        raise ValueError("an entry larger than any memory")
    stack, stacks = _group_stacks(entries)
    context, contexts = _collect_contexts(entries)
    failed = np.flatnonzero(action == OOM).tolist()
    return AllocatorHistory(
        action=action,
        address=_convert_addresses([entry.get("addr", 0) for entry in entries]),
        size=size,
        time_ns=_convert_times(column(map(itemgetter("time_us"), entries))) if timed else None,
        stack=stack,
        stacks=stacks,
        in_pool=_classify_pools(entries, pools),
        context=context,
        contexts=contexts,
        device_free=tuple(entries[index].get("device_free") for index in failed),
    )


def _convert_addresses(values: list[int]) -> Ints:
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([convert_to_signed(address) for address in values], np.int64)


def convert_to_signed(address: int) -> int:
    """An address as the columns hold it; `OverflowError` if it has more than 64 bits."""
    if address >= _ADDRESSES:
        raise OverflowError("an address of more than 64 bits")
    return address - _ADDRESSES if address >= HIGH else address


def _convert_times(time_us: Ints) -> Ints:
    if (np.abs(time_us) > _MOST_US).any():
        raise ValueError("an entry with an impossible time")
    later: Ints = np.maximum.accumulate(time_us) * 1000
    return later


def _group_stacks(entries: list[Entry]) -> tuple[Ints, tuple[object, ...]]:
    """Group stacks by identity: entries of one stack share their list of frames."""
    frames = list(map(methodcaller("get", "frames"), entries))
    places = np.fromiter(map(id, frames), np.int64, len(frames))
    _, first, stack = np.unique(places, return_index=True, return_inverse=True)
    return stack, tuple(frames[position] for position in first.tolist())


def _collect_contexts(entries: list[Entry]) -> tuple[Ints, tuple[str, ...]]:
    """The context set by `torch.cuda.memory._set_memory_metadata`, else the compiled region of an entry."""
    numbers = {"": 0}
    context = np.zeros(len(entries), np.int64)
    for key in ("compile_context", "user_metadata"):
        values = list(map(methodcaller("get", key), entries))
        values = [text if isinstance(text, str) else "" for text in values]
        texts = set(values) - {"", _NOT_COMPILED}
        if texts:
            numbers |= {text: len(numbers) + at for at, text in enumerate(sorted(texts - numbers.keys()))}
            recorded = np.fromiter((numbers.get(text, 0) for text in values), np.int64, len(values))
            context = np.where(recorded, recorded, context)
    return context, tuple(numbers)


def _classify_pools(entries: list[Entry], kinds: Kinds) -> NDArray[np.int8] | None:
    ids = list(map(methodcaller("get", "pool_id"), entries))
    if not entries or ids[0] is None:
        return None
    if tuple(ids[0]) == SHARED_POOL and ids.count(ids[0]) == len(ids):
        return np.zeros(len(ids), np.int8)
    return np.fromiter(
        (_get_pool_kind(parse_pool(entry, "pool_id"), kinds) for entry in entries), np.int8, len(entries)
    )


def _get_pool_kind(pool: PoolId, kinds: Kinds) -> int:
    if pool == SHARED_POOL:
        return SHARED
    return GRAPHS if kinds.get(pool, True) else PROGRAMS


def build_held_memory(segments: list[Entry], pools: Kinds = MappingProxyType({})) -> HeldMemory:
    """Build the contents of segments; `pools` and errors as in `build_history`."""
    rows: list[tuple[int, int, bool, int]] = []
    blocks: list[tuple[int, int, bool, object]] = []
    granular = True
    for segment in segments:
        address, total = convert_to_signed(int(segment["address"])), _check_size(segment["total_size"])
        kind = _get_pool_kind(parse_pool(segment, "segment_pool_id"), pools)
        rows.append((address, total, bool(segment.get("is_expandable", False)), kind))
        for block in segment["blocks"]:
            size, state = _check_size(block["size"]), block["state"]
            granular &= size % CUDA_UNIT_BYTES == 0
            if state != _INACTIVE:
                blocks.append(
                    (
                        convert_to_signed(int(block.get("address", address))),
                        size,
                        state == _ALLOCATED,
                        _get_frames(block),
                    )
                )
            address += size
    rows.sort(key=itemgetter(0))
    blocks.sort(key=itemgetter(0))
    return HeldMemory(
        segment=np.array([row[0] for row in rows], np.int64),
        segment_size=np.array([row[1] for row in rows], np.int64),
        expandable=np.array([row[2] for row in rows], np.bool_),
        in_pool=np.array([row[3] for row in rows], np.int8),
        block=np.array([entry[0] for entry in blocks], np.int64),
        block_size=np.array([entry[1] for entry in blocks], np.int64),
        allocated=np.array([entry[2] for entry in blocks], np.bool_),
        stacks=tuple(entry[3] for entry in blocks),
        granular=granular,
    )


def _check_size(value: Any) -> int:
    if not 0 <= value <= _MOST_BYTES:
        raise ValueError("a block or segment larger than any memory")
    return int(value)


def _get_frames(block: Entry) -> object:
    """The frames of a block; torch 2.0 stores its history, latest first."""
    history = block.get("history")
    return history[0].get("frames") if history else block.get("frames")
