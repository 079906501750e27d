"""Puts the traces of a variant on the clock of its timed steps.

A profiler makes a step longer. What a trace shows is a part of its step, so every time of it, of its fleet and of its
ops is told as the same part of a timed step: gains, costs and evidence then have one clock. Timelines and pipelines
keep the trace's own.
"""

from dataclasses import replace
from functools import cache
from typing import TypeVar

import msgspec

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.fleet import StageActions
from perfkit.analysis.model.launches import CounterRow
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.step import BYTES, FLOPS, DeviceClockSkew, FlameGraph
from perfkit.analysis.model.timeline import StepTimeline
from perfkit.analysis.model.trace import TraceFileInfo
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.trace.work.ops_by_step import OpsByStep
from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import DeviceCeilings

Scaled = TypeVar("Scaled", bound=Struct)

# What is of the recording or of the device, not of a step: thresholds, offsets, places in the trace, and notes, whose
# figures are those of their sentences.
_KEPT_TYPES = (
    Note,
    CounterRow,
    StepTimeline,
    StageActions,
    MemoryAccount,
    DeviceCeilings,
    DeviceClockSkew,
    TraceFileInfo,
)
_KEPT_FIELDS = {"short_below_s", "clock_offset_s", "start_s", "begin_s", "longest_start_s"}
_SECONDS_BY_KEY = {"by_finding", "together_path", "critical_path", "step_path", "figures"}


def apply_timed_clock(passes: PassResults, step_time: MedianEstimate | MissingEstimate) -> PassResults:
    """The passes with their traces on the clock of the timed steps; unchanged where no step was timed or traced.

    One factor for all ranks, from the longest: their differences stay, and none takes longer than a timed step. It is
    that of the mean traced step, since rows and parts are means: they sum to a timed step.
    """
    longest_s = max((trace.step_s for trace in passes.traces if trace.steps), default=0.0)
    if not isinstance(step_time, MedianEstimate) or longest_s <= 0:
        return passes
    factor = step_time.value / longest_s
    return replace(
        passes,
        traces=tuple(
            msgspec.structs.replace(_scale_struct(trace, factor), timed_ratio=factor) for trace in passes.traces
        ),
        fleet=None if passes.fleet is None else _scale_struct(passes.fleet, factor),
        by_step=None if passes.by_step is None else _scale_ops_by_step(passes.by_step, factor),
    )


def _scale_ops_by_step(ops: OpsByStep, factor: float) -> OpsByStep:
    steps_s = {key: tuple(seconds * factor for seconds in series) for key, series in ops.steps_s.items()}
    return OpsByStep(tuple(_scale_struct(row, factor) for row in ops.ops), steps_s, ops.implementations)


def _scale_struct(struct: Scaled, factor: float) -> Scaled:
    if isinstance(struct, FlameGraph):
        values = {
            name: column if name in (FLOPS, BYTES) else tuple(value * factor for value in column)
            for name, column in struct.values.items()
        }
        return msgspec.structs.replace(struct, values=values)
    changed = {}
    for name, is_time in _list_fields(type(struct)):
        value = getattr(struct, name)
        scaled = _scale_value(value, factor, is_time=is_time)
        if scaled is not value:
            changed[name] = scaled
    return msgspec.structs.replace(struct, **changed) if changed else struct


def _scale_value(value: object, factor: float, *, is_time: bool) -> object:
    if isinstance(value, float):
        return value * factor if is_time else value
    if isinstance(value, Struct):
        return value if isinstance(value, _KEPT_TYPES) else _scale_struct(value, factor)
    if isinstance(value, tuple) and (is_time or (value and isinstance(value[0], Struct))):
        return tuple(_scale_value(item, factor, is_time=is_time) for item in value)
    if isinstance(value, dict) and value:
        return {key: _scale_value(item, factor, is_time=is_time) for key, item in value.items()}
    return value


@cache
def _list_fields(kind: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """The fields of a struct, and whether each is in seconds."""
    return tuple((name, _is_time(name)) for name in kind.__struct_fields__)


def _is_time(name: str) -> bool:
    if name in _KEPT_FIELDS or name.endswith("_per_s"):
        return False
    return name in _SECONDS_BY_KEY or name == "seconds" or name.endswith("_s")
