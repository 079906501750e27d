"""Counts the ops and kernels of a step, from a trace of a few calls."""

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from perfkit.core.errors import UsageError
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.clock import Step
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.trace_recording import record_trace
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.trace.model import NONE
from perfkit.trace.ops.call_counts import count_kernel_calls
from perfkit.trace.ops.cost_ops import OpRole
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace

_WORK = (OpRole.COSTED, OpRole.UNMODELED, OpRole.COMMUNICATION)

# Calls of a step in its trace: two kinds of work in turn are seen twice each.
_TRACED_CALLS = 4


@dataclass(frozen=True)
class CalledOp:
    """An op of the step. `parent` is the index of the enclosing op, NONE at the top; `phase` is "" if unknown."""

    name: str
    parent: int
    phase: str
    works: bool


@dataclass(frozen=True)
class StepKind:
    """A kind of work of a step: the traced `calls` that did it, 1 the first, and the ops of one of them by name."""

    calls: tuple[int, ...]
    ops: Counter[str]


@dataclass(frozen=True)
class TracedStepOps:
    """The ops of the first traced call of a step in time order, including nested ones, and kernels by name.

    `kernels` are those of the device (`on_device`), or on a CPU those that torch.compile generated. `kinds` has two or
    more kinds of work that calls of the step take turns with; it is empty if all do the same, and if each call differs
    (as with data-dependent sizes).
    """

    ops: tuple[CalledOp, ...]
    kernels: dict[str, int]
    on_device: bool
    kinds: tuple[StepKind, ...] = ()

    def count_working(self) -> Counter[str]:
        """Calls of ops that work on data, by name, without views, callers of such ops, and nested calls."""
        return Counter(op.name for op in self.ops if op.works)

    def count_calls(self, pattern: str, phase: str | None = None) -> Counter[str]:
        """Calls of ops whose names match a case-sensitive glob, by name. Of nested matches the outermost counts.

        Autograd nodes are not ops, but the ops that they call are."""
        if phase is not None and phase not in PHASES:
            raise UsageError(f"phase={phase!r}: expected one of {', '.join(PHASES)}")
        wanted = {name: _is_op(name) and fnmatchcase(name, pattern) for name in {op.name for op in self.ops}}
        covered: list[bool] = []  # True if the op or an enclosing one matches
        counts: Counter[str] = Counter()
        for op in self.ops:
            around = op.parent != NONE and covered[op.parent]
            covered.append(around or wanted[op.name])
            if wanted[op.name] and not around and phase in (None, op.phase):
                counts[op.name] += 1
        return counts


def trace_step_ops(step: Step, first: int, trained: TrainedModels) -> TracedStepOps:
    """Trace `_TRACED_CALLS` calls of `step`, with indices from `first` on."""
    with TemporaryDirectory(prefix="perfkit-") as folder:
        path = Path(folder) / "trace.json.gz"
        drive_recording(record_trace(_TRACED_CALLS, path, device=trained.device), step, first)
        return _build_step_ops(read_ops(read_trace(path, allocations=False)))


def _build_step_ops(ops: Ops) -> TracedStepOps:
    inside = np.flatnonzero(ops.step == 0).tolist()
    place = {row: number for number, row in enumerate(inside)}
    called = tuple(
        CalledOp(
            name=ops.name(row),
            parent=place.get(int(ops.parent[row]), NONE),
            phase="" if ops.phase[row] == NONE else PHASES[int(ops.phase[row])],
            works=int(ops.role[row]) in _WORK,
        )
        for row in inside
    )
    kernels = {name: round(calls) for name, calls in count_kernel_calls(ops).items()}
    return TracedStepOps(called, kernels, ops.trace.has_device_events, _find_kinds(ops))


def _find_kinds(ops: Ops) -> tuple[StepKind, ...]:
    """Kinds of work by names and inputs of the ops that work on data, in their order."""
    trace, works = ops.trace, np.isin(ops.role, _WORK)
    calls: dict[bytes, list[int]] = {}
    for step in range(len(ops.steps)):
        events = ops.event[works & (ops.step == step)]
        calls.setdefault(trace.name[events].tobytes() + trace.signature[events].tobytes(), []).append(step)
    if not 1 < len(calls) <= len(ops.steps) // 2:
        return ()
    return tuple(
        StepKind(
            tuple(step + 1 for step in steps),
            Counter(ops.name(row) for row in np.flatnonzero(works & (ops.step == steps[0])).tolist()),
        )
        for steps in calls.values()
    )


def _is_op(name: str) -> bool:
    return "::" in name and not name.startswith("autograd::")
