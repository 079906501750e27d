"""The kernels that bound a CPU: matrix products per dtype here, triads in `triads`."""

import sys
import time
from collections.abc import Callable, Sequence

import msgspec
import torch

from perfkit.core.note import Note, make_note
from perfkit.core.units import format_bandwidth, format_flop_rate, format_percent
from perfkit.devices.calibration import triads
from perfkit.devices.calibration.kernel_timing import (
    CalibrationEffort,
    CalibrationKernel,
    Call,
    Progress,
    TimingWindow,
    fill_window,
    format_threads,
    make_wall_timer,
    time_windows,
)
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, Confidence
from perfkit.devices.ceilings.peak import IEEE
from perfkit.devices.ceilings.repeats import SPREAD_TOLERANCE
from perfkit.devices.machine.fp32_precision import set_matmul_precision

SHORT = CalibrationEffort(repeats=5, windows=150, budget_s=0.06, quantile=0.99)
FULL = CalibrationEffort(repeats=7, windows=300, budget_s=0.4, quantile=0.99)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
SHORT_DTYPES = ("fp32", "bf16", "fp16")
FULL_DTYPES = ("fp32", "bf16", "fp16", "fp64")

SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 4096)
SWEEP_ROUNDS = 2
PROBE_WINDOWS, PROBE_BUDGET_S, PROBE_MIN = 50, 0.03, 3
MAX_CALL_S = 0.03  # a sweep ends with the first product that takes longer
NEAR_BEST = 0.9
TOO_SLOW = 0.125  # a dtype below this share of the fp32 rate has no own kernels: a fallback is no ceiling
CANARY_SIZE = 512
_TOO_BUSY = "another figure of these threads must be wrong"
BUSY = 0.1  # share of time in which some task waited for a CPU


def choose_kernels(
    threads: Sequence[int], *, short: bool, progress: Progress
) -> tuple[list[CalibrationKernel], dict[int | None, CalibrationKernel], list[Note]]:
    """Choose the kernels to measure, a canary per number of threads, and notes on omissions."""
    set_matmul_precision(IEEE)  # otherwise an fp32 product may run in bf16
    chosen: list[CalibrationKernel] = []
    canaries: dict[int | None, CalibrationKernel] = {}
    dtypes, notes = select_native_dtypes(SHORT_DTYPES if short else FULL_DTYPES, _probe_rate)
    for count in threads:
        progress(f"choosing matrix sizes for {count} thread{'s' * (count > 1)}")
        sweeps = {name: _measure_sweep(name, count) for name in dtypes}
        for name, sweep in sweeps.items():
            chosen += [_build_product(name, size, count) for size in select_sizes(sweep)]
        fastest = max(sweeps, key=lambda name: sweeps[name].get(CANARY_SIZE, 0.0))
        canaries[count] = _build_product(fastest, CANARY_SIZE, count)
        bandwidths, why_not = triads.build_triads(count, short=short)
        chosen += bandwidths
        notes += why_not
    return chosen, canaries, notes


def derive_vector_ceilings(measured: Sequence[Ceiling]) -> tuple[list[Ceiling], list[Note]]:
    """Derive vector ceilings from matmuls.

    An fp32 or fp64 matmul on an x86 or Arm server processor runs on the vector FMA units, since there is no matrix unit
    for these dtypes, and uses those units best.
    """
    if sys.platform == "darwin":
        text = "no vector ceiling: Apple's library may run fp32 matmuls on a matrix coprocessor"
        return [], [make_note("ceilings.no_vector", text)]
    source = "the matmul of the same dtype, which runs on the vector FMA units; "
    return [
        Ceiling(
            level=CeilingLevel.VECTOR,
            dtype=ceiling.dtype,
            value=ceiling.value,
            unit=ceiling.unit,
            kind=CeilingKind.MEASURED,
            source=source + ceiling.source,
            threads=ceiling.threads,
            spread=ceiling.spread,
            confidence=ceiling.confidence,
            disturbance=ceiling.disturbance,
        )
        for ceiling in measured
        if ceiling.level == CeilingLevel.MATRIX and ceiling.dtype in ("fp32", "fp64")
    ], []


def filter_plausible(measured: Sequence[Ceiling]) -> tuple[list[Ceiling], list[Note]]:
    """Keep plausible ceilings, with a note for each that is left out.

    A cache is not slower than DRAM, and more threads do not make the same work slower. If a figure says so, waiting
    threads lost their CPUs to other processes, and the true value is unknown. If that figure had low confidence, other
    measurements with the same number of threads were disturbed, too.
    """
    kept: list[Ceiling] = []
    notes: list[Note] = []
    for ceiling in measured:
        slower_than = _find_contradiction(ceiling, measured)
        if slower_than is None:
            kept.append(ceiling)
            continue
        show = format_flop_rate if ceiling.unit == "FLOP/s" else format_bandwidth
        name = f"{ceiling.dtype or ''} {ceiling.level}".strip()
        text = (
            f"{name} with {format_threads(ceiling.threads or 1)} left out: measured {show(ceiling.value)}, "
            f"less than {slower_than}; the machine was too busy"
        )
        notes.append(make_note("ceilings.implausible", text, threads=ceiling.threads or 1))
    unsure = {
        doubtful.threads for doubtful in measured if doubtful not in kept and doubtful.confidence == Confidence.LOW
    }
    return [_mark_disturbed(ceiling, _TOO_BUSY) if ceiling.threads in unsure else ceiling for ceiling in kept], notes


def _mark_disturbed(ceiling: Ceiling, why: str) -> Ceiling:
    return msgspec.structs.replace(ceiling, disturbance=ceiling.disturbance or why)


def _find_contradiction(ceiling: Ceiling, measured: Sequence[Ceiling]) -> str | None:
    """Find a lower bound that a ceiling contradicts; differences within the tolerance do not count."""
    limit = (1 - SPREAD_TOLERANCE) * max(
        (c.value for c in measured if c.level == CeilingLevel.MEMORY and c.threads == ceiling.threads), default=0.0
    )
    if ceiling.level in (CeilingLevel.L2, CeilingLevel.L3) and ceiling.value < limit:
        return "DRAM"
    for other in measured:
        same = other.level == ceiling.level and other.dtype == ceiling.dtype
        fewer = (other.threads or 0) < (ceiling.threads or 0)
        if same and fewer and ceiling.value < (1 - SPREAD_TOLERANCE) * other.value:
            return f"with {format_threads(other.threads or 1)}"
    return None


def select_native_dtypes(dtypes: Sequence[str], rate: Callable[[str], float]) -> tuple[list[str], list[Note]]:
    """The dtypes whose products are not absurdly slow, by `rate` in FLOP/s, and a note for each that is.

    Only 16-bit dtypes are in question. One thread and a small product decide, since many threads on a busy
    machine can look slow for other reasons.
    """
    kept: list[str] = []
    notes: list[Note] = []
    fp32 = rate("fp32")
    for name in dtypes:
        share = rate(name) / fp32 if name in ("bf16", "fp16") else 1.0
        if share < TOO_SLOW:
            text = f"{name} matmuls run at {share:.1%} of the fp32 rate (a fallback); left out"
            notes.append(make_note("ceilings.slow_dtype", text, dtype=name, share=share))
        else:
            kept.append(name)
    return kept, notes


def _probe_rate(dtype: str) -> float:
    call, amount = _make_product_call(dtype, SIZES[0], 1)
    return amount / _probe_call(call)


def _probe_call(call: Call) -> float:
    """The shortest of some calls, in seconds."""
    call()
    window = TimingWindow(call, 0.0)
    return min(
        time_windows(window, make_wall_timer(), windows=PROBE_WINDOWS, budget_s=PROBE_BUDGET_S, min_windows=PROBE_MIN)
    )


def select_sizes(sweep: dict[int, float]) -> list[int]:
    """Sizes worth measuring from a sweep {size: rate}: the fastest, and the smallest that is within 10 % of it.

    Short windows find a quiet moment on a busy machine, so the smaller one often gives the better figure.
    """
    fastest = max(sweep, key=lambda size: sweep[size])
    nearly = min(size for size, rate in sweep.items() if rate >= NEAR_BEST * sweep[fastest])
    return sorted({fastest, nearly})


def _measure_sweep(dtype: str, threads: int) -> dict[int, float]:
    """The best FLOP/s of square products by size: two rounds, so that one busy moment does not decide."""
    rates: dict[int, float] = {}
    for _ in range(SWEEP_ROUNDS):
        for size in SIZES:
            call, amount = _make_product_call(dtype, size, threads)
            seconds = _probe_call(call)
            rates[size] = max(amount / seconds, rates.get(size, 0.0))
            if seconds > MAX_CALL_S:
                break
    return rates


def _make_product_call(dtype: str, size: int, threads: int) -> tuple[Call, float]:
    torch.set_num_threads(threads)
    left, right = (torch.randn(size, size).to(DTYPES[dtype]) for _ in range(2))
    out = torch.empty(size, size, dtype=DTYPES[dtype])
    return lambda: torch.mm(left, right, out=out), 2.0 * size**3


def _build_product(dtype: str, size: int, threads: int) -> CalibrationKernel:
    return CalibrationKernel(
        level=CeilingLevel.MATRIX,
        dtype=dtype,
        threads=threads,
        label=f"torch.mm {dtype} n={size}, {format_threads(threads)}",
        unit="FLOP/s",
        prepare=lambda: fill_window(*_make_product_call(dtype, size, threads), make_wall_timer()),
    )


def reduce_confidence(ceiling: Ceiling, *pressures: float | None) -> Ceiling:
    """The ceiling with low confidence where other work was waiting for the CPUs at either end.

    It was disturbed only if its own repeats say so too: the pressure is that of the whole host, which may have many
    more CPUs than this process uses.
    """
    most = max((pressure for pressure in pressures if pressure is not None), default=0.0)
    if most <= BUSY:
        return ceiling
    if ceiling.confidence == Confidence.LOW:
        return _mark_disturbed(
            ceiling, f"tasks waited for a CPU in {format_percent(most)} of the time, and its repeats differ"
        )
    return msgspec.structs.replace(ceiling, confidence=Confidence.LOW)


def describe_load(before: float | None, after: float | None) -> Note:
    """One line on how busy the machine was, for the notes."""
    if before is None or after is None:
        return make_note("ceilings.unknown_load", "machine load unknown: the kernel reports no CPU pressure")
    text = (
        f"CPU pressure (tasks waiting for a CPU) was {before:.1%} when calibration began and {after:.1%} when it ended"
    )
    return make_note("ceilings.load", text, before=before, after=after)


def compute_cpu_share(started: tuple[float, float]) -> float:
    """CPU seconds of this process per wall second since `(time.process_time(), time.perf_counter())` was taken."""
    cpu, wall = started
    return (time.process_time() - cpu) / (time.perf_counter() - wall)
