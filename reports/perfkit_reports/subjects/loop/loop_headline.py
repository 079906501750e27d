"""The headline of an attached loop."""

from collections.abc import Sequence

from perfkit.analysis.model import time_split
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core import units
from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.rank_record import RunStatus
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.cells import format_factor
from perfkit_reports.subjects.loop.goodput import describe_goodput
from perfkit_reports.subjects.suite.suite_cells import make_step_time_cell
from perfkit_reports.subjects.trace.limit import JOINED, LARGE, join_unplaced
from perfkit_reports.wording import format_bounded, format_plural, format_sentence

_WORDS = {
    time_split.COMMUNICATION: "exposed communication",
    time_split.COPIES: "exposed copies",
    time_split.DATA: "waiting for data",
}
_PARTS = 2  # maximum number of parts named
_SLOWED = 1.05
_WAITS = 0.05  # share of time from which data wait is stated first
_ENDED = {
    RunStatus.OUT_OF_MEMORY: "ran out of memory",
    RunStatus.FAILED: "ended with an error",
    RunStatus.CRASHED: "crashed",
    RunStatus.TIMEOUT: "timed out",
    RunStatus.INTERRUPTED: "was interrupted",
}


def build_headline(variant: Variant) -> str:
    """Step time, data wait, largest parts of a traced step, and the outcome if not ok."""
    ended = _ENDED.get(variant.status, "")
    if not isinstance(variant.step_time, MedianEstimate):
        seen = variant.loop.steps_seen if variant.loop is not None else 0
        how = ended or "ended"
        return f"{variant.name} {how} {_format_after(seen)}, before any timed step."
    text = f"{variant.name}: {make_step_time_cell(variant).text} per step{_describe_parts(variant)}"
    return (
        f"{text}; it {ended} {_format_after(variant.loop.steps_seen if variant.loop else 0)}." if ended else f"{text}."
    )


def _describe_tracing(ratio: float) -> str:
    """Steps behind the time split, with the profiler slowdown."""
    if ratio >= _SLOWED:
        return (
            f"Profiler slowdown {format_factor(ratio)}: the time split is from traced steps, savings are scaled "
            "to timed steps."
        )
    if ratio * _SLOWED <= 1:
        return (
            f"Traced steps took {format_factor(ratio)} the time of timed steps: step lengths vary, and the time split "
            "is from traced steps."
        )
    return "The time split is from traced steps."


def list_remarks(variants: Sequence[Variant], load: MachineLoad | None) -> list[str]:
    """End of the loop, other load of the machine, profiler slowdown, later captures."""
    first = variants[0]
    lines = [format_sentence(first.reason)] if first.reason else []
    loop = first.loop
    if count_repeated_warnings(first):
        lines += [format_sentence(note.text) for note in first.warnings[:1]]
    if loop is not None and loop.wall_time is not None and (line := describe_goodput(loop.wall_time)):
        lines.append(line)
    if noisy := describe_machine_load(load):
        lines.append(format_sentence(noisy))
    if loop is not None and isinstance(first.step_time, MedianEstimate):
        lines += [
            _describe_tracing(slowdown.ratio)
            for slowdown in loop.slowdowns
            if slowdown.instrument == "trace" and first.time_split
        ]
    seen = None if loop is None else loop.live_log
    if seen is not None and seen.last_s >= _SLOWED * seen.first_s:
        lines.append(
            f"Figures are from the start of the loop; steps at the end took {units.format_seconds(seen.last_s)}."
        )
    for later in variants[1:]:
        if isinstance(later.step_time, MedianEstimate) and isinstance(first.step_time, MedianEstimate):
            ratio = later.step_time.value / first.step_time.value
            why = f" ({later.loop.trigger})" if later.loop and later.loop.trigger else ""
            lines.append(
                f"{later.name}, captured later{why}, takes {format_factor(ratio)} the step time of {first.name}."
            )
    return lines


def count_repeated_warnings(variant: Variant) -> int:
    """Number of warnings among the remarks: the first, if it explains missing timed steps."""
    return int(not variant.reason and not isinstance(variant.step_time, MedianEstimate))


def _format_after(steps: int) -> str:
    return f"after {format_plural(steps, 'step')}"


def _describe_parts(variant: Variant) -> str:
    loop = variant.loop
    share = 0.0 if loop is None else loop.data_wait_share or 0.0
    waiting = f"{units.format_percent(share, 0)} data wait" if share >= _WAITS else ""
    split = variant.time_split if variant.trace is None else join_unplaced(variant.trace.time_split)
    largest = sorted((part for part in split if not (waiting and part.category == time_split.DATA)), key=_get_sort_key)
    longest = f", most in {names}" if (names := _list_longest(variant)) else ""
    traced = ", ".join(
        _format_part(part, variant) + (longest if part.category == JOINED else "")
        for part in largest[:_PARTS]
        if part.share >= LARGE
    )
    if waiting and traced:
        return f", {waiting}; traced: {traced}"  # shares of timed and of traced steps do not add up
    return f": {waiting or traced}" if waiting or traced else ""


def _format_part(part: TimeShare, variant: Variant) -> str:
    """`at least 40 % exposed communication`; without a part for data, Python's includes the wait."""
    word = _WORDS.get(part.category, part.category)
    if word == time_split.PYTHON and not any(other.category == time_split.DATA for other in variant.time_split):
        word = "Python, dispatch and waiting"
    if part.category == JOINED:
        word = "in ops" if variant.trace is not None and is_cpu(variant.trace.device) else "in kernels"
    return f"{format_bounded(units.format_percent(part.share, 0), part.bound)} {word}"


def _get_sort_key(part: TimeShare) -> float:
    return -part.share


def _has_no_ceiling(variant: Variant) -> bool:
    return any(part.category == time_split.NO_CEILING for part in variant.time_split)


def _list_longest(variant: Variant) -> str:
    """The longest ops, if their limits are unknown for lack of ceilings."""
    if variant.trace is None or not _has_no_ceiling(variant):
        return ""
    longest = sorted(variant.trace.ops, key=lambda row: -row.seconds)[:_PARTS]
    return " and ".join(f"{row.name} ({units.format_percent(row.share, 0)})" for row in longest if row.share >= LARGE)
