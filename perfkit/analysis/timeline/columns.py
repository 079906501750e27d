"""The columns of a timeline, unpacked."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.timeline import Lane, StepTimeline
from perfkit.analysis.timeline.packed import summed, unpacked, unpacked_links
from perfkit.trace.read import NONE, Ints


@dataclass(frozen=True)
class Columns:
    """A lane's slices: times since the step began, rows of the labels, numbers of slices over all lanes."""

    start_ns: Ints
    end_ns: Ints
    depth: Ints
    label: Ints
    link: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


def columns(lane: Lane) -> Columns:
    start = summed(unpacked(lane.start_ns))
    return Columns(
        start_ns=start,
        end_ns=start + unpacked(lane.duration_ns),
        depth=unpacked(lane.depth) if lane.depth else np.zeros(len(start), np.int64),
        label=unpacked(lane.label),
        link=unpacked_links(lane.link, len(start)),
    )


def label_texts(step: StepTimeline, column: str) -> list[str]:
    """For each row of the labels its text in a column (`name`, `kind`, `op`, `module`, `shapes`), "" for none."""
    return ["" if number == NONE else step.texts[number] for number in unpacked(getattr(step.labels, column)).tolist()]
