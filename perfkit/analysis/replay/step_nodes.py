"""Durations of the steps of a replay: from the first one's beginning to the end of all that was launched in them."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import Floats
from perfkit.analysis.replay.host_points import PointRole
from perfkit.trace.model import Ints


class StepNodes(NamedTuple):
    """Nodes of a graph at which its `number` steps begin, at which they end, and of the kernels launched in them."""

    first: Ints
    last: Ints
    inside: Ints
    number: int

    def measure_length_ns(self, happens: Floats, ends: Floats) -> float:
        """The total length of all steps, given the start and end of each node."""
        until = max(float(happens[self.last].max()), float(ends[self.inside].max(initial=0.0)))
        return until - float(happens[self.first].min())


def find_step_nodes(graph: DependencyGraph) -> StepNodes | None:
    """The nodes of a graph's steps; None without marked steps."""
    steps, device, points = graph.ops.steps, graph.device, graph.points
    if not len(steps) or steps.on_device:
        return None
    begin, end = int(steps.start_ns[0]), int(steps.end_ns[-1])
    marks = 1 + np.flatnonzero(points.role == PointRole.MARK)
    first, last = marks[points.at_ns[marks - 1] == begin], marks[points.at_ns[marks - 1] == end]
    if not len(first) or not len(last):
        return None
    handed = np.where(device.launched, device.called, device.begun)
    inside = graph.first_kernel + np.flatnonzero((handed >= begin) & (handed <= end))
    return StepNodes(first, last, inside, len(steps))
