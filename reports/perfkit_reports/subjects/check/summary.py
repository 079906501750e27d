"""What a list of many reports shows of a check: `summary.json`."""

from collections.abc import Sequence

from perfkit.check.result import Check, CheckedVariant
from perfkit.record import Quantity, Unknown, measured
from perfkit.store.summary import ReportSummary, RowFigures, make_throughput
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import story

_UNITS = {"step_time": "s", "peak_allocated": "bytes", "mfu": "1"}


def of_check(check: Check) -> ReportSummary:
    """The figures are those of the side after, of the first variant with any."""
    environment = check.after.environment or check.before.environment
    shown = next((variant for variant in check.variants if _known(variant)), None)
    return ReportSummary(
        kind="check",
        name=story.sides(check),
        created_at=check.created_at,
        device=environment.device_name if environment is not None else "",
        figures=_figures(shown, check.variants),
        verdict=check.verdict,
        reason=story.headline(check),
    )


def _known(variant: CheckedVariant) -> bool:
    return any(judged.quantity in _UNITS and judged.after is not None for judged in variant.judged)


def _figures(shown: CheckedVariant | None, variants: Sequence[CheckedVariant]) -> RowFigures:
    judged = shown.judged if shown is not None else ()
    after = {quantity.quantity: quantity.after for quantity in judged if quantity.after is not None}

    def known(quantity: str) -> Quantity:
        if quantity not in after:
            return Unknown(reason="the check does not compare it, or has no figure of it")
        return measured(after[quantity], _UNITS[quantity], "the side after of the check")

    throughput: Quantity = Unknown(reason="the check does not compare it")
    if "throughput" in after:
        throughput = make_throughput(after["throughput"], "", "the side after of the check")
    return RowFigures(
        of=one_line(shown.name) if shown is not None and len(variants) > 1 else "",
        step=known("step_time"),
        throughput=throughput,
        peak=known("peak_allocated"),
        mfu=known("mfu"),
    )
