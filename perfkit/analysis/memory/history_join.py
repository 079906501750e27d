"""The recorder's events joined with the history of the CUDA caching allocator of the same steps.

Both saw the same allocations, from two sides: the recorder knows ops, shapes and phases, the history segments and
source lines. They are joined by address and by how many-th allocation (or free) at that address an event is. The
recorder's account is kept wherever both say something; the history only fills in, sizes of standing blocks among it.
"""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import (
    CUDA_UNIT_BYTES,
    GRAPH_POOL,
    NONE,
    TEXTS,
    WORKSPACE,
    Allocations,
    InitialBlock,
    Ints,
    Numbers,
    ReservedSegments,
    TextNumbers,
    can_cuda_serve,
)
from perfkit.cost.workspaces import CUBLAS_BYTES, CUBLAS_HOPPER_BYTES


@dataclass(frozen=True)
class _EventPairs:
    """Equal events of both sources: `recorded[i]` is `told[i]` of the history."""

    recorded: Ints
    told: Ints


def join_history(allocations: Allocations, history: Allocations) -> Allocations:
    """The recorder's `allocations` with the history's segments and, where the recorder has none, its texts.

    Args:
        allocations: what the recorder wrote of a CUDA device.
        history: what was read of the allocator's history of the same device. It may begin later, where its ring
            buffer was too short, or earlier: occurrences are counted from whichever end makes more sizes agree.

    Returns allocations of the same events. What the allocator did not split off known blocks is theirs, and no longer
    unexplained; nor are cuBLAS' workspaces. What private pools hold is known, whole, and tensors within it are not
    besides. Pairs whose sizes contradict each other (a block is never smaller than the request) take nothing over.
    `reserved` is placed by the joined event before it; what was reserved when the history began is there from the
    first event on.
    """
    pairs = _join_events(allocations, history)
    names = TextNumbers()
    for text in allocations.names:
        names.number(text)
    numbers = np.array([names.number(text) for text in history.names], np.int32)
    texts: dict[str, Any] = {
        name: _fill_column(getattr(allocations, name), getattr(history, name), numbers, pairs) for name in TEXTS
    }
    reserved = _place_segments(history.reserved, pairs) if len(history.reserved) else allocations.reserved
    known = _apply_block_sizes(allocations, history)
    grown = _sum_bytes(known) - _sum_bytes(allocations.known)
    if grown > allocations.unexplained_bytes:  # they were not there together
        known, grown = allocations.known, 0
    unexplained = allocations.unexplained_bytes - grown
    if history.private:
        known = _drop_replayed_blocks(known, history)
        unexplained = max(0, _sum_bytes(history.known) + history.unexplained_bytes - _sum_bytes(known))
        known += _list_private_pools(history)
    workspaces = _find_cublas_workspaces(known, history)
    if _sum_bytes(workspaces) <= unexplained:
        known, unexplained = known + workspaces, unexplained - _sum_bytes(workspaces)
    return replace(
        allocations,
        known=known,
        unexplained_bytes=unexplained,
        names=names.list_texts(),
        reserved=reserved,
        failed=allocations.failed or history.failed,
        **texts,
    )


def _apply_block_sizes(allocations: Allocations, history: Allocations) -> tuple[InitialBlock, ...]:
    """The recorder's known blocks with the sizes that the allocator gave them, of those that both saw stand throughout.

    The recorder, which no event told of them, knows the tensors' sizes; a block may not have been split off for one.
    """
    sizes = {block.address: block.size_bytes for block in history.known}
    for address in np.unique(allocations.address).tolist():
        sizes.pop(address, None)
    return tuple(
        msgspec.structs.replace(block, size_bytes=sizes[block.address])
        if block.address in sizes and can_cuda_serve(sizes[block.address], block.size_bytes)
        else block
        for block in allocations.known
    )


def _find_cublas_workspaces(known: tuple[InitialBlock, ...], history: Allocations) -> tuple[InitialBlock, ...]:
    """Blocks of the sizes of cuBLAS' workspaces that stood throughout and that no tensor was found in."""
    addresses = {block.address for block in known}
    return tuple(
        InitialBlock(address=block.address, size_bytes=block.size_bytes, category=WORKSPACE, name="cuBLAS")
        for block in history.known
        if block.address not in addresses and block.size_bytes in (CUBLAS_BYTES, CUBLAS_HOPPER_BYTES)
    )


def _drop_replayed_blocks(known: tuple[InitialBlock, ...], history: Allocations) -> tuple[InitialBlock, ...]:
    """Drop tensors unknown to the allocator, because a graph replay gave them their memory."""
    allocated = {block.address for block in history.known}
    private = [range(segment.address, segment.address + segment.size_bytes) for segment in history.private]

    def replayed(address: int) -> bool:
        return address not in allocated and any(address in segment for segment in private)

    return tuple(block for block in known if not replayed(block.address))


def _list_private_pools(history: Allocations) -> tuple[InitialBlock, ...]:
    """List unused memory in private pools: whole, since no other pool can use it.

    Their addresses are odd, which no block's is: one may begin where its segment does.
    """
    return tuple(
        InitialBlock(address=segment.address + 1, size_bytes=segment.unused_bytes, category=GRAPH_POOL, name="")
        for segment in history.private
        if segment.unused_bytes
    )


def _sum_bytes(blocks: tuple[InitialBlock, ...]) -> int:
    return sum(block.size_bytes for block in blocks)


def _join_events(allocations: Allocations, history: Allocations) -> _EventPairs:
    """The pairs by the direction of counting that makes more sizes agree, without those that contradict."""
    directions = (_pair_events(allocations, history, from_end=False), _pair_events(allocations, history, from_end=True))
    pairs = max(directions, key=lambda direction: int(_compare_sizes(allocations, history, direction).sum()))
    possible = np.abs(history.size[pairs.told]) <= np.abs(allocations.size[pairs.recorded])
    return _EventPairs(pairs.recorded[possible], pairs.told[possible])


def _compare_sizes(allocations: Allocations, history: Allocations, pairs: _EventPairs) -> NDArray[np.bool_]:
    """True if the recorder's block equals the history's request, exact or rounded up."""
    block = np.abs(allocations.size[pairs.recorded])
    request = np.abs(history.size[pairs.told])
    agreed: NDArray[np.bool_] = (block == request) | (block == -(-request // CUDA_UNIT_BYTES) * CUDA_UNIT_BYTES)
    return agreed


def _pair_events(allocations: Allocations, history: Allocations, *, from_end: bool) -> _EventPairs:
    _, places = np.unique(np.concatenate((allocations.address, history.address)), return_inverse=True)
    # One number for an address and whether it is a free there; below it, how many-th.
    kinds = places.astype(np.int64) * 2 + (np.concatenate((allocations.size, history.size)) < 0)
    count = len(allocations)
    most = max(count, len(history)) + 1
    keys = [kind * most + _count_occurrences(kind, from_end=from_end) for kind in (kinds[:count], kinds[count:])]
    _, recorded, told = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    known = allocations.address[recorded] != NONE
    recorded, told = recorded[known], told[known]
    order = np.argsort(recorded, kind="stable")
    return _EventPairs(recorded[order], told[order])


def _count_occurrences(kinds: Ints, *, from_end: bool) -> Ints:
    """For each event, the number of equal events before it, or after it when counted from the end."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    count = np.empty(len(kinds), np.int64)
    position = np.arange(len(kinds), dtype=np.int64)
    count[order] = np.searchsorted(ordered, ordered, side="right") - 1 - position if from_end else position - starts
    return count


def _fill_column(own: Numbers, told: Numbers, numbers: Numbers, pairs: _EventPairs) -> Numbers:
    """The recorder's column, with the history's text where it has none."""
    column = own.copy()
    known = column[pairs.recorded]
    column[pairs.recorded] = np.where(known == 0, numbers[told[pairs.told]], known)
    return column


def _place_segments(reserved: ReservedSegments, pairs: _EventPairs) -> ReservedSegments:
    """The history's segments among the recorder's events: after the last joined event that came before them."""
    order = np.argsort(pairs.told, kind="stable")
    told, recorded = pairs.told[order], pairs.recorded[order]
    # `at_event` counts the events before it, so those with a smaller index.
    before = np.searchsorted(told, reserved.at_event, side="left") - 1
    after = np.concatenate((np.zeros(1, np.int64), recorded + 1))
    # Two threads' events may be stored in a different order than recorded: segments keep theirs.
    return replace(reserved, at_event=np.maximum.accumulate(after[before + 1]))
