"""Judges whether a variant fits into a rank's memory limit, in words."""

from msgspec.structs import replace

from perfkit.analysis.model.estimate import Fit
from perfkit.analysis.model.plan import Interval, PlannedLength, PlannedPhase, PlannedVariant
from perfkit.core.units import format_bytes, format_significant
from perfkit.plan.target.target import Target

# by the result of `check_fit`
FIT_IDS: dict[bool | None, Fit] = {True: "fits", False: "does not fit", None: "may fit"}
_UNITS = ((2**30, "GiB"), (2**20, "MiB"))


def judge_fit(variant: PlannedVariant, target: Target) -> PlannedVariant:
    """The variant with its fit verdict; unchanged if its memory or the limit is unknown."""
    needed = variant.needed_bytes
    if needed is None or target.limit_bytes is None:
        return variant
    return replace(
        variant,
        fits=check_fit(needed, target.limit_bytes),
        fit=FIT_IDS[check_fit(needed, target.limit_bytes)],
        verdict=format_verdict(needed, target.limit_bytes),
    )


def judge_phase(phase: PlannedPhase, target: Target) -> PlannedPhase:
    """The phase with its fit; unchanged if its memory or the limit is unknown."""
    if phase.needed is None or target.limit_bytes is None:
        return phase
    return replace(phase, fit=FIT_IDS[check_fit(phase.needed, target.limit_bytes)])


def judge_length(length: PlannedLength, target: Target) -> PlannedLength:
    """The length with its fit; unchanged if its memory or the limit is unknown."""
    if length.needed is None or target.limit_bytes is None:
        return length
    return replace(length, fit=FIT_IDS[check_fit(length.needed, target.limit_bytes)])


def check_fit(needed: Interval, limit: float) -> bool | None:
    """True if the whole interval is within the limit, None if only a part is."""
    if needed.high <= limit:
        return True
    return False if needed.low > limit else None


def format_verdict(needed: Interval, limit: float) -> str:
    """`fits: 61 to 66 GiB of 80`, `does not fit: over by at least 12 GiB`, `may fit: 78 to 83 GiB of 80`."""
    match check_fit(needed, limit):
        case True:
            return f"fits: {_format_amounts(needed, limit, digits=2)}"
        case False:
            return f"does not fit: {format_excess(needed, limit)}"
        case None:
            return f"may fit: {_format_amounts(needed, limit, digits=4)}"


def format_excess(needed: Interval, limit: float) -> str:
    """Excess of an interval entirely above the limit, at its low end."""
    at_least = "at least " if needed.low < needed.high else ""
    return f"over by {at_least}{format_bytes(needed.low - limit)}"


def _format_amounts(needed: Interval, limit: float, digits: int) -> str:
    """`61 to 66 GiB of 80`, in the unit of the limit."""
    size, unit = next(((size, unit) for size, unit in _UNITS if limit >= size), _UNITS[-1])
    low, high = (format_significant(bound / size, digits) for bound in (needed.low, needed.high))
    return f"{low if low == high else f'{low} to {high}'} {unit} of {limit / size:.4g}"
