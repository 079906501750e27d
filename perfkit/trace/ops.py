"""The ops of a trace: how they nest, what each costs, in which step, phase and module it ran, what it launched.

An op is costed at the outermost level that has a formula, which is the level at which autograd dispatches it and a live
count sees it. Compositions (`aten::linear`) have no formula, so the ops beneath them are costed; what a costed op calls
within itself (the copy of the bias in `aten::addmm`) belongs to it and is never counted again.
"""

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.cost.args import Args
from perfkit.cost.call import OpCall, OpCost
from perfkit.cost.free import COLLECTIVES, COMPOSITES, FREE
from perfkit.cost.op import FORMULAS, op_cost
from perfkit.trace import list_dtypes
from perfkit.trace.kernels import Kernels, is_compiled_graph, is_compiled_kernel, link_kernels
from perfkit.trace.nesting import parents, self_time
from perfkit.trace.phases import find_phases
from perfkit.trace.read import NONE, Category, Ints, Trace
from perfkit.trace.signatures import arguments
from perfkit.trace.steps import Steps, find_steps

# Kernels of their own on some devices, compositions on others: costed as one unless costed ops lie beneath.
_SPLIT_ON_SOME_DEVICES = frozenset({"aten::_fused_rms_norm"})


class Role(IntEnum):
    """What an op's own time is."""

    COSTED = 0  # work with a cost, all of its nest included
    INSIDE = 1  # part of a costed op
    UNMODELLED = 2  # work without a formula or without recorded shapes; compiled code
    OVERHEAD = 3  # dispatch, autograd, views, allocation: no work on data
    COMMUNICATION = 4  # a collective as called by the program


class CostedCall(NamedTuple):
    """A distinct call and its cost."""

    call: OpCall
    cost: OpCost


@dataclass(frozen=True)
class Ops:
    """Columns, one row an op in the order of time (an op comes before those within it).

    Attributes:
        event: the op's row in the trace.
        parent: row of the op around it, NONE at the top.
        owner: row of the costed op (or collective) that covers it, its own if costed; NONE elsewhere.
        call: index into `calls` of a costed op, NONE elsewhere.
        step: index into `steps`, NONE outside; `phase`: index into `perfkit.record.PHASES`, NONE outside.
        module: index into `trace.names` of the nn.Module it ran in, NONE if that was not recorded.
        forward: row of the forward op whose gradient a backward op computes, NONE where that is not known.
        recomputed: whether it is a forward op run again within backward.
        kernels: what ran on devices; `kernel_op` and `kernel_owner` are the rows here of the innermost op that
            launched each, and of the costed op around it (the innermost one where none is costed).
    """

    trace: Trace
    steps: Steps
    event: Ints
    parent: Ints
    owner: Ints
    role: NDArray[np.int8]
    call: Ints
    calls: list[CostedCall]
    step: Ints
    phase: Ints
    module: Ints
    forward: Ints
    recomputed: NDArray[np.bool_]
    start_ns: Ints
    end_ns: Ints
    self_ns: Ints
    kernels: Kernels
    kernel_op: Ints
    kernel_owner: Ints

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def flops(self) -> NDArray[np.float64]:
        """FLOPs of each op, NaN where it is not costed or they are not modelled."""
        return self._of_calls([each.cost.flops for each in self.calls])

    @cached_property
    def bytes(self) -> NDArray[np.float64]:
        """Compulsory bytes of each op, NaN where it is not costed or they are not modelled."""
        return self._of_calls([each.cost.bytes for each in self.calls])

    @cached_property
    def work_ns(self) -> Ints:
        """Time of the op's work: of its kernels where devices were traced, else its own on the host.

        On the host that is the whole nest of a costed op or collective, and what no child covers of an unmodelled
        op; 0 elsewhere. There it sums, with `self_ns` of the overhead, to the time of all ops.
        """
        if self.trace.has_device_events:
            total = np.zeros(len(self), np.int64)
            durations = self.trace.end_ns[self.kernels.event] - self.trace.start_ns[self.kernels.event]
            linked = self.kernel_owner != NONE
            np.add.at(total, self.kernel_owner[linked], durations[linked])
            return total
        whole = np.isin(self.role, (Role.COSTED, Role.COMMUNICATION))
        return np.where(self.role == Role.UNMODELLED, self.self_ns, np.where(whole, self.end_ns - self.start_ns, 0))

    def name(self, row: int) -> str:
        return self.trace.names[int(self.trace.name[self.event[row]])]

    def _of_calls(self, values: list[float | None]) -> NDArray[np.float64]:
        table = np.asarray([*(np.nan if value is None else value for value in values), np.nan])
        return table[self.call]  # NONE (-1) takes the NaN at the end


def read_ops(trace: Trace) -> Ops:
    """Nest, link and cost the ops of a trace. Steps and phases are NONE where the trace marks none."""
    event = trace.of(Category.OP)
    parent = parents(trace, event)
    kernels = link_kernels(trace)
    row_of = np.full(len(trace) + 1, NONE, np.int64)
    row_of[event] = np.arange(len(event))
    kernel_op = row_of[kernels.op]  # NONE (-1) takes the last entry, which is NONE
    start, end = trace.start_ns[event], trace.end_ns[event]
    steps = find_steps(trace)
    owner, role, call, calls = _Costing(trace, event, parent, kernels, kernel_op).run()
    owners = np.append(owner, NONE)[kernel_op]
    return Ops(
        trace=trace,
        steps=steps,
        event=event,
        parent=parent,
        owner=owner,
        role=role,
        call=call,
        calls=calls,
        step=steps.at(start),
        phase=find_phases(trace).at(start),
        module=_modules(trace, start),
        forward=np.full(len(event), NONE, np.int64),
        recomputed=np.zeros(len(event), np.bool_),
        start_ns=start,
        end_ns=end,
        self_ns=self_time(start, end, parent),
        kernels=kernels,
        kernel_op=kernel_op,
        kernel_owner=np.where(owners == NONE, kernel_op, owners),
    )


class _Costing:
    """One pass over the ops, parents first, that decides which are costed. Each distinct call is costed once."""

    def __init__(self, trace: Trace, event: Ints, parent: Ints, kernels: Kernels, kernel_op: Ints) -> None:
        self._trace = trace
        self._names = trace.name[event].tolist()
        self._signatures = trace.signature[event].tolist()
        self._parent: list[int] = parent.tolist()
        self._args = [arguments(signature) for signature in trace.signatures]
        self._kernel_names: dict[int, list[str]] = defaultdict(list)
        for row, name in zip(kernel_op.tolist(), trace.name[kernels.event].tolist(), strict=True):
            self._kernel_names[row].append(trace.names[name])
        self._children: dict[int, list[int]] = defaultdict(list)
        for row, outer in enumerate(self._parent):
            self._children[outer].append(row)
        self._everywhere: list_dtypes.Evidence = {}
        for args in self._args:
            list_dtypes.collect(self._everywhere, args or ())
        self._numbers: dict[tuple[int, int, str], int] = {}
        self._calls: list[CostedCall] = []

    def run(self) -> tuple[Ints, NDArray[np.int8], Ints, list[CostedCall]]:
        count = len(self._names)
        owner, call = np.full(count, NONE, np.int64), np.full(count, NONE, np.int64)
        role = np.empty(count, np.int8)
        for row in range(count):
            outer = self._parent[row]
            if outer != NONE and owner[outer] != NONE:
                owner[row], role[row] = owner[outer], Role.INSIDE
                continue
            number = NONE if self._is_split(row) else self._cost(row)
            if number == NONE:
                role[row] = self._role_without_cost(row)
                continue
            call[row] = number
            is_collective = self._calls[number].call.name.startswith(COLLECTIVES)
            role[row] = Role.COMMUNICATION if is_collective else Role.COSTED
            owner[row] = row
        return owner, role, call, self._calls

    def _is_split(self, row: int) -> bool:
        names = self._trace.names
        return names[self._names[row]] in _SPLIT_ON_SOME_DEVICES and any(
            names[self._names[inner]] in FORMULAS for inner in self._children.get(row, ())
        )

    def _cost(self, row: int) -> int:
        """The index in `calls` of the op's call, NONE if it has no cost or does no work (a view)."""
        signature = self._signatures[row]
        args = self._args[signature] if signature != NONE else None
        shape = list_dtypes.unknown_shape(args) if args else None
        dtype = self._list_dtype(row, shape) if shape is not None else ""
        key = (self._names[row], signature, dtype)
        if key not in self._numbers:
            call = OpCall(self._trace.names[key[0]], list_dtypes.with_dtype(args or (), dtype))
            cost = op_cost(call)
            if cost is None or (cost.flops == 0 and cost.bytes == 0):
                self._numbers[key] = NONE
            else:
                self._numbers[key] = len(self._calls)
                self._calls.append(CostedCall(call, cost))
        return self._numbers[key]

    def _list_dtype(self, row: int, shape: tuple[int, ...]) -> str:
        near: list_dtypes.Evidence = {}
        outer = self._parent[row]
        while outer != NONE:
            list_dtypes.collect(near, self._args_of(outer))
            outer = self._parent[outer]
        inside = [row]
        launched: list[str] = []
        while inside:
            inner = inside.pop()
            launched += self._kernel_names.get(inner, ())
            list_dtypes.collect(near, self._args_of(inner))
            inside += self._children.get(inner, ())
        return (
            list_dtypes.from_shapes(near, shape)
            or list_dtypes.from_kernels(launched)
            or list_dtypes.from_shapes(self._everywhere, shape)
        )

    def _args_of(self, row: int) -> Args:
        signature = self._signatures[row]
        return (self._args[signature] if signature != NONE else None) or ()

    def _role_without_cost(self, row: int) -> Role:
        """Work without a formula is a leaf that is an op, and compiled code; all else is what surrounds work."""
        name = self._trace.names[self._names[row]]
        if is_compiled_kernel(name):
            return Role.UNMODELLED
        if is_compiled_graph(name):  # its own time is that of its kernels where those were not recorded
            inside = (self._trace.names[self._names[inner]] for inner in self._children.get(row, ()))
            return Role.OVERHEAD if any(map(is_compiled_kernel, inside)) else Role.UNMODELLED
        is_op = "::" in name and not name.startswith(("autograd::", "torch::")) and name not in COMPOSITES | FREE
        return Role.UNMODELLED if is_op and not self._children.get(row) else Role.OVERHEAD


_MODULE = "nn.Module: "


def _modules(trace: Trace, times: Ints) -> Ints:
    """The innermost nn.Module call around each time, from Python stacks where those were recorded."""
    named = [index for index, name in enumerate(trace.names) if name.startswith(_MODULE)]
    python = trace.of(Category.PYTHON)
    calls = python[np.isin(trace.name[python], named)]
    result = np.full(len(times), NONE, np.int64)
    if not len(calls):
        return result
    around = parents(trace, calls)
    last = np.searchsorted(trace.start_ns[calls], times, side="right") - 1
    for row, (position, time) in enumerate(zip(last.tolist(), times.tolist(), strict=True)):
        while position >= 0 and trace.end_ns[calls[position]] <= time:
            position = int(around[position])
        if position >= 0:
            result[row] = trace.name[calls[position]]
    return result
