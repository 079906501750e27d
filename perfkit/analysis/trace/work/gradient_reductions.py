"""Collectives by which DDP and FSDP reduce gradients and gather parameters, by their place among backward passes."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.fleet import DDP, FSDP1, FSDP2, GradientReductions, ParameterGathers
from perfkit.analysis.trace.work.collective_messages import CollectiveMessages, build_message
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.calls.collective import CollectiveType
from perfkit.trace.annotations import OPTIMIZER_STEP
from perfkit.trace.event_names import map_names, mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

Flags = NDArray[np.bool_]

_FORWARD, _BACKWARD, _OPTIMIZER = (PHASES.index(phase) for phase in ("forward", "backward", "optimizer"))
_WRAPPERS = (
    (FSDP2, "FSDP::post_backward"),
    (FSDP1, "FullyShardedDataParallel."),
    (DDP, "DistributedDataParallel."),
)
_CALLBACKS = ("FSDP::post_backward", "FSDP::root_post_backward")
_GATHER = re.compile(r"FSDP::all_gather(?: \((?P<group>.*)\))?")
_REDUCING = (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
# Of the messages of the largest pass of an optimizer step: a pass with less reduces something else (a norm, a metric).
_MOST = 0.5
_NEVER = np.iinfo(np.int64).max


class BackwardPasses(NamedTuple):
    """Backward passes in the order of time: each lasts from its first op until forward or an optimizer begins.

    `update` numbers the optimizer step that follows each; those after the last one are left out.
    """

    start_ns: Ints
    until_ns: Ints
    update: Ints


def find_backward_passes(ops: Ops) -> BackwardPasses:
    """The passes whose gradients an optimizer step that the trace shows takes."""
    rows = np.flatnonzero(np.isin(ops.phase, (_FORWARD, _BACKWARD, _OPTIMIZER)) & ~_find_callback_ops(ops))
    backward, at = ops.phase[rows] == _BACKWARD, ops.start_ns[rows]
    before = np.concatenate(([False], backward[:-1])) if len(rows) else backward
    start, other = at[backward & ~before], np.append(at[~backward & before], _NEVER)
    until = other[np.searchsorted(other, start, side="right")]
    steps = _find_optimizer_steps(ops.trace)
    update = np.searchsorted(steps, start)
    kept = update < len(steps)
    return BackwardPasses(start[kept], until[kept], update[kept])


def _find_callback_ops(ops: Ops) -> Flags:
    """The ops with which FSDP2 ends a backward pass, beneath no node of autograd."""
    ranges = ops.trace.select_events(Category.RANGE)
    ranges = ranges[mark_named(ops.trace, ranges, lambda name: name.startswith(_CALLBACKS))]
    if not len(ranges):
        return np.zeros(len(ops), np.bool_)
    around: Flags = find_around_times(ops.trace, ranges, ops.trace.thread[ops.event], ops.start_ns) != NONE
    return around


def _find_optimizer_steps(trace: Trace) -> Ints:
    ranges = trace.select_events(Category.RANGE, Category.OP)
    named = ranges[mark_named(trace, ranges, lambda name: OPTIMIZER_STEP.match(name) is not None)]
    return np.sort(trace.start_ns[named])


def find_reduced_messages(pieces: WorkItems, exchanged: CollectiveMessages, asked: Ints) -> frozenset[int]:
    """The entries of the table of messages with which a wrapper reduces gradients, in backward passes alone.

    `asked` is for each piece the row of the op that requested it (`find_requesting_ops`).
    """
    if not _find_wrapper(pieces.ops.trace):
        return frozenset()
    rows = _select_reductions(pieces, exchanged, asked)
    inside = _find_passes(find_backward_passes(pieces.ops), _get_request_times(pieces, asked)[rows]) != NONE
    which, size = exchanged.which[rows], len(exchanged.table)
    # Tensor parallelism sums equal messages in forward too. A trace may lack the beginning of a pass.
    mostly = 2 * np.bincount(which[inside], minlength=size) > np.bincount(which, minlength=size)
    return frozenset(np.flatnonzero(mostly).tolist())


def measure_gradient_reductions(
    pieces: WorkItems, exchanged: CollectiveMessages, asked: Ints, reduced: frozenset[int]
) -> GradientReductions | None:
    """How often gradients are reduced for an optimizer step; None where the trace does not show it."""
    wrapper, passes = _find_wrapper(pieces.ops.trace), find_backward_passes(pieces.ops)
    if not wrapper or not reduced or not len(passes.start_ns):
        return None
    rows = _select_reductions(pieces, exchanged, asked)
    rows = rows[np.isin(exchanged.which[rows], list(reduced))]
    times = _get_request_times(pieces, asked)[rows]
    of, size = _find_passes(passes, times), np.nan_to_num(exchanged.get_message_bytes()[rows])
    moved = np.bincount(of[of != NONE], size[of != NONE], len(passes.start_ns))
    updates, update = np.unique(passes.update, return_inverse=True)
    largest = np.zeros(len(updates))
    np.maximum.at(largest, update, moved)
    reducing = (moved > _MOST * largest[update]) & (moved > 0)
    order = np.argsort(times, kind="stable")
    order = order[of[order] != NONE]
    order = order[reducing[of[order]]]
    begun, first, calls = np.unique(of[order], return_index=True, return_counts=True)
    # Reductions of a pass are neighbors in time: the last one comes before the first of the next pass.
    first, last = order[first], order[first + calls - 1]
    elapsed, whole = times[first] - passes.start_ns[begun], times[last] - passes.start_ns[begun]
    return GradientReductions(
        wrapper=wrapper,
        passes=float(np.median(np.bincount(update))),
        reducing=float(np.median(np.bincount(update, reducing, len(updates)))),
        pass_bytes=float(np.median(largest)),
        update_bytes=float(np.median(np.bincount(update, moved, len(updates)))),
        calls=float(np.median(calls)) if len(calls) else 0.0,
        first_share=float(np.median(elapsed / np.maximum(whole, 1))) if len(calls) else 0.0,
        last_bytes=float(np.median(size[last])) if len(calls) else 0.0,
    )


def measure_parameter_gathers(pieces: WorkItems, exchanged: CollectiveMessages, asked: Ints) -> ParameterGathers | None:
    """The sizes of the groups of parameters that FSDP2 gathers; None without its ranges."""
    trace = pieces.ops.trace
    ranges, names = map_names(trace, trace.select_events(Category.RANGE), _parse_group)
    if not len(ranges):
        return None
    rows = _select(pieces, exchanged, asked, (CollectiveType.ALL_GATHER,))
    events = _get_request_events(pieces, asked)[rows]
    around = find_around_times(trace, ranges, trace.thread[events], trace.start_ns[events])
    size = exchanged.get_message_bytes()[rows]
    known = (around != NONE) & np.isfinite(size)
    groups: dict[str, float] = {}
    for index, bytes_ in zip(trace.name[ranges[around[known]]].tolist(), size[known].tolist(), strict=True):
        groups[names[index]] = max(bytes_, groups.get(names[index], 0.0))
    # A group whose gather is not among the collectives leaves the size of all parameters open.
    if len(groups) < len({names[index] for index in np.unique(trace.name[ranges]).tolist()}):
        return None
    largest = max(groups, key=lambda name: groups[name])
    return ParameterGathers(
        groups=len(groups), largest=largest, largest_bytes=groups[largest], all_bytes=sum(groups.values())
    )


def _parse_group(name: str) -> str | None:
    match = _GATHER.fullmatch(name)
    return None if match is None else match["group"] or ""


def _find_wrapper(trace: Trace) -> str:
    _, found = map_names(trace, trace.select_events(Category.RANGE), _parse_wrapper)
    return next((wrapper for wrapper, _ in _WRAPPERS if wrapper in found.values()), "")


def _parse_wrapper(name: str) -> str | None:
    return next((wrapper for wrapper, begin in _WRAPPERS if name.startswith(begin)), None)


def _select_reductions(pieces: WorkItems, exchanged: CollectiveMessages, asked: Ints) -> Ints:
    return _select(pieces, exchanged, asked, _REDUCING)


def _select(pieces: WorkItems, exchanged: CollectiveMessages, asked: Ints, kinds: tuple[CollectiveType, ...]) -> Ints:
    """The pieces that carry messages of these kinds, without the ops that only requested them."""
    messages = [build_message(about) for about in exchanged.table]
    chosen = np.asarray([*(moved is not None and moved.kind in kinds for moved in messages), False])
    rows = pieces.is_kind(WorkKind.COMMUNICATION) & chosen[exchanged.which]
    rows[asked[asked != NONE]] = False
    return np.flatnonzero(rows)


def _find_passes(passes: BackwardPasses, times: Ints) -> Ints:
    """The pass at each time, NONE outside of all."""
    if not len(passes.start_ns):
        return np.full(len(times), NONE)
    of = np.searchsorted(passes.start_ns, times, side="right") - 1
    return np.where((of >= 0) & (times < passes.until_ns[of]), of, NONE)


def _get_request_events(pieces: WorkItems, asked: Ints) -> Ints:
    """For each piece the event by which the program asked for it: its launch, else the op, else its own."""
    own = pieces.event.astype(np.int64)
    if pieces.on_device:
        launch = pieces.ops.kernels.launch.astype(np.int64)
        return np.where(launch == NONE, own, launch)
    return np.where(asked == NONE, own, own[asked])


def _get_request_times(pieces: WorkItems, asked: Ints) -> Ints:
    return pieces.ops.trace.start_ns[_get_request_events(pieces, asked)]
