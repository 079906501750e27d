"""Figures of a plan for a list of reports."""

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.core.record import Measurement, QuantityOrigin, Unknown
from perfkit.store.summary import ReportSummary, RowFigures, make_unknown_figures
from perfkit_reports.subjects.plan.plan_headline import find_leanest


def summarize_plan(plan: Plan) -> ReportSummary:
    """Figures of the variant with the least needed memory."""
    least = find_leanest(plan)
    return ReportSummary(
        kind="plan",
        name=plan.workload.label,
        created_at=plan.created_at,
        device=plan.device_name or plan.device,
        figures=make_unknown_figures("not planned") if least is None else _build_figures(least, len(plan.variants)),
    )


def _build_figures(least: PlannedVariant, count: int) -> RowFigures:
    needed, step = least.needed_bytes, least.step_s
    absent = Unknown(reason="planned, not run")
    return RowFigures(
        subject=least.name if count > 1 else "",
        step=absent if step is None else _make_modeled(step.total.value, "s", step.source),
        throughput=absent,
        peak=absent if needed is None else _make_modeled(needed.value, "bytes", "needed per rank"),
        mfu=absent,
    )


def _make_modeled(value: float, unit: str, source: str) -> Measurement:
    return Measurement(value=value, unit=unit, how=QuantityOrigin.MODELED, source=source)
