"""The traced step of a rank: its time split, its most expensive ops, and its dots on the roofline."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis import timeline
from perfkit.analysis.intervals import Intervals, length, union
from perfkit.analysis.result import OpRow, RooflinePoint, TimeShare
from perfkit.analysis.roofline import COMPUTE, MEMORY, OVERHEAD, UNKNOWN, Limit, Work, point
from perfkit.analysis.roofs import Roofs
from perfkit.analysis.work import Group, Kind, Piece, group, pieces
from perfkit.cost.call import Unit
from perfkit.record import PHASES
from perfkit.trace.ops import Ops
from perfkit.trace.phases import find_phases
from perfkit.trace.read import Ints

# Rows and dots beyond these are too small to matter and would only make the report large.
MOST_ROWS = 200
MOST_POINTS = 120

_S = 1e-9


@dataclass(frozen=True)
class StepTime:
    """What a trace shows of a step. `modelled_share` is the share of working time with a cost and a ceiling."""

    time_split: tuple[TimeShare, ...]
    traced_step_s: float
    modelled_share: float | None
    points: tuple[RooflinePoint, ...]
    ops: tuple[OpRow, ...]


def step_time(ops: Ops, roofs: Roofs) -> StepTime | None:
    """Analyse the steps of a trace; None where it marks none."""
    steps = len(ops.steps)
    if steps == 0:
        return None
    work = pieces(ops)
    groups = group(ops, work, roofs)
    window = _window(ops, work)
    step_s = length(window) / steps
    split = timeline.split(window, _by_category(groups, ops), steps)
    return StepTime(
        time_split=split,
        traced_step_s=step_s,
        modelled_share=_modelled(split),
        points=(
            *_step_points(groups, step_s),
            *_phase_points(ops, groups, step_s, steps),
            *_op_points(groups, step_s),
        ),
        ops=tuple(_row(each, step_s) for each in groups[:MOST_ROWS]),
    )


def _window(ops: Ops, work: Iterable[Piece]) -> Intervals:
    """When the steps ran: on a CPU their ranges, on a GPU from the first step to the end of the last kernel."""
    starts, ends = ops.steps.start_ns, ops.steps.end_ns
    if not ops.trace.has_device_events:
        return _seconds(starts, ends, ops)
    last = max((piece.end_ns for piece in work if piece.row >= 0), default=0)
    return _seconds(starts[:1], np.maximum(ends[-1:], last), ops)


def _seconds(starts_ns: Ints, ends_ns: Ints, ops: Ops) -> Intervals:
    """Intervals in seconds since the first step began: times since the epoch would lose digits as floats."""
    origin = ops.steps.start_ns[0]
    return union((starts_ns - origin) * _S, (ends_ns - origin) * _S)


_CATEGORIES = {
    COMPUTE: timeline.COMPUTE_BOUND,
    MEMORY: timeline.MEMORY_BOUND,
    OVERHEAD: timeline.HOST,
    UNKNOWN: timeline.UNMODELLED,
}


def _by_category(groups: Iterable[Group], ops: Ops) -> dict[str, Intervals]:
    members: dict[str, list[Piece]] = defaultdict(list)
    for each in groups:
        members[_category(each)].extend(each.pieces)
    return {name: _intervals(found, ops) for name, found in members.items()}


def _category(each: Group) -> str:
    if each.kind == Kind.COMMUNICATION:
        return timeline.COMMUNICATION
    return timeline.COPIES if each.kind == Kind.COPY else _CATEGORIES[each.limit.bound]


def _intervals(found: Sequence[Piece], ops: Ops) -> Intervals:
    starts = np.fromiter((piece.start_ns for piece in found), np.int64, len(found))
    ends = np.fromiter((piece.end_ns for piece in found), np.int64, len(found))
    return _seconds(starts, ends, ops)


def _modelled(split: Sequence[TimeShare]) -> float | None:
    seconds = {part.category: part.seconds for part in split}
    modelled = seconds.get(timeline.COMPUTE_BOUND, 0.0) + seconds.get(timeline.MEMORY_BOUND, 0.0)
    total = modelled + seconds.get(timeline.UNMODELLED, 0.0)
    return modelled / total if total > 0 else None


def _row(each: Group, step_s: float) -> OpRow:
    work, attainable = each.work, each.limit.attainable_s
    flops, moved = (None, None) if work is None else (work.flops, work.bytes)
    return OpRow(
        name=each.name,
        phase=each.phase,
        module=each.module,
        shapes=each.shapes,
        calls=each.calls,
        seconds=each.seconds,
        share=each.seconds / step_s,
        flops=flops,
        bytes=moved,
        intensity=flops / moved if flops is not None and moved else None,
        bound=each.limit.bound if each.kind == Kind.WORK else str(each.kind),
        attainable_s=attainable,
        efficiency=None if attainable is None or each.seconds == 0 else attainable / each.seconds,
        cost_source=each.source,
    )


def _op_points(groups: Iterable[Group], step_s: float) -> list[RooflinePoint]:
    found = [
        point("op", each.name, each.calls, each.seconds, step_s, each.work, each.limit, each.shapes)
        for each in groups
        if each.work is not None
    ]
    return [each for each in found if each is not None][:MOST_POINTS]


def _phase_points(ops: Ops, groups: Sequence[Group], step_s: float, steps: int) -> list[RooflinePoint]:
    """Phases: on a CPU the time of their ranges, on a GPU the time in which a kernel they launched was running."""
    ranges = find_phases(ops.trace)
    inside = ops.steps.at(ranges.start_ns) >= 0
    result = []
    for index, name in enumerate(PHASES):
        mine = [each for each in groups if each.phase == name]
        if ops.trace.has_device_events:
            seconds = length(_intervals([piece for each in mine for piece in each.pieces], ops)) / steps
        else:
            chosen = inside & (ranges.phase == index)
            seconds = float((ranges.end_ns[chosen] - ranges.start_ns[chosen]).sum()) * _S / steps
        result += _combined("phase", name, mine, seconds, step_s)
    return result


def _step_points(groups: Sequence[Group], step_s: float) -> list[RooflinePoint]:
    return _combined("step", "step", groups, step_s, step_s)


def _combined(kind: str, name: str, groups: Sequence[Group], seconds: float, step_s: float) -> list[RooflinePoint]:
    """One dot for many ops: FLOPs, bytes and attainable times add up; the unit and dtype are those of most FLOPs."""
    modelled = [(each.work, each.limit) for each in groups if each.work is not None]
    flops: dict[tuple[Unit, str], float] = defaultdict(float)
    attainable: dict[str, float] = defaultdict(float)
    for work, bounded in modelled:
        flops[work.unit, work.dtype] += work.flops or 0.0
        attainable[bounded.bound] += bounded.attainable_s or 0.0
    if not flops:
        return []
    unit, dtype = max(flops, key=lambda key: flops[key])
    total = Work(sum(flops.values()), sum(work.bytes or 0.0 for work, _ in modelled), unit, dtype)
    known = {bound: value for bound, value in attainable.items() if bound != UNKNOWN}
    bounded = Limit(sum(known.values()), max(known, key=lambda bound: known[bound])) if known else Limit(None, UNKNOWN)
    dot = point(kind, name, 1.0, seconds, step_s, total, bounded)
    return [] if dot is None else [dot]
