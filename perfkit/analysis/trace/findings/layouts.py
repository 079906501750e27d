"""The rule about convolutions of a CPU that convert their operands to another memory format."""

from collections.abc import Iterator

from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.trace.findings.remedies import CHANNELS_LAST
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.devices.ceilings.ceiling import CeilingLevel

_DTYPES = ("fp32", "bf16", "fp16")


def find_layout_copies(view: TraceView) -> Iterator[RuleResult]:
    """Operands in another memory format than the others, which a convolution copies first."""
    copies = view.trace.layout_copies
    if copies is None or view.get_share(copies.seconds) < COMMON:
        return
    peaks = [peak for dtype in _DTYPES if (peak := view.get_peak(CeilingLevel.MATRIX, dtype)) is not None]
    computing_s = copies.flops / max(peaks) if peaks else 0.0
    yield view.build_gain(
        "convolution.transposes",
        "Convolutions convert memory formats",
        f"{copies.copies:,.0f} copies to another memory format take {view.show_work_time(copies.seconds)} of "
        f"{view.show_work_time(copies.convolutions_s)} in these convolutions",
        view.advise(CHANNELS_LAST),
        copies.seconds,
        basis="the copies; at most the time of these convolutions above their peak, since one format may be faster",
        removable_s=max(copies.seconds, copies.convolutions_s - computing_s),
        figures={"time_s": copies.seconds, "convolutions_s": copies.convolutions_s, "copies": copies.copies},
    )
