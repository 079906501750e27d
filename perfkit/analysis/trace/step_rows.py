"""The rows of a trace's steps: each with the split of its time, and the outliers apart."""

import numpy as np

from perfkit.analysis.model.trace import StepRow
from perfkit.analysis.trace.time.outlier_steps import measure_compiling_ns
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.analysis.trace.time.wall_time_split import TimeSplit
from perfkit.analysis.trace.work.split_time import split_outliers
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.trace.ops.ops import Ops

# The slowest steps have a split of their own; those of a hundred thousand steps would fill a hundred megabytes.
MOST_SPLIT_STEPS = 1000


def build_step_rows(spans: StepWindows, split: TimeSplit) -> tuple[StepRow, ...]:
    """The steps in the trace's order; none where it has no steps."""
    if not spans.are_steps:
        return ()
    with_split = np.zeros(len(spans), np.bool_)
    with_split[np.argsort(spans.spans[:, 0] - spans.spans[:, 1], kind="stable")[:MOST_SPLIT_STEPS]] = True
    return tuple(
        StepRow(
            number=int(number),
            start_s=int(start - spans.span[0]) / 1e9,
            seconds=int(end - start) / 1e9,
            time_split=split.compute_shares(window=index) if with_split[index] else (),
        )
        for index, (number, (start, end)) in enumerate(zip(spans.number.tolist(), spans.spans.tolist(), strict=True))
    )


def build_outlier_rows(engine: WorkAnalysis) -> tuple[StepRow, ...]:
    """The steps that are left out of the figures, since they would distort the mean."""
    spans, trace = engine.windows, engine.pieces.ops.trace
    if not len(spans.unlike):
        return ()
    rows = engine.pieces.select_device(engine.critical_device)
    split = split_outliers(engine.pieces, engine.category, engine.waiting, engine.fetching, rows, engine.idle.beside)
    return tuple(
        StepRow(
            number=int(number),
            start_s=(start - spans.span[0]) / 1e9,
            seconds=(end - start) / 1e9,
            time_split=split.compute_shares(window=index),
            compiling_s=measure_compiling_ns(trace, start, end) / 1e9,
        )
        for index, (number, (start, end)) in enumerate(zip(spans.unlike_number, spans.unlike.tolist(), strict=True))
    )


def measure_marked_step_s(ops: Ops, spans: StepWindows) -> float | None:
    """The mean of the steps' ranges on the CPU; None without a device's windows that differ from these."""
    if not spans.are_steps or ops.steps.on_device or not ops.trace.has_device_events:
        return None
    return float((ops.steps.end_ns[spans.row] - ops.steps.start_ns[spans.row]).mean()) / 1e9


def describe_step_basis(ops: Ops, spans: StepWindows) -> str:
    """How the steps were found."""
    return ops.steps.basis if spans.are_steps else "no steps"
