"""Durations of the steps of a replay, bounded as `perfkit.analysis.trace.time.step_windows` bounds recorded ones."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import Floats
from perfkit.analysis.replay.host_points import PointRole
from perfkit.trace.model import NONE, Ints


class StepNodes(NamedTuple):
    """Nodes of a graph at which steps begin, and at which the last one ends; the kernels launched in them.

    `launched_in` is the step of each kernel in `inside`, `counted` masks the `number` steps of the figures per step.
    """

    first: Ints
    last: int
    inside: Ints
    launched_in: Ints
    counted: NDArray[np.bool_]

    @property
    def number(self) -> int:
        return int(self.counted.sum())

    def measure_length_ns(self, happens: Floats, ends: Floats) -> float:
        """The total length of the counted steps, given the start and end of each node.

        A step lasts until the next one begins, which is not before the kernels of all earlier ones have ended.
        """
        ended = np.full(len(self.first) + 1, -np.inf)
        np.maximum.at(ended, self.launched_in + 1, ends[self.inside])
        ended = np.maximum.accumulate(ended)
        until = max(float(happens[self.last]), float(ended[-1]))
        begins = np.maximum.accumulate(np.maximum(happens[self.first], ended[:-1]))
        return float(np.diff(np.minimum(np.append(begins, until), until))[self.counted].sum())


def find_step_nodes(graph: DependencyGraph) -> StepNodes | None:
    """The nodes of a graph's steps; None without marked steps."""
    steps, device = graph.ops.steps, graph.device
    if not len(steps) or steps.on_device or not len(graph.counted_steps):
        return None
    first = _find_marks(graph, steps.thread, steps.start_ns)
    last = _find_marks(graph, steps.thread[-1:], steps.end_ns[-1:])
    if (first == NONE).any() or (last == NONE).any():
        return None
    handed = np.where(device.launched, device.called, device.begun)
    rows = np.flatnonzero((handed >= steps.start_ns[0]) & (handed <= steps.end_ns[-1]))
    launched_in = np.searchsorted(steps.start_ns, handed[rows], side="right") - 1
    counted = np.zeros(len(steps), np.bool_)
    counted[graph.counted_steps] = True
    return StepNodes(first, int(last[0]), graph.first_kernel + rows, launched_in, counted)


def _find_marks(graph: DependencyGraph, thread: Ints, at_ns: Ints) -> Ints:
    """The node of the mark at each time on its thread, NONE without one."""
    points = graph.points
    result = np.full(len(at_ns), NONE, np.int64)
    marks = np.flatnonzero(points.role == PointRole.MARK)
    for number in np.unique(thread).tolist():
        on, wanted = marks[points.thread[marks] == number], np.flatnonzero(thread == number)
        place = np.searchsorted(points.at_ns[on], at_ns[wanted])
        found = np.append(points.at_ns[on], NONE)[place] == at_ns[wanted]
        result[wanted[found]] = 1 + on[place[found]]
    return result
