"""Counters of a trace within its steps: their means, their spread and their course."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import CounterRow
from perfkit.analysis.trace.time.intervals import is_inside, merge_intervals
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE, Category, CounterSamples, Ints, Trace

_PARTS = 240  # of a series: about as many as a chart has room for


def build_counter_rows(trace: Trace, windows: StepWindows) -> tuple[CounterRow, ...]:
    """A row for each counter of each device, in the order of their names; none without samples in the steps."""
    samples = trace.counters
    if not len(samples) or not len(windows):
        return ()
    return tuple(_list_rows(trace, samples, windows))


def _list_rows(trace: Trace, samples: CounterSamples, windows: StepWindows) -> Iterator[CounterRow]:
    within = is_inside(samples.time_ns, windows.spans)
    begin, end = int(windows.spans[0, 0]), int(windows.spans[-1, 1])
    for device in np.unique(samples.device[within]).tolist():
        busy = _find_busy_samples(trace, samples, device)
        for number, name in enumerate(samples.names):
            chosen = within & (samples.counter == number) & (samples.device == device)
            count = int(chosen.sum())
            if not count:
                continue
            values, times = samples.value[chosen], samples.time_ns[chosen]
            spent = int(times[-1] - times[0])
            low, high = np.percentile(values, (5, 95)).tolist()
            yield CounterRow(
                name=name,
                device=None if device == NONE else device,
                samples=count,
                rate_hz=(count - 1) / spent * 1e9 if spent else None,
                mean=float(values.mean()),
                low=low,
                high=high,
                busy_mean=float(samples.value[chosen & busy].mean()) if (chosen & busy).any() else None,
                series=_average_parts(times, values, begin, end),
                begin_s=(begin - windows.span[0]) / 1e9,
                series_hz=_PARTS / (end - begin) * 1e9,
            )


def _find_busy_samples(trace: Trace, samples: CounterSamples, device: int) -> NDArray[np.bool_]:
    kernels = trace.are(Category.KERNEL) & (trace.device == device)
    return is_inside(samples.time_ns, merge_intervals(trace.start_ns[kernels], trace.end_ns[kernels]))


def _average_parts(times: Ints, values: NDArray[np.float64], begin: int, end: int) -> tuple[float | None, ...]:
    part = np.minimum((times - begin) * _PARTS // (end - begin), _PARTS - 1)
    count = np.bincount(part, minlength=_PARTS)
    total = np.bincount(part, values, minlength=_PARTS)
    return tuple(
        round(value / samples, 4) if samples else None
        for value, samples in zip(total.tolist(), count.tolist(), strict=True)
    )
