"""Predicted step time by part, over numbers of ranks."""

from collections.abc import Iterator, Mapping

from perfkit.analysis.model.plan import Plan
from perfkit.analysis.model.step import TimeShare
from perfkit_reports.document.blocks import Bar, Bars
from perfkit_reports.document.weight import Weight


def build_time_bars(plan: Plan) -> Iterator[Bars]:
    """A bar of the predicted step time per variant; none without any."""
    bars = [Bar(variant.name, compute_shares(variant.step_s.parts)) for variant in plan.variants if variant.step_s]
    if bars:
        yield Bars(
            id="time-split",
            title="Predicted step time",
            bars=tuple(bars),
            label="Predicted step time by part and variant",
            caption="Op times, CPU time the GPU waits for, and exposed communication.",
            to_scale=True,
            weight=Weight.BRIEF,
        )


def compute_shares(parts: Mapping[str, float]) -> tuple[TimeShare, ...]:
    """Seconds as shares of their sum."""
    whole = sum(parts.values())
    return tuple(
        TimeShare(category=name, seconds=seconds, share=seconds / whole if whole else 0.0)
        for name, seconds in parts.items()
    )
