"""Analyzes one trace: its time split, its distance from the roofline, and its potential savings."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.launches import DeviceLoad
from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow
from perfkit.analysis.model.step import DeviceClockSkew, OpRow, OverrunningKernels
from perfkit.analysis.model.trace import PrecisionFlops, RankTrace, TraceFileInfo
from perfkit.analysis.trace.collective_rows import build_collective_rows
from perfkit.analysis.trace.coverage import measure_coverage
from perfkit.analysis.trace.device_rows import build_device_rows
from perfkit.analysis.trace.exceeded_roofs import find_exceeded_ceilings
from perfkit.analysis.trace.flame_graphs import build_flame_graphs
from perfkit.analysis.trace.hierarchical_roofline import build_level_points
from perfkit.analysis.trace.idle.host_calls import HostCalls, is_allocator_uncached
from perfkit.analysis.trace.idle.idle_causes import IdleCauses
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.matrix_utilization import compute_matrix_utilization
from perfkit.analysis.trace.missing_device_events import explain_unseen_device
from perfkit.analysis.trace.module_rows import build_module_rows, build_phase_rows
from perfkit.analysis.trace.op_tables import build_kernel_table, build_op_table
from perfkit.analysis.trace.roofline.device_roofs import combine_roofs
from perfkit.analysis.trace.roofline.roofs import Roofs, build_roofs
from perfkit.analysis.trace.sampled.counter_rows import build_counter_rows
from perfkit.analysis.trace.sampled.unit_counters import (
    build_sampled_columns,
    build_unit_counters,
    find_memory_peak,
    read_unit_samples,
)
from perfkit.analysis.trace.stage_actions import find_stage_actions
from perfkit.analysis.trace.step_rows import (
    build_outlier_rows,
    build_step_rows,
    describe_step_basis,
    measure_marked_step_s,
)
from perfkit.analysis.trace.time.intervals import Intervals, Ints, measure_length
from perfkit.analysis.trace.time.launch_queue import find_least_gap_ns, summarize_launches
from perfkit.analysis.trace.time.queue_length import build_queue_series, measure_stream_queues
from perfkit.analysis.trace.time.step_windows import StepWindows, find_step_windows
from perfkit.analysis.trace.time.unknown_events import explain_missing_work, explain_unknown_events
from perfkit.analysis.trace.trace_device import find_critical_device, identify_devices
from perfkit.analysis.trace.trace_host import find_host
from perfkit.analysis.trace.trace_notes import collect_notes
from perfkit.analysis.trace.work.collective_messages import find_requesting_ops
from perfkit.analysis.trace.work.exposed_time import measure_exposed_ns
from perfkit.analysis.trace.work.gradient_reductions import (
    find_reduced_messages,
    measure_gradient_reductions,
    measure_parameter_gathers,
)
from perfkit.analysis.trace.work.kernel_load import KernelLoad, summarize_load
from perfkit.analysis.trace.work.link_copies import build_copy_rows
from perfkit.analysis.trace.work.needless_work import measure_graph_work, measure_layout_copies, measure_recompute
from perfkit.analysis.trace.work.product_rows import build_product_rows
from perfkit.analysis.trace.work.split_time import split_streams
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis, analyze_work, summarize_step
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.analysis.trace.work.work_table import WorkTable
from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import is_cpu, is_cuda
from perfkit.devices.catalog.catalog import get_units
from perfkit.devices.ceilings.ceiling import CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.exceeded_ceilings import mark_refuted
from perfkit.devices.ceilings.peak import IEEE, TF32, Fp32Settings
from perfkit.trace.counters.match_counters import LaunchCounters
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.ops.graph_use import find_repeated_backward, find_unused_graph
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.ops.training import find_training, has_recorded_graph
from perfkit.trace.readers.trace_sources import derive_trace_name
from perfkit.trace.steps.optimizer_spans import find_optimizers


def analyze_trace(
    trace: Trace, ceilings: DeviceCeilings | None, *, device_name: str = "", counters: LaunchCounters | None = None
) -> RankTrace:
    """Analyze a trace that was read.

    Args:
        ceilings: of the device that it was recorded on; None or empty where they are not known: no percentages then.
            Those that its work was faster than are marked as refuted in the result, and nothing is held against them.
        device_name: what the user says the device is, if the trace is not to be believed.
        counters: what the hardware counted of its kernels, which replaces the model.

    What a trace lacks (a device, ops, steps, launches) is missing in the result, with the reason.
    """
    return analyze_ops(read_ops(trace), ceilings, device_name=device_name, counters=counters)


def analyze_ops(
    ops: Ops,
    ceilings: DeviceCeilings | None,
    *,
    device_name: str = "",
    counters: LaunchCounters | None = None,
    environment: Environment | None = None,
) -> RankTrace:
    """Analyze a trace whose ops were read: see `analyze_trace` and `analyze_with_details`."""
    return analyze_with_details(
        ops, ceilings, device_name=device_name, counters=counters, environment=environment
    ).rank_trace


class DetailedAnalysis(NamedTuple):
    """An analyzed trace with its parts, as large as the trace: its work, the rows of the tables, the long device gaps,
    all idle time (None without a device) of the critical device, and CPU calls."""

    rank_trace: RankTrace
    engine: WorkAnalysis
    kernels: WorkTable[OpRow]
    ops: WorkTable[OpRow]
    gemms: WorkTable[GemmRow]
    attentions: WorkTable[AttentionRow]
    gaps: Intervals
    idle: IdleTime | None
    calls: HostCalls


def analyze_with_details(
    ops: Ops,
    ceilings: DeviceCeilings | None,
    *,
    device_name: str = "",
    counters: LaunchCounters | None = None,
    environment: Environment | None = None,
    critical: Ints | None = None,
    by_device: Sequence[DeviceCeilings] = (),
    idle: Sequence[IdleCauses] = (),
    windows: StepWindows | None = None,
) -> DetailedAnalysis:
    """Analyze a trace and keep all parts.

    `environment` is perfkit's record of the machine, which has what traces lack: threads, and the fp32 setting.
    `critical` are the rows of kernels on its critical path. `idle` is the idle time of each device, and `windows` are
    those of the steps, if already known.
    `by_device` are the ceilings of each of `ops.devices`; without them, `ceilings` hold for all of the kind of the
    critical one, and are not known of others.
    """
    trace = ops.trace
    devices, main = identify_devices(ops), find_critical_device(ops)
    device = devices[main]
    name = device_name or device.name
    unseen = explain_unseen_device(ops)
    if unseen:
        ceilings, by_device = None, ()
    names = [name if one == device else one.name for one in devices]
    known: Sequence[DeviceCeilings | None] = by_device or [ceilings if one == device else None for one in devices]
    every = [
        _select_roofs(one.kind, its_name, its, environment)
        for one, its_name, its in zip(devices, names, known, strict=True)
    ]
    roofs = every[main]
    counted = None if counters is None else counters.match_columns(trace, ops.kernels)
    spans = find_step_windows(ops) if windows is None else windows
    engine = analyze_work(
        ops, combine_roofs(every, main), counted, critical, critical_device=main, idle=idle, windows=spans
    )
    work, parts, step_s = engine.pieces, engine.parts, engine.step_s
    sampled, memory_peak = read_unit_samples(trace.counters), find_memory_peak(ceilings)
    unknown = "" if len(work) else explain_unknown_events(ops) or ("" if unseen else explain_missing_work(ops))
    exposed = measure_exposed_ns(work, main)
    copied = work.is_kind(WorkKind.COPY) & engine.within
    causes = engine.idle
    asked = find_requesting_ops(work)
    reduced = find_reduced_messages(work, engine.exchanged, asked)
    some_lost = engine.lost is not None and engine.lost.matters
    gemms, attentions = build_product_rows(
        engine, [one.units or get_units(its_name) for one, its_name in zip(devices, names, strict=True)]
    )
    kernel_rows, op_rows = build_kernel_table(engine.by_kernel, step_s), build_op_table(engine.by_op, step_s)
    multiplied = compute_matrix_utilization(work, engine.costs, step_s, engine.roofs, some_lost=some_lost)
    rank_trace = RankTrace(
        stage_actions=find_stage_actions(ops),
        label=f"rank {trace.rank}" if trace.rank is not None else derive_trace_name(str(trace.path)),
        file_info=TraceFileInfo(
            path=str(trace.path),
            file_bytes=trace.file_bytes,
            json_bytes=trace.json_bytes,
            events=len(trace),
            notes=trace.notes,
            is_truncated=trace.cut,
        ),
        rank=trace.rank,
        world_size=trace.world_size,
        host=find_host(trace),
        device=device.kind,
        device_name=name,
        device_basis=_describe_basis(device.name, device_name),
        framework=trace.framework,
        trains=find_training(ops),
        records_graph=has_recorded_graph(ops),
        has_uncached_allocations=is_allocator_uncached(ops, causes.of),
        properties=trace.properties,
        span_s=(spans.span[1] - spans.span[0]) / 1e9,
        outside_steps_s=(spans.span[1] - spans.span[0] - measure_length(spans.spans)) / 1e9,
        steps=build_step_rows(spans, engine.split),
        outlier_steps=build_outlier_rows(engine),
        unrecorded_steps=tuple(spans.unrecorded_number.tolist()),
        step_basis=describe_step_basis(ops, spans),
        marked_step_s=measure_marked_step_s(ops, spans),
        step_s=step_s,
        kernels_per_step=engine.kernels_per_step,
        time_split=engine.split.compute_shares(parts=parts),
        coverage=measure_coverage(
            work,
            engine.costs,
            engine.by_kernel.limits.above_roof[engine.by_kernel.groups.of],
            build_sampled_columns(work, sampled, memory_peak) if counted is None else counted,
        ),
        streams=split_streams(work, engine.category, engine.waiting, some_lost=some_lost),
        overlap=engine.devices[main].overlap,
        launches=None
        if engine.waiting is None
        else summarize_launches(ops, spans, engine.waiting, engine.split, causes.late_s, causes.queued, main),
        summary=() if unseen else tuple(summarize_step(engine)),
        kernels=kernel_rows.rows,
        ops=op_rows.rows,
        modules=build_module_rows(engine.by_op, step_s),
        phases=build_phase_rows(engine.by_op, step_s),
        collectives=build_collective_rows(work, engine.exchanged, asked, reduced, parts, roofs, main),
        reductions=measure_gradient_reductions(work, engine.exchanged, asked, reduced),
        gathers=measure_parameter_gathers(work, engine.exchanged, asked),
        copies=build_copy_rows(trace, work.event[copied], exposed[copied], parts, roofs),
        recompute=measure_recompute(work, engine.costs),
        unused_graph=measure_graph_work(work, engine.costs, find_unused_graph(work.ops)),
        repeated_backward=measure_graph_work(work, engine.costs, find_repeated_backward(work.ops)),
        layout_copies=measure_layout_copies(work, engine.costs),
        mfu=multiplied.mfu,
        hfu=multiplied.hfu,
        model_flops=multiplied.model_flops,
        hardware_flops=multiplied.hardware_flops,
        masked_flops=multiplied.masked_flops,
        matrix_unit=multiplied.unit,
        matrix_dtype=multiplied.dtype,
        flops_by_precision=tuple(
            PrecisionFlops(unit=str(unit), dtype=dtype, flops=flops)
            for (unit, dtype), flops in multiplied.computed.items()
        ),
        host_calls=causes.calls,
        gaps=causes.gaps,
        devices=build_device_rows(engine, names, multiplied),
        ceilings=ceilings,
        missing_device_reason=unseen,
        unknown_work_reason=unknown,
        foreign_content=trace.foreign_content if unknown else "",
        lost_kernels=engine.lost,
        overrunning_kernels=_measure_overruns(work),
        clock_skew=_describe_skew(ops),
        optimizers=find_optimizers(trace),
        gemms=gemms.rows,
        attentions=attentions.rows,
        device_load=_measure_load(engine),
        queues=() if engine.waiting is None else measure_stream_queues(ops, spans, engine.waiting),
        queue_series=None if engine.waiting is None else build_queue_series(ops, spans, engine.waiting),
        counters=build_counter_rows(trace, spans),
        unit_counters=build_unit_counters(work, engine.costs.bytes, sampled, memory_peak, engine.parts),
        level_points=() if counted is None else build_level_points(engine.by_kernel, counted, roofs, step_s),
        notes=(*collect_notes(ops, spans, engine, unseen), *(() if counters is None else counters.notes)),
    )
    beaten = (
        () if some_lost or ceilings is None else (*multiplied.refuted, *find_exceeded_ceilings(rank_trace.ops, roofs))
    )
    if not beaten or ceilings is None:
        rank_trace = replace(rank_trace, flames=build_flame_graphs(engine))
        return DetailedAnalysis(
            rank_trace, engine, kernel_rows, op_rows, gemms, attentions, causes.long, causes.time, causes.of
        )
    marked = mark_refuted(ceilings, beaten)
    return analyze_with_details(
        ops,
        marked,
        device_name=device_name,
        counters=counters,
        environment=environment,
        critical=critical,
        by_device=[mark_refuted(its, beaten) for its in by_device],
        idle=[time.idle for time in engine.devices],
        windows=spans,
    )


def _describe_basis(recorded: str, fallback: str) -> str:
    if fallback and fallback != recorded:
        return "given with --device"
    return "recorded in the trace" if recorded else "not recorded in the trace"


def _select_roofs(kind: str, name: str, ceilings: DeviceCeilings | None, environment: Environment | None) -> Roofs:
    if environment is not None and is_cpu(environment.device) == is_cpu(kind):
        return build_roofs(ceilings, environment)
    return Roofs(ceilings, _name_device_kind(kind, ceilings), name, fp32=_guess_fp32_settings(kind, ceilings))


def _name_device_kind(kind: str, ceilings: DeviceCeilings | None) -> str:
    """The word under which ceilings are known: torch calls every GPU of NVIDIA and AMD `cuda`."""
    if is_cpu(kind) or ceilings is None:
        return kind
    return kind if is_cpu(ceilings.device) else ceilings.device


def _guess_fp32_settings(kind: str, ceilings: DeviceCeilings | None) -> Fp32Settings | None:
    """Guess the fp32 settings where no kernel name shows them: a trace does not record torch's settings, so torch's
    defaults apply.

    cuDNN takes TF32 then. Should a program have forbidden it, its roofs are too high, which no time can be beaten by.
    """
    has_tf32 = is_cuda(kind) and ceilings is not None and ceilings.find(CeilingLevel.MATRIX, TF32) is not None
    return Fp32Settings(matmul=IEEE, conv=TF32, rnn=TF32, has_tf32=True) if has_tf32 else None


def _measure_load(engine: WorkAnalysis) -> DeviceLoad | None:
    """The load of the kernels of the steps: neither copies nor fills."""
    work = engine.pieces
    if not work.on_device:
        return None
    chosen = engine.within & (work.ops.trace.category[work.event] == Category.KERNEL)
    load = KernelLoad(*(column[chosen] for column in work.load))
    return summarize_load(load, work.busy_ns[chosen], measure_length(engine.windows.spans) / 1e9)


def _measure_overruns(work: WorkItems) -> OverrunningKernels | None:
    """Measure kernels with an impossible end; None without any in the steps."""
    overruns = work.ops.overruns
    within = work.step[overruns.kernel] != NONE if work.on_device else np.zeros(len(overruns.kernel), np.bool_)
    if not within.any():
        return None
    excess = overruns.excess_ns[within]
    return OverrunningKernels(
        kernels=int(within.sum()),
        recorded=int((work.step != NONE).sum()),
        clipped_s=int(work.busy_ns[overruns.kernel[within]].sum()) / 1e9,
        excess_s=int(excess.sum()) / 1e9,
        longest_s=int(excess.max()) / 1e9,
    )


def _describe_skew(ops: Ops) -> DeviceClockSkew | None:
    skew = ops.skew
    return (
        None
        if skew is None
        else DeviceClockSkew(
            size_s=skew.size_ns / 1e9,
            share=skew.share,
            is_compensated=skew.shifted_ns > 0,
            least_gap_s=find_least_gap_ns(ops) / 1e9,
        )
    )
