"""Provenance of each figure of a report on traces."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import list_texts
from perfkit.core.record.quantity import Measurement, Quantity
from perfkit.core.units import format_bytes, format_percent, format_seconds, format_signed_percent
from perfkit.devices.ceilings.ceiling import CeilingKind, DeviceCeilings


def build_trace_provenance(traces: Sequence[RankTrace], file_count: int = 0) -> tuple[Provenance, ...]:
    """One entry for each kind of figure that some trace has."""
    entries = [
        Provenance(figure="events", how="recorded", detail=_describe_files(traces, file_count)),
        Provenance(
            figure="durations",
            how="recorded",
            detail="profiler timestamps, in nanoseconds; profiling slows the step, CPU work most",
        ),
        Provenance(figure="steps", how="derived", detail=_describe_steps(traces)),
        Provenance(
            figure="device",
            how=_find_device_source(traces),
            detail=_describe_devices(traces),
        ),
        *_describe_costs(traces),
        *_describe_ceilings(traces),
        *describe_quantity("MFU", (trace.mfu for trace in traces)),
        *describe_quantity("HFU", (trace.hfu for trace in traces)),
    ]
    entries += _describe_replays(traces)
    if any(trace.collectives for trace in traces):
        entries.append(
            Provenance(
                figure="collective bandwidth",
                how="derived",
                detail="recorded message size / kernel time; bus bandwidth as in nccl-tests; kernel time includes "
                "waiting for the last rank",
            )
        )
    if any(trace.memory is not None for trace in traces):
        entries.append(
            Provenance(figure="memory account", how="recorded", detail="replayed allocator events of the trace")
        )
    return tuple(entries)


def _describe_replays(traces: Sequence[RankTrace]) -> list[Provenance]:
    """The replay error; of several traces that of the worst."""
    replays = [trace.replay for trace in traces if trace.replay is not None]
    if not replays:
        return []
    worst = max(replays, key=lambda replay: abs(replay.error))
    refused = f"; gains are not simulated: {worst.reason}" if worst.reason else ""
    return [
        Provenance(
            figure="replay",
            how="simulated",
            detail=f"replay error {format_signed_percent(worst.error, 2)}: the unmodified replay takes "
            f"{format_seconds(worst.replayed_s)}, "
            f"the recording {format_seconds(worst.recorded_s)}{refused}",
        )
    ]


def _describe_files(traces: Sequence[RankTrace], file_count: int) -> str:
    events = sum(trace.file_info.events for trace in traces)
    size = sum(trace.file_info.json_bytes for trace in traces)
    notes = sum(bool(trace.file_info.notes) for trace in traces)
    repaired = f"; {notes} with notes" if notes and len(traces) > 1 else ""
    files = f"{len(traces)} files, " if len(traces) > 1 else ""
    if file_count:
        files = f"{len(traces)} of {file_count:,} files in full, "
    return f"{files}{events:,} events in {format_bytes(size)} of JSON{repaired}"


def _describe_steps(traces: Sequence[RankTrace]) -> str:
    return "; ".join(dict.fromkeys(_count_steps(trace) for trace in traces))


def _count_steps(trace: RankTrace) -> str:
    return (
        f"{len(trace.steps)} step{'s' if len(trace.steps) != 1 else ''}, {trace.step_basis}"
        if trace.steps
        else "none found"
    )


def _find_device_source(traces: Sequence[RankTrace]) -> str:
    """Only a name is recorded as such: without one, the kind follows from the events."""
    if all(trace.device_name for trace in traces):
        return "recorded"
    return "unknown" if all(trace.unknown_work_reason for trace in traces) else "derived"


def _describe_devices(traces: Sequence[RankTrace]) -> str:
    return "; ".join(dict.fromkeys(f"{_name_device(trace)} ({trace.device_basis})" for trace in traces))


def _name_device(trace: RankTrace) -> str:
    return trace.device_name or ("" if trace.unknown_work_reason else trace.device) or "unknown"


def _describe_costs(traces: Sequence[RankTrace]) -> list[Provenance]:
    total = sum(trace.coverage.kernel_s for trace in traces)
    if not total:
        return []
    flops, moved, counted = (
        sum(getattr(trace.coverage, part) for trace in traces) / total for part in ("flops_s", "bytes_s", "counted_s")
    )
    sources = sorted({row.cost_source for row in _list_op_rows(traces) if row.cost_source})
    how = f"; cost sources: {', '.join(sources[:8])}" if sources else ""
    entries = [
        Provenance(
            figure="FLOPs and bytes",
            how="modeled",
            detail=f"formulas on recorded shapes; bytes are the compulsory traffic; FLOPs known for "
            f"{format_percent(flops)} of the kernel time, bytes for {format_percent(moved)}{how}",
        )
    ]
    if counted:
        entries.append(
            Provenance(
                figure="counted FLOPs and bytes",
                how="counted",
                detail=f"Nsight Compute counters replace the model for {format_percent(counted)} of the kernel time",
            )
        )
    return entries


def _list_op_rows(traces: Sequence[RankTrace]) -> Iterable[OpRow]:
    return (row for trace in traces for row in trace.ops)


def _describe_ceilings(traces: Sequence[RankTrace]) -> list[Provenance]:
    """An entry for each device that the traces come from."""
    by_device = {trace.device_name: trace.ceilings for trace in traces}
    return [
        entry if len(by_device) == 1 else replace(entry, figure=f"ceilings of {name or 'an unnamed device'}")
        for name, ceilings in by_device.items()
        for entry in _describe_device_ceilings(ceilings)
    ]


def _describe_device_ceilings(ceilings: DeviceCeilings | None) -> list[Provenance]:
    if ceilings is None or not ceilings.ceilings:
        reason = "; ".join(list_texts(ceilings.notes)) if ceilings is not None else "none known for this device"
        return [Provenance(figure="ceilings", how="unknown", detail=reason or "none known for this device")]
    measured = [ceiling for ceiling in ceilings.ceilings if ceiling.kind == CeilingKind.MEASURED]
    rest = [ceiling for ceiling in ceilings.ceilings if ceiling.kind == CeilingKind.DATASHEET]
    parts = []
    if measured:
        parts.append(f"{len(measured)} measured on this machine {ceilings.measured_at}".rstrip())
    if rest:
        sources = list(dict.fromkeys(ceiling.source for ceiling in rest))
        parts.append(f"{len(rest)} dense peaks: {'; '.join(sources)}")
    return [Provenance(figure="ceilings", how="measured" if measured else "datasheet", detail="; ".join(parts))]


def describe_quantity(figure: str, values: Iterable[Quantity]) -> list[Provenance]:
    """Provenance of the first known value; nothing where none is known."""
    known = next((value for value in values if isinstance(value, Measurement)), None)
    return [] if known is None else [Provenance(figure=figure, how=known.how, detail=known.source)]
