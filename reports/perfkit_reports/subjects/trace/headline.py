"""The headline of traces, in a sentence."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.compare.verdict import format_verdict
from perfkit.analysis.model import time_split
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.advice import RECORD_SHAPES, advise_on_ceilings
from perfkit.analysis.trace.lost_kernel_texts import LOST_MEANING, format_lost_title
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.trace.reading.trace_sources import derive_trace_name
from perfkit_reports.subjects.trace.improvements import Improvement, has_roofs, list_improvements
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.wording import format_bounded, format_sentence

_WORDS = {
    time_split.NO_ESTIMATE: "without a FLOP or byte estimate",
    time_split.NO_CEILING: "without a known ceiling",
    time_split.COMMUNICATION: "exposed communication",
    time_split.COPIES: "exposed copies",
    time_split.DATA: "waiting for data",
}
LARGE = 0.1  # of the step: parts that are named
_NAMED = 3  # of these at most
_LEAST_GAIN = 0.01  # of the step


def build_headline(analysis: TraceAnalysis) -> str:
    """What a comparison comes to, else of the trace to look at first what `summarize_trace` says."""
    trace, difference = choose_focus_trace(analysis), analysis.difference
    if trace is None:
        return "No trace could be read."
    if difference is None:
        return summarize_trace(analysis, trace)
    return format_sentence(format_verdict(difference, get_file_name(difference.before_trace)))


def get_file_name(trace: RankTrace) -> str:
    """What a trace is called in a sentence: its file, where the label is that without its ends."""
    path, label = trace.reading.path, trace.label
    name = path.replace("\\", "/").rpartition("/")[2]
    if label.startswith(path):  # one file given twice
        return name + label.removeprefix(path)
    return name if label == derive_trace_name(path) else label


def summarize_trace(analysis: TraceAnalysis, trace: RankTrace) -> str:
    """Step time, device, the parts that most of it goes to, and what could save most."""
    subject = (
        f"{'Step' if trace.steps else 'Trace of'} {units.format_seconds(trace.step_s)} on {describe_device(trace)}"
    )
    if trace.reading.cut:
        subject = f"Truncated trace: {subject[0].lower()}{subject[1:]}"
    fleet = analysis.fleet
    if fleet is not None and len(fleet.ranks) > 1 and fleet.straggler == trace.label:
        subject += f" ({trace.label}, the straggler of {len(fleet.ranks):,} ranks)"
    largest = sorted(list_parts(trace), key=lambda share: -share.share)[:_NAMED]
    large = [share for share in largest if share.share >= LARGE] or largest[:1]
    split = ", ".join(format_part(part, trace.time_split) for part in large)
    best = max(list_improvements(trace), key=lambda way: way.saving_s, default=Improvement("", 0.0))
    told = f"{subject}: {split}" if split else subject
    if best.saving_s < _LEAST_GAIN * trace.step_s or best.saving_s <= 0:
        return f"{told}."
    much = " ".join(filter(None, (best.much, units.format_seconds(best.saving_s))))
    return f"{told}; {best.what} could save {much}{', as simulated' if best.simulated else ''}."


def list_parts(trace: RankTrace) -> Sequence[TimeShare]:
    """The split; where no ceiling is known, whether work has an estimate makes no difference to a headline."""
    unplaced = [share for share in trace.time_split if share.category in time_split.UNPLACED]
    if not unplaced or (has_roofs(trace) and not trace.unseen_device):
        return trace.time_split
    works = "in ops that start work" if trace.unseen_device else "in ops" if trace.device == "cpu" else "in kernels"
    together = TimeShare(
        category=works,
        seconds=sum(share.seconds for share in unplaced),
        share=sum(share.share for share in unplaced),
        bound=unplaced[0].bound,
    )
    return (*(share for share in trace.time_split if share.category not in time_split.UNPLACED), together)


def format_part(part: TimeShare, split: Sequence[TimeShare]) -> str:
    """`at least 40 % exposed communication`, of a `split`; without a part for data, Python's holds waiting for it."""
    word = _WORDS.get(part.category, part.category)
    if word == time_split.PYTHON and not any(other.category == time_split.DATA for other in split):
        word = "Python, dispatch and waiting"
    return f"{format_bounded(units.format_percent(part.share, 0), part.bound)} {word}"


def list_remarks(analysis: TraceAnalysis) -> list[str]:
    """What has to be known beside the headline."""
    trace = choose_focus_trace(analysis)
    if trace is None:
        return []
    lines = [] if analysis.difference is None else [f"{get_file_name(trace)}: {summarize_trace(analysis, trace)}"]
    reason, _ = _find_roofline_obstacle(trace)
    if reason:
        lines.append(reason)  # what to do about it is among the findings
    lost = [(each, each.lost) for each in analysis.traces if each.lost is not None and each.lost.matters]
    if lost:
        worst, most = max(lost, key=lambda each: each[1].share)
        where = (
            "" if len(analysis.traces) == 1 else f" ({worst.label}; {len(lost):,} of {len(analysis.traces):,} traces)"
        )
        lines.append(f"{format_lost_title(most)}{where}: {LOST_MEANING}.")
    cut = [each.label for each in analysis.traces if each.reading.cut]
    if cut:
        files = "The file" if len(analysis.traces) == 1 else "The file of " + ", ".join(cut[:_NAMED])
        more = f" and {len(cut) - _NAMED:,} more" if len(cut) > _NAMED else ""
        lines.append(f"{files}{more} is damaged or cut off: only what comes before is in these figures.")
    return lines


def describe_device(trace: RankTrace) -> str:
    if trace.unseen_device:
        return f"the host alone ({trace.unseen_device})"
    if trace.device_name:
        return trace.device_name
    if trace.reading.cut and trace.device == "cpu":  # profilers write what ran on devices last
        return "the host, as far as the file goes"
    return {"": "an unknown device", "cpu": "a CPU"}.get(trace.device, f"an unnamed {trace.device.upper()} device")


def list_ceilings(traces: Sequence[RankTrace]) -> list[DeviceCeilings]:
    """The ceilings of each device that some traces come from; devices without any are left out."""
    known = [trace.ceilings for trace in traces if trace.ceilings is not None and trace.ceilings.ceilings]
    return list(dict.fromkeys(known))


def explain_missing_roofline(trace: RankTrace) -> str:
    """Why there is no roofline, and what to do; empty where there is one."""
    return " ".join(filter(None, _find_roofline_obstacle(trace)))


def _find_roofline_obstacle(trace: RankTrace) -> tuple[str, str]:
    if trace.unseen_device:
        return "The work that was launched has no times in the trace, so there is no roofline.", ""
    if trace.points and has_roofs(trace):
        return "", ""
    if not has_roofs(trace) and trace.coverage.flops_s > 0:
        reason = f"No ceilings are known for {describe_device(trace)}, so nothing is held against a roof."
        return reason, advise_on_ceilings(trace)
    if trace.coverage.kernel_s <= 0:
        return "The trace holds no kernels and no ops, so there is nothing to place on a roofline.", ""
    if all(row.bound in ("communication", "copy") for row in trace.kernels or trace.ops):
        return "All of the work is communication or copies, which have no place on a roofline.", ""
    if trace.coverage.flops_s <= 0 and trace.coverage.bytes_s <= 0:
        return "No FLOPs and no bytes are known, so there is no roofline.", RECORD_SHAPES
    return "No work with both FLOPs and bytes is known, so there is no roofline.", ""
