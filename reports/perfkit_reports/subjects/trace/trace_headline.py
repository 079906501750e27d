"""The headline of traces: the limit of the step, and the advice."""

from collections.abc import Sequence

from perfkit.analysis.difference.verdict import format_verdict
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.advice import advise_on_ceilings
from perfkit.analysis.trace.findings.remedies import RECORD_SHAPES, choose_remedy
from perfkit.analysis.trace.lost_kernel_texts import LOST_MEANING, format_lost_title
from perfkit.core import units
from perfkit.core.texts.name_lists import list_first
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.trace.readers.trace_sources import derive_trace_name
from perfkit_reports.names import shorten_cause
from perfkit_reports.subjects.trace.fixes import describe_advice
from perfkit_reports.subjects.trace.limit import describe_limit
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.subjects.trace.trace_sentences import name_critical_device
from perfkit_reports.wording import format_sentence

_NAMED_FILES = 3


def build_headline(analysis: TraceAnalysis) -> str:
    """The verdict of a comparison, else the limit of the trace to look at first."""
    trace, difference = choose_focus_trace(analysis), analysis.difference
    if trace is None:
        return "No trace could be read."
    if difference is None:
        return summarize_trace(analysis, trace)
    return format_sentence(format_verdict(difference, get_file_name(difference.before_trace), shorten_cause))


def get_file_name(trace: RankTrace) -> str:
    """The name of a trace in a sentence: its file, where the label is that without its suffix."""
    path, label = trace.file_info.path, trace.label
    name = path.replace("\\", "/").rpartition("/")[2]
    if label.startswith(path):  # one file given twice
        return name + label.removeprefix(path)
    return name if label == derive_trace_name(path) else label


def summarize_trace(analysis: TraceAnalysis, trace: RankTrace) -> str:
    """What limits the trace; of a rank that delays others, which one it is."""
    if trace.foreign_content:
        return f"Trace of {units.format_seconds(trace.step_s)}: {trace.foreign_content}, no ops and no kernels."
    limit = describe_limit(trace, next((fleet for fleet in analysis.fleets if fleet.straggler == trace.label), None))
    return f"Truncated trace: {limit[0].lower()}{limit[1:]}" if trace.file_info.is_truncated else limit


def list_remarks(analysis: TraceAnalysis) -> list[str]:
    """The advice, and remarks that qualify the headline."""
    trace = choose_focus_trace(analysis)
    if trace is None:
        return []
    lines = [] if analysis.difference is None else [f"{get_file_name(trace)}: {summarize_trace(analysis, trace)}"]
    lines += filter(None, [describe_advice(analysis, trace)])
    lossy = [
        (trace, trace.lost_kernels)
        for trace in analysis.traces
        if trace.lost_kernels is not None and trace.lost_kernels.matters
    ]
    if lossy:
        worst, lost = max(lossy, key=lambda pair: pair[1].share)
        traces = f"{len(analysis.traces):,} traces{' analyzed in full' if analysis.file_count else ''}"
        where = "" if len(analysis.traces) == 1 else f" ({worst.label}; {len(lossy):,} of {traces})"
        lines.append(f"{format_lost_title(lost)}{where}: {LOST_MEANING}.")
    cut = [trace.label for trace in analysis.traces if trace.file_info.is_truncated]
    if cut and not analysis.file_count:  # of more files than are analyzed in full, a warning counts all
        files = "The file" if len(analysis.traces) == 1 else f"The file of {list_first(cut, _NAMED_FILES)}"
        lines.append(f"{files} is damaged or truncated: figures cover only the readable part.")
    return lines


def describe_device(trace: RankTrace) -> str:
    if trace.missing_device_reason:
        return f"the CPU only ({trace.missing_device_reason})"
    if trace.unknown_work_reason and not trace.device_name:
        return "an unknown device"
    if trace.device_name:
        critical = name_critical_device(trace)
        return f"{trace.device_name} ({critical}, critical of {len(trace.devices)})" if critical else trace.device_name
    if trace.file_info.is_truncated and is_cpu(trace.device):  # profilers write device events last
        return "the CPU, in the readable part of the file"
    if is_cpu(trace.device):
        return "a CPU"
    return f"an unnamed {trace.device.upper()} device" if trace.device else "an unknown device"


def list_ceilings(traces: Sequence[RankTrace]) -> list[DeviceCeilings]:
    """The ceilings of each device that some traces come from; devices without any are left out."""
    known = [trace.ceilings for trace in traces if trace.ceilings is not None and trace.ceilings.ceilings]
    return list(dict.fromkeys(known))


def explain_missing_roofline(trace: RankTrace) -> str:
    """The reason for a missing roofline, with advice; empty where there is one."""
    return " ".join(filter(None, _find_roofline_obstacle(trace)))


def _has_roofs(trace: RankTrace) -> bool:
    return trace.ceilings is not None and bool(trace.ceilings.ceilings)


def _find_roofline_obstacle(trace: RankTrace) -> tuple[str, str]:
    if trace.unknown_work_reason:
        return "No roofline: no work recognized.", ""
    if trace.missing_device_reason:
        return "No roofline: the launched work has no times in the trace.", ""
    if trace.points and _has_roofs(trace):
        return "", ""
    if not _has_roofs(trace) and trace.coverage.flops_s > 0:
        reason = f"No roofline: no ceilings known for {describe_device(trace)}."
        return reason, advise_on_ceilings(trace)
    if trace.coverage.kernel_s <= 0:
        return "No roofline: the trace has no kernels and no ops.", ""
    if all(row.bound in ("communication", "copy") for row in trace.kernels or trace.ops):
        return "No roofline: all work is communication or copies.", ""
    if trace.coverage.flops_s <= 0 and trace.coverage.bytes_s <= 0:
        advice = choose_remedy(RECORD_SHAPES, trace.framework, trace.device, trains=trace.trains)
        return "No roofline: FLOPs and bytes are unknown.", advice
    return "No roofline: no work has both FLOPs and bytes.", ""
