"""The limit of a trace's steps, by the critical path, as a sentence."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perfkit.analysis.model import replay, time_split
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.subjects.trace.trace_sentences import get_other_median_s, name_critical_device, name_device
from perfkit_reports.wording import format_bounded

LARGE = 0.1  # of the step: a part that shows a limit
_MOSTLY = 0.5  # of the step or of the critical path

_CPU, _KERNELS, _LATENCY = "cpu", "kernels", "latency"
# What holds up the step while the critical path runs through a kind of segment.
_BY_PATH = {
    replay.HOST: _CPU,
    replay.WAITS: _CPU,
    replay.GEMM: _KERNELS,
    replay.ATTENTION: _KERNELS,
    replay.OTHER_KERNELS: _KERNELS,
    replay.LAUNCH: _LATENCY,
    replay.GAPS: _LATENCY,
    time_split.COMMUNICATION: time_split.COMMUNICATION,
    time_split.COPIES: time_split.COPIES,
}
# The parts of the time split that show it.
_SHOWN_BY = {
    _CPU: (time_split.WAITING_FOR_CPU, time_split.DATA),
    _KERNELS: (*time_split.PLACED, *time_split.UNPLACED),
    _LATENCY: (time_split.IDLE_QUEUED,),
    time_split.COMMUNICATION: (time_split.COMMUNICATION,),
    time_split.COPIES: (time_split.COPIES,),
}
# Other parts in which the device does no work that counts.
_LOST = (time_split.IDLE_QUEUED, time_split.COMMUNICATION, time_split.COPIES)
JOINED = "work"  # all kernels or ops together, where the bound of most is unknown
# By part of the time split: the limit, and the evidence for it; `{part}` is its share, `{device}` the device.
_SENTENCES = {
    time_split.WAITING_FOR_CPU: ("The CPU limits", "the {device} waits for launches {part}"),
    time_split.DATA: ("Data loading limits", "the {device} waits for data {part}"),
    time_split.COMMUNICATION: ("Communication limits", "it is exposed {part}"),
    time_split.COPIES: ("Copies limit", "they are exposed {part}"),
    time_split.COMPUTE_BOUND: ("Compute-bound kernels limit", "they take {part}"),
    time_split.MEMORY_BOUND: ("Memory-bound kernels limit", "they take {part}"),
    time_split.LATENCY_BOUND: ("Latency-bound kernels limit", "they take {part}"),
    JOINED: ("Kernels of unknown bound limit", "they take {part}"),
    time_split.IDLE_QUEUED: ("Launch latency limits", "the {device} idles with work queued {part}"),
    time_split.IDLE_BESIDE: ("Devices in turn limit", "the {device} idles while another works {part}"),
    time_split.IDLE_UNKNOWN: ("Idle time of unknown cause limits", "the {device} idles {part}"),
    time_split.PYTHON: ("Python and dispatch limit", "no op works {part}"),
    time_split.UNKNOWN_EVENTS: ("Events of unknown kind fill", "they take {part}"),
}
_BLOCKED = ("Blocking CPU calls limit", "the {device} has nothing queued {part}")
_SENTENCES_ON_CPU = {
    time_split.DATA: ("Data loading limits", "it takes {part}"),
    time_split.COMPUTE_BOUND: ("Compute-bound ops limit", "they take {part}"),
    time_split.MEMORY_BOUND: ("Memory-bound ops limit", "they take {part}"),
    JOINED: ("Ops of unknown bound limit", "they take {part}"),
}


class Limit(NamedTuple):
    """`by` is the part of the time split that shows the limit, with its share; empty where `reason` says why unknown.

    `path_share` is the share of the critical path behind it, None where no path says it.
    """

    by: str
    share: float = 0.0
    bound: str = ""
    path_share: float | None = None
    reason: str = ""


def find_limit(trace: RankTrace) -> Limit:
    """The limit by the critical path of a device's trace, else by the largest part of its time."""
    parts = {part.category: part for part in join_unplaced(trace.time_split)}
    unrecorded = parts.get(time_split.UNRECORDED)
    if trace.missing_device_reason or trace.unknown_work_reason:
        return Limit("", reason=trace.missing_device_reason or trace.unknown_work_reason)
    if unrecorded is not None and unrecorded.share >= _MOSTLY:
        recorded = format_bounded(units.format_percent(unrecorded.share, 0), unrecorded.bound)
        return Limit("", reason=f"{recorded} of the {_name_unit(trace)} is not recorded")
    group, path_share = ("", None) if is_cpu(trace.device) else _find_on_path(trace)
    lost = trace.lost_kernels
    if lost is not None and lost.matters and group in (_CPU, _LATENCY):  # they may have run in what seems idle
        return Limit("", reason=f"{units.format_percent(lost.share)} of the launched kernels are missing")
    shown = [parts[name] for name in _list_shown(group) if name in parts] if group else list(parts.values())
    largest = max(shown, key=lambda part: part.seconds, default=None)
    lost_s = max((part.seconds for name, part in parts.items() if name in _LOST), default=0.0)
    if group == _CPU and largest is not None and 0 < largest.seconds < lost_s:
        return Limit(largest.category, 0.0, "", path_share)  # a longer part without work would seem to be the limit
    if largest is not None and largest.seconds > 0 and (group in ("", _KERNELS) or largest.share >= LARGE):
        return Limit(largest.category, largest.share, largest.bound, path_share)
    if group:
        return Limit(_SHOWN_BY[group][0], 0.0, "", path_share)
    return Limit("", reason="no work is recorded")


def _list_shown(group: str) -> Sequence[str]:
    return (*_SHOWN_BY[group], *([JOINED] if group == _KERNELS else []))


def _find_on_path(trace: RankTrace) -> tuple[str, float | None]:
    """What holds up the step on most of the critical path, and its share of it; empty without a path."""
    shares = sum_path_groups({} if trace.replay is None else trace.replay.step_path)
    group = max(shares, key=lambda name: shares[name], default="")
    return group, shares.get(group)


def sum_path_groups(path: Mapping[str, float]) -> dict[str, float]:
    """Shares of the critical path by what holds up the step; of segments before the first work nothing is known."""
    groups: dict[str, float] = {}
    for kind, seconds in path.items():
        if kind in _BY_PATH:
            groups[_BY_PATH[kind]] = groups.get(_BY_PATH[kind], 0.0) + seconds
    whole = sum(groups.values())
    return {name: seconds / whole for name, seconds in groups.items()} if whole > 0 else {}


def is_limited_by_cpu(trace: RankTrace) -> bool:
    """True if most of the critical path of a device's trace is on the CPU."""
    shares = sum_path_groups({} if trace.replay is None else trace.replay.step_path)
    return not is_cpu(trace.device) and trace.is_work_known and shares.get(_CPU, 0.0) > _MOSTLY


def join_unplaced(split: Sequence[TimeShare]) -> list[TimeShare]:
    """The time split with all work as one part, where that of unknown bound is more than the rest.

    Where it is less, it is left out: a finding says how much it is, and why.
    """
    unplaced = [part for part in split if part.category in time_split.UNPLACED]
    placed = [part for part in split if part.category in time_split.PLACED]
    others = [part for part in split if part not in unplaced]
    if sum(part.seconds for part in unplaced) <= sum(part.seconds for part in placed):
        return others
    kernels = [*placed, *unplaced]
    joined = TimeShare(
        category=JOINED,
        seconds=sum(part.seconds for part in kernels),
        share=sum(part.share for part in kernels),
        bound=unplaced[0].bound,
    )
    return [joined, *(part for part in others if part not in placed)]


def describe_limit(trace: RankTrace, fleet: Fleet | None) -> str:
    """`The CPU limits this step: the GPU waits for launches 38 % of 1.20 s.`; of several ranks, which one it is."""
    limit, length = find_limit(trace), _format_length(trace)
    if limit.reason:
        return f"Limit of this {_name_unit(trace)} of {length} unknown: {limit.reason}."
    sentences = _SENTENCES | (_SENTENCES_ON_CPU if is_cpu(trace.device) else {})
    begin, evidence = sentences[limit.by]
    path = {} if trace.replay is None else trace.replay.step_path
    if limit.by == time_split.WAITING_FOR_CPU and path.get(replay.WAITS, 0.0) > path.get(replay.HOST, 0.0):
        begin, evidence = _BLOCKED
    whose = f"this {_name_unit(trace)}"
    if fleet is not None and len(fleet.ranks) > 1:
        whose = f"{trace.label}, slowest of {len(fleet.ranks):,}"
    if limit.share <= 0:
        on_path = units.format_percent(limit.path_share or 0.0, 0)
        return f"{begin} {whose}: {on_path} of the critical path of {length}."
    part = format_bounded(units.format_percent(limit.share, 0), limit.bound)
    device = name_critical_device(trace) or name_device(trace)
    return f"{begin} {whose}: {evidence.format(part=part, device=device)} of {length}."


def _name_unit(trace: RankTrace) -> str:
    return "step" if trace.steps else "trace"


def _format_length(trace: RankTrace) -> str:
    """The step, with its median where that differs."""
    length, median_s = units.format_seconds(trace.step_s), get_other_median_s(trace)
    return length if median_s is None else f"{length} (median {units.format_seconds(median_s)})"
