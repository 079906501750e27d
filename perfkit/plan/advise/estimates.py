"""Estimates of a variant: time from the recorded step or else the plan, memory from the plan."""

from typing import NamedTuple

from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.core.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.core.note import list_texts
from perfkit.core.spec import format_variant_label
from perfkit.core.units import format_bytes, format_seconds
from perfkit.plan.advise.advice import TimeSaving
from perfkit.plan.advise.candidates import Candidate, Techniques, make_candidate
from perfkit.plan.advise.time_saving import TimeEstimate, estimate_time_saved
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.plan.variants.plan import PlanOne
from perfkit.techniques.data.batch import Batch

# Categories independent of the batch size.
_OF_THE_MODEL = (PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER)


class VariantEstimate(NamedTuple):
    """Figures of a variant; None with the reason in `not_known`."""

    saving: TimeSaving | None
    needed: Interval | None
    largest_batch: int | None
    why: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()


class VariantEstimates:
    """Cached estimates of one step's variants.

    `batch_size` is that of the step, None if unknown; `limit_bytes` the memory limit of a rank.
    """

    def __init__(
        self, step: TracedStep | None, plan: PlanOne | None, batch_size: int | None, limit_bytes: float | None
    ) -> None:
        self._step, self._plan = step, plan
        self._batch_size, self._limit_bytes = batch_size, limit_bytes
        self._known: dict[str, VariantEstimate] = {}

    def estimate_variant(self, specs: Techniques) -> VariantEstimate:
        """The estimate of a variant, of no technique that of the step as it is."""
        name = format_variant_label(specs)
        if name not in self._known:
            self._known[name] = self._make_estimate(make_candidate(specs))
        return self._known[name]

    def _make_estimate(self, variant: Candidate) -> VariantEstimate:
        time = self._estimate_time(variant)
        if self._plan is None:
            return VariantEstimate(time.saving, None, None, time.why, time.assumes, time.not_known)
        planned = self._plan(variant.specs)
        held = planned.needed_bytes
        largest = None
        if self._limit_bytes is not None and self._batch_size is not None:
            largest = estimate_largest_batch(
                planned, self._batch_size * self._compute_ratio(variant), self._limit_bytes
            )
        reasons = tuple(filter(None, (*time.why, self._describe_reduction(variant))))
        not_known = (*time.not_known, *((f"memory: {planned.reason}",) if planned.reason else ()))
        return VariantEstimate(
            time.saving, held, largest, reasons, (*time.assumes, *list_texts(planned.remarks)), not_known
        )

    def _estimate_time(self, variant: Candidate) -> TimeEstimate:
        if self._step is not None:
            return estimate_time_saved(self._step, variant.techniques, self._compute_ratio(variant))
        assert self._plan is not None, "a subject has a recorded step or a workload"
        without, planned = self._plan(()), self._plan(variant.specs)
        before, after = without.step_s, planned.step_s
        saving = compute_planned_saving(before, after, self._compute_ratio(variant))
        if saving is None or before is None or after is None:
            reason = planned.step_reason or without.step_reason or "not planned"
            return TimeEstimate(None, not_known=(f"time: {reason}",))
        parts = ", ".join(f"{part} {format_seconds(taken)}" for part, taken in list(before.parts.items())[:3])
        # A step that is estimated from plans with few blocks has no parts.
        why = (f"most of the planned step: {parts}",) if parts and saving.value > 0 else ()
        return TimeEstimate(saving, why, (after.source,))

    def _compute_ratio(self, variant: Candidate) -> float:
        """Ratio of samples per step to the subject's."""
        sizes = [each.size for each in variant.techniques if isinstance(each, Batch) and each.size is not None]
        return sizes[0] / self._batch_size if sizes and self._batch_size else 1.0

    def _describe_reduction(self, variant: Candidate) -> str:
        """Reduced memory categories, as evidence; empty without any."""
        assert self._plan is not None
        before, after = (self._plan(specs).peak_allocated_bytes for specs in ((), variant.specs))
        if before is None or after is None:
            return ""
        less = {name: held - after.categories.get(name, 0) for name, held in before.categories.items()}
        name = max(less, key=less.__getitem__, default="")
        if less.get(name, 0) <= 0:
            return ""
        remaining = format_bytes(after.categories.get(name, 0))
        return f"{name} at the peak: {remaining} of {format_bytes(before.categories[name])}"


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
