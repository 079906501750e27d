"""The account of a device's memory: every byte at the peak in a category, and the categories sum to the peak."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from perfkit.allocations import CATEGORIES, NONE, Allocations
from perfkit.analysis.memory.by_module import rows
from perfkit.analysis.memory.classify import categories
from perfkit.analysis.memory.fragmentation import fragmentation
from perfkit.analysis.memory.growth import growth
from perfkit.analysis.memory.largest import largest
from perfkit.analysis.memory.lives import AT_START, Lives, lives_of
from perfkit.analysis.memory.outside import RESERVED_FREE, Outside
from perfkit.analysis.memory.timeline import timeline
from perfkit.analysis.memory.totals import peak_event, step_peaks, steps_of, totals_of
from perfkit.analysis.model.memory import Fragmentation, MemoryAccount, MemoryShare
from perfkit.record import PHASES


def account(allocations: Allocations, outside: Callable[[int], Outside] | None = None) -> MemoryAccount | None:
    """The account at the peak; None where there was never a block.

    Args:
        allocations: the events of one device.
        outside: given the bytes at the peak, what the process holds beside them. Without it, that is what the
            allocator itself held back, where the events tell.
    """
    lives = lives_of(allocations)
    if not len(lives):
        return None
    totals = totals_of(lives, len(allocations))
    peak = peak_event(totals)
    peak_bytes = int(totals[peak + 1])
    alive = lives.alive_after(peak)
    named = categories(allocations, lives)
    shares = _shares(lives, named, alive)
    assert sum(share.bytes for share in shares) == peak_bytes, "the categories at the peak must sum to it"
    over_time = timeline(allocations, lives, named, totals, peak)
    phase, step = (NONE, NONE) if peak == AT_START else (int(allocations.phase[peak]), int(allocations.step[peak]))
    held = fragmentation(allocations, lives, peak)
    beyond = _held_back(held) if outside is None else outside(peak_bytes)
    return MemoryAccount(
        peak_bytes=peak_bytes,
        peak_phase="" if phase == NONE else PHASES[phase],
        source=allocations.source,
        categories=shares,
        beyond=beyond.parts,
        process_bytes=beyond.process_bytes,
        process_source=beyond.process_source,
        device_parts=beyond.device_parts,
        device_bytes=beyond.device_bytes,
        device=allocations.device,
        peak_step=None if step == NONE else step,
        peak_s=over_time.peak_s,
        step_peaks=step_peaks(totals, steps_of(allocations)),
        timeline_s=over_time.seconds,
        timeline_categories=over_time.categories,
        bands=over_time.bands,
        largest=largest(allocations, lives, named, alive),
        rows=rows(allocations, lives, named, alive),
        fragmentation=held,
        growth=growth(allocations, lives, named),
        failed=allocations.failed,
    )


def _held_back(held: Fragmentation | None) -> Outside:
    if held is None:
        return Outside(())
    return Outside((MemoryShare(category=RESERVED_FREE, bytes=held.free_bytes),))


def _shares(lives: Lives, named: NDArray[np.int8], alive: NDArray[np.bool_]) -> tuple[MemoryShare, ...]:
    """Bytes of the categories that have any, the largest first."""
    sums = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(sums, named[alive], lives.size[alive])
    return tuple(
        MemoryShare(category=CATEGORIES[index], bytes=int(sums[index]))
        for index in np.argsort(-sums, kind="stable").tolist()
        if sums[index]
    )
