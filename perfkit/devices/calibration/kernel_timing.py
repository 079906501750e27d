"""Running kernels: many short windows each, repeats interleaved over time, a canary on either side."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perfkit.core.note import Note, make_note
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.devices.ceilings.repeats import KernelRepeats, Repeat, compute_quantile_rate

Call = Callable[[], object]
Timer = Callable[[Call], float]  # runs the call, returns seconds
Progress = Callable[[str], None]

# What torch raises where a device cannot do something: no kernel for it (NotImplementedError is a RuntimeError), no
# memory left (torch.OutOfMemoryError is one too), an error of CUDA or of a library, an argument that is not allowed.
FAILURES = (RuntimeError, ValueError)


class TimingWindow(NamedTuple):
    """The work of one timing window, with its FLOPs or bytes."""

    call: Call
    amount: float


@dataclass(frozen=True)
class CalibrationKernel:
    """A kernel whose rate bounds others. `prepare` allocates its buffers and sets the number of threads."""

    level: CeilingLevel
    dtype: str | None
    threads: int | None
    label: str
    unit: str
    prepare: Callable[[], TimingWindow]


@dataclass(frozen=True)
class CalibrationEffort:
    """Effort of a calibration: `repeats` of each kernel, each of up to `windows` windows within `budget_s` seconds.

    A repeat's value is the `quantile` of its windows' rates.
    """

    repeats: int
    windows: int
    budget_s: float
    quantile: float
    min_windows: int = 5


class KernelResults(NamedTuple):
    """The repeats of every kernel that ran to the end, and a line for each that did not, with the reason."""

    kernels: list[KernelRepeats]
    failures: list[Note]


MIN_WINDOW_S = 0.3e-3  # shorter calls are repeated within a window, so that the clock and the call cost nothing
CANARY_WINDOWS = 100
CANARY_BUDGET_S = 0.05


def make_wall_timer(clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Times a call that has finished when it returns, as calls do on a CPU."""

    def timed(call: Call) -> float:
        start = clock()
        call()
        return clock() - start

    return timed


def fill_window(call: Call, amount: float, timer: Timer) -> TimingWindow:
    """A window of at least `MIN_WINDOW_S`: the call, repeated as often as it takes."""
    call()
    times = max(1, math.ceil(MIN_WINDOW_S / min(timer(call) for _ in range(3))))
    if times == 1:
        return TimingWindow(call, amount)

    def repeated() -> None:
        for _ in range(times):
            call()

    return TimingWindow(repeated, amount * times)


def time_windows(window: TimingWindow, timer: Timer, *, windows: int, budget_s: float, min_windows: int) -> list[float]:
    """Durations of up to `windows` windows; fewer, but at least `min_windows`, where `budget_s` is spent before."""
    durations: list[float] = []
    spent = 0.0
    while len(durations) < windows and (spent < budget_s or len(durations) < min_windows):
        durations.append(timer(window.call))
        spent += durations[-1]
    return durations


def format_reason(error: Exception) -> str:
    """The first line of an error: torch adds advice and a stack to those of CUDA."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _do_nothing() -> None:
    return None


def run_kernels(
    kernels: Sequence[CalibrationKernel],
    canaries: Mapping[int | None, CalibrationKernel],
    effort: CalibrationEffort,
    timer: Timer,
    progress: Progress,
    release: Callable[[], None] = _do_nothing,
) -> KernelResults:
    """Run every kernel `effort.repeats` times, round by round, so that the repeats of each are spread over time.

    `canaries` has one kernel per number of threads. `release` is called between kernels, once their buffers are gone,
    and frees their memory. A kernel that raises is left out with the reason; the others go on. An error of the canary
    is raised, since then the device itself no longer works.
    """
    repeats: list[list[Repeat]] = [[] for _ in kernels]
    failed: dict[int, Note] = {}
    for turn in range(effort.repeats):
        before: tuple[int | None, float] | None = None
        for index, kernel in enumerate(kernels):
            if index in failed:
                continue
            progress(f"[{turn * len(kernels) + index + 1}/{effort.repeats * len(kernels)}] {kernel.label}")
            canary = canaries[kernel.threads]
            if before is None or before[0] != kernel.threads:
                before = (kernel.threads, _measure_canary(canary, timer, release))
            outcome = _run_repeat(kernel, effort, timer)
            release()
            after = _measure_canary(canary, timer, release)
            if isinstance(outcome, str):
                failed[index] = make_note("ceilings.kernel_failed", f"{kernel.label} left out: {outcome}")
            else:
                rate, windows = outcome
                repeats[index].append(Repeat(rate=rate, windows=windows, canary_before=before[1], canary_after=after))
            before = (kernel.threads, after)
    return KernelResults(
        [
            KernelRepeats(
                level=kernel.level,
                dtype=kernel.dtype,
                threads=kernel.threads,
                label=kernel.label,
                unit=kernel.unit,
                repeats=tuple(repeats[index]),
            )
            for index, kernel in enumerate(kernels)
            if index not in failed
        ],
        list(failed.values()),
    )


def _run_repeat(kernel: CalibrationKernel, effort: CalibrationEffort, timer: Timer) -> tuple[float, int] | str:
    """Run one repeat; return its rate and number of windows, or the reason for a failure. Its buffers end with the
    call."""
    try:
        window = kernel.prepare()
        timer(window.call)  # touches the buffers, fills the caches, wakes the threads
        durations = time_windows(
            window, timer, windows=effort.windows, budget_s=effort.budget_s, min_windows=effort.min_windows
        )
    except FAILURES as error:
        return format_reason(error)
    return compute_quantile_rate(durations, window.amount, effort.quantile), len(durations)


def _measure_canary(canary: CalibrationKernel, timer: Timer, release: Callable[[], None]) -> float:
    window = canary.prepare()
    timer(window.call)
    durations = time_windows(window, timer, windows=CANARY_WINDOWS, budget_s=CANARY_BUDGET_S, min_windows=5)
    rate = compute_quantile_rate(durations, window.amount, 0.99)
    del window
    release()
    return rate


def format_threads(count: int) -> str:
    """`1 thread`, `2 threads`."""
    return f"{count} thread{'s' * (count > 1)}"
