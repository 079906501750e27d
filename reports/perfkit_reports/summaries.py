"""What a list of many reports shows of one: `summary.json`, taken from the analysis that the report shows."""

from perfkit.analysis.model.estimate import Estimate, Missing
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.model.trace import RankTrace, TraceAnalysis
from perfkit.record import How, Measurement, Quantity, Unknown, measured
from perfkit.store.summary import Figures, Outcome, Summary, digest_of
from perfkit_reports.cells import throughput_unit
from perfkit_reports.headline import fastest
from perfkit_reports.trace_series import focus


def of_suite(analysis: Analysis) -> Summary:
    """The figures are those of the fastest variant that counts, else of the baseline."""
    environment = analysis.environment
    return Summary(
        kind="suite",
        name=analysis.workload,
        created_at=analysis.created_at,
        device=environment.device_name if environment is not None else "",
        outcomes=tuple(Outcome(variant=variant.name, status=variant.status) for variant in analysis.variants),
        runs=sum(len(variant.runs) for variant in analysis.variants),
        figures=_suite_figures(analysis),
    )


def _suite_figures(analysis: Analysis) -> Figures:
    variants = analysis.variants
    baseline = next((variant for variant in variants if variant.is_baseline), next(iter(variants), None))
    shown = fastest(analysis) or baseline
    if shown is None:
        return Figures()
    return Figures(
        of=shown.name if len(variants) > 1 else "",
        step=_quantity(shown.step_time, "s"),
        throughput=_quantity(shown.throughput, throughput_unit(shown)),
        peak=_peak(shown),
        mfu=shown.mfu,
    )


def _peak(variant: Variant) -> Quantity:
    """What the allocator counted while nothing was recorded; on a CPU, where it counts nothing, the recorded peak."""
    if isinstance(variant.peak_allocated, Measurement) or variant.memory is None:
        return variant.peak_allocated
    return measured(variant.memory.peak_bytes, "bytes", variant.memory.source)


def _quantity(estimate: Estimate | Missing, unit: str) -> Quantity:
    if isinstance(estimate, Missing):
        return Unknown(reason=estimate.reason)
    return Measurement(value=estimate.value, unit=unit, how=How(estimate.how), source=estimate.source)


def of_traces(analysis: TraceAnalysis) -> Summary:
    """The figures are those of the trace that the report looks at first."""
    trace = focus(analysis)
    return Summary(
        kind="trace",
        name=analysis.title,
        created_at=analysis.created_at,
        device=trace.device_name if trace is not None else "",
        sources=digest_of(each.reading.path for each in analysis.traces),
        figures=Figures() if trace is None else _trace_figures(trace, alone=len(analysis.traces) == 1),
    )


def _trace_figures(trace: RankTrace, *, alone: bool) -> Figures:
    no_steps = Unknown(reason="no steps were found in the trace")
    no_memory = Unknown(reason="the trace holds no allocations")
    memory = trace.memory
    return Figures(
        of="" if alone else trace.label,
        step=measured(trace.step_s, "s", trace.step_basis) if trace.steps else no_steps,
        throughput=Unknown(reason="a trace does not tell how many samples or tokens a step is of"),
        peak=no_memory if memory is None else measured(memory.peak_bytes, "bytes", memory.source),
        mfu=trace.mfu,
    )
