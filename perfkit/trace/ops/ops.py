"""The ops of a trace: nesting, cost, step, phase, module, and launched work.

An op is costed at the outermost level that has a formula, which is the level at which autograd dispatches it and a live
count sees it. Compositions (`aten::linear`) have no formula, so the ops beneath them are costed; what a costed op calls
within itself (the copy of the bias in `aten::addmm`) belongs to it and is never counted again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.compact_ints import Compact, compact_ints
from perfkit.trace.event_nesting import compute_self_time, find_parents
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.backward_ops import find_backward
from perfkit.trace.ops.clock_skew import ClockSkew, align_clocks, measure_skew
from perfkit.trace.ops.cost_ops import CostedCall, OpRole, cost_ops, leave_out_ops
from perfkit.trace.ops.kernels import Kernels, link_kernels
from perfkit.trace.ops.launch_records import LaunchRecords, find_launch_records
from perfkit.trace.ops.module_calls import ModuleCalls, find_modules
from perfkit.trace.ops.overruns import Overruns, clip_overruns
from perfkit.trace.ops.torch_share import is_torch_needed
from perfkit.trace.ops.traced_devices import TracedDevices, find_traced_devices
from perfkit.trace.steps.phases import PhaseRanges, assign_op_phases
from perfkit.trace.steps.steps import StepIntervals, find_steps

__all__ = ["CostedCall", "OpRole", "Ops", "read_ops"]


@dataclass(frozen=True)
class Ops:
    """Columns, one row an op in the order of time (an op comes before those within it).

    Attributes:
        event: the op's row in the trace.
        parent: row of the op around it, NONE at the top.
        owner: row of the costed op (or collective) that covers it, its own if costed; NONE elsewhere.
        call: index into `calls` of a costed op, NONE elsewhere.
        step: index into `steps`, NONE outside; `phase`: index into `core.record.trace_marks.PHASES`, NONE outside.
        module: index into `modules`, paths of nn.Modules (`Model_0/Block_3/Linear_7`), NONE where none is known. That
            of a backward op is the module of its forward op.
        forward: row of the forward op whose gradient a backward op computes, NONE where that is not known.
        recomputed: whether it is a forward op run again within backward.
        kernels: what ran on devices; `kernel_op` and `kernel_owner` are the rows here of the innermost op that
            launched each, and of the costed op around it (the innermost one where none is costed).
        kernel_step: index into `steps` of the step in which each kernel was launched; of the one in which it ran if
            its launch was not recorded. `kernel_phase` and `kernel_module` are those of its op, else of its launch.
        calls_of_modules: what `module` was told by.
        overruns: kernels whose recorded end was impossible (`perfkit.trace.ops.overruns`), and how much too late it was
            at least; in `trace` they end where the next of their stream begins.
        skew: of the devices' clocks; None where they agree with the CPU's. A shift is compensated in `trace`.
    """

    trace: Trace
    steps: StepIntervals
    event: Compact
    parent: Compact
    owner: Compact
    role: NDArray[np.int8]
    call: Compact
    calls: list[CostedCall]
    step: Compact
    phase: Compact
    module: Compact
    modules: list[str]
    forward: Compact
    recomputed: NDArray[np.bool_]
    self_ns: Ints
    kernels: Kernels
    kernel_op: Compact
    kernel_owner: Compact
    kernel_step: Compact
    kernel_phase: Compact
    kernel_module: Compact
    calls_of_modules: ModuleCalls
    overruns: Overruns
    skew: ClockSkew | None

    def __len__(self) -> int:
        return len(self.event)

    @property
    def start_ns(self) -> Ints:
        return self.trace.start_ns[self.event]

    @property
    def end_ns(self) -> Ints:
        return self.trace.end_ns[self.event]

    @cached_property
    def devices(self) -> TracedDevices:
        """The devices that the kernels ran on."""
        return find_traced_devices(self.trace, self.kernels)

    @cached_property
    def launches(self) -> LaunchRecords:
        """The calls that can start device work, and what is recorded of it."""
        return find_launch_records(self.trace, self.kernels)

    @cached_property
    def flops(self) -> NDArray[np.float64]:
        """FLOPs of each op, NaN where not costed or not modeled."""
        return self._take_from_calls([call.cost.flops for call in self.calls])

    @cached_property
    def bytes(self) -> NDArray[np.float64]:
        """Compulsory bytes of each op, NaN where not costed or not modeled."""
        return self._take_from_calls([call.cost.bytes for call in self.calls])

    def name(self, row: int) -> str:
        return self.trace.names[int(self.trace.name[self.event[row]])]

    def get_module_name(self, row: int) -> str:
        """The path of the module an op ran in, empty where it is not known."""
        index = int(self.module[row])
        return "" if index == NONE else self.modules[index]

    def _take_from_calls(self, values: list[float | None]) -> NDArray[np.float64]:
        table = np.asarray([*(np.nan if value is None else value for value in values), np.nan])
        return table[self.call]  # NONE (-1) takes the NaN at the end


def read_ops(trace: Trace) -> Ops:
    """Nest, link and cost the ops of a trace. Steps and phases are NONE where unknown."""
    event, parent, kernels = _link_ops(trace)
    skew = measure_skew(trace, kernels)
    if skew is not None and (aligned := align_clocks(trace, kernels)) is not trace:
        trace = aligned
        event, parent, kernels = _link_ops(trace)
    trace, overruns = clip_overruns(trace, kernels)
    kernel_op = compact_ints(np.where(kernels.op == NONE, NONE, np.searchsorted(event, kernels.op)))
    start = trace.start_ns[event]
    steps = find_steps(trace, event, parent)
    with_torch = is_torch_needed(trace, event, parent, kernels.event, kernel_op)
    costs = cost_ops(trace, event, parent, kernel_op, trace.name[kernels.event], with_torch=with_torch)
    backward = find_backward(trace, event, parent)
    costs = leave_out_ops(costs, backward.interrupted)
    owner, call = compact_ints(costs.owner), compact_ints(costs.call)
    owners = np.append(owner, NONE)[kernel_op]
    modules = find_modules(trace)
    module = modules.locate_modules(trace, trace.thread[event], start)
    of_forward = np.append(module, NONE)[backward.forward]  # NONE (-1) takes the last entry, which is NONE
    module = compact_ints(np.where(of_forward == NONE, module, of_forward))
    ranges = PhaseRanges.from_trace(trace)
    phase = compact_ints(assign_op_phases(trace, event, backward.node, steps, ranges))
    return Ops(
        trace=trace,
        steps=steps,
        event=event,
        parent=parent,
        owner=owner,
        role=costs.role,
        call=call,
        calls=costs.calls,
        step=compact_ints(steps.locate_times(start)),
        phase=phase,
        module=module,
        modules=modules.paths,
        forward=compact_ints(backward.forward),
        recomputed=backward.recomputed,
        self_ns=compute_self_time(start, trace.end_ns[event], parent),
        kernels=kernels,
        kernel_op=kernel_op,
        kernel_owner=compact_ints(np.where(owners == NONE, kernel_op, owners)),
        kernel_step=compact_ints(_find_kernel_steps(trace, kernels, steps)),
        kernel_phase=compact_ints(_take_from_op_or_launch(trace, phase, kernels, kernel_op, ranges.locate_phases)),
        kernel_module=compact_ints(
            _take_from_op_or_launch(trace, module, kernels, kernel_op, partial(modules.locate_modules, trace))
        ),
        calls_of_modules=modules,
        overruns=overruns,
        skew=skew,
    )


def _link_ops(trace: Trace) -> tuple[Compact, Compact, Kernels]:
    """The events of ops, the row of the op around each, and the kernels."""
    # Each column is compacted as soon as it is known: there are many, and as many rows as ops.
    event = compact_ints(trace.select_events(Category.OP))
    parent = compact_ints(find_parents(trace, event))
    return event, parent, _compact_kernels(link_kernels(trace, event, parent))


def _compact_kernels(kernels: Kernels) -> Kernels:
    return replace(
        kernels, event=compact_ints(kernels.event), op=compact_ints(kernels.op), launch=compact_ints(kernels.launch)
    )


def _find_kernel_steps(trace: Trace, kernels: Kernels, steps: StepIntervals) -> Ints:
    if steps.on_device:
        return steps.locate_times(trace.start_ns[kernels.event])
    asked_by = np.where(kernels.launch == NONE, kernels.op, kernels.launch)
    return steps.locate_times(trace.start_ns[np.where(asked_by == NONE, kernels.event, asked_by)])


def _take_from_op_or_launch(
    trace: Trace,
    of_op: Compact,
    kernels: Kernels,
    kernel_op: Compact,
    find: Callable[[NDArray[np.int32], Ints], Ints],
) -> Ints:
    """For each kernel, its op's value, else the value at its launch's thread and time."""
    result = np.append(of_op, NONE)[kernel_op]
    loose = np.flatnonzero((kernel_op == NONE) & (kernels.launch != NONE))
    launches = kernels.launch[loose]
    result[loose] = find(trace.thread[launches], trace.start_ns[launches])
    return result
