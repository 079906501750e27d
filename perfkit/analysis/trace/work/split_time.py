"""Wall time of a trace's windows and streams, split by bound."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model import time_split
from perfkit.analysis.model.launches import StreamRow
from perfkit.analysis.trace.roofline.roofline import BOUNDS, COMPUTE, LATENCY, MEMORY, UNKNOWN
from perfkit.analysis.trace.time import wall_time_split
from perfkit.analysis.trace.time.intervals import (
    EMPTY,
    Intervals,
    join_intervals,
    merge_intervals,
    subtract_intervals,
)
from perfkit.analysis.trace.time.launch_queue import LaunchQueue
from perfkit.analysis.trace.time.wall_time_split import TimeSplit, split_wall_time
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.trace.event_nesting import sort_by_group
from perfkit.trace.model import NONE
from perfkit.trace.ops.traced_devices import EVERYTHING, Rows

# Devices have some ten streams. Further ones share a row.
MOST_STREAMS = 200

_OF_BOUND = {
    COMPUTE: time_split.COMPUTE_BOUND,
    MEMORY: time_split.MEMORY_BOUND,
    LATENCY: time_split.LATENCY_BOUND,
    UNKNOWN: time_split.NO_ESTIMATE,
}
_OF_KIND = {WorkKind.COMMUNICATION: time_split.COMMUNICATION, WorkKind.COPY: time_split.COPIES}
# Calls of a CPU that are too small for a bound count as dispatch.
_NUMBERS = {name: number for number, name in enumerate(time_split.DEVICE_CATEGORIES)}


def assign_categories(placed: RooflineGroups) -> NDArray[np.int8]:
    """Each piece's category, as an index into `time_split.DEVICE_CATEGORIES`."""
    pieces = placed.pieces
    of_bound = np.asarray([_NUMBERS[_OF_BOUND[bound]] for bound in BOUNDS], np.int8)
    of_group = of_bound[placed.limits.bound]
    estimated = ~np.isnan(placed.flops) & ~np.isnan(placed.bytes) & ~pieces.has_unknown_time[placed.first]
    of_group[estimated & (of_group == _NUMBERS[time_split.NO_ESTIMATE])] = _NUMBERS[time_split.NO_CEILING]
    result: NDArray[np.int8] = of_group[placed.groups.of]
    for kind, name in _OF_KIND.items():
        result[pieces.is_kind(kind)] = _NUMBERS[name]
    return result


def split_windows(
    pieces: WorkItems,
    category: NDArray[np.int8],
    waiting: LaunchQueue | None,
    fetching: Intervals,
    unknown: Intervals = EMPTY,
    rows: Rows = EVERYTHING,
    beside: Intervals = EMPTY,
) -> TimeSplit:
    """Split the windows of a trace for the pieces of one device.

    `waiting` is None on a CPU, which is never idle: it dispatches or waits. `fetching` is when the loop fetched data,
    `unknown` when events of unknown kind ran on a CPU, `beside` when the device is idle because another one works.
    """
    return _split_spans(pieces.windows.spans, pieces, category, rows, waiting, fetching, unknown, beside)


def split_outliers(
    pieces: WorkItems,
    category: NDArray[np.int8],
    waiting: LaunchQueue | None,
    fetching: Intervals,
    rows: Rows = EVERYTHING,
    beside: Intervals = EMPTY,
) -> TimeSplit:
    """Split the outlier steps; see `split_windows`."""
    return _split_spans(pieces.windows.unlike, pieces, category, rows, waiting, fetching, beside=beside)


def split_streams(
    pieces: WorkItems, category: NDArray[np.int8], waiting: LaunchQueue | None, *, some_lost: bool = False
) -> tuple[StreamRow, ...]:
    """Split the whole trace for each stream or thread that did any work, those beyond the busiest ones together.

    With `some_lost`, kernels are missing from unknown streams.
    """
    busy = np.bincount(pieces.lane, pieces.busy_ns, len(pieces.lanes))
    together = np.argsort(-busy, kind="stable")[MOST_STREAMS:]
    label = np.arange(len(pieces.lanes))
    label[together] = len(pieces.lanes)
    lane = label[pieces.lane]
    named = dict(enumerate(pieces.lanes)) | {len(pieces.lanes): (NONE, f"({len(together):,} others)")}
    order = sort_by_group(lane)
    ends = np.cumsum(np.bincount(lane, minlength=len(named)))
    return tuple(
        _build_stream_row(*named[number], pieces, category, waiting, order[begin:end], some_lost)
        for number, (begin, end) in enumerate(zip([0, *ends.tolist()], ends.tolist(), strict=False))
        if end > begin
    )


def _build_stream_row(
    device: int,
    name: str,
    pieces: WorkItems,
    category: NDArray[np.int8],
    waiting: LaunchQueue | None,
    mine: NDArray[np.int64],
    some_lost: bool,
) -> StreamRow:
    first, last = pieces.windows.span
    whole = _split_spans(merge_intervals([first], [last]), pieces, category, mine, waiting)
    return StreamRow(
        device=device,
        stream=name,
        kernels=len(mine),
        busy_s=int(pieces.busy_ns[mine].sum()) / 1e9,
        span_s=(last - first) / 1e9,
        split=replace(whole, are_bounds=some_lost).compute_shares(),
    )


def _split_spans(
    windows: Intervals,
    pieces: WorkItems,
    category: NDArray[np.int8],
    rows: Rows,
    waiting: LaunchQueue | None,
    fetching: Intervals = EMPTY,
    unknown: Intervals = EMPTY,
    beside: Intervals = EMPTY,
) -> TimeSplit:
    starts, ends, kinds = pieces.start_ns[rows], pieces.end_ns[rows], category[rows]
    # Copies and fills within a device's memory do not compute: communication and copies beside them are exposed.
    moves = (pieces.is_kind(WorkKind.WORK) & ~pieces.computes)[rows]
    links = pieces.kind[rows] != WorkKind.WORK
    linked = merge_intervals(starts[links], ends[links]) if moves.any() else EMPTY
    work = {}
    for name, number in _NUMBERS.items():
        if name in (time_split.UNRECORDED, *time_split.IDLE):
            continue
        mine = kinds == number
        work[name] = merge_intervals(starts[mine & ~moves], ends[mine & ~moves])
        if (mine & moves).any():
            moving = subtract_intervals(merge_intervals(starts[mine & moves], ends[mine & moves]), linked)
            work[name] = join_intervals(work[name], moving)
    with_data, with_others = len(fetching) > 0, len(beside) > 0
    work[time_split.IDLE_BESIDE] = beside
    if waiting is not None:
        work[time_split.UNRECORDED] = waiting.unrecorded
    if waiting is not None and not waiting.known:
        work[time_split.IDLE_UNKNOWN] = windows
    elif waiting is not None:
        queued, perhaps = waiting.find_queued_time(rows), waiting.find_possibly_queued_time(rows)
        work |= {time_split.IDLE_QUEUED: queued, time_split.IDLE_UNKNOWN: perhaps}
        fetching = subtract_intervals(subtract_intervals(fetching, queued), perhaps)
    work |= {time_split.DATA: fetching, time_split.UNKNOWN_EVENTS: unknown}
    categories = wall_time_split.list_categories(
        on_cpu=waiting is None, with_data=with_data, with_unknown=len(unknown) > 0, with_others=with_others
    )
    return split_wall_time(windows, work, categories)
