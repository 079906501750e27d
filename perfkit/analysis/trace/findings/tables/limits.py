"""Rules about limits of the figures of traces."""

from perfkit.analysis.findings.rule import NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.trace.findings import limits, recorded_times
from perfkit.analysis.trace.findings.trace_thresholds import ABOVE_ROOF, COVERED, NOTABLE
from perfkit.analysis.trace.findings.trace_view import ForeignView, TraceView
from perfkit.core.units import format_percent

_LEAST = f"At least {format_percent(NOTABLE, 0)}"

MISSING_KERNELS = FindingKind(
    "limit.missing_kernels",
    WARNING,
    "Work was launched on a device, and none of it was recorded.",
    "Record with `ProfilerActivity.CUDA` (or XPU), let the profiler finish, and look for errors of CUPTI or roctracer.",
)
UNKNOWN_WORK = FindingKind(
    "limit.unknown_work",
    WARNING,
    "No event of the trace is known to be an op that works, or a kernel.",
    "Record with torch.profiler or JAX's profiler.",
)
LOST_KERNELS = FindingKind(
    "limit.lost_kernels",
    WARNING,
    "Launched kernels are missing from the trace.",
    "Record again with warm-up steps, in a process that has recorded nothing before.",
)
OVERRUNNING_KERNELS = FindingKind(
    "limit.overrunning_kernels",
    NOTE,
    "Kernels end more than 10 us after the next one of their stream begins: they are clipped, their time is unknown.",
    "Record again.",
)
CLOCK_SKEW = FindingKind(
    "limit.clock_skew",
    NOTE,
    "More than 5 % of kernels begin before their launch: the device's times are shifted, or short gaps have no cause.",
    "Record again if short gaps matter.",
)
WORK_ABOVE_ROOF = FindingKind(
    "limit.above_roof",
    WARNING,
    f"At least {format_percent(ABOVE_ROOF, 0)} of kernel time is faster than its roof: a ceiling, a cost or "
    "`--device` is wrong.",
    "Check the device, calibrate again on an idle machine, or count with `--counters`.",
)
EXCEEDED_CEILINGS = FindingKind(
    "limit.exceeded_ceilings",
    WARNING,
    "Work exceeded a measured ceiling of this machine; no share of that ceiling is shown.",
    "Calibrate again on an idle machine.",
)
OUTLIER_STEPS = FindingKind(
    "limit.outlier_steps",
    NOTE,
    "First steps, steps that compile, or a single one take more than three times a typical one, and are excluded from "
    "the figures.",
    "Record after the warm-up, and look at what the loop does in these steps.",
)
UNRECORDED_STEPS = FindingKind(
    "limit.unrecorded_steps",
    WARNING,
    "Of marked steps, less than half of the launched kernels are recorded; they are excluded from the figures.",
    "Let the device finish before the profiler stops, and record fewer steps.",
)
UNKNOWN_GRAPHS = FindingKind(
    "limit.unknown_graphs",
    NOTE,
    f"{_LEAST} of kernel time is in replayed CUDA graphs with unknown ops.",
    "Record the capture too and pass its trace with `--capture`.",
)
UNLINKED = FindingKind(
    "limit.unlinked_kernels",
    NOTE,
    f"{_LEAST} of kernel time has no matching op.",
    "Record with `ProfilerActivity.CPU` and a schedule with wait and warmup steps.",
)
UNMODELED_KERNELS = FindingKind(
    "limit.unmodeled_kernels",
    NOTE,
    f"FLOPs or bytes are known for less than {format_percent(COVERED, 0)} of kernel time.",
    "Count the rest with `--counters`.",
)
NO_SHAPES = FindingKind(
    "limit.no_shapes",
    NOTE,
    "The trace has no shapes, so FLOPs and bytes are unknown.",
    "Record with `record_shapes=True`.",
)
NO_CEILINGS = FindingKind(
    "limit.no_ceilings",
    NOTE,
    "No ceilings are known for the device.",
    "Name the device with `--device`, or calibrate on it.",
)
PROFILER_OVERHEAD = FindingKind(
    "limit.profiler_overhead",
    NOTE,
    "The trace was recorded with `with_stack`, `profile_memory` or `with_modules`, which slow the CPU.",
    "Record again without them to read CPU times.",
)
NO_STEPS = FindingKind(
    "limit.no_steps",
    NOTE,
    "The trace marks no steps and has no period.",
    "Call `profiler.step()` after each training step.",
)

RULES = (
    Rule(limits.find_missing_kernels, TraceView, About.LIMIT, (MISSING_KERNELS,)),
    Rule(limits.find_unknown_work, TraceView, About.LIMIT, (UNKNOWN_WORK,)),
    Rule(limits.find_lost_kernels, TraceView, About.LIMIT, (LOST_KERNELS,)),
    Rule(recorded_times.find_overrunning_kernels, TraceView, About.LIMIT, (OVERRUNNING_KERNELS,)),
    Rule(recorded_times.find_clock_skew, TraceView, About.LIMIT, (CLOCK_SKEW,)),
    Rule(limits.find_work_above_roof, TraceView, About.LIMIT, (WORK_ABOVE_ROOF,)),
    Rule(limits.find_exceeded_ceilings, ForeignView, About.LIMIT, (EXCEEDED_CEILINGS,)),
    Rule(recorded_times.find_outlier_steps, TraceView, About.LIMIT, (OUTLIER_STEPS,)),
    Rule(recorded_times.find_unrecorded_steps, TraceView, About.LIMIT, (UNRECORDED_STEPS,)),
    Rule(limits.find_unknown_graphs, ForeignView, About.LIMIT, (UNKNOWN_GRAPHS,)),
    Rule(limits.find_unlinked_kernels, ForeignView, About.LIMIT, (UNLINKED,)),
    Rule(limits.find_unmodeled_kernels, ForeignView, About.LIMIT, (UNMODELED_KERNELS,)),
    Rule(limits.find_missing_shapes, ForeignView, About.LIMIT, (NO_SHAPES,)),
    Rule(limits.find_missing_ceilings, ForeignView, About.LIMIT, (NO_CEILINGS,)),
    Rule(limits.find_profiler_overhead, ForeignView, About.LIMIT, (PROFILER_OVERHEAD,)),
    Rule(limits.find_missing_steps, ForeignView, About.LIMIT, (NO_STEPS,)),
)
