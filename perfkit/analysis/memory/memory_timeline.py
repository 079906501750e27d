"""Memory over the time of the step that holds the peak, thinned for drawing."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.analysis.memory.totals import find_steps
from perfkit.analysis.model.memory_model import TimelineBand
from perfkit.core.allocations import CATEGORIES, NONE, Allocations, Ints, TimeBand

MOMENTS = 400
BANDS = 200

_BINS = (MOMENTS - 2) // 2  # two moments a bin, and both ends
_KINDS = ("step", "phase", "module")


@dataclass(frozen=True)
class MemoryTimeline:
    """The fields of `MemoryAccount` that are over time: seconds since it begins, bytes by category at these times."""

    seconds: tuple[float, ...]
    categories: dict[str, tuple[int, ...]]
    bands: tuple[TimelineBand, ...]
    peak_s: float


@dataclass(frozen=True)
class _Window:
    """Moments `first` to `last` (see `totals`), the first of them at `start_ns`; it ends at `end_ns`."""

    first: int
    last: int
    start_ns: int
    end_ns: int


def build_timeline(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], totals: Ints, peak_event: int
) -> MemoryTimeline:
    """The timeline of the step in which `peak_event` is; of everything where it is in none.

    Args:
        categories: of the lives, indices into `CATEGORIES`.
        totals: bytes alive at each moment, see `totals`.
        peak_event: AT_START if the peak is before the first event.
    """
    window = _find_window(allocations, peak_event)
    moments = _select_moments(window, allocations.time_ns, totals, peak_event + 1)
    times = np.where(moments == window.first, window.start_ns, _get_moment_times(allocations, moments))
    seconds = (times - window.start_ns) / 1e9
    series = _compute_series(lives, categories, moments)
    assert (series.sum(axis=0) == totals[moments]).all(), "categories must sum to the bytes alive at every moment"
    return MemoryTimeline(
        seconds=tuple(seconds.tolist()),
        categories={name: tuple(row.tolist()) for name, row in zip(CATEGORIES, series, strict=True) if row.any()},
        bands=_clip_bands(allocations.bands, window) if len(allocations) else (),
        peak_s=float(seconds[np.searchsorted(moments, peak_event + 1)]),
    )


def build_full_series(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], totals: Ints
) -> tuple[Ints, Ints]:
    """The times in nanoseconds, and the bytes by category (rows of `CATEGORIES`), over the whole recording."""
    window = _Window(0, len(allocations), int(allocations.time_ns[0]), int(allocations.time_ns[-1]))
    moments = _select_moments(window, allocations.time_ns, totals, int(np.argmax(totals)), 10 * _BINS)
    return _get_moment_times(allocations, moments), _compute_series(lives, categories, moments)


def _get_moment_times(allocations: Allocations, moments: Ints) -> Ints:
    """The start times of moments; that before the first event shares its time."""
    if not len(allocations):
        return np.zeros(len(moments), np.int64)
    return allocations.time_ns[np.maximum(moments - 1, 0)]


def _find_window(allocations: Allocations, peak_event: int) -> _Window:
    if not len(allocations):
        return _Window(0, 0, 0, 0)
    time = allocations.time_ns
    number = NONE if peak_event == AT_START else int(allocations.step[peak_event])
    if number == NONE:
        return _Window(0, len(allocations), int(time[0]), int(time[-1]))
    steps = find_steps(allocations)
    step = int(np.flatnonzero(steps.number == number)[0])
    first, last = int(steps.first[step]), int(steps.last[step])
    peak_ns = int(time[peak_event])
    around = [band for band in allocations.bands if band.kind == "step" and band.start_ns <= peak_ns <= band.end_ns]
    outermost = min(around, key=lambda band: band.depth, default=None)
    start_ns, end_ns = int(time[first]), int(time[last])
    if outermost is not None:
        start_ns, end_ns = min(start_ns, outermost.start_ns), max(end_ns, outermost.end_ns)
    return _Window(first, last + 1, start_ns, end_ns)


def _select_moments(window: _Window, time_ns: Ints, totals: Ints, peak: int, most_bins: int = _BINS) -> Ints:
    """Select at most two moments per bin of the window, the one with most bytes and the last, plus both ends.

    The last of a bin is the one that lasts, over bins without events too. Bins are equal by half in time and by half
    in the number of events, so that neither a pause nor a burst takes all of them.
    """
    moments = np.arange(window.first, window.last + 1)
    if len(moments) <= 2 * most_bins + 2:
        return moments
    time = time_ns[moments[1:] - 1] - time_ns[window.first]
    progress = np.concatenate([[0.0], np.linspace(0, 0.5, len(time)) + 0.5 * time / max(int(time[-1]), 1)])
    bins = np.minimum((progress * most_bins).astype(np.int64), most_bins - 1)
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    ends = np.append(starts[1:], len(bins))
    inside = totals[moments]
    fullest = [
        start + int(inside[start:end].argmax()) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return np.unique(np.concatenate([moments[fullest], moments[ends - 1], [window.first, peak]]))


def _compute_series(lives: Lifetimes, categories: NDArray[np.int8], moments: Ints) -> Ints:
    """Bytes alive by category (rows, as `CATEGORIES`) at ascending moments (columns)."""
    changes = np.zeros((len(CATEGORIES), len(moments) + 1), np.int64)
    # Event i changes the live memory from moment i + 1 on.
    np.add.at(changes, (categories, np.searchsorted(moments, lives.born + 1)), lives.size)
    np.subtract.at(changes, (categories, np.searchsorted(moments, lives.died + 1)), lives.size)
    return np.cumsum(changes[:, :-1], axis=1)


def _clip_bands(bands: Iterable[TimeBand], window: _Window) -> tuple[TimelineBand, ...]:
    """The outermost `BANDS` over a window, the longest first among equally deep ones; in the order of nesting."""
    over = [
        (_KINDS.index(band.kind), band.depth, start, end, band)
        for band in bands
        if (start := max(band.start_ns, window.start_ns)) < (end := min(band.end_ns, window.end_ns))
    ]
    over.sort(key=lambda item: (*item[:2], item[2] - item[3]))
    return tuple(
        TimelineBand(
            kind=band.kind,
            name=band.name,
            start_s=(start - window.start_ns) / 1e9,
            end_s=(end - window.start_ns) / 1e9,
            depth=depth,
        )
        for _, depth, start, end, band in sorted(over[:BANDS], key=lambda item: item[:3])
    )
