"""The shortest slices of a step with too many, merged with their neighbors."""

from dataclasses import replace

import numpy as np
import pytest

from perfkit.analysis.model.timeline import STREAM, THREAD
from perfkit.analysis.timeline import dense_slices
from perfkit.analysis.timeline.dense_slices import DenseLane, merge_short_slices
from perfkit.analysis.timeline.lane_slices import LaneSlices, make_slices


def make_lane(*slices: tuple[int, int, int], kind: str = THREAD) -> LaneSlices:
    """Slices of (start, duration, depth)."""
    start, duration, depth = np.array(slices, np.int64).T
    none = np.full(len(start), -1, np.int64)
    return make_slices(kind, "main", start, start + duration, name=none, kind=none, depth=depth, event=start)


def merge(lane: LaneSlices, labels: list[int], length: int) -> tuple[DenseLane, int, int]:
    (dense,), merged, longest = merge_short_slices([lane], [np.array(labels, np.int64)], 0, length)
    return dense, merged, longest


def list_times(dense: DenseLane) -> list[tuple[int, int]]:
    return list(zip(dense.lane.start_ns.tolist(), dense.lane.end_ns.tolist(), strict=True))


def test_a_step_of_few_slices_stays_as_it_is() -> None:
    lane = make_lane((0, 5, 0), (7, 2, 0), (8, 1, 1))
    dense, merged, _ = merge(lane, [4, 5, 4], 10)
    assert (list_times(dense), merged) == ([(0, 5), (7, 9), (8, 9)], 0)
    assert (dense.count.tolist(), dense.merged_label.tolist()) == ([1, 1, 1], [])


def test_short_slices_are_counted_and_summed_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 4)
    lane = make_lane(*((10 * place, 1 + place, 0) for place in range(6)))
    dense, merged, longest = merge(lane, [7, 8, 7, 8, 7, 8], 60)
    assert (merged, longest) == (3, 3)
    assert list_times(dense) == [(0, 23), (30, 34), (40, 45), (50, 56)]
    assert (dense.count.tolist(), dense.busy_ns.tolist()) == ([3, 1, 1, 1], [6, 4, 5, 6])
    assert dense.label.tolist() == [7, 8, 7, 8]
    assert dense.row_of.tolist() == [0, 0, 0, 1, 2, 3]
    assert list(zip(dense.merged_label, dense.merged_count, dense.merged_ns, strict=True)) == [(7, 2, 4), (8, 1, 2)]


def test_a_merged_slice_reaches_over_none_of_its_row_that_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 3)
    monkeypatch.setattr(dense_slices, "_BINS", 1)
    dense, merged, _ = merge(make_lane((0, 2, 0), (4, 2, 0), (10, 30, 0), (50, 2, 0), (60, 3, 0)), [0] * 5, 70)
    assert (list_times(dense), merged) == ([(0, 6), (10, 40), (50, 63)], 4)


def test_depths_are_merged_apart_and_one_alone_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 1)
    monkeypatch.setattr(dense_slices, "_BINS", 1)
    dense, merged, _ = merge(make_lane((0, 90, 0), (1, 3, 1), (2, 1, 2), (5, 4, 1)), [0, 1, 2, 1], 100)
    assert list_times(dense) == [(0, 90), (1, 9), (2, 3)]
    assert dense.lane.depth.tolist() == [0, 1, 2]
    assert (dense.count.tolist(), merged, dense.merged_label.tolist()) == ([1, 2, 1], 2, [1])


def test_many_slices_lose_none_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 50)
    random = np.random.default_rng(3)
    durations = random.integers(1, 40, 3000)
    starts = np.cumsum(durations + random.integers(0, 9, 3000)) - durations
    lane = make_lane(*zip(starts.tolist(), durations.tolist(), [0] * 3000, strict=True))
    labels = random.integers(0, 11, 3000)
    dense, merged, _ = merge(lane, labels.tolist(), int(starts[-1]))
    alone = dense.count == 1
    assert int(dense.count.sum()) == 3000
    assert int(dense.busy_ns.sum()) == int(durations.sum())
    assert merged == int(dense.merged_count.sum()) == 3000 - int(alone.sum())
    assert (dense.lane.start_ns[1:] >= dense.lane.end_ns[:-1]).all()
    for label in range(11):
        drawn = int((dense.label[alone] == label).sum())
        assert drawn + int(dense.merged_count[dense.merged_label == label].sum()) == int((labels == label).sum())


def test_a_stretch_of_several_kinds_counts_and_sums_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 3)
    monkeypatch.setattr(dense_slices, "_BINS", 1)
    lane = make_lane((0, 2, 0), (4, 3, 0), (8, 2, 0), (20, 30, 0), (60, 3, 0), (70, 2, 0))
    lane = replace(lane, kind=np.array([5, 6, 5, 5, 6, 6]))
    dense, _, _ = merge(lane, [0] * 6, 80)
    assert dense.count.tolist() == [3, 1, 2]
    mixed = zip(dense.mixed_place, dense.mixed_kind, dense.mixed_count, dense.mixed_ns, strict=True)
    assert sorted(mixed) == [(0, 5, 2, 4), (0, 6, 1, 3)]  # of the other stretch both are of one kind


def test_what_is_written_stays_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 200)
    random = np.random.default_rng(5)
    lanes = []
    for _ in range(4):  # long and short ones alternate: each short one is a stretch of its own
        duration = np.where(np.arange(500) % 2, 9, random.integers(1, 4, 500))
        start = 10 * np.arange(500)
        lanes.append(make_lane(*zip(start.tolist(), duration.tolist(), [0] * 500, strict=True)))
    dense, merged, _ = merge_short_slices(lanes, [np.zeros(500, np.int64)] * 4, 0, 5000)
    assert sum(len(each.lane) for each in dense) <= 200
    assert sum(int(each.count.sum()) for each in dense) == 2000
    assert merged > 1800


def test_short_kernels_stay_where_longer_ops_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 80)
    monkeypatch.setattr(dense_slices, "_BINS", 10)
    ops = make_lane(*((10 * place, 9, 0) for place in range(70)))
    kernels = make_lane(*((10 * place, 2, 0) for place in range(40)), kind=STREAM)
    labels = [np.zeros(len(lane), np.int64) for lane in (ops, kernels)]
    (of_ops, of_kernels), merged, longest = merge_short_slices([ops, kernels], labels, 0, 700)
    assert of_kernels.count.tolist() == [1] * 40
    assert int(of_ops.count.sum()) == 70
    assert (merged > 0, longest) == (True, 9)
