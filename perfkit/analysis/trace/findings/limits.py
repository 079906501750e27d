"""Rules about the limits of the figures: what not to trust, and how to record a better trace."""

from collections.abc import Iterator

from perfkit.analysis.findings.exceeded_ceilings import describe_exceeded_ceilings
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.trace import StepRow
from perfkit.analysis.trace.advice import advise_on_ceilings
from perfkit.analysis.trace.findings.remedies import (
    COUNT_WORK,
    MARK_STEPS,
    RECORD_DEVICE,
    RECORD_HOST,
    RECORD_SHAPES,
    WARM_UP,
)
from perfkit.analysis.trace.findings.trace_thresholds import ABOVE_ROOF, COVERED, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView, shorten_kernel
from perfkit.analysis.trace.lost_kernel_texts import format_lost_action, format_lost_evidence, format_lost_title
from perfkit.core.units import format_percent, format_seconds
from perfkit.devices.accelerator import is_cpu

_NAMED = 4  # steps without records
_ON = ("1", "true", "True")

_LOOK = (
    "Look at what the loop does in these steps: recompilation for a new shape, a checkpoint, an evaluation or garbage "
    "collection."
)


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


def find_overrunning_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Kernels that still run when the next of their stream has begun, as recorded."""
    found = view.trace.overrunning_kernels
    if found is not None:
        several = f"{found.kernels:,} kernels have impossible ends"
        yield view.build_remark(
            "limit.overrunning_kernels",
            "note",
            "1 kernel has an impossible end" if found.kernels == 1 else several,
            f"of {found.recorded:,}; up to {format_seconds(found.longest_s)} after the next one on the stream begins; "
            f"clipped there, their time is unknown ({format_seconds(found.clipped_s)} instead of "
            f"{format_seconds(found.clipped_s + found.excess_s)})",
            "Record again: profilers write such ends when completions reach them late.",
            figures={"kernels": found.kernels, "longest_s": found.longest_s, "excess_s": found.excess_s},
        )


def find_clock_skew(view: TraceView) -> Iterator[RuleResult]:
    """Kernels that begin before their launch, as recorded."""
    skew = view.trace.clock_skew
    if skew is not None:
        size = format_seconds(skew.size_s)
        effect = (
            f"device times are shifted by {size}"
            if skew.is_compensated
            else f"idle gaps shorter than {format_seconds(skew.least_gap_s)} have no known cause"
        )
        yield view.build_remark(
            "limit.clock_skew",
            "note",
            f"Device clock is up to {size} early",
            f"{format_percent(skew.share, 0)} of kernels begin before their launch; {effect}",
            "Record again if short gaps matter.",
            figures={"size_s": skew.size_s, "share": skew.share, "least_gap_s": skew.least_gap_s},
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
    why = view.trace.unknown_work_reason
    if why:
        yield view.build_remark(
            "limit.unknown_work",
            "warning",
            "No work recognized in this trace",
            f"{why}; the framework is {view.trace.framework or 'not known'}",
            "Record with torch.profiler or JAX's profiler: other writers' events are read by category, process and "
            "thread names.",
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
            f"{format_seconds(missing)} of kernels launched before the profile began or without a recorded launch"
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
    if _has_no_shapes(view):
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


def find_unrecorded_steps(view: TraceView) -> Iterator[RuleResult]:
    """Marked steps that have no records of the device's work, and are excluded from the figures."""
    missing = view.trace.unrecorded_steps
    if missing:
        marked = len(missing) + len(view.trace.steps) + len(view.trace.outlier_steps)
        named = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
        yield view.build_remark(
            "limit.unrecorded_steps",
            "warning",
            f"{len(missing):,} of {marked:,} steps lack device records",
            f"step{'' if len(missing) == 1 else 's'} {named}: most launched kernels have no record; excluded "
            "from figures per step",
            "Let the device finish before the profiler stops (torch.cuda.synchronize()), and record fewer steps.",
            figures={"steps": len(missing), "marked": marked},
        )


def find_outlier_steps(view: TraceView) -> Iterator[RuleResult]:
    """Steps that take far longer than a typical one, and are excluded from the figures."""
    rows = view.trace.outlier_steps
    if not rows:
        return
    longest = max(rows, key=lambda step: step.seconds)
    times = longest.seconds / (view.trace.median_step_s or view.trace.step_s)
    subject = f"Step {longest.number} takes" if len(rows) == 1 else f"{len(rows):,} steps take up to"
    first = all(row.start_s < step.start_s for row in rows for step in view.trace.steps)
    yield view.build_remark(
        "limit.outlier_steps",
        "note",
        f"{subject} {times:,.0f}x a typical step",
        "; ".join(_describe_step(longest, first=first)),
        view.advise(WARM_UP) if first or longest.compiling_s else _LOOK,
        figures={"steps": len(rows), "longest_s": longest.seconds, "ratio": times},
    )


def _describe_step(step: StepRow, *, first: bool) -> Iterator[str]:
    yield f"{format_seconds(step.seconds)}, excluded from figures per step"
    if first:
        yield "first of the trace"
    if step.compiling_s:
        yield f"torch compiles or loads code for {format_seconds(step.compiling_s)}"
    largest = max(step.time_split, key=lambda part: part.seconds)
    yield f"{format_percent(largest.share, 0)} is {largest.category}"


def _name_work_time(view: TraceView) -> str:
    return "op time" if is_cpu(view.trace.device) else "kernel time"


def _has_no_shapes(view: TraceView) -> bool:
    return bool(view.trace.ops) and not any(row.shapes for row in view.trace.ops)
