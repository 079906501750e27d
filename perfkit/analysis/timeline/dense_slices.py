"""Merges the shortest slices of a step with too many to write, those of streams last: a stretch becomes one slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.timeline import STREAM
from perfkit.analysis.timeline.lane_slices import LaneSlices
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.model import NONE, Ints

# Slices of a step that a page can hold and send one by one; of more, the shortest are merged.
MOST_SLICES = 60_000
# Parts of a step in which the merged slices of a row are one: about the pixels of a row that shows it whole.
_BINS = 1_000


@dataclass(frozen=True)
class DenseLane:
    """A lane as it is written. `row_of` is the row of each of its recorded slices.

    `count` slices are in each row, which run for `busy_ns` of it; a merged one has the label of its longest. Of the
    slices that were merged, `merged_label` have `merged_count` and `merged_ns` in all.
    """

    lane: LaneSlices
    label: Ints
    count: Ints
    busy_ns: Ints
    row_of: Ints
    merged_label: Ints
    merged_count: Ints
    merged_ns: Ints


def merge_short_slices(
    lanes: Sequence[LaneSlices], labels: Sequence[Ints], begin_ns: int, length_ns: int
) -> tuple[list[DenseLane], int, int]:
    """The lanes of a step with at most `MOST_SLICES` slices of their own; the number of merged slices, and the duration
    of the longest of them.

    Work on streams is merged last: each of its slices can be reached while there is room for all.
    """
    durations = [lane.end_ns - lane.start_ns for lane in lanes]
    every = np.concatenate(durations) if durations else np.empty(0, np.int64)
    kept = np.ones(len(every), bool)
    if len(every) > MOST_SLICES:
        on_stream = np.repeat([lane.lane == STREAM for lane in lanes], [len(lane) for lane in lanes])
        kept[np.lexsort((-every, ~on_stream))[MOST_SLICES:]] = False
    longest = int(every[~kept].max()) if not kept.all() else 0
    masks = np.split(kept, np.cumsum([len(lane) for lane in lanes])[:-1])
    dense = [
        _merge_lane(lane, label, mask, begin_ns, max(length_ns, 1))
        for lane, label, mask in zip(lanes, labels, masks, strict=False)
    ]
    return dense, sum(int(each.merged_count.sum()) for each in dense), longest


def _merge_lane(lane: LaneSlices, label: Ints, kept: Ints, begin_ns: int, length_ns: int) -> DenseLane:
    duration = lane.end_ns - lane.start_ns
    if kept.all():
        none, ones = np.empty(0, np.int64), np.ones(len(lane), np.int64)
        return DenseLane(lane, label, ones, duration, np.arange(len(lane)), none, none, none)
    short, group, longest = _group_short_slices(lane, kept, begin_ns, length_ns)
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
    return DenseLane(
        moved,
        label[rows][order],
        count[order],
        np.bincount(row_of, duration, len(rows)).astype(np.int64)[order],
        back[row_of],
        label[merged][names.first],
        np.bincount(names.of, minlength=len(names)).astype(np.int64),
        np.bincount(names.of, duration[merged], len(names)).astype(np.int64),
    )


def _group_short_slices(lane: LaneSlices, kept: Ints, begin_ns: int, length_ns: int) -> tuple[Ints, Ints, Ints]:
    """The rows that are merged, the group of each, and the longest row of each group.

    A group lies in one part of one depth, with no other slice between its members.
    """
    order = np.lexsort((lane.start_ns, lane.depth))
    runs = np.cumsum(kept[order])
    bins = np.clip((lane.start_ns[order] - begin_ns) * _BINS // length_ns, 0, _BINS - 1)
    at = np.flatnonzero(~kept[order])
    key = np.stack((lane.depth[order][at], runs[at], bins[at]))
    group = np.cumsum(np.concatenate(([0], (np.diff(key) != 0).any(0).astype(np.int64))))
    short = order[at]
    by_length = np.lexsort(((lane.end_ns - lane.start_ns)[short], group))
    last = np.append(np.flatnonzero(np.diff(group[by_length])), len(short) - 1)
    return short, group, short[by_length[last]]
