"""The headline of traces: the limit of the step, and the advice."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.difference.verdict import format_verdict
from perfkit.analysis.model import time_split
from perfkit.analysis.model.step import TimeShare
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
from perfkit_reports.subjects.trace.improvements import (
    Improvement,
    get_cpu_path_share,
    has_roofs,
    is_limited_by_cpu,
    list_improvements,
)
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.subjects.trace.trace_sentences import get_other_median_s, name_critical_device
from perfkit_reports.wording import format_bounded, format_sentence

_WORDS = {
    time_split.COMMUNICATION: "exposed communication",
    time_split.COPIES: "exposed copies",
    time_split.DATA: "waiting for data",
}
# Parts of the time split in which the CPU holds up the device, and what is not known to be work.
_CPU_PARTS = (time_split.WAITING_FOR_CPU, time_split.DATA, time_split.IDLE_UNKNOWN, time_split.UNRECORDED)
_NOT_BUSY = (*time_split.IDLE, time_split.UNRECORDED, time_split.DATA)
LARGE = 0.1  # of the step: parts that are named
_NAMED_PARTS = 2  # of these at most
_NAMED_FILES = 3
_LEAST_GAIN = 0.01  # of the step


def build_headline(analysis: TraceAnalysis) -> str:
    """The verdict of a comparison, else the summary of the trace to look at first."""
    trace, difference = choose_focus_trace(analysis), analysis.difference
    if trace is None:
        return "No trace could be read."
    if difference is None:
        return summarize_trace(analysis, trace)
    return format_sentence(format_verdict(difference, get_file_name(difference.before_trace)))


def get_file_name(trace: RankTrace) -> str:
    """The name of a trace in a sentence: its file, where the label is that without its suffix."""
    path, label = trace.file_info.path, trace.label
    name = path.replace("\\", "/").rpartition("/")[2]
    if label.startswith(path):  # one file given twice
        return name + label.removeprefix(path)
    return name if label == derive_trace_name(path) else label


def summarize_trace(analysis: TraceAnalysis, trace: RankTrace) -> str:
    """Step time, device, its largest parts, and the improvement that saves most."""
    if trace.foreign_content:
        return f"{_format_length(trace)}: {trace.foreign_content}, no ops and no kernels."
    subject = f"{_format_length(trace)} on {describe_device(trace)}"
    if trace.file_info.is_truncated:
        subject = f"Truncated trace: {subject[0].lower()}{subject[1:]}"
    fleet = next((fleet for fleet in analysis.fleets if fleet.straggler == trace.label), None)
    if fleet is not None and len(fleet.ranks) > 1:
        subject += f" ({trace.label}, straggler of {len(fleet.ranks):,})"
    largest = sorted(list_parts(trace), key=lambda share: -share.share)[:_NAMED_PARTS]
    large = [share for share in largest if share.share >= LARGE] or largest[:1]
    split = ", ".join(
        _list_path_limits(trace)
        if large and large[0].category not in _CPU_PARTS and is_limited_by_cpu(trace)
        else (format_part(part, trace.time_split) for part in large)
    )
    best = max(list_improvements(trace), key=lambda candidate: candidate.saving_s, default=Improvement("", 0.0))
    limits = f"{subject}: {split}" if split else subject
    if best.saving_s < _LEAST_GAIN * trace.step_s or best.saving_s <= 0:
        return f"{limits}."
    saving = format_bounded(units.format_seconds(best.saving_s), best.bound)
    return f"{limits}; {best.action} to save {saving}{' (simulated)' if best.simulated else ''}."


def _format_length(trace: RankTrace) -> str:
    """`Step 12.3 ms`, with the median where it differs."""
    length, median_s = units.format_seconds(trace.step_s), get_other_median_s(trace)
    if median_s is not None:
        return f"Mean step {length} (median {units.format_seconds(median_s)})"
    return f"Step {length}" if trace.steps else f"Trace of {length}"


def _list_path_limits(trace: RankTrace) -> Iterator[str]:
    """`critical path 96 % CPU`, and the largest idle part, else `device 97 % busy`.

    For a trace whose time split names the device's work first, which is not what limits it.
    """
    yield f"critical path {units.format_percent(get_cpu_path_share(trace), 0)} CPU"
    idle = [part for part in trace.time_split if part.category in _NOT_BUSY]
    largest = max(idle, key=lambda part: part.share, default=None)
    if largest is not None and largest.share >= LARGE:
        yield format_part(largest, trace.time_split)
    else:
        yield f"device {units.format_percent(1 - sum(part.share for part in idle), 0)} busy"


def list_parts(trace: RankTrace) -> Sequence[TimeShare]:
    """The time split without work of unknown bound: that is part of all work, or, where less than the rest, left out.

    A finding says how much it is, and why.
    """
    unplaced = [share for share in trace.time_split if share.category in time_split.UNPLACED]
    if not unplaced:
        return trace.time_split
    where = "in launching ops" if trace.missing_device_reason else "in ops" if is_cpu(trace.device) else "in kernels"
    joined = unplaced
    if has_roofs(trace) and not trace.missing_device_reason:
        placed = [share for share in trace.time_split if share.category in time_split.PLACED]
        joined = [] if _sum_shares(unplaced) <= _sum_shares(placed) else [*placed, *unplaced]
    others = [share for share in trace.time_split if share not in (*unplaced, *joined)]
    if not joined:
        return others
    seconds = sum(share.seconds for share in joined)
    together = TimeShare(category=where, seconds=seconds, share=_sum_shares(joined), bound=unplaced[0].bound)
    return (*others, together)


def _sum_shares(parts: Sequence[TimeShare]) -> float:
    return sum(part.share for part in parts)


def format_part(part: TimeShare, split: Sequence[TimeShare]) -> str:
    """`at least 40 % exposed communication`, of a `split`; without a part for data, Python's includes the wait."""
    word = _WORDS.get(part.category, part.category)
    if word == time_split.PYTHON and not any(other.category == time_split.DATA for other in split):
        word = "Python, dispatch and waiting"
    return f"{format_bounded(units.format_percent(part.share, 0), part.bound)} {word}"


def list_remarks(analysis: TraceAnalysis) -> list[str]:
    """Remarks that qualify the headline."""
    trace = choose_focus_trace(analysis)
    if trace is None:
        return []
    lines = [] if analysis.difference is None else [f"{get_file_name(trace)}: {summarize_trace(analysis, trace)}"]
    reason, _ = _find_roofline_obstacle(trace)
    if reason:
        lines.append(reason)  # a finding has the advice
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


def _find_roofline_obstacle(trace: RankTrace) -> tuple[str, str]:
    if trace.unknown_work_reason:
        return "No roofline: no work recognized.", ""
    if trace.missing_device_reason:
        return "No roofline: the launched work has no times in the trace.", ""
    if trace.points and has_roofs(trace):
        return "", ""
    if not has_roofs(trace) and trace.coverage.flops_s > 0:
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
