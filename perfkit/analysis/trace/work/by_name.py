"""Costs of kernels without a costed op, from their own names and grids and the gradients' shapes."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.work.gradient_lists import elements_by_blocks
from perfkit.analysis.trace.work.pieces import Kind, Pieces
from perfkit.cost.call import OpCost
from perfkit.cost.multi_tensor import multi_tensor_cost
from perfkit.trace.naming import named
from perfkit.trace.read import NONE, Trace

_FIRST_OF_GRID = re.compile(rb"\[\s*(\d+)")  # geometry begins with the grid


class NamedCosts(NamedTuple):
    """The distinct costs, and for each piece the number of its own, NONE for most."""

    costs: tuple[OpCost, ...]
    number: NDArray[np.int64]


def named_costs(pieces: Pieces) -> NamedCosts:
    """The costs of pieces on a device of which no op is known that has one."""
    number = np.full(len(pieces), NONE, np.int64)
    trace = pieces.ops.trace
    if not pieces.on_device:
        return NamedCosts((), number)
    over_lists = named(trace, pieces.event, lambda name: "multi_tensor_apply" in name)
    rows = np.flatnonzero(pieces.of(Kind.WORK) & (pieces.call == NONE) & over_lists)
    rows = rows[trace.geometry[pieces.event[rows]] != NONE]
    blocks = _blocks(trace, trace.geometry[pieces.event[rows]])
    per_block = _elements_per_block(pieces, rows, blocks)
    found: dict[OpCost, int] = {}
    known: dict[tuple[int, int, float], int] = {}
    for row, size, each in zip(rows.tolist(), blocks.tolist(), per_block.tolist(), strict=True):
        key = (int(pieces.name[row]), size, each)
        if key not in known:
            cost = multi_tensor_cost(trace.names[key[0]], size, size * each if each else None)
            known[key] = NONE if cost is None else found.setdefault(cost, len(found))
        number[row] = known[key]
    return NamedCosts(tuple(found), number)


def _blocks(trace: Trace, geometry: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blocks of the grids of launches, 0 where that is not told."""
    first = (_FIRST_OF_GRID.match(text) for text in trace.geometries)
    return np.asarray([*(0 if found is None else int(found[1]) for found in first), 0], np.int64)[geometry]


def _elements_per_block(pieces: Pieces, rows: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each launch the elements that a block has on average, where all launches of its op have as many blocks as the
    gradients have chunks; else 0."""
    owner = pieces.owner[rows].astype(np.int64)
    of_op = np.bincount(owner[owner != NONE], blocks[owner != NONE], minlength=1).astype(np.int64)
    elements = elements_by_blocks(pieces.ops) if of_op.any() else {}
    per_block = [elements.get(together, 0) / max(together, 1) for together in of_op.tolist()]
    return np.where(owner == NONE, 0.0, np.asarray(per_block)[owner])
