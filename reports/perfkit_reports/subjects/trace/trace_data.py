"""Raw tables of a report on traces, every row of every trace; seconds, bytes and FLOPs as in the analysis."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perfkit.analysis.model.coverage import Coverage, ModelErrorRow, UncoveredWork
from perfkit.analysis.model.difference import ChangeRow, GroupChange
from perfkit.analysis.model.fleet import CollectiveTiming, RankRow, SkewRow
from perfkit.analysis.model.launches import (
    DeviceLoad,
    DeviceRow,
    GapRow,
    HostCallRow,
    Launches,
    Overlap,
    OverlapRow,
    ReplayedGraph,
    StreamQueue,
    StreamRow,
    UnitCounters,
)
from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow
from perfkit.analysis.model.replay import PathRow, SimulatedChange
from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.trace import CollectiveRow, CopyRow, RankTrace, Recompute, StepRow, TraceFileInfo
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.record.quantity import get_value, get_whole
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit_reports.document.tables import (
    RawTable,
    Schema,
    build_owned_data,
    build_plain_data,
    build_schema,
    extract_fields,
)
from perfkit_reports.holders import list_trace_holders
from perfkit_reports.subjects import memory
from perfkit_reports.subjects.trace.series import list_traces
from perfkit_reports.subjects.trace.trace_headline import list_ceilings

# One row a trace: these beside its own fields. A trace without launches, kernels or recomputation has nulls there.
_PARTS: dict[str, type[Struct]] = {
    "file_info": TraceFileInfo,
    "coverage": Coverage,
    "overlap": Overlap,
    "launches": Launches,
    "recompute": Recompute,
    "device_load": DeviceLoad,
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
    "devices": (DeviceRow, lambda trace: trace.devices),
    "streams": (StreamRow, lambda trace: trace.streams),
    "queues": (StreamQueue, lambda trace: trace.queues),
    "overlap": (OverlapRow, lambda trace: trace.overlap.pairs),
    "collectives": (CollectiveRow, lambda trace: trace.collectives),
    "copies": (CopyRow, lambda trace: trace.copies),
    "host_calls": (HostCallRow, lambda trace: trace.host_calls),
    "gaps": (GapRow, lambda trace: trace.gaps),
    "graphs": (ReplayedGraph, lambda trace: trace.graphs),
    "unlike_steps": (StepRow, lambda trace: trace.outlier_steps),
    "unit_counters": (UnitCounters, lambda trace: trace.unit_counters),
    "model_error": (ModelErrorRow, lambda trace: trace.coverage.model_error),
    "uncovered": (UncoveredWork, lambda trace: trace.coverage.uncovered),
    "path_segments": (PathRow, lambda trace: trace.replay.segments if trace.replay else ()),
    "what_ifs": (SimulatedChange, lambda trace: trace.what_ifs),
}
_TIME = build_schema(TimeShare, trace=str, scope=str)
_PATH: Schema = {"trace": str, "kind": str, "seconds": float}
_TRACES: Schema = {
    **build_schema(RankTrace),
    "mfu": float,
    "mfu_of": str,
    "hfu": float,
    **{f"{part}_{name}": kind for part, struct in _PARTS.items() for name, kind in build_schema(struct).items()},
}


def build_data(analysis: TraceAnalysis) -> tuple[RawTable, ...]:
    """Build every table, empty ones included."""
    traces = list_traces(analysis)
    named = [([trace.label], trace) for trace in traces]
    fleets, difference = analysis.fleets, analysis.difference
    devices = [([known.device_name], known) for known in list_ceilings(traces)]
    return (
        *build_cost_tables(traces, "trace"),
        *(build_owned_data(name, struct, {"trace": str}, named, pick) for name, (struct, pick) in _OF_TRACES.items()),
        RawTable("time", _TIME, lambda: [row for trace in traces for row in _list_time_rows(trace)]),
        RawTable("critical_path", _PATH, lambda: [row for trace in traces for row in _list_path_rows(trace)]),
        RawTable("traces", _TRACES, lambda: [_build_trace_row(trace) for trace in traces]),
        build_plain_data("ranks", RankRow, [row for fleet in fleets for row in fleet.ranks]),
        build_plain_data("skew", SkewRow, [row for fleet in fleets for row in fleet.skew]),
        build_plain_data("timings", CollectiveTiming, [row for fleet in fleets for row in fleet.timings]),
        build_plain_data("changes", ChangeRow, difference.changes if difference else ()),
        build_plain_data("changed_groups", GroupChange, difference.groups if difference else ()),
        build_owned_data("ceilings", Ceiling, {"device": str}, devices, lambda known: known.ceilings),
        *memory.build_data(list_trace_holders(traces), "trace"),
    )


def build_cost_tables(traces: Sequence[RankTrace], owner: str) -> tuple[RawTable, ...]:
    """Build the tables of kernels, ops, modules, phases, roofline dots and GEMMs; `owner` names the trace column."""
    named = [([trace.label], trace) for trace in traces]
    return (
        *(build_owned_data(name, OpRow, {owner: str}, named, pick) for name, pick in _COSTS.items()),
        build_owned_data("gemms", GemmRow, {owner: str}, named, lambda trace: trace.gemms),
        build_owned_data("attentions", AttentionRow, {owner: str}, named, lambda trace: trace.attentions),
    )


def _list_time_rows(trace: RankTrace) -> list[dict[str, Any]]:
    """The split of the mean step (`step`), of each step (`step 12`) and of each stream (`stream 0/7`)."""
    scopes = [
        ("step", trace.time_split),
        *((f"step {step.number}", step.time_split) for step in trace.steps),
        *((f"device {row.number} {row.process}".rstrip(), row.time_split) for row in trace.devices),
        *((f"stream {stream.device}/{stream.stream}", stream.split) for stream in trace.streams),
    ]
    return [
        extract_fields(_TIME, share, trace=trace.label, scope=scope) for scope, shares in scopes for share in shares
    ]


def _list_path_rows(trace: RankTrace) -> list[dict[str, Any]]:
    kinds = trace.replay.critical_path if trace.replay else {}
    return [{"trace": trace.label, "kind": kind, "seconds": spent} for kind, spent in kinds.items()]


def _build_trace_row(trace: RankTrace) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(trace, name) for name in build_schema(RankTrace)}
    row |= {"mfu": get_value(trace.mfu), "hfu": get_value(trace.hfu), "mfu_of": get_whole(trace.mfu)}
    for part, struct in _PARTS.items():
        item = getattr(trace, part)
        row |= {f"{part}_{name}": None if item is None else getattr(item, name) for name in build_schema(struct)}
    return row
