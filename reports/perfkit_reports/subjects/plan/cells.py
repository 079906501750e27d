"""The cells of a planned variant: one function a column."""

from perfkit import units
from perfkit.analysis.model.plan import Interval, Plan, PlannedVariant
from perfkit.plan import verdict
from perfkit_reports.cells import format_range
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING

_NAMED = 3  # categories


def make_peak_cell(variant: PlannedVariant) -> Cell:
    """What the allocator hands out, with the phase in which that is the most."""
    told = variant.peak_allocated_bytes
    if told is None:
        return _make_no_memory_cell(variant)
    when = f"in {told.phase}" if told.phase else ""
    return Cell(
        units.format_bytes(told.value),
        detail=", ".join(filter(None, (format_size_span(told.bounds), when))),
        value=told.value,
    )


def make_largest_cell(variant: PlannedVariant) -> Cell:
    """The categories that take the most at the allocator's peak."""
    told = variant.peak_allocated_bytes
    if told is None:
        return Cell(NOTHING)
    parts = sorted(told.categories.items(), key=lambda part: -part[1])[:_NAMED]
    return Cell(", ".join(f"{name} {units.format_percent(amount / told.value, 0)}" for name, amount in parts))


def make_needed_cell(variant: PlannedVariant) -> Cell:
    """With what is beyond the allocator."""
    told = variant.needed_bytes
    if told is None:
        return _make_no_memory_cell(variant)
    return Cell(units.format_bytes(told.value), detail=format_size_span(told), value=told.value)


def make_change_cell(variant: PlannedVariant, plan: Plan) -> Cell:
    """What is needed against the baseline on as many ranks."""
    before = find_baseline(variant, plan)
    now, then = variant.needed_bytes, None if before is None else before.needed_bytes
    if variant.is_baseline:
        return Cell("baseline")
    if now is None or then is None:
        return make_unknown_cell(variant.reason or "baseline memory unknown")
    ratio = now.value / then.value
    tone = "" if abs(ratio - 1) < 0.001 else "good" if ratio < 1 else "bad"
    return Cell(units.format_signed_percent(ratio - 1), value=ratio, tone=tone)


def make_fits_cell(variant: PlannedVariant, limit_bytes: int) -> Cell:
    """Whether all that it needs is within the limit, by the bounds of what it needs."""
    told = variant.needed_bytes
    if told is None:
        return _make_no_memory_cell(variant)
    match verdict.check_fit(told, limit_bytes):
        case True:
            return Cell("fits", detail=f"{units.format_bytes(limit_bytes - told.high)} left", tone="good")
        case False:
            return Cell("does not fit", detail=verdict.format_excess(told, limit_bytes), tone="bad")
        case None:
            return Cell(
                "may fit", detail=f"up to {units.format_bytes(told.high - limit_bytes)} too much", tone="unsure"
            )


def make_step_time_cell(variant: PlannedVariant) -> Cell:
    """With its bounds."""
    told = variant.step_s
    if told is None:
        return make_unknown_cell("no predicted time")
    return Cell(units.format_seconds(told.total.value), detail=format_time_span(told.total), value=told.total.value)


def find_baseline(variant: PlannedVariant, plan: Plan) -> PlannedVariant | None:
    """The variant without techniques on as many ranks."""
    others = (other for other in plan.variants if other.world_size == variant.world_size)
    return next((other for other in others if other.is_baseline), None)


def format_size_span(told: Interval) -> str:
    """`61.0–66.0 GiB`; empty where both are the same."""
    return _format_span(units.format_bytes(told.low), units.format_bytes(told.high))


def format_time_span(told: Interval) -> str:
    """`98–120 ms`; empty where both are the same."""
    return _format_span(units.format_seconds(told.low), units.format_seconds(told.high))


def _format_span(low: str, high: str) -> str:
    return "" if low == high else format_range(low, high, f" {high.split(' ')[-1]}")


def _make_no_memory_cell(variant: PlannedVariant) -> Cell:
    return make_unknown_cell(variant.reason or "no memory was allocated")
