"""The account of a device's memory: every byte at the peak in a category, and the categories sum to the peak."""

import re
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes, build_lifetimes
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.memory.fragmentation import compute_fragmentation
from perfkit.analysis.memory.growth import find_growth
from perfkit.analysis.memory.memory_timeline import build_timeline
from perfkit.analysis.memory.non_allocator_memory import RESERVED_FREE, NonAllocatorMemory
from perfkit.analysis.memory.totals import compute_step_peaks, compute_totals, find_peak_event, find_steps
from perfkit.analysis.model.memory_model import Fragmentation, LiveBlock, MemoryAccount, MemoryRow, MemoryShare
from perfkit.core.allocations import CATEGORIES, GRADIENT, NONE, OPTIMIZER_STATE, PARAMETER, Allocations
from perfkit.core.record.trace_marks import PHASES

_OF_MODULES = (PARAMETER, GRADIENT, OPTIMIZER_STATE)  # labeled with a parameter's name
_DOTTED = re.compile(r"(?P<module>\w+(\.\w+)*)\.\w+")


def build_memory_rows(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.bool_]
) -> tuple[MemoryRow, ...]:
    """Group the `alive` blocks by category, module and op, most bytes first; rows sum to the live bytes.

    Args:
        categories: of each life, indices into `CATEGORIES`.
        alive: which lives to count.
    """
    totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for category, known, module, op, size, blocks in _group_blocks(
        allocations, lives, categories, np.flatnonzero(alive)
    ):
        place = _parse_module(CATEGORIES[category], allocations.known[known].name) if known != NONE else ""
        total = totals[CATEGORIES[category], place or allocations.names[module], allocations.names[op]]
        total[0] += size
        total[1] += blocks
    return tuple(
        MemoryRow(category=category, module=module, op=op, bytes=size, blocks=blocks)
        for (category, module, op), (size, blocks) in sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    )


def _group_blocks(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.int64]
) -> list[list[int]]:
    """Category, known block, module and op (numbers of names), bytes and blocks of each distinct combination."""
    born = lives.born[alive]
    from_event = born != AT_START
    module, op = np.zeros((2, len(alive)), np.int64)
    module[from_event] = allocations.module[born[from_event]]
    op[from_event] = allocations.op[born[from_event]]
    extents = (len(CATEGORIES), len(allocations.known) + 1, len(allocations.names), len(allocations.names))
    keys = (categories[alive].astype(np.int64), lives.known[alive] - NONE, module, op)
    key, group = np.unique(np.ravel_multi_index(keys, extents), return_inverse=True)
    size = np.zeros(len(key), np.int64)
    np.add.at(size, group, lives.size[alive])
    category, known, module, op = np.unravel_index(key, extents)
    columns = [category, known + NONE, module, op, size, np.bincount(group, minlength=len(key))]
    return np.stack(columns, axis=1).tolist()  # type: ignore[no-any-return]


def _parse_module(category: str, name: str) -> str:
    """`blocks.0.attn` of the parameter `blocks.0.attn.weight`; "" where the name is not one of a module's tensor."""
    match = _DOTTED.fullmatch(name) if category in _OF_MODULES else None
    return "" if match is None else match["module"]


LARGEST = 20

_AUTOGRAD = "autograd::engine::evaluate_function: "  # before the name of a node


def find_largest_blocks(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.bool_]
) -> tuple[LiveBlock, ...]:
    """The `LARGEST` blocks of those `alive`, the largest first, of equal ones the oldest.

    Args:
        categories: of each life, indices into `CATEGORIES`.
        alive: which lives to look at.
    """
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(-lives.size[rows], kind="stable")][:LARGEST]
    return tuple(_describe_block(allocations, lives, row, CATEGORIES[categories[row]]) for row in rows.tolist())


def _describe_block(allocations: Allocations, lives: Lifetimes, row: int, category: str) -> LiveBlock:
    size, born, known = (int(column[row]) for column in (lives.size, lives.born, lives.known))
    kept_by = _get_freeing_op(allocations, int(lives.died[row]))
    if known != NONE:
        block = allocations.known[known]
        return LiveBlock(
            bytes=size, category=category, name=block.name, shape=block.shape, dtype=block.dtype, freed_by=kept_by
        )
    if born == AT_START:
        return LiveBlock(bytes=size, category=category, name="allocated before the recording", freed_by=kept_by)
    op, module, line, shape, dtype = (
        allocations.get_text(column, born)
        for column in (allocations.op, allocations.module, allocations.line, allocations.shape, allocations.dtype)
    )
    phase = PHASES[allocations.phase[born]] if allocations.phase[born] != NONE else ""
    return LiveBlock(
        bytes=size,
        category=category,
        name=" in ".join(part for part in (op or line, module or phase) if part) or "no recorded op",
        op=op,
        module=module,
        shape=shape,
        dtype=dtype,
        line=line,
        phase=phase,
        freed_by=kept_by,
    )


def _get_freeing_op(allocations: Allocations, died: int) -> str:
    """The op that a block was freed in; "" for one that was not, or not seen to be: another took its address."""
    freed = died < len(allocations) and allocations.size[died] < 0
    return allocations.get_text(allocations.op, died).removeprefix(_AUTOGRAD) if freed else ""


def build_memory_account(
    allocations: Allocations, outside: Callable[[int], NonAllocatorMemory] | None = None
) -> MemoryAccount | None:
    """The account at the peak; None where there was never a block.

    Args:
        allocations: the events of one device.
        outside: given the bytes at the peak, what the process holds beside them. Without it, that is what the
            allocator itself held back, where the events tell.
    """
    lives = build_lifetimes(allocations)
    if not len(lives):
        return None
    totals = compute_totals(lives, len(allocations))
    peak = find_peak_event(totals)
    peak_bytes = int(totals[peak + 1])
    alive = lives.alive_after(peak)
    named = classify_blocks(allocations, lives)
    shares = _sum_categories(lives, named, alive)
    assert sum(share.bytes for share in shares) == peak_bytes, "the categories at the peak must sum to it"
    over_time = build_timeline(allocations, lives, named, totals, peak)
    phase, step = (NONE, NONE) if peak == AT_START else (int(allocations.phase[peak]), int(allocations.step[peak]))
    fragmentation = compute_fragmentation(allocations, lives, peak)
    beyond = _get_reserved_memory(fragmentation) if outside is None else outside(peak_bytes)
    return MemoryAccount(
        peak_bytes=peak_bytes,
        peak_phase="" if phase == NONE else PHASES[phase],
        source=allocations.source,
        categories=shares,
        outside_allocator=beyond.parts,
        process_bytes=beyond.process_bytes,
        process_source=beyond.process_source,
        device_parts=beyond.device_parts,
        device_bytes=beyond.device_bytes,
        device=allocations.device,
        peak_step=None if step == NONE else step,
        peak_s=over_time.peak_s,
        step_peaks=compute_step_peaks(totals, find_steps(allocations)),
        timeline_s=over_time.seconds,
        timeline_categories=over_time.categories,
        bands=over_time.bands,
        largest_blocks=find_largest_blocks(allocations, lives, named, alive),
        rows=build_memory_rows(allocations, lives, named, alive),
        fragmentation=fragmentation,
        growth=find_growth(allocations, lives, named),
        failed_request=allocations.failed,
    )


def _get_reserved_memory(fragmentation: Fragmentation | None) -> NonAllocatorMemory:
    if fragmentation is None:
        return NonAllocatorMemory(())
    return NonAllocatorMemory((MemoryShare(category=RESERVED_FREE, bytes=fragmentation.free_bytes),))


def _sum_categories(lives: Lifetimes, named: NDArray[np.int8], alive: NDArray[np.bool_]) -> tuple[MemoryShare, ...]:
    """Bytes of the categories that have any, the largest first."""
    sums = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(sums, named[alive], lives.size[alive])
    return tuple(
        MemoryShare(category=CATEGORIES[index], bytes=int(sums[index]))
        for index in np.argsort(-sums, kind="stable").tolist()
        if sums[index]
    )
