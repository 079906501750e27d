"""Predicted step time by part, over numbers of ranks."""

from collections.abc import Iterator, Mapping

from perfkit.analysis.model.plan import Plan, PlannedVariant, StepTime
from perfkit.analysis.model.step import TimeShare
from perfkit_reports.document.blocks import Bar, Bars, Block, Section, Text
from perfkit_reports.document.weight import Weight

_INTRO = (
    "Modeled: op times at the device's efficiency per op class, CPU time the GPU waits for, and exposed "
    "communication. The parts of a bar sum to the step time; all bars share one scale."
)


def build_time_sections(plan: Plan) -> Iterator[Section]:
    """Predicted step times; none without any."""
    timed = [(variant, variant.step_s) for variant in plan.variants if variant.step_s is not None]
    if timed:
        yield Section("time", "Predicted step time", tuple(_build_blocks(timed)), nav="Time", intro=(_INTRO,))


def _build_blocks(timed: list[tuple[PlannedVariant, StepTime]]) -> Iterator[Block]:
    yield Bars(
        id="time-split",
        title="",
        bars=tuple(Bar(variant.name, compute_shares(step.parts)) for variant, step in timed),
        label="Predicted step time by part and variant",
        to_scale=True,
        weight=Weight.BRIEF,
    )
    sources = dict.fromkeys(step.source for _, step in timed)
    yield Text(id="time-source", lines=tuple(f"Efficiencies: {source}." for source in sources), style="caption")


def compute_shares(parts: Mapping[str, float]) -> tuple[TimeShare, ...]:
    """Seconds as shares of their sum."""
    whole = sum(parts.values())
    return tuple(
        TimeShare(category=name, seconds=seconds, share=seconds / whole if whole else 0.0)
        for name, seconds in parts.items()
    )
