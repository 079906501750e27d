"""Costs of kernels without a costed op, from their own names and grids."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.work.pieces import Kind, Pieces
from perfkit.cost.call import OpCost
from perfkit.cost.multi_tensor import multi_tensor_cost
from perfkit.trace.naming import named
from perfkit.trace.read import NONE

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
    found: dict[OpCost, int] = {}
    known: dict[tuple[int, int], int] = {}
    for row in rows.tolist():
        key = (int(pieces.name[row]), int(trace.geometry[pieces.event[row]]))
        if key not in known:
            grid = _FIRST_OF_GRID.match(trace.geometries[key[1]])
            cost = None if grid is None else multi_tensor_cost(trace.names[key[0]], int(grid[1]))
            known[key] = NONE if cost is None else found.setdefault(cost, len(found))
        number[row] = known[key]
    return NamedCosts(tuple(found), number)
