"""Merges the shortest slices of a step with too many to write, those of streams last: a stretch becomes one slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.timeline import STREAM
from perfkit.analysis.timeline.lane_slices import LaneSlices
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.model import NONE, Ints

# Slices of a step that a page can hold; of more, the shortest are merged. With these a page of a trace, about 1.2 MB
# without, stays below 2 MB: a slice takes four to six bytes, and a third more as letters.
MOST_SLICES = 100_000
# Parts of a step in which the merged slices of a row are one: about the pixels of a row that shows it whole.
_BINS = 1_000
# The part of it that other lanes have at least beside streams.
_LEAST = 4
# Shares of the room that stay single, tried until the merged ones fit, too.
_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25)


@dataclass(frozen=True)
class DenseLane:
    """A lane as it is written. `row_of` is the row of each of its recorded slices.

    `count` slices are in each row, which run for `busy_ns` of it; a merged one has the label of its longest. Of the
    slices that were merged, `merged_label` have `merged_count` and `merged_ns` in all. A row of several kinds
    (`mixed_place`) has `mixed_count` slices of each `mixed_kind`, which run for `mixed_ns`.
    """

    lane: LaneSlices
    label: Ints
    count: Ints
    busy_ns: Ints
    row_of: Ints
    merged_label: Ints
    merged_count: Ints
    merged_ns: Ints
    mixed_place: Ints
    mixed_kind: Ints
    mixed_count: Ints
    mixed_ns: Ints


def merge_short_slices(
    lanes: Sequence[LaneSlices], labels: Sequence[Ints], begin_ns: int, length_ns: int
) -> tuple[list[DenseLane], int, int]:
    """The lanes of a step with at most `MOST_SLICES` slices on streams, and on other lanes as many as these leave or a
    quarter of it; the number of merged slices, and the duration of the longest of them.

    So each piece of work on streams can be reached while there is room for all.
    """
    if sum(map(len, lanes)) <= MOST_SLICES:
        return [_keep_lane(lane, label) for lane, label in zip(lanes, labels, strict=True)], 0, 0
    dense: dict[int, DenseLane] = {}
    longest = 0
    for on_stream in (True, False):
        places = [place for place, lane in enumerate(lanes) if (lane.lane == STREAM) == on_stream]
        room = max(MOST_SLICES - sum(len(each.lane) for each in dense.values()), MOST_SLICES // _LEAST)
        mine = [(lanes[place], labels[place]) for place in places]
        found, shortest = _fit_lanes(mine, room, begin_ns, max(length_ns, 1))
        dense |= zip(places, found, strict=True)
        longest = max(longest, shortest)
    every = [dense[place] for place in range(len(lanes))]
    return every, sum(int(each.merged_count.sum()) for each in every), longest


def _fit_lanes(
    lanes: Sequence[tuple[LaneSlices, Ints]], room: int, begin_ns: int, length_ns: int
) -> tuple[list[DenseLane], int]:
    """Lanes, given with the labels of their slices, of at most `room` slices; and the longest duration merged."""
    durations = [lane.end_ns - lane.start_ns for lane, _ in lanes]
    every = np.concatenate(durations) if durations else np.empty(0, np.int64)
    if len(every) <= room:
        return [_keep_lane(lane, label) for lane, label in lanes], 0
    order = np.argsort(-every, kind="stable")
    ends = np.cumsum([len(lane) for lane, _ in lanes])[:-1]
    rows = sum(int(lane.depth.max(initial=0)) + 1 for lane, _ in lanes)
    bins = max(min(_BINS, room // (2 * rows)), 1)
    for share in _SHARES:
        kept = np.zeros(len(every), bool)
        kept[order[: int(share * room)]] = True
        dense = [
            _keep_lane(lane, label) if mask.all() else _merge_lane(lane, label, mask, begin_ns, length_ns, bins)
            for (lane, label), mask in zip(lanes, np.split(kept, ends), strict=True)
        ]
        if sum(len(each.lane) for each in dense) <= room:
            break
    return dense, int(every[~kept].max())


def _keep_lane(lane: LaneSlices, label: Ints) -> DenseLane:
    none, ones = np.empty(0, np.int64), np.ones(len(lane), np.int64)
    duration = lane.end_ns - lane.start_ns
    return DenseLane(lane, label, ones, duration, np.arange(len(lane)), none, none, none, none, none, none, none)


def _merge_lane(lane: LaneSlices, label: Ints, kept: Ints, begin_ns: int, length_ns: int, bins: int) -> DenseLane:
    duration = lane.end_ns - lane.start_ns
    short, group, longest = _group_short_slices(lane, kept, begin_ns, length_ns, bins)
    # The longest of each group stands for it, over the whole stretch of its members.
    rows = np.sort(np.concatenate((np.flatnonzero(kept), longest)))
    place = np.full(len(lane), NONE, np.int64)
    place[rows] = np.arange(len(rows))
    row_of = place.copy()
    row_of[short] = place[longest[group]]
    start, end = lane.start_ns.copy(), lane.end_ns.copy()
    np.minimum.at(start, longest[group], lane.start_ns[short])
    np.maximum.at(end, longest[group], lane.end_ns[short])
    order = np.argsort(start[rows], kind="stable")
    back = np.argsort(order)
    moved = lane.select_rows(rows[order]).replace_times(start[rows][order], end[rows][order])
    count = np.bincount(row_of, minlength=len(rows))
    merged = short[count[row_of[short]] > 1]
    names = group_rows(label[merged])
    written = back[row_of[merged]]
    parts = group_rows(written, lane.kind[merged])
    kinds = np.bincount(written[parts.first], minlength=len(rows))
    mixed = np.flatnonzero(kinds[written[parts.first]] > 1)
    return DenseLane(
        moved,
        label[rows][order],
        count[order],
        np.bincount(row_of, duration, len(rows)).astype(np.int64)[order],
        back[row_of],
        label[merged][names.first],
        names.count_by_group(),
        names.sum_by_group(duration[merged]).astype(np.int64),
        written[parts.first][mixed],
        lane.kind[merged][parts.first][mixed],
        parts.count_by_group()[mixed],
        parts.sum_by_group(duration[merged]).astype(np.int64)[mixed],
    )


def _group_short_slices(
    lane: LaneSlices, kept: Ints, begin_ns: int, length_ns: int, parts: int
) -> tuple[Ints, Ints, Ints]:
    """The rows that are merged, the group of each, and the longest row of each group.

    A group lies in one part of one depth, with no other slice between its members.
    """
    order = np.lexsort((lane.start_ns, lane.depth))
    runs = np.cumsum(kept[order])
    bins = np.clip((lane.start_ns[order] - begin_ns) * parts // length_ns, 0, parts - 1)
    at = np.flatnonzero(~kept[order])
    key = np.stack((lane.depth[order][at], runs[at], bins[at]))
    group = np.cumsum(np.concatenate(([0], (np.diff(key) != 0).any(0).astype(np.int64))))
    short = order[at]
    by_length = np.lexsort(((lane.end_ns - lane.start_ns)[short], group))
    last = np.append(np.flatnonzero(np.diff(group[by_length])), len(short) - 1)
    return short, group, short[by_length[last]]
