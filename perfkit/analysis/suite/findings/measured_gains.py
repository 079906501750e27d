"""The measured gains of a variant, with their intervals."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import GainRange
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import get_value


def measure_saved_time(variant: Variant, step_s: float | None) -> Iterator[GainRange]:
    """The interval of the time that a step saves; none where batches differ."""
    difference = variant.difference
    if difference is None or step_s is None or variant.comparison_unit:
        return
    low, high = (None if ratio is None else step_s * (1 / ratio - 1) for ratio in (difference.high, difference.low))
    yield GainRange(unit="s", low=low, high=high, basis="measured")


def measure_saved_bytes(variant: Variant, base: Variant) -> Iterator[GainRange]:
    """Memory is deterministic; none where batches differ."""
    saved = None if variant.comparison_unit else get_saved_bytes(variant, base)
    if saved is not None:
        yield GainRange(unit="bytes", low=saved, high=saved, basis="measured")


def get_saved_bytes(variant: Variant, base: Variant) -> int | None:
    """Bytes by which the peak of a variant is lower than its baseline's; None where either is unknown."""
    ours, theirs = get_value(variant.peak_allocated), get_value(base.peak_allocated)
    return None if ours is None or theirs is None else int(theirs - ours)
