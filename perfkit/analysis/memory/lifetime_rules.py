"""Classifies blocks by lifetime: the last evidence, where neither source nor name decides."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_context import BACKWARD, DATA, FORWARD, OPTIMIZER, AllocationContext, Mask
from perfkit.analysis.memory.op_rules import AUTOGRAD_NODE, FORWARD_OP, GRADIENT_TAKER, MOVE, match_names
from perfkit.analysis.memory.recomputation import find_recomputed_blocks
from perfkit.analysis.memory.retained_results import find_retained_results
from perfkit.analysis.memory.sibling_blocks import assign_majority_category, find_blocks_made_once
from perfkit.core.allocations import (
    ACTIVATION,
    BUFFER,
    CATEGORIES,
    GRADIENT,
    INPUT,
    NONE,
    OPTIMIZER_STATE,
    RECOMPUTED,
    RETAINED,
    TEMPORARY,
    UNKNOWN,
    Allocations,
)

Categories = NDArray[np.int8]


def classify_by_lifetime(allocations: Allocations, births: AllocationContext) -> Categories:
    """The category of each block by the phases that it lived in: that of the first row that contains it."""
    names = allocations.names
    phase, outlives = births.phase, births.outlives
    has_phases = bool((allocations.phase != NONE).any())
    freed = births.died < len(allocations)
    later_update = births.next_update < len(allocations)
    before_update = freed & later_update & (births.died < births.next_update)
    accumulated = match_names(names, births.freed_op, GRADIENT_TAKER) & (births.freed_op != births.op)
    again = (phase == BACKWARD) & find_recomputed_blocks(allocations, births)
    # Where backward is marked, what was made outside of it is of a forward pass: one that no module's call marks.
    of_forward = match_names(names, births.op, FORWARD_OP)
    if (allocations.phase == BACKWARD).any():
        of_forward |= (births.op != 0) & ~match_names(names, births.op, MOVE)
    saved = of_forward & match_names(names, births.freed_op, AUTOGRAD_NODE)
    categories = _pick_first_category(
        (GRADIENT, np.isin(phase, (BACKWARD, NONE)) & accumulated),
        (RECOMPUTED, again & ~outlives & ~births.brief),
        (ACTIVATION, (phase == NONE) & saved),
        (INPUT, (phase == DATA) & outlives),
        (RETAINED, find_retained_results(allocations, births)),
        (BUFFER, (phase == FORWARD) & outlives & find_blocks_made_once(births)),
        (ACTIVATION, (phase == FORWARD) & outlives),
        # What crosses the end of backward and is dropped before the update was no parameter's gradient; but what a
        # later backward takes was (FSDP's unsharded gradients while microbatches accumulate).
        (TEMPORARY, (phase == BACKWARD) & outlives & before_update & (births.freed_phase != BACKWARD)),
        (GRADIENT, (phase == BACKWARD) & outlives),
        (OPTIMIZER_STATE, (phase == OPTIMIZER) & outlives & ~before_update & (~freed | later_update)),
        (TEMPORARY, phase != NONE),
        (TEMPORARY, births.within_op | (has_phases & ~outlives)),
    )
    return _classify_open_ended(allocations, births, categories, again)


def _pick_first_category(*rows: tuple[str, Mask]) -> Categories:
    """The category of the first mask that contains each block."""
    choices = [np.int8(CATEGORIES.index(category)) for category, _ in rows]
    return np.select([mask for _, mask in rows], choices, np.int8(CATEGORIES.index(UNKNOWN))).astype(np.int8)


def _classify_open_ended(
    allocations: Allocations, births: AllocationContext, categories: Categories, again: Mask
) -> Categories:
    """`categories`, but blocks of the phase with which the recording ends are judged by their like in phases before.

    The lifetimes of these blocks are unknown. If the recording ended normally, its last phase did too, and they are
    like blocks that outlived theirs; if a request failed, they may be like any. In a failed backward pass, gradients
    and temporaries cannot be distinguished unless the source marks gradients.
    """
    open_ended = births.phase != NONE
    open_ended &= (births.died == len(allocations)) & (births.visit == births.visit.max(initial=NONE))
    if not open_ended.any():
        return categories
    failed = allocations.failed is not None
    models = ~open_ended if failed else ~open_ended & births.outlives
    result, has_like = assign_majority_category(births, categories, open_ended, models)
    if failed:
        gradients_told = GRADIENT in {allocations.names[number] for number in np.unique(allocations.category).tolist()}
        alone = open_ended & ~has_like & (births.phase == BACKWARD)
        result[alone] = CATEGORIES.index(TEMPORARY if gradients_told else UNKNOWN)
        result[alone & again] = CATEGORIES.index(RECOMPUTED)
    return result
