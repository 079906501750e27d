"""What techniques would need, from the plan of the workload: its step on fake tensors."""

from collections.abc import Callable

from perfkit.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.analysis.model.plan import PlannedVariant, StepTime
from perfkit.plan.advise.model import Saving
from perfkit.plan.advise.shelf import Techniques
from perfkit.plan.plan import planned, scheduled
from perfkit.plan.target import Target
from perfkit.spec import variant_label
from perfkit.store.request import BenchRequest

# What takes as much whatever the batch.
_OF_THE_MODEL = (PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER)


class Planner:
    """Plans of variants of one request, each made once. `progress` is told the name of each."""

    def __init__(self, request: BenchRequest, target: Target, progress: Callable[[str], None] = lambda _: None) -> None:
        self._request, self._target, self._progress = request, target, progress
        self._known: dict[str, PlannedVariant] = {}

    def of(self, specs: Techniques) -> PlannedVariant:
        """The plan of a variant; of no technique that of the baseline."""
        name = variant_label(specs)
        if name not in self._known:
            self._known[name] = planned(scheduled(self._request, specs, self._target), self._target)
            self._progress(name)
        return self._known[name]


def largest_batch(variant: PlannedVariant, batch_size: float, limit_bytes: float) -> int | None:
    """The batch that fills the limit, in proportion to all that is not of the model; 0 where not even one sample fits.

    None where the peak is not known, or nothing grows.
    """
    held, peak = variant.needed_bytes, variant.peak_allocated_bytes
    if held is None or peak is None:
        return None
    of_model = sum(peak.categories.get(category, 0) for category in _OF_THE_MODEL)
    grows = (peak.value - of_model) / batch_size
    room = limit_bytes - (held.high - peak.value) - of_model
    return None if grows <= 0 else max(0, int(room / grows))


def planned_saving(before: StepTime | None, after: StepTime | None, ratio: float = 1.0) -> Saving | None:
    """What a step takes less, given what the same work takes `ratio` times of; None where a time is not known.

    The same efficiencies err in both, so that the fast ends of both belong together, and the slow ones: each as a
    share of the expected step.
    """
    if before is None or after is None:
        return None
    value, *ends = (
        before.total.value * (1 - getattr(after.total, end) / ratio / getattr(before.total, end))
        for end in ("value", "low", "high")
    )
    return Saving(
        value=value,
        low=min(value, *ends),
        high=max(value, *ends),
        bound="interval",
        basis="planned",
    )
