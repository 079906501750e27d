"""The figures of a report on traces for a list of many reports."""

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.store.summary import ReportSummary, RowFigures, compute_digest
from perfkit_reports.subjects.trace.series import choose_focus_trace


def summarize_analysis(analysis: TraceAnalysis) -> ReportSummary:
    """The figures are those of the trace that the report looks at first."""
    trace = choose_focus_trace(analysis)
    return ReportSummary(
        kind="trace",
        name=analysis.title,
        created_at=analysis.created_at,
        device=trace.device_name if trace is not None else "",
        sources=analysis.files_digest or compute_digest(trace.file_info.path for trace in analysis.traces),
        figures=RowFigures() if trace is None else _build_figures(trace, alone=len(analysis.traces) == 1),
    )


def _build_figures(trace: RankTrace, *, alone: bool) -> RowFigures:
    no_steps = Unknown(reason="no steps found in the trace")
    no_memory = Unknown(reason="no allocations of the device recorded in the trace")
    memory = trace.device_memory
    return RowFigures(
        subject="" if alone else trace.label,
        step=make_measurement(trace.step_s, "s", trace.step_basis) if trace.steps else no_steps,
        throughput=Unknown(reason="a trace does not record samples or tokens per step"),
        peak=no_memory if memory is None else make_measurement(memory.peak_bytes, "bytes", memory.source),
        mfu=trace.mfu,
    )
