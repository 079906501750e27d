"""Which op an allocation or a free belongs to, as a user would name it."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.annotations import is_autograd_node, phase_of
from perfkit.trace.memory.names import Table
from perfkit.trace.naming import Names
from perfkit.trace.nesting import around_times, nearest, parents
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE, Category, Ints

FSDP = "FSDP::"  # FSDP2 resizes storages outside of any op, but marks what it does by ranges

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
class Holders:
    """For moments on threads of the host: the row in `Ops` of the innermost op, NONE outside of all, and its name.

    `made_by` and `freed_by` number texts of a `Table`, 0 where nothing is known: the op that asked for memory, and the
    op in which it was given back, which in backward is the autograd node that held it.
    """

    op: Ints
    made_by: NDArray[np.int32]
    freed_by: NDArray[np.int32]


def holders(ops: Ops, threads: NDArray[np.int32], times: Ints, table: Table) -> Holders:
    trace = ops.trace
    inner = around_times(trace, np.asarray(ops.event, np.int64), threads, times, np.asarray(ops.parent, np.int64))
    sharding = [number for number, name in enumerate(trace.names) if name.startswith(FSDP)]
    event, parent, innermost = np.asarray(ops.event, np.int64), np.asarray(ops.parent, np.int64), inner
    ranges = trace.of(Category.RANGE)
    ranges = ranges[np.isin(trace.name[ranges], sharding)]
    if len(ranges):
        event = np.sort(np.concatenate([event, ranges]))
        parent = parents(trace, event)
        innermost = around_times(trace, event, threads, times, parent)
    names = Names.of(trace, event)
    maker, node = _makers(names, parent), nearest(parent, names.are(is_autograd_node))
    numbers = table.numbers(trace.names, names.occurring, _worded)
    made_by = _numbers_of(numbers, names, maker, innermost)
    in_node = _numbers_of(numbers, names, node, innermost)
    return Holders(inner, made_by, np.where(in_node != 0, in_node, made_by))


def _makers(names: Names, parent: Ints) -> Ints:
    """For each op the one that a user would name for what it allocates; NONE for the marks of steps."""
    obtaining = names.are(lambda name: _OBTAINING.fullmatch(name) is not None)
    mark = names.are(lambda name: phase_of(name) is not None or _STEP.fullmatch(name) is not None)
    around = np.append(parent, NONE)
    called = names.are(_CALLED.__contains__)
    lifted = names.are(_CONVERTING.__contains__) & np.append(called, False)[parent]
    working = nearest(parent, ~obtaining)
    working = np.where(working == NONE, NONE, np.where(lifted[working], around[working], working))
    # Where nothing around does more: the outermost op that obtains memory, as the program called it.
    outermost = nearest(parent, obtaining & ((parent == NONE) | ~np.append(obtaining, False)[parent]))
    nothing = (working == NONE) | np.append(mark, False)[working]
    return np.where(nothing, np.where(mark, NONE, outermost), working)


def _numbers_of(numbers: NDArray[np.int32], names: Names, of: Ints, rows: Ints) -> NDArray[np.int32]:
    row = np.append(of, NONE)[rows]
    found: NDArray[np.int32] = np.where(row == NONE, 0, numbers[np.append(names.column, 0)[row]]).astype(np.int32)
    return found


def _worded(name: str) -> str:
    return name.removeprefix(_ENGINE)
