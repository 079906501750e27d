"""Steps as bytes: what `templates/timeline/data.js` reads is what was packed."""

import json
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.model.timeline import StepTimeline
from perfkit.analysis.timeline.lane_columns import LaneColumns, unpack_lane
from perfkit.analysis.timeline.step_packing import compute_gaps, pack_step, split_planes
from perfkit.trace.model import Ints
from tests.fixtures import step_timelines


def join_planes(packed: bytes, count: int, width: int) -> Ints:
    planes = np.frombuffer(packed, np.uint8).reshape(width, count).astype(np.int64)
    values: Ints = sum((planes[plane] << (8 * plane) for plane in range(width)), np.zeros(count, np.int64))
    return (values >> 1) ^ -(values & 1)


def read_lanes(packed: bytes) -> list[dict[str, Any]]:
    size = int.from_bytes(packed[:4], "little")
    offset = 4 + size
    lanes = []
    for lane in json.loads(packed[4:offset])["lanes"]:
        columns = {}
        for name, (count, width) in lane["columns"].items():
            columns[name] = join_planes(packed[offset : offset + count * width], count, width)
            offset += count * width
        lanes.append({**lane, **columns})
    assert offset == len(packed)
    return lanes


def restore_starts(gaps: Ints, duration: Ints, depth: Ints) -> list[int]:
    """As the page does."""
    ends: dict[int, int] = {}
    above: dict[int, int] = {}
    starts = []
    for gap, length, level in zip(gaps.tolist(), duration.tolist(), depth.tolist(), strict=True):
        start = gap + max(0, ends.get(level, 0), above.get(level - 1, 0))
        ends[level], above[level] = start + length, start
        starts.append(start)
    return starts


@pytest.mark.parametrize("step", step_timelines.samples())
def test_a_step_is_restored_from_its_bytes(step: StepTimeline) -> None:
    packed = read_lanes(pack_step(step))
    assert [lane["name"] for lane in packed] == [lane.name for lane in step.lanes]
    for lane, read in zip(map(unpack_lane, step.lanes), packed, strict=True):
        depth = read.get("depth", np.zeros(len(lane), np.int64))
        assert restore_starts(read["gap_ns"], read["duration_ns"], depth) == lane.start_ns.tolist()
        assert read["label"].tolist() == lane.label.tolist()


@pytest.mark.parametrize("values", [[], [0, 0], [3, -1, 127, -128, 128], [2**40, -(2**52), 1]])
def test_values_of_any_size_come_back(values: list[int]) -> None:
    width, packed = split_planes(np.array(values, np.int64))
    assert join_planes(packed, len(values), width).tolist() == values


def test_what_follows_without_a_pause_has_no_gap() -> None:
    start, end = np.array([-5, -5, 10, 12, 30]), np.array([30, 10, 30, 15, 40])
    lane = LaneColumns(start, end, np.array([0, 1, 1, 2, 0]), np.zeros(5, np.int64), np.full(5, -1))
    gaps = compute_gaps(lane)
    assert gaps.tolist() == [-5, -5, 0, 2, 0]
    assert restore_starts(gaps, end - start, lane.depth) == start.tolist()
