"""Figures of a suite for a list of reports."""

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.record import Measurement, Quantity, QuantityOrigin, Unknown, make_measurement
from perfkit.store.summary import ReportSummary, RowFigures, VariantOutcome
from perfkit_reports.subjects.suite.suite_cells import get_throughput_unit
from perfkit_reports.subjects.suite.suite_headline import find_fastest


def summarize_suite(analysis: Analysis) -> ReportSummary:
    """Figures of the fastest valid variant, else of the baseline."""
    environment = analysis.environment
    return ReportSummary(
        kind="suite",
        name=analysis.workload,
        created_at=analysis.created_at,
        device=environment.device_name if environment is not None else "",
        outcomes=tuple(VariantOutcome(variant=variant.name, status=variant.status) for variant in analysis.variants),
        runs=sum(len(variant.runs) for variant in analysis.variants),
        figures=_build_figures(analysis),
    )


def _build_figures(analysis: Analysis) -> RowFigures:
    variants = analysis.variants
    baseline = next((variant for variant in variants if variant.is_baseline), next(iter(variants), None))
    shown = find_fastest(analysis) or baseline
    if shown is None:
        return RowFigures()
    return RowFigures(
        subject=shown.name if len(variants) > 1 else "",
        step=_make_quantity(shown.step_time, "s"),
        throughput=_make_quantity(shown.throughput, get_throughput_unit(shown)),
        peak=_get_peak(shown),
        mfu=shown.mfu,
    )


def _get_peak(variant: Variant) -> Quantity:
    """The allocator's count without recording; on a CPU, which has none, the recorded peak."""
    if isinstance(variant.peak_allocated, Measurement) or variant.memory is None:
        return variant.peak_allocated
    return make_measurement(variant.memory.peak_bytes, "bytes", variant.memory.source)


def _make_quantity(estimate: MedianEstimate | MissingEstimate, unit: str) -> Quantity:
    if isinstance(estimate, MissingEstimate):
        return Unknown(reason=estimate.reason)
    return Measurement(value=estimate.value, unit=unit, how=QuantityOrigin(estimate.how), source=estimate.source)
