"""Compares the plans of two variants: largest batch and saved time."""

from perfkit.analysis.model.plan import PlannedVariant, StepTime
from perfkit.core.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.plan.advise.advice import TimeSaving

# Categories independent of the batch size.
_OF_THE_MODEL = (PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER)


def estimate_largest_batch(variant: PlannedVariant, batch_size: float, limit_bytes: float) -> int | None:
    """The batch size that fills the limit, by scaling all but the model; 0 if not even one sample fits.

    None if the peak is unknown or nothing grows.
    """
    needed, peak = variant.needed_bytes, variant.peak_allocated_bytes
    if needed is None or peak is None:
        return None
    of_model = sum(peak.categories.get(category, 0) for category in _OF_THE_MODEL)
    grows = (peak.value - of_model) / batch_size
    room = limit_bytes - (needed.high - peak.value) - of_model
    return None if grows <= 0 else max(0, int(room / grows))


def compute_planned_saving(before: StepTime | None, after: StepTime | None, ratio: float = 1.0) -> TimeSaving | None:
    """Time saved per step, for `ratio` times the samples; None if a time is unknown.

    Both plans share the errors of the efficiencies, so fast bounds belong together, and slow ones, as shares of the
    expected step.
    """
    if before is None or after is None:
        return None
    value, *ends = (
        before.total.value * (1 - getattr(after.total, end) / ratio / getattr(before.total, end))
        for end in ("value", "low", "high")
    )
    return TimeSaving(
        value=value,
        low=min(value, *ends),
        high=max(value, *ends),
        bound="interval",
        basis="planned",
    )
