"""Facts of a whole trace that are found once, for all of its steps that are shown."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.replay.path_spans import PathSpans
from perfkit.analysis.replay.replay_work import collect_work
from perfkit.analysis.trace.idle.idle_gaps import describe_idle_places
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.work.shape_texts import show_shapes
from perfkit.trace.memory.phase_spans import find_phase_spans
from perfkit.trace.model import Ints
from perfkit.trace.ops.kernels import find_communication
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments
from perfkit.trace.steps.phases import PhaseIntervals, PhaseRanges


@dataclass(frozen=True)
class TraceContext:
    """A trace with its phases, kernel classes (indices into `OpClass`), collectives (events in order of time), idle
    time with the text number of each piece, and critical path; None where there is none.
    """

    ops: Ops
    phases: PhaseIntervals
    classes: NDArray[np.int8]
    collectives: Ints
    idle: IdleTime | None
    idle_place: Ints
    idle_texts: list[str]
    path: PathSpans | None
    _shapes: dict[int, str] = field(default_factory=dict)

    def format_shapes(self, signature: int) -> str:
        """Format recorded input shapes, caching them: steps of a trace repeat their calls."""
        if signature not in self._shapes:
            self._shapes[signature] = show_shapes(parse_arguments(self.ops.trace.signatures[signature]) or ())
        return self._shapes[signature]

    @classmethod
    def from_ops(
        cls, ops: Ops, idle: IdleTime | None, path: PathSpans | None, classes: NDArray[np.int8] | None
    ) -> "TraceContext":
        place, texts = (np.empty(0, np.int64), []) if idle is None else describe_idle_places(ops, idle)
        if classes is None:
            classes = collect_work(ops).classes if len(ops.kernels) else np.empty(0, np.int8)
        spans = find_phase_spans(ops, PhaseRanges.from_trace(ops.trace))
        return cls(ops, spans, classes, find_communication(ops.trace), idle, place, texts, path)
