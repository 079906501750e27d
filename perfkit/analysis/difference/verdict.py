"""The verdict of a comparison, in one sentence."""

from collections.abc import Callable, Iterator, Sequence
from math import fsum

from perfkit.analysis.difference.groups import KIND, NOT_WORK, TIME
from perfkit.analysis.model import time_split
from perfkit.analysis.model.difference import GroupChange, TraceDifference
from perfkit.core.units import format_percent, format_seconds

# From here on a time is a multiple of the other.
_TWICE = 2.0
# The least share of the change for naming a second cause.
_NOTABLE = 0.25
# Of the step: smaller changes are ignored.
_EQUAL = 0.005
# Times are whole nanoseconds: smaller sums are rounding errors.
_NOTHING = 1e-9
# The largest difference between the sum of kinds and the time in which any ran, of the larger of both: overlap.
_OVERLAP = 0.05

_WORK = (
    time_split.COMPUTE_BOUND,
    time_split.MEMORY_BOUND,
    time_split.LATENCY_BOUND,
    *time_split.UNPLACED,
)
_WORDS = {
    time_split.COMMUNICATION: "exposed communication",
    time_split.COPIES: "exposed copies",
    time_split.DATA: "data wait",
    time_split.WAITING_FOR_CPU: "waiting for the CPU",
    time_split.IDLE_QUEUED: "gaps with work queued",
    time_split.IDLE_UNKNOWN: "gaps of unknown cause",
    time_split.UNRECORDED: "unrecorded time",
}


def format_verdict(difference: TraceDifference, before: str, shorten: Callable[[str], str] = str) -> str:
    """`+60 % time vs B: 77.5 to 124 ms per step; GEMM +31 ms`, without a full stop.

    `before` is the name of the other side; the notes say what makes the two hard to compare. `shorten` shortens names
    of ops.
    """
    old, new = difference.before_step_s, difference.after_step_s
    whole = " per step" if difference.before_trace.steps else ""
    if old <= 0:
        return f"{format_seconds(new)}{whole}, no step time in {before} to compare"
    speed = f"{format_speed_change(old, new, before)}: {format_time_change(old, new)}{whole}"
    cause = format_causes(difference, shorten)
    return f"{speed}; {cause}" if cause else speed


def format_speed_change(before_s: float, after_s: float, than: str = "") -> str:
    """`+60 % time vs B`, `2.41 times as long as B`, `same speed as B`; without a name without these."""
    ratio = after_s / before_s
    ratio_text, word = _format_ratio(ratio)
    return f"{ratio_text} {word} {than}" if than else ratio_text


def _format_ratio(ratio: float) -> tuple[str, str]:
    if abs(ratio - 1) < _EQUAL:
        return "same speed", "as"
    if ratio >= _TWICE:
        return f"{ratio:.3g} times as long", "as"
    if ratio <= 1 / _TWICE:
        return f"{1 / ratio:.3g} times as fast", "as"
    change = abs(ratio - 1)
    return f"{'+' if ratio > 1 else '-'}{format_percent(change, 0 if change >= 0.1 else 1)} time", "vs"


def format_time_change(before_s: float, after_s: float) -> str:
    """`77.5 to 124 ms`: the unit once where both have it."""
    old, new = format_seconds(before_s), format_seconds(after_s)
    if old == new:
        return old
    unit = new.rpartition(" ")[2]
    return f"{old.removesuffix(f' {unit}')} to {new}"


def rank_causes(difference: TraceDifference, shorten: Callable[[str], str] = str) -> list[tuple[str, float]]:
    """The parts of the step's change: (name, seconds), the largest first; they sum to it.

    Work is split by kind where kinds sum to the time in which any work ran, and is one part where they overlap.
    """
    parts = [group for group in difference.groups if group.grouping == TIME]
    kinds = [group for group in difference.groups if group.grouping == KIND and group.name not in NOT_WORK]
    causes = [(_WORDS.get(part.name, part.name), part.change_s) for part in parts if part.name not in _WORK]
    work = [part for part in parts if part.name in _WORK]
    causes += (
        [(shorten(kind.name), kind.change_s) for kind in kinds]
        if _has_matching_sums(kinds, work)
        else [_summarize_compute(kinds, work, shorten)]
    )
    return sorted((cause for cause in causes if abs(cause[1]) > _NOTHING), key=lambda cause: -abs(cause[1]))


def _summarize_compute(
    kinds: Sequence[GroupChange], work: Sequence[GroupChange], shorten: Callable[[str], str]
) -> tuple[str, float]:
    change = fsum(part.change_s for part in work)
    same_sign = [kind for kind in kinds if kind.change_s * change > 0]
    most = max(same_sign, key=lambda kind: abs(kind.change_s), default=None)
    return ("compute" if most is None else f"compute (mostly {shorten(most.name)})"), change


def _has_matching_sums(kinds: Sequence[GroupChange], work: Sequence[GroupChange]) -> bool:
    largest = max((fsum(part.before_s for part in work), fsum(part.after_s for part in work)))
    sides = ((fsum(k.before_s for k in kinds), fsum(p.before_s for p in work)),
             (fsum(k.after_s for k in kinds), fsum(p.after_s for p in work)))  # fmt: skip
    return bool(kinds) and all(abs(one - other) <= _OVERLAP * largest for one, other in sides)


def format_causes(difference: TraceDifference, shorten: Callable[[str], str] = str) -> str:
    """`GEMM +31 ms`, the largest causes of a change; empty where it is negligible. `shorten` shortens names of ops."""
    total = difference.after_step_s - difference.before_step_s
    if abs(total) < _EQUAL * difference.before_step_s:
        return ""
    ranked = rank_causes(difference, shorten)
    same = [(name, change) for name, change in ranked if (change > 0) == (total > 0)]
    if not same:
        return ""
    if abs(same[0][1]) <= 1.02 * abs(total):
        return ", ".join(_format_largest_causes(same, total))
    # The largest cause exceeds the whole change: something else shrank, and is named with it.
    against = [(name, change) for name, change in ranked if (change > 0) != (total > 0)][:1]
    return ", ".join(_format_cause(name, change) for name, change in (*same[:1], *against))


def _format_largest_causes(causes: Sequence[tuple[str, float]], total: float) -> Iterator[str]:
    for place, (name, change) in enumerate(causes[:2]):
        if place == 0 or abs(change) >= _NOTABLE * abs(total):
            yield _format_cause(name, change)


def _format_cause(name: str, change: float) -> str:
    return f"{name} {'+' if change > 0 else '-'}{format_seconds(abs(change))}"
