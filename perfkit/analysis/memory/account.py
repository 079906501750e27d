"""The account of a device's memory: every byte at the peak in a category, and the categories sum to the peak."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes, build_lifetimes
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.memory.fragmentation import compute_fragmentation
from perfkit.analysis.memory.growth import find_growth
from perfkit.analysis.memory.largest_blocks import find_largest_blocks
from perfkit.analysis.memory.memory_timeline import build_timeline
from perfkit.analysis.memory.module_breakdown import build_memory_rows
from perfkit.analysis.memory.non_allocator_memory import RESERVED_FREE, NonAllocatorMemory
from perfkit.analysis.memory.totals import compute_step_peaks, compute_totals, find_peak_event, find_steps
from perfkit.analysis.model.memory_model import Fragmentation, MemoryAccount, MemoryShare
from perfkit.core.allocations import CATEGORIES, NONE, Allocations
from perfkit.core.record import PHASES


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
