"""Cells of a judged quantity, one function per column."""

import math
from typing import Literal

from perfkit.check.judge.check_thresholds import compute_margin
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.core import units
from perfkit.core.parse_units import format_amount, format_precise_amount
from perfkit_reports.cells import format_bounds, format_change
from perfkit_reports.document.cells import Cell, Mark, make_unknown_cell
from perfkit_reports.document.tables import NOTHING
from perfkit_reports.plain_text import flatten_text

SYMBOLS = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.WORSE: "▼",
    Verdict.IMPROVED: "▲",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_COMPARED: "–",
}
TONES = {Verdict.PASS: "good", Verdict.IMPROVED: "good", Verdict.FAIL: "bad"}
# Verdicts differ in shape, not only in color.
_SHAPES: dict[Verdict, Literal["cross", "ring", "triangle", "down"]] = {
    Verdict.FAIL: "cross",
    Verdict.WORSE: "down",
    Verdict.INCONCLUSIVE: "ring",
    Verdict.IMPROVED: "triangle",
}
_EQUAL = "exactly"
_SAME = "same"


def make_title_cell(judged: JudgedQuantity) -> Cell:
    return Cell(flatten_text(judged.title), detail=f"of {flatten_text(judged.of)}" if judged.of else "")


def make_before_cell(judged: JudgedQuantity) -> Cell:
    return _make_side_cell(judged, judged.before)


def make_after_cell(judged: JudgedQuantity) -> Cell:
    return _make_side_cell(judged, judged.after)


def make_change_cell(judged: JudgedQuantity) -> Cell:
    """Relative change with its interval, else the absolute change; a dash if a side is missing."""
    place = build_mark(judged)
    if judged.exact and judged.before is not None and judged.before == judged.after:
        return Cell(_SAME, value=0.0, mark=place)
    if judged.change is not None:
        return Cell(format_change(judged.change), detail=format_interval(judged), value=judged.change, mark=place)
    if judged.before is None or judged.after is None:
        return Cell(NOTHING, mark=place)
    difference = judged.after - judged.before
    return Cell(
        f"{'+' if difference > 0 else ''}{format_amount(difference, judged.unit)}", value=difference, mark=place
    )


def build_mark(judged: JudgedQuantity) -> Mark | None:
    """Position between no change and the threshold; None without a threshold or a figure."""
    allowed, worsening = _get_allowed_change(judged), _get_worsening(judged)
    if allowed is None or worsening is None:
        return None
    ends = [
        _compute_share(_orient_change(judged, end), allowed) for end in (judged.low, judged.high) if end is not None
    ]
    low, high = (min(ends), max(ends)) if len(ends) == 2 else (None, None)
    return Mark(_compute_share(worsening, allowed), low, high, _SHAPES.get(judged.verdict, "dot"))


def _get_allowed_change(judged: JudgedQuantity) -> float | None:
    """The allowed change, in the terms of `_get_worsening`: 0 or more."""
    threshold = judged.threshold
    if threshold is None:
        return None
    if judged.before is None:
        return threshold.limit
    if not judged.before:
        return threshold.limit if threshold.limit is not None else threshold.change or 0.0
    return compute_margin(threshold, judged.before, more_is_worse=judged.more_is_worse)


def _get_worsening(judged: JudgedQuantity) -> float | None:
    if judged.after is None:
        return None
    if judged.before is None:
        return judged.after
    if not judged.before:
        return _orient_change(judged, judged.after)
    return None if judged.change is None else _orient_change(judged, judged.change)


def _orient_change(judged: JudgedQuantity, change: float) -> float:
    return change if judged.more_is_worse else -change


def _compute_share(worsening: float, allowed: float) -> float:
    """Share of the allowed change; infinite if none is allowed."""
    if allowed <= 0:
        return math.copysign(math.inf, worsening) if worsening else 0.0
    return worsening / allowed if math.isfinite(allowed) else 0.0


def has_change(judged: JudgedQuantity) -> bool:
    """True if both sides have figures."""
    return make_change_cell(judged).text != NOTHING


def make_reason_cell(judged: JudgedQuantity) -> Cell:
    """The basis of the verdict, what would decide it, and the detectable change."""
    more = []
    if judged.data_needed:
        more.append(f"to decide: {flatten_text(judged.data_needed)}")
    if judged.detectable is not None:
        more.append(f"detectable regression: {units.format_percent(judged.detectable)}")
    return Cell(flatten_text(judged.reason), detail="; ".join(more))


def format_interval(judged: JudgedQuantity) -> str:
    """`+6.5 to +9.3 %`; `exactly` for counts; else empty."""
    if judged.low is None or judged.high is None:
        return _EQUAL if judged.exact else ""
    return format_bounds(judged.low, judged.high)


def make_threshold_cell(judged: JudgedQuantity) -> Cell:
    return Cell(flatten_text(judged.threshold.text) if judged.threshold else NOTHING)


def make_verdict_cell(judged: JudgedQuantity) -> Cell:
    return Cell(
        format_verdict(judged.verdict),
        id=judged.verdict.value,
        reason=judged.reason,
        tone=TONES.get(judged.verdict, "unsure"),
    )


def format_verdict(known: Verdict) -> str:
    """`✗ fail`: the symbol works without color."""
    return f"{SYMBOLS[known]} {known.value}"


def _make_side_cell(judged: JudgedQuantity, value: float | None) -> Cell:
    if value is None:  # loss differences have no value before
        return make_unknown_cell(judged.reason) if judged.verdict is Verdict.NOT_COMPARED else Cell(NOTHING)
    show = format_precise_amount if _is_indistinct(judged) else format_amount
    return Cell(show(value, judged.unit), value=value)


def _is_indistinct(judged: JudgedQuantity) -> bool:
    """True if the sides differ but format alike."""
    first, second = judged.before, judged.after
    if first is None or second is None or first == second or not judged.exact:
        return False
    return format_amount(first, judged.unit) == format_amount(second, judged.unit)
