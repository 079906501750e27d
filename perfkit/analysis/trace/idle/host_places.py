"""CPU places: for many spans of time on threads, the innermost events that cover each."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.intervals import Ints
from perfkit.trace.annotations import is_autograd_node
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import EventNest, find_parents, split_blocks
from perfkit.trace.memory.source_lines import parse_line
from perfkit.trace.model import NONE, Category, Small, Trace
from perfkit.trace.ops.ops import Ops

_MODULE, _BUILTIN = "nn.Module: ", "<built-in"


@dataclass(frozen=True)
class ThreadSpans:
    """Columns: from when to when on which thread."""

    thread: NDArray[np.integer]
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.thread)

    @cached_property
    def middle_ns(self) -> Ints:
        return self.begin_ns + (self.end_ns - self.begin_ns) // 2

    def select_rows(self, rows: Ints) -> "ThreadSpans":
        return ThreadSpans(self.thread[rows], self.begin_ns[rows], self.end_ns[rows])


@dataclass(frozen=True)
class HostPlaces:
    """Columns, one row per span: the innermost events that cover more than half of it; NONE without any.

    Indices of the trace's names: `frame` of Python, `own` (the innermost that is neither torch's nor of Python's
    library), `builtin` that the frame called, `range`, `op`, `call` of the runtime. `module` is one of `modules`.
    """

    frame: Small
    own: Small
    builtin: Small
    range: Small
    op: Small
    call: Small
    module: Small
    modules: list[str]

    @property
    def columns(self) -> dict[str, Small]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "modules"}

    @property
    def known(self) -> NDArray[np.bool_]:
        """True if anything covers a span."""
        mask: NDArray[np.bool_] = np.max(list(self.columns.values()), axis=0, initial=NONE) != NONE
        return mask


class HostEvents:
    """The CPU events of a trace, indexed for repeated lookups.

    Autograd's nodes and the marks of steps say nothing of where something was, and are left out.
    """

    def __init__(self, ops: Ops) -> None:
        trace = ops.trace
        python = trace.select_events(Category.PYTHON)
        self._trace = trace
        self._python = _EventTree.from_events(trace, python)
        self._is_module = mark_named(trace, python, lambda name: name.startswith(_MODULE))
        self._is_builtin = mark_named(trace, python, lambda name: name.startswith(_BUILTIN))
        self._is_own = mark_named(trace, python, lambda name: parse_line(name) is not None)
        marks = trace.select_events(Category.RANGE)
        self._ranges = _EventTree.from_events(trace, marks[~_is_step_mark(ops, marks)])
        self._launches = _EventTree.from_events(trace, trace.select_events(Category.LAUNCH))
        self._ops = _EventTree(trace, ops.event.astype(np.int64), ops.parent)
        self._is_plain = ~mark_named(trace, ops.event, is_autograd_node)
        self._modules = ops.calls_of_modules
        self._module_calls = _EventTree(trace, self._modules.calls, self._modules.parent)
        self._names = np.append(trace.name, np.int32(NONE))  # NONE (-1) takes the last entry

    def find_places(self, where: ThreadSpans) -> HostPlaces:
        """Find the CPU place of each span."""
        around = self._python.find_around_middle(where)
        frame = self._python.find_innermost(where, around, ~self._is_module & ~self._is_builtin)
        builtin = self._python.find_innermost(where, around, self._is_builtin)
        # An event around the frame says less than the frame.
        starts = np.append(self._python.starts, np.iinfo(np.int64).min)
        builtin = np.where(starts[builtin] >= starts[frame], builtin, NONE)
        module = self._module_calls.find_innermost(where)
        return HostPlaces(
            frame=self._get_names(self._python, frame),
            own=self._get_names(self._python, self._python.find_innermost(where, around, self._is_own)),
            builtin=self._get_names(self._python, builtin),
            range=self._get_names(self._ranges, self._ranges.find_innermost(where)),
            op=self._get_names(self._ops, self._ops.find_innermost(where, counts=self._is_plain)),
            call=self._get_names(self._launches, self._launches.find_innermost(where)),
            module=np.append(self._modules.path, NONE)[module].astype(np.int32),
            modules=self._modules.paths,
        )

    def find_own_frames(self, where: ThreadSpans) -> Small:
        """`Places.own` alone."""
        return self._get_names(self._python, self._python.find_innermost(where, counts=self._is_own))

    def _get_names(self, tree: "_EventTree", positions: Ints) -> Small:
        names: Small = self._names[np.append(tree.events, NONE)[positions]]
        return names


@dataclass(frozen=True)
class _EventTree(EventNest):
    """Events of one kind."""

    @classmethod
    def from_events(cls, trace: Trace, events: Ints) -> "_EventTree":
        return cls(trace, events, find_parents(trace, events))

    def find_around_middle(self, where: ThreadSpans) -> Ints:
        """The position of the innermost event around the middle of each span."""
        threads, its = where.thread, self.of_threads
        if its and not any((threads == thread).any() for thread in its):  # see `Modules.at`
            threads = np.full(len(where), max(its, key=lambda thread: (len(its[thread][0]), -thread)))
        return self.find_around(threads, where.middle_ns)

    def find_innermost(
        self, where: ThreadSpans, around: Ints | None = None, counts: NDArray[np.bool_] | None = None
    ) -> Ints:
        """The position of the innermost counted event that covers more than half of each span."""
        at = self.find_around_middle(where) if around is None else around.copy()
        for block in split_blocks(len(at)):
            self._move_outwards(where.begin_ns[block], where.end_ns[block], counts, at[block])
        return at

    def _move_outwards(self, begins: Ints, ends: Ints, counts: NDArray[np.bool_] | None, at: Ints) -> None:
        """Move each position on to the innermost event that covers more than half."""
        pending = np.flatnonzero(at != NONE)
        while len(pending):
            event = at[pending]
            begin, end = begins[pending], ends[pending]
            overlap = np.minimum(self.ends[event], end) - np.maximum(self.starts[event], begin)
            passed = (2 * overlap <= end - begin) & (end > begin)
            if counts is not None:
                passed |= ~counts[event]
            pending = pending[passed]
            at[pending] = self.parent[event[passed]]
            pending = pending[at[pending] != NONE]


def _is_step_mark(ops: Ops, events: Ints) -> NDArray[np.bool_]:
    """Mask step marks, which do not locate anything within a step."""
    trace, steps = ops.trace, ops.steps
    if not len(steps):
        return np.zeros(len(events), np.bool_)
    at = np.minimum(np.searchsorted(steps.start_ns, trace.start_ns[events]), len(steps) - 1)
    same: NDArray[np.bool_] = (steps.start_ns[at] == trace.start_ns[events]) & (
        steps.end_ns[at] == trace.end_ns[events]
    )
    return same
