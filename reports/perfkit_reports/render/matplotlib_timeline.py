"""Draws a static timeline: the whole first step, one strip per lane."""

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from perfkit.analysis.timeline.lane_columns import LaneColumns, list_label_texts, unpack_lane
from perfkit_reports.document.blocks import Timeline
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.render.matplotlib_traces import DPI, POINT, TEXT, strip_markup

_WIDTH, _ROW, _THIN, _GAP, _EDGES = 800, 16, 3, 8, 96  # page pixels
_MOST_ROWS = 6  # deeper lanes have thin strips
_LEGEND_COLUMNS = 4


def draw_timeline(block: Timeline) -> Figure:
    """The step as a page shows it on load."""
    step = next(iter(block.steps.values()))
    lanes = [(lane.name, unpack_lane(lane)) for lane in step.lanes]
    rows = [_ROW if _compute_depth(lane) <= _MOST_ROWS else _THIN for _, lane in lanes]
    heights = [_compute_depth(lane) * row + _GAP for (_, lane), row in zip(lanes, rows, strict=True)]
    looks = dict.fromkeys(block.looks.values())
    marks = [
        Patch(facecolor=color, hatch=pattern * 3, edgecolor="white", linewidth=0, label=strip_markup(name, 28))
        for name, color, pattern in looks
    ]
    legend = 20 * -(-len(marks) // _LEGEND_COLUMNS)
    height = sum(heights) + _EDGES + legend
    figure = Figure(figsize=(_WIDTH / 100, height / 100), dpi=DPI)
    axes = figure.add_axes((0.2, 48 / height, 0.78, sum(heights) / height))
    colors = {kind: color for kind, (_, color, _) in block.looks.items()}
    fills = np.asarray([colors.get(kind, NEUTRAL) for kind in list_label_texts(step, "kind")])
    top, ticks = 0.0, []
    for (name, lane), row, high in zip(lanes, rows, heights, strict=True):
        boxes = _build_boxes(lane, step.length_ns, top, row)
        axes.add_collection(
            PolyCollection(list(boxes), facecolors=fills[lane.label], edgecolors="none", rasterized=True)
        )
        ticks.append((top + (high - _GAP) / 2, strip_markup(name, 24)))
        top += high
    axes.set(xlim=(0, step.length_ns / 1e6), ylim=(top, 0), xlabel="ms")
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks], fontsize=TEXT * POINT)
    axes.tick_params(axis="x", labelsize=TEXT * POINT)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(handles=marks, loc="upper center", fontsize=10 * POINT, frameon=False, ncols=_LEGEND_COLUMNS)
    return figure


def _compute_depth(lane: LaneColumns) -> int:
    return int(lane.depth.max(initial=0)) + 1


def _build_boxes(lane: LaneColumns, length_ns: int, top: float, row: int) -> NDArray[np.float64]:
    """The four corners of each slice, in milliseconds and pixels from the top; at least one dot wide."""
    dot = length_ns / (_WIDTH * 2)
    begin = np.maximum(lane.start_ns, 0)
    starts, right = begin / 1e6, np.maximum(np.minimum(lane.end_ns, length_ns), begin + dot) / 1e6
    upper = top + lane.depth * row
    lower = upper + row - 1
    corners = ((starts, upper), (right, upper), (right, lower), (starts, lower))
    return np.stack([np.column_stack(corner) for corner in corners], axis=1)
