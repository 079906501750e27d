"""The rule about scaling: where efficiency falls, and which part of the step grows."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.scaling import Efficiency, ScalingCurve, ScalingPoint
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.core.note import list_texts
from perfkit.core.units import format_percent

_LOST = 0.9  # below, a tenth of the ranks' time and more is lost
_GROWN = 0.05  # of the step


def find_efficiency_loss(suite: SuiteView) -> Iterator[Finding]:
    """The fewest ranks at which a curve's efficiency is shown to have fallen, and which part of the step has grown."""
    if suite.scaling is None:
        return
    for curve in suite.scaling.curves:
        for point in curve.points[1:]:
            efficiency = point.efficiency
            if isinstance(efficiency, Efficiency) and efficiency.high is not None and efficiency.high < _LOST:
                yield _report_efficiency_loss(suite, curve, point, efficiency)
                break


def _report_efficiency_loss(suite: SuiteView, curve: ScalingCurve, point: ScalingPoint, lost: Efficiency) -> Finding:
    assert suite.scaling is not None
    by_name = {variant.name: variant for variant in suite.variants}
    before, after = by_name[lost.reference], by_name[point.variant]
    last = curve.points[-1].efficiency
    further = (
        f", {format_percent(last.value, 0)} on {curve.points[-1].world_size:,}"
        if (isinstance(last, Efficiency) and last is not lost)
        else ""
    )
    grown = _find_grown_part(before, after)
    notes, mode = suite.scaling.notes, suite.scaling.mode
    return Finding(
        id="scaling.efficiency_loss",
        severity="note",
        title=f"{curve.name}: {format_percent(lost.value, 0)} efficiency on {point.world_size:,} ranks{further}",
        variant=point.variant,
        evidence=f"{mode} scaling from {lost.reference}: 95 % interval {format_percent(lost.low or 0.0, 0)} to "
        f"{format_percent(lost.high or 0.0, 0)}, {lost.processes[0]} and {lost.processes[1]} processes"
        + (f"; {_describe_grown_part(grown)}" if grown else ""),
        action=_choose_action(grown, out_of_cores=bool(notes)),
        details=list_texts(notes),
        figures={
            "efficiency": lost.value,
            "low": lost.low or 0.0,
            "high": lost.high or 0.0,
            "ranks": point.world_size,
        },
    )


def _find_grown_part(before: Variant, after: Variant) -> tuple[str, float, float] | None:
    """The part of the traced step whose share has grown most, with both shares; None where none has, or is known."""
    theirs = {part.category: part.share for part in before.time_split}
    ours = {part.category: part.share for part in after.time_split}
    if not theirs or not ours or get_step_s(after) is None:
        return None
    name = max(ours, key=lambda category: ours[category] - theirs.get(category, 0.0))
    was, now = theirs.get(name, 0.0), ours[name]
    return (name, was, now) if now - was >= _GROWN else None


def _describe_grown_part(grown: tuple[str, float, float]) -> str:
    name, was, now = grown
    what = "exposed communication" if name == COMMUNICATION else name
    return f"{what} grew from {format_percent(was, 0)} to {format_percent(now, 0)} of the traced step"


def _choose_action(grown: tuple[str, float, float] | None, *, out_of_cores: bool) -> str:
    if out_of_cores:
        return "Measure again with separate cores for every rank before judging the program."
    if grown is not None and grown[0] == COMMUNICATION:
        return "Communicate less or later: larger batches, --accumulate, DDP hooks (ddp:hook=) or fewer shards (hsdp)."
    return "Compare both traced steps with perfkit compare."
