"""Triads that bound a CPU's memory: in each cache level, and in DRAM.

The triad is `a = b + s * c` in fp32 (`torch.add(b, c, alpha=s, out=a)`). Bytes are counted as STREAM counts
them: two arrays read and one written, 12 bytes per element. Where a processor reads a line before it writes
it (write-allocate), DRAM really moves 4/3 of that.
"""

import itertools
from collections.abc import Callable

import psutil
import torch

from perfkit.core.note import Note, make_note
from perfkit.devices.calibration.kernel_timing import (
    CalibrationKernel,
    TimingWindow,
    fill_window,
    format_threads,
    make_wall_timer,
)
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.devices.machine import machine

TRIAD_BYTES = 12  # per fp32 element: two reads and a write
SLICE_BYTES = 8 * 2**20  # per thread and window, so that a window takes about 0.5 ms
DRAM_BYTES = {"short": 512 * 2**20, "full": 2**30}


def build_triads(threads: int, *, short: bool) -> tuple[list[CalibrationKernel], list[Note]]:
    """The triads for a number of threads, and notes on levels that are left out and why."""
    caches = machine.read_data_caches(machine.list_usable_cpus())
    kernels: list[CalibrationKernel] = []
    notes: list[Note] = []
    sizes = compute_working_sets(caches, threads)
    for level, size in sizes.items():
        kernels.append(_build_triad(level, size, threads))
    for name, level in (("L2", CeilingLevel.L2), ("L3", CeilingLevel.L3)):
        if level not in sizes:
            text = f"{name} with {format_threads(threads)} not measured: unknown size, or too close to the next level"
            notes.append(make_note("ceilings.not_measured", text, threads=threads))
    last = caches.get(max(caches, default=0))
    cached = last.size_bytes * last.instances if last else 0
    total = size_dram_buffer(cached, psutil.virtual_memory().available, DRAM_BYTES["short" if short else "full"])
    if total < 4 * cached:
        text = (
            f"DRAM is measured in {total / 2**20:.0f} MiB, {total / cached:.1f} times the reported "
            f"last-level cache of {cached / 2**20:.0f} MiB: part of it may come from the cache"
        )
        notes.append(make_note("ceilings.cached_dram", text, threads=threads))
    kernels.append(_build_dram_triad(total, threads))
    return kernels, notes


def compute_working_sets(caches: dict[int, machine.DataCache], threads: int) -> dict[CeilingLevel, int]:
    """Bytes for a triad that fits a level and not the one below: half of L2; four times L2, at most half of L3.

    L2 counts once per thread (it is private), L3 once per instance that the threads can reach.
    """
    sizes: dict[CeilingLevel, int] = {}
    if 2 not in caches:
        return sizes
    l2 = caches[2].size_bytes * min(threads, caches[2].instances)
    sizes[CeilingLevel.L2] = l2 // 2
    if 3 in caches:
        l3 = caches[3].size_bytes * min(threads, caches[3].instances)
        size = min(4 * l2, l3 // 2)
        if size >= 2 * l2:
            sizes[CeilingLevel.L3] = size
    return sizes


def size_dram_buffer(cached_bytes: int, available_bytes: int, bound_bytes: int) -> int:
    """Bytes of a buffer far beyond the caches: ten times the last level, within `bound_bytes`.

    It never takes more than a quarter of the memory that is free.

    A virtual machine may report the whole socket's cache, of which it gets a share: beyond the bound a
    larger buffer gives the same figure and costs seconds of page faults.
    """
    return min(max(10 * cached_bytes, 256 * 2**20), bound_bytes, available_bytes // 4)


def _build_triad(level: CeilingLevel, total_bytes: int, threads: int) -> CalibrationKernel:
    elements = total_bytes // TRIAD_BYTES

    def prepare() -> TimingWindow:
        torch.set_num_threads(threads)
        a, b, c = (torch.full((elements,), value) for value in (0.0, 1.0, 2.0))
        return fill_window(lambda: torch.add(b, c, alpha=0.5, out=a), float(TRIAD_BYTES * elements), make_wall_timer())

    return CalibrationKernel(
        level=level,
        dtype=None,
        threads=threads,
        label=f"triad in {level.upper()}, {total_bytes / 2**20:.3g} MiB, {format_threads(threads)}",
        unit="B/s",
        prepare=prepare,
    )


def _build_dram_triad(total_bytes: int, threads: int) -> CalibrationKernel:
    part = min(SLICE_BYTES * threads, total_bytes // 16) // TRIAD_BYTES
    slices = total_bytes // (TRIAD_BYTES * part)

    def prepare() -> TimingWindow:
        torch.set_num_threads(threads)
        a, b, c = (torch.full((slices * part,), value) for value in (0.0, 1.0, 2.0))
        return TimingWindow(_make_rotating_call(a, b, c, part), float(TRIAD_BYTES * part))

    return CalibrationKernel(
        level=CeilingLevel.MEMORY,
        dtype=None,
        threads=threads,
        label=f"triad in DRAM, slices of {total_bytes / 2**20:.0f} MiB in turn, {format_threads(threads)}",
        unit="B/s",
        prepare=prepare,
    )


def _make_rotating_call(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, part: int) -> Callable[[], object]:
    """Each call works on the next slice, so that none is still cached when its turn comes again."""
    turns = itertools.cycle(list(zip(a.split(part), b.split(part), c.split(part), strict=True)))

    def call() -> object:
        x, y, z = next(turns)
        return torch.add(y, z, alpha=0.5, out=x)

    return call
