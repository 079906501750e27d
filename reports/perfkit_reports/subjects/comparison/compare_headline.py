"""The headline of a comparison of runs."""

from collections.abc import Iterator

from perfkit.analysis.compare.compared_figures import PEAK, STEP, TRACED_STEP, WATCHED_STEP
from perfkit.analysis.difference.verdict import format_causes, format_speed_change, format_time_change
from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure, Comparison
from perfkit.core import units
from perfkit_reports.names import shorten_cause
from perfkit_reports.wording import format_sentence

# Smaller relative memory changes count as none.
_NOTABLE = 0.01


def build_headline(comparison: Comparison) -> str:
    """For two runs, the change in step time and peak memory; for several, the run with the shortest step."""
    step = find_step_figure(comparison)
    names = [side.name for side in comparison.sides]
    if len(names) == 2:
        parts = [*([_describe_step(comparison, step, 1)] if step else []), *_describe_memory(comparison, 1)]
        return f"{names[1]} vs {names[0]}: {'; '.join(parts)}" if parts else "No figure in common"
    if step is None:
        parts = [
            f"{name}: {text}"
            for place, name in enumerate(names)
            if place
            for text in _describe_memory(comparison, place)
        ]
        return "; ".join(parts) or "No figure in common"
    known = [(amount.value, place) for place, amount in enumerate(step.amounts) if amount.value is not None]
    _, best = min(known)
    if best == 0:
        return f"{names[0]} has the shortest step of {len(names)} runs: {units.format_seconds(known[0][0])}"
    return (
        f"{names[best]} has the shortest step of {len(names)} runs; vs {names[0]}: "
        f"{_describe_step(comparison, step, best)}"
    )


def list_remarks(comparison: Comparison) -> Iterator[str]:
    """The basis of the headline's figure, and each of several runs."""
    if comparison.rank_note:
        yield format_sentence(comparison.rank_note).removesuffix(".")
    step = find_step_figure(comparison)
    if step is None:
        return
    if step.title == TRACED_STEP:
        yield "Step times are from traced steps, with the profiler on"
    if len(comparison.sides) > 2:
        first = comparison.sides[0].name
        for place, side in enumerate(comparison.sides[1:], 1):
            parts = "; ".join([_describe_step(comparison, step, place), *_describe_memory(comparison, place)])
            yield f"{side.name} vs {first}: {parts}"


def find_step_figure(comparison: Comparison) -> ComparedFigure | None:
    """Timed steps if the first and another run have them, else steps of live logs, else traced steps, else None."""
    for title in (STEP, WATCHED_STEP, TRACED_STEP):
        figure = next((each for each in comparison.figures if each.title == title), None)
        if figure is not None and _has_both(figure):
            return figure
    return None


def _has_both(figure: ComparedFigure) -> bool:
    first, *others = figure.amounts
    return bool(first.value) and any(amount.value for amount in others)


def is_undecided(first: ComparedAmount, other: ComparedAmount) -> bool:
    """True if the intervals of two figures overlap."""
    if first.low is None or first.high is None or other.low is None or other.high is None:
        return False
    return first.low <= other.high and other.low <= first.high


def _describe_step(comparison: Comparison, step: ComparedFigure, place: int) -> str:
    first, other = step.amounts[0], step.amounts[place]
    if not first.value or not other.value:
        return "step time unknown"
    times = f"{format_time_change(first.value, other.value)} per step"
    if is_undecided(first, other):
        return f"no significant change, {times} (intervals overlap)"
    text = f"{format_speed_change(first.value, other.value)}, {times}"
    name = comparison.sides[place].name
    difference = next((each for each in comparison.differences if each.after == name), None)
    grew = other.value > first.value
    # The profiler slows the CPU: its causes are named only if traced steps changed in the same direction.
    if difference is None or (difference.after_step_s > difference.before_step_s) != grew:
        return text
    if step.title == TRACED_STEP:
        cause, where = format_causes(difference, shorten_cause), ""
    else:
        cause, where = format_causes(difference, shorten_cause), "traced step: "
    return f"{text}; {where}{cause}" if cause else text


def _describe_memory(comparison: Comparison, place: int) -> list[str]:
    figure = next((each for each in comparison.figures if each.title == PEAK), None)
    if figure is None:
        return []
    first, other = figure.amounts[0].value, figure.amounts[place].value
    if not first or other is None:
        return []
    change = other / first - 1
    if abs(change) < _NOTABLE:
        return ["the same peak memory"]
    word = "more" if change > 0 else "less"
    amount = (
        f"{units.format_percent(abs(change), 0)} {word}"
        if change < 1
        else f"{units.format_significant(change + 1)} times the"
    )
    return [f"{amount} peak memory ({units.format_bytes(first)} to {units.format_bytes(other)})"]
