"""Costs of kernels without a costed op, from their own names and grids and the gradients' shapes."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.cost.calls.op_call import OpCost, TensorArg
from perfkit.cost.kernels.multi_tensor import CHUNK, cost_multi_tensor_kernel
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Trace
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments

Dims = tuple[int, ...]


def count_elements_by_blocks(ops: Ops) -> dict[int, int]:
    """The elements of lists of gradients, by how many chunks they are cut into: all gradients, and those with and
    without weight decay as a rule (of matrices, of vectors). Counts of chunks that lists of other sizes share are left
    out."""
    counts: dict[int, set[int]] = {}
    for gradients in _list_backward_gradients(ops):
        matrices = Counter({dims: count for dims, count in gradients.items() if len(dims) > 1})
        for chosen in (gradients, matrices, gradients - matrices):
            sizes = [(math.prod(dims), count) for dims, count in chosen.items()]
            blocks = sum(-(-size // CHUNK) * count for size, count in sizes)
            counts.setdefault(blocks, set()).add(sum(size * count for size, count in sizes))
    return {blocks: elements.pop() for blocks, elements in counts.items() if blocks and len(elements) == 1}


def _list_backward_gradients(ops: Ops) -> Iterator[Counter[Dims]]:
    """The gradients of a backward pass: those of each step, which may have several passes alike."""
    rows = np.flatnonzero(mark_named(ops.trace, ops.event, "torch::autograd::AccumulateGrad".__eq__))
    signature = ops.trace.signature[ops.event[rows]]
    of_step, times = np.unique(np.stack((ops.step[rows], signature)), axis=1, return_counts=True)
    steps: dict[int, set[tuple[int, int]]] = {}
    for step, number, count in zip(*of_step.tolist(), times.tolist(), strict=True):
        steps.setdefault(step, set()).add((number, count))
    for calls in {frozenset(calls) for calls in steps.values()}:
        gradients: Counter[Dims] = Counter()
        for number, count in calls:
            arguments = parse_arguments(ops.trace.signatures[number]) if number >= 0 else None
            gradient = arguments[0] if arguments else None
            if isinstance(gradient, TensorArg):
                gradients[gradient.shape] += count
        passes = math.gcd(*gradients.values())
        for repeat in range(1, passes + 1):
            if passes % repeat == 0:
                yield Counter({dims: count // repeat for dims, count in gradients.items()})


_FIRST_OF_GRID = re.compile(rb"\[\s*(\d+)")  # geometry begins with the grid


class NamedCosts(NamedTuple):
    """The distinct costs, and the number of each piece's own, NONE for most."""

    costs: tuple[OpCost, ...]
    number: NDArray[np.int64]


def estimate_named_costs(pieces: WorkItems) -> NamedCosts:
    """The costs of pieces on a device of which no op is known that has one."""
    number = np.full(len(pieces), NONE, np.int64)
    trace = pieces.ops.trace
    if not pieces.on_device:
        return NamedCosts((), number)
    over_lists = mark_named(trace, pieces.event, lambda name: "multi_tensor_apply" in name)
    rows = np.flatnonzero(pieces.is_kind(WorkKind.WORK) & (pieces.call == NONE) & over_lists)
    rows = rows[trace.geometry[pieces.event[rows]] != NONE]
    if not len(rows):
        return NamedCosts((), number)
    blocks = _parse_blocks(trace, trace.geometry[pieces.event[rows]])
    per_block = _estimate_elements_per_block(pieces, rows, blocks)
    numbers: dict[OpCost, int] = {}
    known: dict[tuple[int, int, float], int] = {}
    for row, size, per_launch in zip(rows.tolist(), blocks.tolist(), per_block.tolist(), strict=True):
        key = (int(pieces.name[row]), size, per_launch)
        if key not in known:
            cost = cost_multi_tensor_kernel(trace.names[key[0]], size, size * per_launch if per_launch else None)
            known[key] = NONE if cost is None else numbers.setdefault(cost, len(numbers))
        number[row] = known[key]
    return NamedCosts(tuple(numbers), number)


def _parse_blocks(trace: Trace, geometry: NDArray[np.int64]) -> NDArray[np.int64]:
    """The blocks of launch grids, 0 where unknown."""
    distinct, of_launch = np.unique(geometry, return_inverse=True)
    first = (_FIRST_OF_GRID.match(trace.geometries[number]) for number in distinct.tolist())
    return np.asarray([0 if match is None else int(match[1]) for match in first], np.int64)[of_launch]


def _estimate_elements_per_block(
    pieces: WorkItems, rows: NDArray[np.int64], blocks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The mean elements per block of each launch, where all launches of its op have as many blocks as the gradients
    have chunks; else 0."""
    ops, of_launch = np.unique(pieces.owner[rows], return_inverse=True)
    together = np.bincount(of_launch, blocks).astype(np.int64)
    elements = count_elements_by_blocks(pieces.ops) if (ops != NONE).any() else {}
    per_block = [
        0.0 if op == NONE else elements.get(count, 0) / max(count, 1)
        for op, count in zip(ops.tolist(), together.tolist(), strict=True)
    ]
    return np.asarray(per_block)[of_launch]
