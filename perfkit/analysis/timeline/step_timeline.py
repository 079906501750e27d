"""Builds the timeline of a step: selected events, in lanes, as packed columns."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model import timeline as words
from perfkit.analysis.model.idle import CAUSES
from perfkit.analysis.model.timeline import MemoryLine, SliceLabels, StepTimeline, TimelineLane
from perfkit.analysis.replay.path_spans import KINDS, PathSpans
from perfkit.analysis.timeline.column_packing import pack_column, pack_links, take_differences
from perfkit.analysis.timeline.counter_lines import build_counter_lines
from perfkit.analysis.timeline.dense_slices import DenseLane, merge_short_slices
from perfkit.analysis.timeline.device_lanes import build_collectives_lane, build_stream_lanes
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.phase_lanes import build_module_lanes, build_phase_lane
from perfkit.analysis.timeline.thread_lanes import HOST, build_thread_lanes
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.intervals import measure_length, merge_intervals
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.core import units
from perfkit.core.errors import UsageError
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.memory.consistency import compute_bytes_before, has_allocator_count
from perfkit.trace.memory.device_names import get_device_name, group_by_device
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Ints, MemoryEvents, Trace
from perfkit.trace.ops.ops import Ops

_BINS = 400


def build_memory_lines(memory: MemoryEvents, begin: int, end: int) -> Iterator[MemoryLine]:
    """A line for each device whose allocations were recorded; of a CPU that counts nothing since the first event."""
    for mine in group_by_device(memory):
        served = mine[~memory.failed[mine]]
        if not len(served):
            continue
        time = memory.time_ns[served]
        level = memory.allocated[served] if has_allocator_count(memory, served) else _sum_sizes(memory, served)
        here = np.flatnonzero((time >= begin) & (time < end))
        if len(here) < 2:
            continue
        kept = here[_thin_rows(time[here] - begin, level[here], end - begin)]
        yield MemoryLine(
            device=get_device_name(memory, int(served[0])),
            time_ns=pack_column(take_differences(time[kept] - begin)),
            bytes=pack_column(take_differences(level[kept])),
        )


def _sum_sizes(memory: MemoryEvents, mine: Ints) -> Ints:
    total: Ints = np.cumsum(memory.size[mine]) + (compute_bytes_before(memory, mine) or 0)
    return total


def _thin_rows(time: Ints, level: Ints, length: int) -> Ints:
    """The rows that are kept: of each of `_BINS` equal parts the fullest moment and the last."""
    bins = np.minimum(time * _BINS // length, _BINS - 1)
    order = np.lexsort((level, bins))
    last_of = np.append(np.flatnonzero(np.diff(bins)), len(bins) - 1)
    fullest = order[last_of]  # bins ascend, so that those sorted by bin and bytes end where these do
    return np.unique(np.concatenate((fullest, last_of)))


_ALIKE = 0.01  # of the median: steps that differ by less show the same
MEDIAN, SLOWEST, FASTEST, WHOLE, WINDOW = "median", "slowest", "fastest", "", "window"

Window = tuple[float, float]  # seconds since the first event of the trace


class SelectedStep(NamedTuple):
    """A span of the trace: a step from its start on the CPU to the end of its last kernel, if that is later.

    The step itself, whose length is told elsewhere, lasts from `step_begin_ns` to `step_end_ns`.
    """

    number: int | None
    why: str
    begin_ns: int
    end_ns: int
    step_begin_ns: int
    step_end_ns: int


def select_steps(ops: Ops, windows: StepWindows, window: Window | None = None) -> Iterator[SelectedStep]:
    """The median step first, then the slowest and the fastest where these differ from it; of a trace without steps the
    whole; nothing but the window where one is asked for."""
    if window is not None:
        yield _select_window(window, *windows.span)
        return
    if not windows.are_steps:
        yield from (SelectedStep(None, WHOLE, begin, end, begin, end) for begin, end in windows.spans.tolist())
        return
    length = windows.spans[:, 1] - windows.spans[:, 0]
    by_length = np.argsort(length, kind="stable")
    median = int(by_length[(len(by_length) - 1) // 2])
    yield _select_step(ops, windows, median, MEDIAN if len(by_length) > 1 else WHOLE)
    for index, why in ((int(by_length[-1]), SLOWEST), (int(by_length[0]), FASTEST)):
        if abs(length[index] - length[median]) >= _ALIKE * length[median]:
            yield _select_step(ops, windows, index, why)


def _select_window(window: Window, first: int, last: int) -> SelectedStep:
    begin, end = (min(first + round(seconds * 1e9), last) for seconds in window)
    if begin >= end:
        given = " to ".join(f"{seconds:g} s" for seconds in window)
        lasts = units.format_seconds((last - first) / 1e9)
        raise UsageError(f"--window is {given}, but the trace lasts {lasts}; give times within it")
    return SelectedStep(None, WINDOW, begin, end, begin, end)


def _select_step(ops: Ops, windows: StepWindows, index: int, why: str) -> SelectedStep:
    step_begin, step_end = begin, end = windows.spans[index].tolist()
    number = int(windows.number[index])
    same = np.flatnonzero(ops.steps.number == number)
    if len(same) and not ops.steps.on_device:
        on_host = same[np.abs(ops.steps.start_ns[same] - begin).argmin()]
        begin, end = min(begin, int(ops.steps.start_ns[on_host])), max(end, int(ops.steps.end_ns[on_host]))
    return SelectedStep(number, why, begin, end, step_begin, step_end)


def build_path_lane(whole: TraceContext, texts: TextTable, host: Ints, begin: int, end: int) -> Iterator[LaneSlices]:
    """Its pieces within a step; those of one kind on one thread that follow each other are one.

    A piece lies on the kernel that runs, or on what the thread was in (of `host`, events in the order of time).
    """
    ops, path = whole.ops, whole.path
    if path is None:
        return
    here = np.flatnonzero((path.end_ns > begin) & (path.begin_ns < end))
    if not len(here):
        return
    kind, thread, kernel = path.kind[here].astype(np.int64), path.thread[here], path.kernel[here]
    alone = kernel != NONE
    same = (np.diff(kind) == 0) & (np.diff(thread) == 0) & ~alone[1:] & ~alone[:-1]
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    last = np.append(first[1:], len(here)) - 1
    start, until = path.begin_ns[here[first]], path.end_ns[here[last]]
    kind, thread, kernel = kind[first], thread[first], kernel[first]
    runs = path.runs[here[first]]
    # The host between two launches is in many things: where it is in the middle stands for them.
    on_host = np.append(host, NONE)[find_around_times(ops.trace, host, thread.astype(np.int32), (start + until) // 2)]
    event = np.where(runs, np.append(ops.kernels.event, NONE)[kernel], np.where(thread == NONE, NONE, on_host))
    name = texts.add_texts(kind, KINDS.__getitem__)
    op = texts.add_texts(np.append(ops.trace.name, NONE)[event].astype(np.int64), ops.trace.names.__getitem__)
    yield make_slices(words.PATH, "critical path", start, until, name=name, kind=name, op=op, link=event)


def build_idle_lane(whole: TraceContext, texts: TextTable, begin: int, end: int) -> Iterator[LaneSlices]:
    """One slice per piece of one cause, with the CPU activity; it links to the call charged with it, else to the launch
    that ended it."""
    time = whole.idle
    if time is None:
        return
    here = np.flatnonzero((time.end_ns > begin) & (time.begin_ns < end))
    if not len(here):
        return
    cause = texts.add_texts(time.cause[here].astype(np.int64), CAUSES.__getitem__)
    launch = np.append(whole.ops.kernels.launch, NONE)[time.following[here]].astype(np.int64)
    devices = whole.ops.devices
    title = "idle" if len(devices) == 1 else f"idle, {devices.format_device(time.device)}"
    yield make_slices(
        words.IDLE, title, time.begin_ns[here], time.end_ns[here], name=cause, kind=cause,
        shapes=texts.add_texts(whole.idle_place[here], whole.idle_texts.__getitem__),
        link=np.where(time.event[here] != NONE, time.event[here], launch),
    )  # fmt: skip


def build_timelines(
    ops: Ops,
    windows: StepWindows,
    idle: IdleTime | None = None,
    path: PathSpans | None = None,
    classes: NDArray[np.int8] | None = None,
    window: Window | None = None,
) -> tuple[StepTimeline, ...]:
    """Build timelines of the median step and of a few notable ones; of a trace without steps, the whole; or of
    `window` alone, of which a part must lie in the trace (`UsageError`).

    `idle` is the idle time of its devices and `path` its critical path, None where they have none. `classes` are
    those of its work (`Work.classes`), found here where they are not given.
    """
    whole = TraceContext.from_ops(ops, idle, path, classes)
    return tuple(_build_timeline(whole, chosen, windows.span[0]) for chosen in select_steps(ops, windows, window))


def _build_timeline(whole: TraceContext, chosen: SelectedStep, origin: int) -> StepTimeline:
    ops = whole.ops
    begin, end = chosen.begin_ns, chosen.end_ns
    trace, texts = ops.trace, TextTable()
    events = _find_overlapping_events(trace, begin, end)
    host = events[np.isin(trace.category[events], HOST)]
    rows = np.flatnonzero(np.isin(ops.kernels.event, events))
    lanes: list[LaneSlices] = list(
        chain(
            build_path_lane(whole, texts, host, begin, end),
            build_phase_lane(whole, texts, begin, end),
            build_module_lanes(ops, texts, np.flatnonzero((ops.end_ns > begin) & (ops.start_ns < end))),
            build_thread_lanes(whole, texts, host),
            build_stream_lanes(whole, texts, rows),
            build_idle_lane(whole, texts, begin, end),
            build_collectives_lane(whole, texts, begin, end),
        )
    )
    labels, of = _collect_labels(lanes)
    dense, merged, shortest = merge_short_slices(lanes, list(_split_by_lane(of, lanes)), begin, end - begin)
    numbers = _map_events_to_slices(lanes, dense, len(trace))
    return StepTimeline(
        number=chosen.number,
        selection=chosen.why,
        start_s=(begin - origin) / 1e9,
        length_ns=end - begin,
        step_begin_ns=chosen.step_begin_ns - begin,
        step_end_ns=chosen.step_end_ns - begin,
        texts=tuple(texts.table),
        labels=labels,
        lanes=tuple(
            _pack_lane(each, recorded, numbers, begin, end) for each, recorded in zip(dense, lanes, strict=True)
        ),
        memory=tuple(build_memory_lines(trace.memory, begin, end)),
        counters=tuple(build_counter_lines(trace.counters, lanes, begin, end)),
        merged_slices=merged,
        shortest_ns=shortest,
    )


def _find_overlapping_events(trace: Trace, begin: int, end: int) -> Ints:
    """Events of CPU and devices that overlap a span, in order of time."""
    upto = int(np.searchsorted(trace.start_ns, end))
    here = np.flatnonzero(trace.end_ns[:upto] > begin)
    return here[np.isin(trace.category[here], (*HOST, *DEVICE_CATEGORIES))]


def _collect_labels(lanes: Sequence[LaneSlices]) -> tuple[SliceLabels, Ints]:
    """Distinct labels of all slices, and that of each."""
    columns = {
        name: np.concatenate([getattr(lane, name) for lane in lanes] or [np.empty(0, np.int64)])
        for name in ("name", "kind", "op", "module", "shapes")
    }
    groups = group_rows(*columns.values())
    table = {name: pack_column(column[groups.first]) for name, column in columns.items()}
    return SliceLabels(**table), groups.of.astype(np.int64)


def _split_by_lane(of: Ints, lanes: Sequence[LaneSlices]) -> Iterator[Ints]:
    return iter(np.split(of, np.cumsum([len(lane) for lane in lanes])[:-1])[: len(lanes)])


def _map_events_to_slices(lanes: Sequence[LaneSlices], dense: Sequence[DenseLane], events: int) -> Ints:
    """For each event of the trace, the number of its slice, NONE without one; NONE (-1) maps to NONE."""
    numbers = np.full(events + 1, NONE, np.int64)
    first = 0
    for lane, written in zip(lanes, dense, strict=True):
        has = lane.event != NONE
        numbers[lane.event[has]] = first + written.row_of[has]
        first += len(written.lane)
    return numbers


def _pack_lane(dense: DenseLane, recorded: LaneSlices, numbers: Ints, begin: int, end: int) -> TimelineLane:
    lane = dense.lane
    busy = merge_intervals(np.maximum(recorded.start_ns, begin), np.minimum(recorded.end_ns, end))
    some = (dense.count > 1).any()
    return TimelineLane(
        kind=lane.lane,
        name=lane.title,
        slices=len(recorded),
        busy_ns=measure_length(busy),
        start_ns=pack_column(take_differences(lane.start_ns - begin)),
        duration_ns=pack_column(lane.end_ns - lane.start_ns),
        depth=pack_column(lane.depth) if lane.depth.any() else "",
        label=pack_column(dense.label),
        link=pack_links(numbers[lane.link]),
        count=pack_column(dense.count) if some else "",
        slice_busy_ns=pack_column(dense.busy_ns) if some else "",
        merged_label=pack_column(dense.merged_label),
        merged_count=pack_column(dense.merged_count),
        merged_ns=pack_column(dense.merged_ns),
        mixed_place=pack_column(dense.mixed_place),
        mixed_kind=pack_column(dense.mixed_kind),
        mixed_count=pack_column(dense.mixed_count),
        mixed_ns=pack_column(dense.mixed_ns),
    )
