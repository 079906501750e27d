"""Rules about a device that is idle though work was launched: between kernels that follow each other, and for long."""

from collections.abc import Iterator

from perfkit.analysis.findings.trace.thresholds import COMMON
from perfkit.analysis.findings.trace.view import IDLE, Told, TraceView, short
from perfkit.units import percent, seconds


def short_gaps(view: TraceView) -> Iterator[Told]:
    """What a device takes to go from one kernel to the next."""
    queued = None if view.trace.launches is None else view.trace.launches.queued
    if queued is None or view.share(queued.short_s) < COMMON:
        return
    graphs = ", CUDA graphs (shorter gaps)" if view.torch_device == "cuda" else ""
    yield view.gain(
        f"Going from kernel to kernel takes {percent(view.share(queued.short_s), 0)} of the {view.whole}",
        f"idle for {view.took(queued.short_s)} in {queued.short_gaps:,.0f} gaps of at most "
        f"{queued.short_below_s * 1e6:g} us with the next kernel launched",
        f"Have fewer and longer kernels: torch.compile{graphs}, foreach or fused ops, a larger batch.",
        queued.short_s,
        scope=(IDLE,),
    )


def long_gaps(view: TraceView) -> Iterator[Told]:
    """What is longer: something that the trace does not tell held the device up."""
    queued = None if view.trace.launches is None else view.trace.launches.queued
    if queued is None or view.share(queued.long_s) < COMMON:
        return
    same = percent(queued.same_stream_s / queued.long_s, 0)
    yield view.remark(
        "note",
        f"The device is idle {percent(view.share(queued.long_s), 0)} of the {view.whole} though work was launched",
        f"{view.took(queued.long_s)} in {queued.long_gaps:,.0f} gaps longer than {queued.short_below_s * 1e6:g} us, "
        f"the longest {seconds(queued.longest_s)} before {short(queued.longest_before)}; {same} of that before kernels "
        "of the stream that worked last",
        "A kernel that is ready begins within some microseconds. Look for kernels that the profiler lost, for other "
        "processes on the device, and for streams that wait for each other (wait_stream, events).",
    )
