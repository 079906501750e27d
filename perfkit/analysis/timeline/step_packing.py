"""Packs a step into bytes for the scripts of a page: about four bytes a slice once compressed.

A header in JSON (its length first, four bytes, little-endian), then columns of integers. A column is split into planes:
the lowest bytes of all values, then the next ones. Neighbors in a plane are alike, which gzip makes use of. Signed
values are interleaved (0, -1, 1, -2: 0, 1, 2, 3), so that small ones have few bytes.
"""

from typing import Any

import msgspec
import numpy as np

from perfkit.analysis.model.timeline import StepTimeline, TimelineLane
from perfkit.analysis.timeline.column_packing import unpack_column
from perfkit.analysis.timeline.lane_columns import LaneColumns, unpack_lane
from perfkit.trace.model import NONE, Ints

# Columns of a lane that are packed as they are, by the names of the model.
_COLUMNS = (
    "duration_ns", "depth", "label", "link", "count", "slice_busy_ns", "merged_label", "merged_count", "merged_ns",
    "mixed_place", "mixed_kind", "mixed_count", "mixed_ns",
)  # fmt: skip


def pack_step(step: StepTimeline) -> bytes:
    """The step as bytes, uncompressed."""
    planes: list[bytes] = []
    header = msgspec.to_builtins(step)
    header["lanes"] = [_pack_lane(lane, planes) for lane in step.lanes]
    text = msgspec.json.encode(header)
    return b"".join((len(text).to_bytes(4, "little"), text, *planes))


def _pack_lane(lane: TimelineLane, planes: list[bytes]) -> dict[str, Any]:
    """The header of a lane, which names its columns as [values, bytes of each]; their bytes go to `planes`."""
    columns = {"gap_ns": compute_gaps(unpack_lane(lane))}
    columns |= {name: unpack_column(getattr(lane, name)) for name in _COLUMNS if getattr(lane, name)}
    widths = {}
    for name, values in columns.items():
        width, packed = split_planes(values)
        widths[name] = (len(values), width)
        planes.append(packed)
    return {"kind": lane.kind, "name": lane.name, "columns": widths}


def compute_gaps(lane: LaneColumns) -> Ints:
    """The time from what a slice follows to its start, which is shorter than that between two starts.

    It follows the end of the last slice of its depth or the start of the last one of the depth above, whichever is
    later; where there is neither, the start of the step.
    """
    follows = np.zeros(len(lane), np.int64)
    places = np.arange(len(lane))
    for depth in range(int(lane.depth.max(initial=0)) + 1):
        mine = np.flatnonzero(lane.depth == depth)
        follows[mine[1:]] = np.maximum(lane.end_ns[mine[:-1]], 0)
        if depth:
            above = np.maximum.accumulate(np.where(lane.depth == depth - 1, places, NONE))[mine]
            has = above != NONE
            follows[mine[has]] = np.maximum(follows[mine[has]], lane.start_ns[above[has]])
    return lane.start_ns - follows


def split_planes(values: Ints) -> tuple[int, bytes]:
    """The bytes of each value, and all bytes: the lowest of every value, then the next ones."""
    interleaved = ((values << 1) ^ (values >> 63)).astype("<u8")
    width = (int(interleaved.max(initial=0)).bit_length() + 7) // 8
    return width, interleaved.view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()
