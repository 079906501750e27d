"""Selects the steps of a trace to show event by event."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.ops.ops import Ops

_ALIKE = 0.01  # of the median: steps that differ by less show the same
MEDIAN, SLOWEST, FASTEST, WHOLE = "median", "slowest", "fastest", ""


class SelectedStep(NamedTuple):
    """A span of the trace: a step from its start on the CPU to the end of its last kernel, if that is later."""

    number: int | None
    why: str
    begin_ns: int
    end_ns: int


def select_steps(ops: Ops, windows: StepWindows) -> Iterator[SelectedStep]:
    """The median step first, then the slowest and the fastest where these differ from it; of a trace without steps the
    whole."""
    if not windows.are_steps:
        yield from (SelectedStep(None, WHOLE, int(begin), int(end)) for begin, end in windows.spans.tolist())
        return
    length = windows.spans[:, 1] - windows.spans[:, 0]
    by_length = np.argsort(length, kind="stable")
    median = int(by_length[(len(by_length) - 1) // 2])
    yield _select_step(ops, windows, median, MEDIAN if len(by_length) > 1 else WHOLE)
    for index, why in ((int(by_length[-1]), SLOWEST), (int(by_length[0]), FASTEST)):
        if abs(length[index] - length[median]) >= _ALIKE * length[median]:
            yield _select_step(ops, windows, index, why)


def _select_step(ops: Ops, windows: StepWindows, index: int, why: str) -> SelectedStep:
    begin, end = windows.spans[index].tolist()
    number = int(windows.number[index])
    same = np.flatnonzero(ops.steps.number == number)
    if len(same) and not ops.steps.on_device:
        on_host = same[np.abs(ops.steps.start_ns[same] - begin).argmin()]
        begin, end = min(begin, int(ops.steps.start_ns[on_host])), max(end, int(ops.steps.end_ns[on_host]))
    return SelectedStep(number, why, begin, end)
