"""The bytes at the peak by category, module and op."""

import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.analysis.model.memory_model import MemoryRow
from perfkit.core.allocations import CATEGORIES, GRADIENT, NONE, OPTIMIZER_STATE, PARAMETER, Allocations

_OF_MODULES = (PARAMETER, GRADIENT, OPTIMIZER_STATE)  # labeled with a parameter's name
_DOTTED = re.compile(r"(?P<module>\w+(\.\w+)*)\.\w+")


def build_memory_rows(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.bool_]
) -> tuple[MemoryRow, ...]:
    """Group the `alive` blocks by category, module and op, most bytes first; rows sum to the live bytes.

    Args:
        categories: of each life, indices into `CATEGORIES`.
        alive: which lives to count.
    """
    totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for category, known, module, op, size, blocks in _group_blocks(
        allocations, lives, categories, np.flatnonzero(alive)
    ):
        place = _parse_module(CATEGORIES[category], allocations.known[known].name) if known != NONE else ""
        total = totals[CATEGORIES[category], place or allocations.names[module], allocations.names[op]]
        total[0] += size
        total[1] += blocks
    return tuple(
        MemoryRow(category=category, module=module, op=op, bytes=size, blocks=blocks)
        for (category, module, op), (size, blocks) in sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    )


def _group_blocks(
    allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8], alive: NDArray[np.int64]
) -> list[list[int]]:
    """Category, known block, module and op (numbers of names), bytes and blocks of each distinct combination."""
    born = lives.born[alive]
    from_event = born != AT_START
    module, op = np.zeros((2, len(alive)), np.int64)
    module[from_event] = allocations.module[born[from_event]]
    op[from_event] = allocations.op[born[from_event]]
    extents = (len(CATEGORIES), len(allocations.known) + 1, len(allocations.names), len(allocations.names))
    keys = (categories[alive].astype(np.int64), lives.known[alive] - NONE, module, op)
    key, group = np.unique(np.ravel_multi_index(keys, extents), return_inverse=True)
    size = np.zeros(len(key), np.int64)
    np.add.at(size, group, lives.size[alive])
    category, known, module, op = np.unravel_index(key, extents)
    columns = [category, known + NONE, module, op, size, np.bincount(group, minlength=len(key))]
    return np.stack(columns, axis=1).tolist()  # type: ignore[no-any-return]


def _parse_module(category: str, name: str) -> str:
    """`blocks.0.attn` of the parameter `blocks.0.attn.weight`; "" where the name is not one of a module's tensor."""
    match = _DOTTED.fullmatch(name) if category in _OF_MODULES else None
    return "" if match is None else match["module"]
