"""Cells of a planned variant, one function per column."""

from perfkit.analysis.model.plan import Interval, Plan, PlannedVariant
from perfkit.core import units
from perfkit.plan.variants import verdict
from perfkit_reports.cells import format_range
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING

_NAMED = 3  # categories


def make_peak_cell(variant: PlannedVariant) -> Cell:
    """The allocator's peak, with its phase."""
    peak = variant.peak_allocated_bytes
    if peak is None:
        return _make_no_memory_cell(variant)
    when = f"in {peak.phase}" if peak.phase else ""
    return Cell(
        units.format_bytes(peak.value),
        detail=", ".join(filter(None, (format_size_span(peak.bounds), when))),
        value=peak.value,
    )


def make_largest_cell(variant: PlannedVariant) -> Cell:
    """The largest categories at the allocator's peak."""
    peak = variant.peak_allocated_bytes
    if peak is None:
        return Cell(NOTHING)
    parts = sorted(peak.categories.items(), key=lambda part: -part[1])[:_NAMED]
    return Cell(", ".join(f"{name} {units.format_percent(amount / peak.value, 0)}" for name, amount in parts))


def make_needed_cell(variant: PlannedVariant) -> Cell:
    """Needed memory, including memory outside the allocator."""
    needed = variant.needed_bytes
    if needed is None:
        return _make_no_memory_cell(variant)
    return Cell(units.format_bytes(needed.value), detail=format_size_span(needed), value=needed.value)


def make_change_cell(variant: PlannedVariant, plan: Plan) -> Cell:
    """Needed memory relative to the baseline on the same number of ranks."""
    before = find_baseline(variant, plan)
    after, reference = variant.needed_bytes, None if before is None else before.needed_bytes
    if variant.is_baseline:
        return Cell("baseline")
    if after is None or reference is None:
        return make_unknown_cell(variant.reason or "baseline memory unknown")
    ratio = after.value / reference.value
    tone = "" if abs(ratio - 1) < 0.001 else "good" if ratio < 1 else "bad"
    return Cell(units.format_signed_percent(ratio - 1), value=ratio, tone=tone)


def make_fits_cell(variant: PlannedVariant, limit_bytes: int) -> Cell:
    """Compare the bounds of the needed memory with the limit."""
    needed = variant.needed_bytes
    if needed is None:
        return _make_no_memory_cell(variant)
    match verdict.check_fit(needed, limit_bytes):
        case True:
            return Cell("fits", id="fits", detail=f"{units.format_bytes(limit_bytes - needed.high)} left", tone="good")
        case False:
            return Cell(
                "does not fit", id="does not fit", detail=verdict.format_excess(needed, limit_bytes), tone="bad"
            )
        case None:
            excess = units.format_bytes(needed.high - limit_bytes)
            return Cell("may fit", id="may fit", detail=f"over by up to {excess}", tone="unsure")


def make_step_time_cell(variant: PlannedVariant) -> Cell:
    """Step time with its bounds."""
    step = variant.step_s
    if step is None:
        return make_unknown_cell("no predicted time")
    return Cell(units.format_seconds(step.total.value), detail=format_time_span(step.total), value=step.total.value)


def find_baseline(variant: PlannedVariant, plan: Plan) -> PlannedVariant | None:
    """The variant without techniques on the same number of ranks."""
    others = (other for other in plan.variants if other.world_size == variant.world_size)
    return next((other for other in others if other.is_baseline), None)


def format_size_span(interval: Interval) -> str:
    """`61.0–66.0 GiB`; empty if both are the same."""
    return _format_span(units.format_bytes(interval.low), units.format_bytes(interval.high))


def format_time_span(interval: Interval) -> str:
    """`98–120 ms`; empty if both are the same."""
    return _format_span(units.format_seconds(interval.low), units.format_seconds(interval.high))


def _format_span(low: str, high: str) -> str:
    return "" if low == high else format_range(low, high, f" {high.split(' ')[-1]}")


def _make_no_memory_cell(variant: PlannedVariant) -> Cell:
    return make_unknown_cell(variant.reason or "no memory was allocated")
