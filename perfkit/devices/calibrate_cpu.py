"""The kernels that bound a CPU: matrix products per dtype, and a triad in each cache level and in DRAM.

The triad is `a = b + s * c` in fp32 (`torch.add(b, c, alpha=s, out=a)`). Bytes are counted as STREAM counts
them: two arrays read and one written, 12 bytes per element. Where a processor reads a line before it writes
it (write-allocate), DRAM really moves 4/3 of that.
"""

import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence

import psutil
import torch

from perfkit.devices import machine
from perfkit.devices.ceiling import Ceiling, Kind, Level
from perfkit.devices.measure import Call, Kernel, Plan, Progress, Window, time_windows, wall_timer
from perfkit.units import bandwidth

SHORT = Plan(repeats=5, windows=150, budget_s=0.06, quantile=0.99)
FULL = Plan(repeats=7, windows=300, budget_s=0.4, quantile=0.99)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
SHORT_DTYPES = ("fp32", "bf16", "fp16")
FULL_DTYPES = ("fp32", "bf16", "fp16", "fp64")

SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 4096)
SWEEP_ROUNDS = 2
PROBE_WINDOWS, PROBE_BUDGET_S, PROBE_MIN = 50, 0.03, 3
MAX_CALL_S = 0.03  # a sweep ends with the first product that takes longer
MIN_WINDOW_S = 0.3e-3  # shorter calls are repeated within a window, so that the clock and the call cost nothing
NEAR_BEST = 0.9
TOO_SLOW = 0.125  # a dtype below this share of the fp32 rate has no kernels of its own: a fallback is no ceiling
CANARY_SIZE = 512

TRIAD_BYTES = 12  # per fp32 element: two reads and a write
SLICE_BYTES = 8 * 2**20  # per thread and window, so that a window takes about 0.5 ms
DRAM_BYTES = {"short": 512 * 2**20, "full": 2**30}


def kernels(
    threads: Sequence[int], *, short: bool, progress: Progress
) -> tuple[list[Kernel], dict[int | None, Kernel], list[str]]:
    """The kernels to measure, a canary for each number of threads, and notes on what is left out and why."""
    torch.set_float32_matmul_precision("highest")  # otherwise an fp32 product may run in bf16
    chosen: list[Kernel] = []
    canaries: dict[int | None, Kernel] = {}
    notes: list[str] = []
    for count in threads:
        progress(f"choosing matrix sizes for {count} thread{'s' * (count > 1)}")
        sweeps = {name: _sweep(name, count) for name in (SHORT_DTYPES if short else FULL_DTYPES)}
        fp32 = max(sweeps["fp32"].values())
        for name, sweep in sweeps.items():
            if max(sweep.values()) < TOO_SLOW * fp32:
                notes.append(
                    f"{name} products with {count} threads reach {max(sweep.values()) / fp32:.1%} of the fp32 rate: "
                    "no native kernel, left out"
                )
                continue
            chosen += [_product(name, size, count) for size in candidates(sweep)]
        fastest = max(sweeps, key=lambda name: sweeps[name].get(CANARY_SIZE, 0.0))
        canaries[count] = _product(fastest, CANARY_SIZE, count)
        triads, why_not = _triads(count, short=short)
        chosen += triads
        notes += why_not
    return chosen, canaries, notes


def derived(measured: Sequence[Ceiling]) -> tuple[list[Ceiling], list[str]]:
    """The vector ceilings that follow from the matrix products.

    An fp32 or fp64 product on an x86 or Arm server processor runs on the vector FMA units, since there is no
    matrix unit for these dtypes, and is the code that uses those units best.
    """
    if sys.platform == "darwin":
        return [], ["no vector ceiling: Apple's library may run fp32 products on a matrix coprocessor"]
    source = "the matrix product of the same dtype, which runs on the vector FMA units; "
    return [
        Ceiling(
            level=Level.VECTOR,
            dtype=ceiling.dtype,
            value=ceiling.value,
            unit=ceiling.unit,
            kind=Kind.MEASURED,
            source=source + ceiling.source,
            threads=ceiling.threads,
            spread=ceiling.spread,
            confidence=ceiling.confidence,
        )
        for ceiling in measured
        if ceiling.level == Level.MATRIX and ceiling.dtype in ("fp32", "fp64")
    ], []


def plausible(measured: Sequence[Ceiling]) -> tuple[list[Ceiling], list[str]]:
    """The ceilings without caches that came out slower than DRAM, and a note for each that is left out.

    That happens where threads that wait for each other lose their CPUs to other processes; a cache in whose
    favour nothing speaks is better shown as unknown.
    """
    memory = {ceiling.threads: ceiling.value for ceiling in measured if ceiling.level == Level.MEMORY}
    kept: list[Ceiling] = []
    notes: list[str] = []
    for ceiling in measured:
        if ceiling.level in (Level.L2, Level.L3) and ceiling.value < memory.get(ceiling.threads, 0.0):
            notes.append(
                f"{ceiling.level.upper()} with {_threads(ceiling.threads or 1)} is left out: it measured "
                f"{bandwidth(ceiling.value)}, less than DRAM, so the machine was too busy to tell"
            )
        else:
            kept.append(ceiling)
    return kept, notes


def candidates(sweep: dict[int, float]) -> list[int]:
    """Sizes worth measuring from a sweep {size: rate}: the fastest, and the smallest that is within 10 % of it.

    Short windows find a quiet moment on a busy machine, so the smaller one often gives the better figure.
    """
    fastest = max(sweep, key=lambda size: sweep[size])
    nearly = min(size for size, rate in sweep.items() if rate >= NEAR_BEST * sweep[fastest])
    return sorted({fastest, nearly})


def _sweep(dtype: str, threads: int) -> dict[int, float]:
    """The best FLOP/s of square products by size: two rounds, so that one busy moment does not decide."""
    rates: dict[int, float] = {}
    for _ in range(SWEEP_ROUNDS):
        for size in SIZES:
            call, amount = _product_call(dtype, size, threads)
            call()
            window = Window(call, amount)
            seconds = min(
                time_windows(
                    window, wall_timer(), windows=PROBE_WINDOWS, budget_s=PROBE_BUDGET_S, min_windows=PROBE_MIN
                )
            )
            rates[size] = max(amount / seconds, rates.get(size, 0.0))
            if seconds > MAX_CALL_S:
                break
    return rates


def _product_call(dtype: str, size: int, threads: int) -> tuple[Call, float]:
    torch.set_num_threads(threads)
    left, right = (torch.randn(size, size).to(DTYPES[dtype]) for _ in range(2))
    out = torch.empty(size, size, dtype=DTYPES[dtype])
    return lambda: torch.mm(left, right, out=out), 2.0 * size**3


def _product(dtype: str, size: int, threads: int) -> Kernel:
    return Kernel(
        level=Level.MATRIX,
        dtype=dtype,
        threads=threads,
        label=f"torch.mm {dtype} n={size}, {_threads(threads)}",
        unit="FLOP/s",
        prepare=lambda: _filled(*_product_call(dtype, size, threads)),
    )


def _filled(call: Call, amount: float) -> Window:
    """A window of at least `MIN_WINDOW_S`: the call, repeated as often as it takes."""
    call()
    timed = wall_timer()
    times = max(1, math.ceil(MIN_WINDOW_S / min(timed(call) for _ in range(3))))
    if times == 1:
        return Window(call, amount)

    def repeated() -> None:
        for _ in range(times):
            call()

    return Window(repeated, amount * times)


def _triads(threads: int, *, short: bool) -> tuple[list[Kernel], list[str]]:
    caches = machine.data_caches(machine.usable_cpus())
    found: list[Kernel] = []
    notes: list[str] = []
    sizes = cache_working_sets(caches, threads)
    for level, size in sizes.items():
        found.append(_triad(level, size, threads))
    for name, level in (("L2", Level.L2), ("L3", Level.L3)):
        if level not in sizes:
            notes.append(
                f"{name} with {_threads(threads)} is not measured: its size is not known or too small to tell apart"
            )
    last = caches.get(max(caches, default=0))
    cached = last.size_bytes * last.instances if last else 0
    total = dram_buffer(cached, psutil.virtual_memory().available, DRAM_BYTES["short" if short else "full"])
    if total < 4 * cached:
        notes.append(
            f"DRAM is measured in {total / 2**20:.0f} MiB, {total / cached:.1f} times the last-level cache of "
            f"{cached / 2**20:.0f} MiB that the system reports: part of it may come from the cache"
        )
    found.append(_dram_triad(total, threads))
    return found, notes


def cache_working_sets(caches: dict[int, machine.Cache], threads: int) -> dict[Level, int]:
    """Bytes for a triad that fits a level and not the one below: half of L2; four times L2, at most half of L3.

    L2 counts once per thread (a thread has one of its own), L3 once per instance that the threads can reach.
    """
    sizes: dict[Level, int] = {}
    if 2 not in caches:
        return sizes
    l2 = caches[2].size_bytes * min(threads, caches[2].instances)
    sizes[Level.L2] = l2 // 2
    if 3 in caches:
        l3 = caches[3].size_bytes * min(threads, caches[3].instances)
        size = min(4 * l2, l3 // 2)
        if size >= 2 * l2:
            sizes[Level.L3] = size
    return sizes


def dram_buffer(cached_bytes: int, available_bytes: int, bound_bytes: int) -> int:
    """Bytes of a buffer far beyond the caches: ten times the last level, within `bound_bytes`.

    It never takes more than a quarter of the memory that is free.

    A virtual machine may report the whole socket's cache, of which it gets a share: beyond the bound a
    larger buffer gives the same figure and costs seconds of page faults.
    """
    return min(max(10 * cached_bytes, 256 * 2**20), bound_bytes, available_bytes // 4)


def _triad(level: Level, total_bytes: int, threads: int) -> Kernel:
    elements = total_bytes // TRIAD_BYTES

    def prepare() -> Window:
        torch.set_num_threads(threads)
        a, b, c = (torch.full((elements,), value) for value in (0.0, 1.0, 2.0))
        return _filled(lambda: torch.add(b, c, alpha=0.5, out=a), float(TRIAD_BYTES * elements))

    return Kernel(
        level=level,
        dtype=None,
        threads=threads,
        label=f"triad in {level.upper()}, {total_bytes / 2**20:.3g} MiB, {_threads(threads)}",
        unit="B/s",
        prepare=prepare,
    )


def _dram_triad(total_bytes: int, threads: int) -> Kernel:
    part = min(SLICE_BYTES * threads, total_bytes // 16) // TRIAD_BYTES
    slices = total_bytes // (TRIAD_BYTES * part)

    def prepare() -> Window:
        torch.set_num_threads(threads)
        a, b, c = (torch.full((slices * part,), value) for value in (0.0, 1.0, 2.0))
        return Window(_rotating(a, b, c, part), float(TRIAD_BYTES * part))

    return Kernel(
        level=Level.MEMORY,
        dtype=None,
        threads=threads,
        label=f"triad in DRAM, slices of {total_bytes / 2**20:.0f} MiB in turn, {_threads(threads)}",
        unit="B/s",
        prepare=prepare,
    )


def _rotating(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, part: int) -> Callable[[], object]:
    """Each call works on the next slice, so that none is still cached when its turn comes again."""
    turns = itertools.cycle(list(zip(a.split(part), b.split(part), c.split(part), strict=True)))

    def call() -> object:
        x, y, z = next(turns)
        return torch.add(y, z, alpha=0.5, out=x)

    return call


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def load_note(before: float | None) -> str:
    """One line on how busy the machine was, for the notes."""
    after = machine.cpu_pressure()
    if before is None or after is None:
        return "how busy the machine was is not known: the kernel reports no CPU pressure"
    return (
        f"CPU pressure (tasks waiting for a CPU) was {before:.1%} when calibration began and {after:.1%} when it ended"
    )


def cpu_share(started: tuple[float, float]) -> float:
    """CPU seconds of this process per wall second since `(time.process_time(), time.perf_counter())` was taken."""
    cpu, wall = started
    return (time.process_time() - cpu) / (time.perf_counter() - wall)
