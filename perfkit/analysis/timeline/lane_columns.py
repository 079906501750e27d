"""The columns of a timeline, unpacked."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.timeline import StepTimeline, TimelineLane
from perfkit.analysis.timeline.column_packing import sum_differences, unpack_column, unpack_links
from perfkit.trace.model import NONE, Ints


@dataclass(frozen=True)
class LaneColumns:
    """A lane's slices: times since the step began, rows of the labels, numbers of slices over all lanes."""

    start_ns: Ints
    end_ns: Ints
    depth: Ints
    label: Ints
    link: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


def unpack_lane(lane: TimelineLane) -> LaneColumns:
    start = sum_differences(unpack_column(lane.start_ns))
    return LaneColumns(
        start_ns=start,
        end_ns=start + unpack_column(lane.duration_ns),
        depth=unpack_column(lane.depth) if lane.depth else np.zeros(len(start), np.int64),
        label=unpack_column(lane.label),
        link=unpack_links(lane.link, len(start)),
    )


def list_label_texts(step: StepTimeline, column: str) -> list[str]:
    """For each row of the labels, its text in a column (`name`, `kind`, `op`, `module`, `shapes`), "" for none."""
    return [
        "" if number == NONE else step.texts[number] for number in unpack_column(getattr(step.labels, column)).tolist()
    ]
