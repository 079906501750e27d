"""Finds the op of an allocation or a free, by the name that users know."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.annotations import COLLECTIVE_RANGES, is_autograd_node, match_phase
from perfkit.trace.event_names import EventNames, mark_named
from perfkit.trace.event_nesting import find_around_times, find_nearest, find_parents
from perfkit.trace.memory.text_numbers import TraceTextNumbers
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.ops import Ops

# Ranges that count as ops: FSDP resizes storages outside any op, within its marks; likewise collectives.
_WORKING = re.compile(
    r"FSDP::.*|FullyShardedDataParallel\._.*|torch::?\.?distributed.*|record_param_comms|"
    + "|".join(f"{prefix}.*" for prefix in COLLECTIVE_RANGES)
)
# Ranges that name what has no op around it at all: gradients are freed in `zero_grad` by Python.
_SURROUNDING = re.compile(r"Optimizer\..*|(DistributedDataParallel|FullyShardedDataParallel)\.forward")

# Ops that only obtain memory for the op around them, which is the one worth naming.
_OBTAINING = re.compile(
    r"aten::(empty|zeros|ones|full|new_empty|new_zeros|new_ones|new_full|resize|set|_reshape_alias|storage)\w*"
)
# Ops that do the work of the one around them, if that is one of these: what was called is the outer one.
_CONVERTING = frozenset({"aten::_to_copy", "aten::clone"})
_CALLED = frozenset(
    f"aten::{name}" for name in ("to", "type_as", "contiguous", "reshape", "flatten", "_to_cpu", "pin_memory")
)
# Marks of steps, which old versions wrote as ops.
_STEP = re.compile(r"ProfilerStep.*|perfkit::.*")
_ENGINE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class MemoryHolders:
    """For moments on CPU threads: the row in `Ops` of the innermost op, NONE outside of all, and its name.

    `made_by` and `freed_by` number texts of a `TraceTextNumbers`, 0 where nothing is known: the op that asked for
    memory, and the op in which it was given back, which in backward is the autograd node that held it.
    """

    op: Ints
    made_by: NDArray[np.int32]
    freed_by: NDArray[np.int32]


def find_holders(ops: Ops, threads: NDArray[np.int32], times: Ints, table: TraceTextNumbers) -> MemoryHolders:
    trace = ops.trace
    event, parent = np.asarray(ops.event, np.int64), np.asarray(ops.parent, np.int64)
    inner = innermost = find_around_times(trace, event, threads, times, parent)
    ranges = trace.select_events(Category.RANGE)
    ranges = ranges[
        mark_named(trace, ranges, lambda name: bool(_WORKING.fullmatch(name) or _SURROUNDING.fullmatch(name)))
    ]
    if len(ranges):
        event = np.sort(np.concatenate([event, ranges]))
        parent = find_parents(trace, event)
        innermost = find_around_times(trace, event, threads, times, parent)
    names = EventNames.from_events(trace, event)
    holding = names.are(lambda name: is_autograd_node(name) or _WORKING.fullmatch(name) is not None)
    numbers = table.get_numbers(trace.names, names.occurring, _strip_engine_prefix)
    made_by = _look_up_numbers(numbers, names, _find_makers(names, parent), innermost)
    in_node = _look_up_numbers(numbers, names, find_nearest(parent, holding), innermost)
    return MemoryHolders(inner, made_by, np.where(in_node != 0, in_node, made_by))


def _find_makers(names: EventNames, parent: Ints) -> Ints:
    """For each op, the one that a user would name for its allocations; NONE for step and phase marks."""
    obtaining = names.are(lambda name: _OBTAINING.fullmatch(name) is not None)
    surrounding = names.are(lambda name: _SURROUNDING.fullmatch(name) is not None)
    passed = surrounding | names.are(lambda name: match_phase(name) is not None or _STEP.fullmatch(name) is not None)
    around = np.append(parent, NONE)
    lifted = names.are(_CONVERTING.__contains__) & np.append(names.are(_CALLED.__contains__), False)[parent]
    working = find_nearest(parent, ~obtaining)
    working = np.where(working == NONE, NONE, np.where(lifted[working], around[working], working))
    # Where nothing around does more: the outermost op that obtains memory, as the program called it.
    outermost = find_nearest(parent, obtaining & ((parent == NONE) | ~np.append(obtaining, False)[parent]))
    outermost = np.where(passed, find_nearest(parent, surrounding), outermost)
    return np.where((working == NONE) | np.append(passed, False)[working], outermost, working)


def _look_up_numbers(numbers: NDArray[np.int32], names: EventNames, of: Ints, rows: Ints) -> NDArray[np.int32]:
    row = np.append(of, NONE)[rows]
    names_at: NDArray[np.int32] = np.where(row == NONE, 0, numbers[np.append(names.column, 0)[row]]).astype(np.int32)
    return names_at


def _strip_engine_prefix(name: str) -> str:
    return name.removeprefix(_ENGINE)
