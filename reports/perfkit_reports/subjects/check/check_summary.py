"""Figures of a check for a list of reports: `summary.json`."""

from collections.abc import Sequence

from msgspec.structs import replace

from perfkit.check.judge.quantities import UTILIZATION
from perfkit.check.judge.result import Check, CheckedVariant, JudgedQuantity
from perfkit.core.record.quantity import Measurement, Quantity, Unknown, make_measurement
from perfkit.store.summary import ReportSummary, RowFigures, make_throughput
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import check_sentences

_UNITS = {"step_time": "s", "peak_allocated": "bytes", "mfu": "1"}


def summarize_check(check: Check) -> ReportSummary:
    """Figures of the after side, of the first variant with any."""
    environment = check.after.environment or check.before.environment
    shown = next((variant for variant in check.variants if _has_known_figure(variant)), None)
    return ReportSummary(
        kind="check",
        name=check_sentences.format_sides(check),
        created_at=check.created_at,
        device=environment.device_name if environment is not None else "",
        figures=_build_figures(shown, check.variants),
        verdict=check.verdict,
        reason=check_sentences.build_headline(check),
    )


def _has_known_figure(variant: CheckedVariant) -> bool:
    return any(judged.quantity in _UNITS and judged.after is not None for judged in variant.quantities)


def _name_whole(share: Quantity, judged: Sequence[JudgedQuantity]) -> Quantity:
    whole = next((quantity.of for quantity in judged if quantity.quantity == UTILIZATION), "")
    return replace(share, of=whole) if isinstance(share, Measurement) else share


def _build_figures(shown: CheckedVariant | None, variants: Sequence[CheckedVariant]) -> RowFigures:
    judged = shown.quantities if shown is not None else ()
    after = {quantity.quantity: quantity.after for quantity in judged if quantity.after is not None}

    def known(quantity: str) -> Quantity:
        if quantity not in after:
            return Unknown(reason="not compared, or no figure")
        return make_measurement(after[quantity], _UNITS[quantity], "after side of the check")

    throughput: Quantity = Unknown(reason="not compared")
    if "throughput" in after:
        throughput = make_throughput(after["throughput"], "", "after side of the check")
    return RowFigures(
        subject=flatten_text(shown.name) if shown is not None and len(variants) > 1 else "",
        step=known("step_time"),
        throughput=throughput,
        peak=known("peak_allocated"),
        mfu=_name_whole(known("mfu"), judged),
    )
