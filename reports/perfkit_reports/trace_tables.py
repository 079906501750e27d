"""A report on traces as Parquet tables, every row of every trace; seconds, bytes and FLOPs as in the analysis."""

from collections.abc import Callable, Iterable

import pyarrow as pa

from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.trace import (
    ChangeRow,
    CollectiveRow,
    CopyRow,
    Coverage,
    HostCallRow,
    Launches,
    ModelErrorRow,
    Overlap,
    RankRow,
    RankTrace,
    Reading,
    Recompute,
    SkewRow,
    StepRow,
    StreamRow,
    TraceAnalysis,
    Uncovered,
)
from perfkit.devices.ceiling import Ceiling
from perfkit.record import value_of
from perfkit.spec import Struct
from perfkit_reports import arrow, memory_tables
from perfkit_reports.arrow import REAL, TEXT, Row, Schema, fields, schema_of
from perfkit_reports.holders import of_traces
from perfkit_reports.trace_headline import ceilings_of
from perfkit_reports.trace_series import every_trace

# One row a trace: these beside its own fields. A trace without launches or recomputation has nulls there.
_PARTS: dict[str, type[Struct]] = {
    "reading": Reading,
    "coverage": Coverage,
    "overlap": Overlap,
    "launches": Launches,
    "recompute": Recompute,
}
_OF_TRACES: dict[str, tuple[type[Struct], Callable[[RankTrace], Iterable[object]]]] = {
    "kernels": (OpRow, lambda trace: trace.kernels),
    "ops": (OpRow, lambda trace: trace.ops),
    "modules": (OpRow, lambda trace: trace.modules),
    "phases": (OpRow, lambda trace: trace.phases),
    "steps": (StepRow, lambda trace: trace.steps),
    "streams": (StreamRow, lambda trace: trace.streams),
    "collectives": (CollectiveRow, lambda trace: trace.collectives),
    "copies": (CopyRow, lambda trace: trace.copies),
    "host_calls": (HostCallRow, lambda trace: trace.host_calls),
    "model_error": (ModelErrorRow, lambda trace: trace.coverage.model_error),
    "uncovered": (Uncovered, lambda trace: trace.coverage.uncovered),
    "roofline": (OpRow, lambda trace: (*trace.points, *trace.level_points)),
}
SCHEMAS: dict[str, Schema] = {
    **{name: schema_of(struct, trace=TEXT) for name, (struct, _) in _OF_TRACES.items()},
    "time": schema_of(TimeShare, trace=TEXT, scope=TEXT),
    "traces": {
        **schema_of(RankTrace),
        "mfu": REAL,
        "hfu": REAL,
        **{f"{part}_{name}": kind for part, struct in _PARTS.items() for name, kind in schema_of(struct).items()},
    },
    "ranks": schema_of(RankRow),
    "skew": schema_of(SkewRow),
    "changes": schema_of(ChangeRow),
    "ceilings": schema_of(Ceiling, device=TEXT),
    **memory_tables.schemas("trace"),
}


def tables(analysis: TraceAnalysis) -> dict[str, pa.Table]:
    """Every table of `SCHEMAS`, with no rows where there is nothing."""
    traces = every_trace(analysis)
    rows: dict[str, list[Row]] = {
        name: [fields(SCHEMAS[name], item, trace=trace.label) for trace in traces for item in pick(trace)]
        for name, (_, pick) in _OF_TRACES.items()
    }
    rows["time"] = [row for trace in traces for row in _time(trace)]
    rows["traces"] = [_trace(trace) for trace in traces]
    for name, items in (
        ("ranks", analysis.fleet.ranks if analysis.fleet else ()),
        ("skew", analysis.fleet.skew if analysis.fleet else ()),
        ("changes", analysis.difference.changes if analysis.difference else ()),
    ):
        rows[name] = [fields(SCHEMAS[name], item) for item in items]
    rows["ceilings"] = [
        fields(SCHEMAS["ceilings"], item, device=known.device_name)
        for known in ceilings_of(traces)
        for item in known.ceilings
    ]
    rows |= memory_tables.rows(of_traces(traces), "trace")
    return arrow.tables(SCHEMAS, rows)


def _time(trace: RankTrace) -> list[Row]:
    """The split of the mean step (`step`), of each step (`step 12`) and of each stream (`stream 0/7`)."""
    scopes = [
        ("step", trace.time_split),
        *((f"step {step.number}", step.time_split) for step in trace.steps),
        *((f"stream {stream.device}/{stream.stream}", stream.split) for stream in trace.streams),
    ]
    return [
        fields(SCHEMAS["time"], share, trace=trace.label, scope=scope) for scope, shares in scopes for share in shares
    ]


def _trace(trace: RankTrace) -> Row:
    row: Row = {name: getattr(trace, name) for name in schema_of(RankTrace)}
    row |= {"mfu": value_of(trace.mfu), "hfu": value_of(trace.hfu)}
    for part, struct in _PARTS.items():
        item = getattr(trace, part)
        row |= {f"{part}_{name}": None if item is None else getattr(item, name) for name in schema_of(struct)}
    return row
