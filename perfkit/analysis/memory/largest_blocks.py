"""The largest blocks alive at the peak."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.analysis.model.memory_model import LiveBlock
from perfkit.core.allocations import CATEGORIES, NONE, Allocations
from perfkit.core.record import PHASES

LARGEST = 20

_AUTOGRAD = "autograd::engine::evaluate_function: "  # before the name of a node


def find_largest_blocks(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.bool_]
) -> tuple[LiveBlock, ...]:
    """The `LARGEST` blocks of those `alive`, the largest first, of equal ones the oldest.

    Args:
        categories: of each life, indices into `CATEGORIES`.
        alive: which lives to look at.
    """
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(-lives.size[rows], kind="stable")][:LARGEST]
    return tuple(_describe_block(allocations, lives, row, CATEGORIES[categories[row]]) for row in rows.tolist())


def _describe_block(allocations: Allocations, lives: Lifetimes, row: int, category: str) -> LiveBlock:
    size, born, known = (int(column[row]) for column in (lives.size, lives.born, lives.known))
    kept_by = _get_freeing_op(allocations, int(lives.died[row]))
    if known != NONE:
        block = allocations.known[known]
        return LiveBlock(
            bytes=size, category=category, name=block.name, shape=block.shape, dtype=block.dtype, freed_by=kept_by
        )
    if born == AT_START:
        return LiveBlock(bytes=size, category=category, name="allocated before the recording", freed_by=kept_by)
    op, module, line, shape, dtype = (
        allocations.get_text(column, born)
        for column in (allocations.op, allocations.module, allocations.line, allocations.shape, allocations.dtype)
    )
    phase = PHASES[allocations.phase[born]] if allocations.phase[born] != NONE else ""
    return LiveBlock(
        bytes=size,
        category=category,
        name=" in ".join(part for part in (op or line, module or phase) if part) or "no recorded op",
        op=op,
        module=module,
        shape=shape,
        dtype=dtype,
        line=line,
        phase=phase,
        freed_by=kept_by,
    )


def _get_freeing_op(allocations: Allocations, died: int) -> str:
    """The op that a block was freed in; "" for one that was not, or not seen to be: another took its address."""
    freed = died < len(allocations) and allocations.size[died] < 0
    return allocations.get_text(allocations.op, died).removeprefix(_AUTOGRAD) if freed else ""
