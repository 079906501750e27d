"""The actions of a pipeline's stages, from the ranges that mark them."""

import re

import numpy as np

from perfkit.analysis.model.fleet import StageAction, StageActions
from perfkit.core.record.trace_marks import MARK_PREFIX
from perfkit.trace.event_names import map_names
from perfkit.trace.model import Category
from perfkit.trace.ops.ops import Ops

_ACTION = r"(\d{1,6})([FBIW])(\d{1,6})"
# perfkit's marks cover a stage's compute, those of torch's schedules also its wait for inputs.
_OURS, _TORCH = re.compile(re.escape(MARK_PREFIX) + _ACTION), re.compile("PP:" + _ACTION)


def find_stage_actions(ops: Ops) -> StageActions | None:
    """The stage actions of a trace's middle step; None without steps or marks."""
    trace, steps = ops.trace, ops.steps
    if not len(steps):
        return None
    ranges = trace.select_events(Category.RANGE)
    for pattern, waits in ((_OURS, False), (_TORCH, True)):
        events, matches = map_names(trace, ranges, pattern.fullmatch)
        at = steps.locate_times(trace.start_ns[events])
        inside = np.unique(at[at >= 0])
        if not len(inside):
            continue
        middle = int(inside[len(inside) // 2])
        actions = []
        for event in events[at == middle].tolist():
            stage, kind, microbatch = matches[int(trace.name[event])].groups()
            begin, end = (int(trace.base_ns + at[event]) for at in (trace.start_ns, trace.end_ns))
            actions.append(
                StageAction(stage=int(stage), kind=kind, microbatch=int(microbatch), start_ns=begin, end_ns=end)
            )
        number = int(steps.number[middle])
        return StageActions(
            step=number, actions=tuple(sorted(actions, key=lambda each: each.start_ns)), includes_waits=waits
        )
    return None
