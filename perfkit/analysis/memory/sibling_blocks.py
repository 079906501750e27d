"""Blocks that are alike: made by the same op in the same module of the same phase."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_context import AllocationContext, Mask
from perfkit.core.allocations import CATEGORIES, Ints


def assign_majority_category(
    births: AllocationContext, categories: NDArray[np.int8], asked: Mask, models: Mask
) -> tuple[NDArray[np.int8], Mask]:
    """`categories`, with each block of `asked` in that of most of those `models` that are like it and of its size.

    Also returns which blocks have such a like; the others keep what they have.
    """
    result, has_like = categories.copy(), np.zeros(len(categories), np.bool_)
    rows = np.flatnonzero(asked | (models & np.isin(births.size, np.unique(births.size[asked]))))
    kind = _number_pairs(_number_kinds(births, rows), births.size[rows])
    votes = np.zeros((int(kind.max(initial=-1)) + 1, len(CATEGORIES)), np.int64)
    model = models[rows]
    np.add.at(votes, (kind[model], categories[rows[model]]), 1)
    voted = votes.sum(axis=1) > 0
    judged = asked[rows] & voted[kind]
    result[rows[judged]] = votes.argmax(axis=1)[kind[judged]]
    has_like[rows[judged]] = True
    return result, has_like


def find_blocks_made_once(births: AllocationContext) -> Mask:
    """Blocks that live through a whole step after their own while no other step leaves one like them.

    Such a block is kept by what made it, as caches of masks or rotary angles are, and is no activation of a step; one
    that is left behind by several steps is (a leak). Nothing is said of blocks whose op and module are unknown.
    """
    result = np.zeros(len(births.row), np.bool_)
    survivors = np.flatnonzero((births.updates > births.update) & ((births.op != 0) | (births.module != 0)))
    if not len(survivors):
        return result
    kind = _number_pairs(_number_kinds(births, survivors), births.line[survivors])
    of_step = np.unique(np.stack([kind, births.update[survivors]]), axis=1)  # each kind once per step
    steps = np.bincount(of_step[0])
    through = births.updates[survivors] - births.update[survivors] >= 2
    result[survivors] = through & (steps[kind] == 1)
    return result


def _number_kinds(births: AllocationContext, rows: Ints) -> Ints:
    """A number for phase, op and module of each row."""
    place = _number_pairs(births.op[rows], births.module[rows])
    return _number_pairs(births.phase[rows], place)


def _number_pairs(first: Ints | NDArray[np.int32], second: Ints | NDArray[np.int32]) -> Ints:
    """Numbers from 0 for distinct pairs of two columns."""
    one = np.unique(first, return_inverse=True)[1].astype(np.int64)
    others, other = np.unique(second, return_inverse=True)
    numbers: Ints = np.unique(one * len(others) + other, return_inverse=True)[1]
    return numbers
