"""Sampled counters of a step as lines below the streams of their device."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.timeline import STREAM, CounterLine
from perfkit.analysis.timeline.column_packing import pack_column, take_differences
from perfkit.analysis.timeline.lane_slices import LaneSlices
from perfkit.trace.model import NONE, CounterSamples, Ints

# Samples of a line; of more, means of equal parts of the step.
_MOST = 2_000
# Intervals between samples for which one holds: a longer pause is not known.
_HOLDS = 2
_UNIT = re.compile(r".*\(([^()\s]{1,8})\)")


def build_counter_lines(
    samples: CounterSamples, lanes: Sequence[LaneSlices], begin: int, end: int
) -> Iterator[CounterLine]:
    """A line for each counter of each device that was sampled twice, at least once in the span."""
    numbers = samples.device.astype(np.int64)
    several = len(np.unique(numbers)) > 1
    for device in np.unique(numbers).tolist():
        below = max(
            (place for place, lane in enumerate(lanes) if (lane.lane, lane.device) == (STREAM, device)), default=NONE
        )
        for counter, name in enumerate(samples.names):
            mine = (samples.counter == counter) & (numbers == device)
            title = f"device {device}, {name}" if several and device != NONE else name
            line = _build_line(title, below, samples.time_ns[mine], samples.value[mine], begin, end)
            if line is not None:
                yield line


def _build_line(
    name: str, below: int, time: Ints, value: NDArray[np.float64], begin: int, end: int
) -> CounterLine | None:
    if len(time) < 2:
        return None
    holds = int(_HOLDS * np.median(np.diff(time)))
    here = np.flatnonzero((time > begin - holds) & (time < end))
    before = here[time[here] < begin]
    here = here[max(len(before) - 1, 0) :]  # the last one before the span holds into it
    if not len(here):
        return None
    shown, values, holds = _thin_samples(time[here] - begin, value[here], holds, end - begin)
    unit = _UNIT.fullmatch(name)
    return CounterLine(
        name=name,
        unit=unit[1] if unit else "",
        below=below,
        samples=len(here),
        holds_ns=holds,
        time_ns=pack_column(take_differences(shown)),
        value=tuple(float(f"{each:.6g}") for each in values.tolist()),
    )


def _thin_samples(
    time: Ints, value: NDArray[np.float64], holds: int, length: int
) -> tuple[Ints, NDArray[np.float64], int]:
    """Times, values, and how long each holds."""
    if len(time) <= _MOST:
        return time, value, holds
    part = np.clip(time * _MOST // length, 0, _MOST - 1)
    parts, of = np.unique(part, return_inverse=True)
    means = np.bincount(of, value) / np.bincount(of)
    return parts * length // _MOST, means, max(holds, -(-length // _MOST))
