"""Rules about a device that idles with work queued: launch latency, and longer gaps."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import leave_out
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.trace.findings.host_calls import format_count
from perfkit.analysis.trace.findings.remedies import LAUNCH_GAPS, WAIT_LESS
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.analysis.trace.findings.trace_view import QUEUED, TraceView, shorten_kernel
from perfkit.core.units import format_percent, format_seconds

_LONGEST_NAME = 60


def find_launch_latency(view: TraceView) -> Iterator[RuleResult]:
    """The latency of starting kernels: after a launch, and from one kernel to the next."""
    queued = None if view.trace.launches is None else view.trace.launches.queued_idle
    took = 0.0 if queued is None else queued.launching_s + queued.between_s
    if queued is None or view.get_share(took) < COMMON:
        return
    launched = f"{format_count(queued.launching_gaps)} launch{'' if queued.launching_gaps == 1 else 'es'}"
    between = f"{format_count(queued.between_gaps)} gap{'' if queued.between_gaps == 1 else 's'}"
    yield view.build_gain(
        "launch.latency",
        f"Launch gaps: {format_percent(view.get_share(took), 0)} of the {view.whole}",
        f"device idle for {format_seconds(queued.launching_s)} between {launched} and kernel start, "
        f"{format_seconds(queued.between_s)} in {between} between queued kernels",
        view.advise(LAUNCH_GAPS),
        took,
        basis="launch latency is hidden where the CPU runs ahead of the device",
        scope=(QUEUED,),
        change=leave_out(QUEUED),
        figures={
            "share": view.get_share(took),
            "launching_s": queued.launching_s,
            "between_s": queued.between_s,
            "launching_gaps": queued.launching_gaps,
            "between_gaps": queued.between_gaps,
        },
    )


def find_blocked_launches(view: TraceView) -> Iterator[RuleResult]:
    """Longer gaps: something that the trace does not show held the device up."""
    queued = None if view.trace.launches is None else view.trace.launches.queued_idle
    if queued is None or view.get_share(queued.long_s) < COMMON:
        return
    same = format_percent(queued.same_stream_s / queued.long_s, 0)
    name = shorten_kernel(queued.longest_before)
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    yield view.build_remark(
        "launch.blocked",
        "note",
        f"Idle with work queued: {format_percent(view.get_share(queued.long_s), 0)} of the {view.whole}",
        f"{view.show_time(queued.long_s)} in {format_count(queued.long_gaps)} gaps longer than launch latency, the "
        f"longest {format_seconds(queued.longest_s)} before {shown}; {same} before kernels on the same stream",
        view.advise(WAIT_LESS),
        figures={
            "idle_s": queued.long_s,
            "gaps": queued.long_gaps,
            "longest_s": queued.longest_s,
            "same_stream_share": queued.same_stream_s / queued.long_s,
        },
    )
