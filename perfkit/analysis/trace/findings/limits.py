"""Rules about the limits of the figures: what not to trust, and how to record a better trace."""

from collections.abc import Iterator

from perfkit.analysis.findings.exceeded_ceilings import describe_exceeded_ceilings
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.trace.advice import advise_on_ceilings
from perfkit.analysis.trace.findings.remedies import (
    COUNT_WORK,
    MARK_STEPS,
    RECORD_DEVICE,
    RECORD_HOST,
    RECORD_SHAPES,
)
from perfkit.analysis.trace.findings.trace_thresholds import ABOVE_ROOF, COVERED, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView, shorten_kernel
from perfkit.analysis.trace.lost_kernel_texts import format_lost_action, format_lost_evidence, format_lost_title
from perfkit.core.units import format_percent, format_seconds
from perfkit.devices.accelerator import is_cpu

_ON = ("1", "true", "True")


def find_lost_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Launched kernels that the trace lacks."""
    lost = view.trace.lost_kernels
    if lost is not None and lost.matters:
        yield view.build_remark(
            "limit.lost_kernels",
            "warning",
            format_lost_title(lost),
            format_lost_evidence(lost),
            format_lost_action(lost),
        )


def find_work_above_roof(view: TraceView) -> Iterator[RuleResult]:
    """Work that came out faster than its device can run."""
    coverage = view.trace.coverage
    if coverage.kernel_s > 0 and coverage.above_roof_s >= ABOVE_ROOF * coverage.kernel_s:
        rows = [row for row in view.trace.ops if row.above_roof]
        names = list(dict.fromkeys(row.name for row in rows))[:4]
        why = "; ".join(list(dict.fromkeys(row.efficiency_reason for row in rows if row.efficiency_reason))[:2])
        yield view.build_remark(
            "limit.above_roof",
            "warning",
            f"{format_percent(coverage.above_roof_s / coverage.kernel_s)} of {_name_work_time(view)} is above its roof",
            f"{format_seconds(coverage.above_roof_s)} in {', '.join(names) or 'marked rows'}; a ceiling or a cost is "
            "wrong" + (f": {why}" if why else ""),
            "Do not trust these rows: check the device (--device), calibrate again on an idle machine, or count "
            "with --counters.",
            figures={"time_s": coverage.above_roof_s, "share": coverage.above_roof_s / coverage.kernel_s},
        )


def find_exceeded_ceilings(view: TraceView) -> Iterator[RuleResult]:
    """Measured ceilings of this machine that the trace's work exceeded."""
    words = describe_exceeded_ceilings(view.ceilings)
    if words is not None:
        yield view.build_remark("limit.exceeded_ceilings", "warning", *words)


def find_missing_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Work was launched on a device of which nothing was recorded."""
    why = view.trace.missing_device_reason
    if why:
        yield view.build_remark(
            "limit.missing_kernels",
            "warning",
            f"{why[0].upper()}{why[1:]}",
            "only CPU ops and times are known, not the speed of the launched work",
            view.advise(RECORD_DEVICE),
        )


def find_unknown_work(view: TraceView) -> Iterator[RuleResult]:
    """No event is known to be work, so that nothing shows what the time was spent on."""
    why, content = view.trace.unknown_work_reason, view.trace.foreign_content
    if content:
        yield view.build_remark(
            "limit.unknown_work",
            "warning",
            f"No program's work in this trace: {content}",
            why,
            "Record the program with torch.profiler or JAX's profiler; ui.perfetto.dev shows this file.",
        )
    elif why:
        yield view.build_remark(
            "limit.unknown_work",
            "warning",
            "No work recognized in this trace",
            f"{why}; the framework is {view.trace.framework or 'not known'}",
            view.advise(RECORD_HOST)
            if view.trace.framework
            else "Record with torch.profiler or JAX's profiler: other writers' events are read by category, process "
            "and thread names.",
        )


def find_unknown_graphs(view: TraceView) -> Iterator[RuleResult]:
    """Kernels of graphs whose capture is not known."""
    kernel_s, missing = view.trace.coverage.kernel_s, _sum_unknown_replay_s(view)
    if kernel_s > 0 and missing >= NOTABLE * kernel_s:
        longest = max(view.trace.graphs, key=lambda graph: (bool(graph.reason), graph.seconds))
        yield view.build_remark(
            "limit.unknown_graphs",
            "note",
            f"CUDA graphs with unknown ops: {format_percent(missing / kernel_s)} of kernel time",
            f"a replay calls no op; longest of {len(view.trace.graphs)} graphs: {longest.reason}",
            "Record the capture of the graphs too, with shapes, and pass that trace with --capture (vLLM writes it "
            "with --profiler-config.capture_torch_profiler, SGLang with --enable-profile-cuda-graph).",
            figures={"time_s": missing, "share": missing / kernel_s},
        )


def _sum_unknown_replay_s(view: TraceView) -> float:
    """The time of replayed kernels whose ops no capture shows."""
    return sum(graph.seconds * (1 - graph.joined_nodes / graph.nodes) for graph in view.trace.graphs)


def find_unlinked_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Kernels of which nothing is known but their name."""
    coverage = view.trace.coverage
    missing = coverage.kernel_s - coverage.linked_s - _sum_unknown_replay_s(view)
    if not is_cpu(view.trace.device) and coverage.kernel_s > 0 and missing >= NOTABLE * coverage.kernel_s:
        yield view.build_remark(
            "limit.unlinked_kernels",
            "note",
            f"{format_percent(missing / coverage.kernel_s)} of kernel time has no matching op",
            f"{format_seconds(missing)} of kernels without a recorded launch, or launched outside recorded ops"
            + (
                f"; {format_seconds(coverage.inferred_s)} of it matches kernels of known ops"
                if coverage.inferred_s > 0
                else ""
            ),
            view.advise(RECORD_HOST),
            figures={"time_s": missing, "share": missing / coverage.kernel_s},
        )


def find_unmodeled_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Kernel time without FLOPs or bytes."""
    coverage = view.trace.coverage
    if coverage.kernel_s <= 0 or _has_no_shapes(view) or view.trace.missing_device_reason:
        return
    flops, moved = coverage.flops_s / coverage.kernel_s, coverage.bytes_s / coverage.kernel_s
    if min(flops, moved) < COVERED:
        names = ", ".join(
            f"{shorten_kernel(row.name)} ({format_percent(row.share)}: {row.reason})" for row in coverage.uncovered[:3]
        )
        yield view.build_remark(
            "limit.unmodeled_kernels",
            "note",
            f"Costs known for only {format_percent(min(flops, moved), 0)} of {_name_work_time(view)}",
            f"FLOPs known for {format_percent(flops, 0)}, bytes for {format_percent(moved, 0)}; missing: "
            f"{names or 'no op named'}",
            view.advise(COUNT_WORK),
            figures={"flops_share": flops, "bytes_share": moved},
        )


def find_missing_shapes(view: TraceView) -> Iterator[RuleResult]:
    """A trace without the inputs of its ops cannot be costed."""
    coverage = view.trace.coverage
    if _has_no_shapes(view) and min(coverage.flops_s, coverage.bytes_s) < coverage.kernel_s:
        yield view.build_remark(
            "limit.no_shapes",
            "note",
            "Trace has no shapes: FLOPs and bytes unknown",
            "no op has recorded input sizes and dtypes",
            view.advise(RECORD_SHAPES),
        )


def find_missing_ceilings(view: TraceView) -> Iterator[RuleResult]:
    """Without ceilings there are rates, but no shares of a roof."""
    if not view.trace.is_work_known:
        return
    if view.ceilings is None or not view.ceilings.ceilings:
        name = view.trace.device_name or ("a CPU" if is_cpu(view.trace.device) else "an unnamed device")
        yield view.build_remark(
            "limit.no_ceilings",
            "note",
            "No ceilings known for this device",
            f"{name}: no roofline, bounds or attainable times",
            advise_on_ceilings(view.trace),
        )


def find_profiler_overhead(view: TraceView) -> Iterator[RuleResult]:
    """Recording more than times slows the CPU."""
    recorded = [
        name for name in ("with_stack", "profile_memory", "with_modules") if view.trace.properties.get(name) in _ON
    ]
    if recorded:
        yield view.build_remark(
            "limit.profiler_overhead",
            "note",
            "Profiler options slowed the CPU",
            f"{', '.join(recorded)}: several microseconds of CPU time per op, part of idle time and launch delays",
            "Record again without these options to read CPU times; kernel times are unaffected.",
        )


def find_missing_steps(view: TraceView) -> Iterator[RuleResult]:
    """Without steps, all figures cover the whole trace."""
    if not view.trace.steps and not view.trace.unknown_work_reason:
        yield view.build_remark(
            "limit.no_steps",
            "note",
            "No steps found: figures cover the whole trace",
            "no marked step contains ops, and no pattern repeats",
            view.advise(MARK_STEPS),
        )


def _name_work_time(view: TraceView) -> str:
    return "op time" if is_cpu(view.trace.device) else "kernel time"


def _has_no_shapes(view: TraceView) -> bool:
    return bool(view.trace.ops) and not any(row.shapes for row in view.trace.ops)
