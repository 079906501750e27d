"""Finds kernels of CUDA graph replays, which no op called."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.devices.device_calls import is_graph_launch
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.ops import Ops


@dataclass(frozen=True)
class GraphReplays:
    """The launches of graphs within the steps, all steps together.

    Attributes:
        launches: how many graphs were launched.
        lost: how many of them no kernel is known of.
        kernels: which rows of `Ops.kernels` a graph launched. Where graphs were launched, kernels without a launch and
            without an op count as theirs: CUPTI before 13.1 numbers the launches of graphs wrongly in all sessions of a
            process but the first.
    """

    launches: int
    lost: int
    kernels: NDArray[np.bool_]

    def __bool__(self) -> bool:
        return self.launches > 0


def find_graph_replays(ops: Ops) -> GraphReplays:
    """The graph replays in the steps of a trace; a trace without marked steps counts as one."""
    trace, kernels = ops.trace, ops.kernels
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[mark_named(trace, calls, is_graph_launch)]
    inside = ops.kernel_step != NONE if len(ops.steps) else np.ones(len(kernels), np.bool_)
    if len(ops.steps):
        calls = calls[ops.steps.locate_times(trace.start_ns[calls]) != NONE]
    loose = (kernels.launch == NONE) & (kernels.op == NONE) if len(calls) else np.zeros(len(kernels), np.bool_)
    launched, replays = np.zeros(len(trace) + 1, np.bool_), np.zeros(len(trace) + 1, np.bool_)  # NONE takes the last
    launched[kernels.launch] = replays[calls] = True
    return GraphReplays(len(calls), int((~launched[calls]).sum()), inside & (replays[kernels.launch] | loose))
