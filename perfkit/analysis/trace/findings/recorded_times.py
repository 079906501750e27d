"""Rules about recorded times: steps and kernels that the figures leave out, and clocks that disagree."""

from collections.abc import Iterator

from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.trace import StepRow
from perfkit.analysis.trace.findings.remedies import WARM_UP
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent, format_seconds

_NAMED = 4  # steps without records

_LOOK = (
    "Look at what the loop does in these steps: recompilation for a new shape, a checkpoint, an evaluation or garbage "
    "collection."
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
