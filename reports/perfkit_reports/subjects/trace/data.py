"""A report on traces as raw tables, every row of every trace; seconds, bytes and FLOPs as in the analysis."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perfkit.analysis.model.coverage import Coverage, ModelErrorRow, UncoveredWork
from perfkit.analysis.model.difference import ChangeRow, GroupChange
from perfkit.analysis.model.fleet import RankRow, SkewRow
from perfkit.analysis.model.graphs import ReplayedGraph
from perfkit.analysis.model.launches import GapRow, HostCallRow, Launches
from perfkit.analysis.model.products import AttentionRow, GemmRow
from perfkit.analysis.model.replay import PathRow, SimulatedChange
from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.trace import (
    CollectiveRow,
    CopyRow,
    Overlap,
    RankTrace,
    Recompute,
    StepRow,
    StreamRow,
    TraceFileInfo,
)
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.devices.ceiling import Ceiling
from perfkit.record import value_of
from perfkit.spec import Struct
from perfkit_reports.document.tables import Data, Schema, fields, owned, plain, schema_of
from perfkit_reports.holders import of_traces
from perfkit_reports.subjects import memory
from perfkit_reports.subjects.trace.headline import ceilings_of
from perfkit_reports.subjects.trace.series import every_trace

# One row a trace: these beside its own fields. A trace without launches or recomputation has nulls there.
_PARTS: dict[str, type[Struct]] = {
    "reading": TraceFileInfo,
    "coverage": Coverage,
    "overlap": Overlap,
    "launches": Launches,
    "recompute": Recompute,
}
_COSTS: dict[str, Callable[[RankTrace], Iterable[OpRow]]] = {
    "kernels": lambda trace: trace.kernels,
    "ops": lambda trace: trace.ops,
    "modules": lambda trace: trace.modules,
    "phases": lambda trace: trace.phases,
    "roofline": lambda trace: (*trace.points, *trace.level_points),
}
_OF_TRACES: dict[str, tuple[type[Struct], Callable[[RankTrace], Iterable[object]]]] = {
    "steps": (StepRow, lambda trace: trace.steps),
    "streams": (StreamRow, lambda trace: trace.streams),
    "collectives": (CollectiveRow, lambda trace: trace.collectives),
    "copies": (CopyRow, lambda trace: trace.copies),
    "host_calls": (HostCallRow, lambda trace: trace.host_calls),
    "gaps": (GapRow, lambda trace: trace.gaps),
    "graphs": (ReplayedGraph, lambda trace: trace.graphs),
    "unlike_steps": (StepRow, lambda trace: trace.unlike),
    "model_error": (ModelErrorRow, lambda trace: trace.coverage.model_error),
    "uncovered": (UncoveredWork, lambda trace: trace.coverage.uncovered),
    "path_stretches": (PathRow, lambda trace: trace.replay.stretches if trace.replay else ()),
    "what_ifs": (SimulatedChange, lambda trace: trace.what_ifs),
}
_TIME = schema_of(TimeShare, trace=str, scope=str)
_PATH: Schema = {"trace": str, "kind": str, "seconds": float}
_TRACES: Schema = {
    **schema_of(RankTrace),
    "mfu": float,
    "hfu": float,
    **{f"{part}_{name}": kind for part, struct in _PARTS.items() for name, kind in schema_of(struct).items()},
}


def data(analysis: TraceAnalysis) -> tuple[Data, ...]:
    """Every table, with no rows where there is nothing."""
    traces = every_trace(analysis)
    named = [([trace.label], trace) for trace in traces]
    fleet, difference = analysis.fleet, analysis.difference
    devices = [([known.device_name], known) for known in ceilings_of(traces)]
    return (
        *of_costs(traces, "trace"),
        *(owned(name, struct, {"trace": str}, named, pick) for name, (struct, pick) in _OF_TRACES.items()),
        Data("time", _TIME, lambda: [row for trace in traces for row in _time(trace)]),
        Data("critical_path", _PATH, lambda: [row for trace in traces for row in _path(trace)]),
        Data("traces", _TRACES, lambda: [_trace(trace) for trace in traces]),
        plain("ranks", RankRow, fleet.ranks if fleet else ()),
        plain("skew", SkewRow, fleet.skew if fleet else ()),
        plain("changes", ChangeRow, difference.changes if difference else ()),
        plain("changed_groups", GroupChange, difference.groups if difference else ()),
        owned("ceilings", Ceiling, {"device": str}, devices, lambda known: known.ceilings),
        *memory.data(of_traces(traces), "trace"),
    )


def of_costs(traces: Sequence[RankTrace], owner: str) -> tuple[Data, ...]:
    """Kernels, ops, modules, phases, the dots of the roofline, and products; `owner` is what a trace is of."""
    named = [([trace.label], trace) for trace in traces]
    return (
        *(owned(name, OpRow, {owner: str}, named, pick) for name, pick in _COSTS.items()),
        owned("gemms", GemmRow, {owner: str}, named, lambda trace: trace.gemms),
        owned("attentions", AttentionRow, {owner: str}, named, lambda trace: trace.attentions),
    )


def _time(trace: RankTrace) -> list[dict[str, Any]]:
    """The split of the mean step (`step`), of each step (`step 12`) and of each stream (`stream 0/7`)."""
    scopes = [
        ("step", trace.time_split),
        *((f"step {step.number}", step.time_split) for step in trace.steps),
        *((f"stream {stream.device}/{stream.stream}", stream.split) for stream in trace.streams),
    ]
    return [fields(_TIME, share, trace=trace.label, scope=scope) for scope, shares in scopes for share in shares]


def _path(trace: RankTrace) -> list[dict[str, Any]]:
    kinds = trace.replay.critical_path if trace.replay else {}
    return [{"trace": trace.label, "kind": kind, "seconds": spent} for kind, spent in kinds.items()]


def _trace(trace: RankTrace) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(trace, name) for name in schema_of(RankTrace)}
    row |= {"mfu": value_of(trace.mfu), "hfu": value_of(trace.hfu)}
    for part, struct in _PARTS.items():
        item = getattr(trace, part)
        row |= {f"{part}_{name}": None if item is None else getattr(item, name) for name in schema_of(struct)}
    return row
