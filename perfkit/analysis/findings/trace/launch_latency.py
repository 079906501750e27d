"""Rules about a device that is idle though work was launched: while kernels start, and for long."""

from collections.abc import Iterator

from perfkit.analysis.findings.trace.change import leave_out
from perfkit.analysis.findings.trace.host_calls import format_count
from perfkit.analysis.findings.trace.thresholds import COMMON
from perfkit.analysis.findings.trace.trace_view import QUEUED, RuleResult, TraceView, shorten_kernel
from perfkit.units import format_percent, format_seconds

_LONGEST_NAME = 60


def find_launch_latency(view: TraceView) -> Iterator[RuleResult]:
    """What a device takes to start kernels: after a launch, and from one to the next."""
    queued = None if view.trace.launches is None else view.trace.launches.queued
    took = 0.0 if queued is None else queued.launching_s + queued.between_s
    if queued is None or view.get_share(took) < COMMON:
        return
    launched = f"{format_count(queued.launching_gaps)} launch{'' if queued.launching_gaps == 1 else 'es'}"
    between = f"{format_count(queued.between_gaps)} gap{'' if queued.between_gaps == 1 else 's'}"
    graphs = ", CUDA graphs (shorter gaps)" if view.torch_device == "cuda" else ""
    yield view.build_gain(
        "launch.latency",
        f"Starting kernels takes {format_percent(view.get_share(took), 0)} of the {view.whole}",
        f"the device is idle for {format_seconds(queued.launching_s)} from {launched} to their kernels' start, "
        f"and for {format_seconds(queued.between_s)} in {between} between kernels that were launched already",
        f"Have fewer and longer kernels: torch.compile{graphs}, foreach or fused ops, a larger batch. What passes "
        "after a launch is hidden where the host is ahead of the device.",
        took,
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
    """What is longer: something that the trace does not tell held the device up."""
    queued = None if view.trace.launches is None else view.trace.launches.queued
    if queued is None or view.get_share(queued.long_s) < COMMON:
        return
    same = format_percent(queued.same_stream_s / queued.long_s, 0)
    name = shorten_kernel(queued.longest_before)
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    yield view.build_remark(
        "launch.blocked",
        "note",
        f"The device is idle {format_percent(view.get_share(queued.long_s), 0)} of the {view.whole} though work was launched",
        f"{view.show_time(queued.long_s)} in {format_count(queued.long_gaps)} gaps longer than starting a kernel "
        "takes, the "
        f"longest {format_seconds(queued.longest_s)} before {shown}; "
        f"{same} of that before kernels of the stream that worked last",
        "A kernel that is ready begins within some microseconds. Look for kernels that the profiler lost, for other "
        "processes on the device, and for streams that wait for each other (wait_stream, events).",
        figures={
            "idle_s": queued.long_s,
            "gaps": queued.long_gaps,
            "longest_s": queued.longest_s,
            "same_stream_share": queued.same_stream_s / queued.long_s,
        },
    )
