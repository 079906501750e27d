"""Classifies blocks by lifetime: the last evidence, where neither source nor name decides."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_context import BACKWARD, DATA, FORWARD, OPTIMIZER, AllocationContext, Mask
from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.memory.op_rules import AUTOGRAD_NODE, BACKWARD_OP, FORWARD_OP, GRADIENT_TAKER, MOVE, match_names
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
    Ints,
    TimeBand,
)


def assign_majority_category(
    births: AllocationContext, categories: NDArray[np.int8], asked: Mask, models: Mask, *, by_line: bool = False
) -> tuple[NDArray[np.int8], Mask]:
    """`categories`, with each block of `asked` in that of most of those `models` that are like it and of its size.

    Also returns which blocks have such a like; the others keep what they have. `by_line`: only blocks of one line are.
    """
    result, has_like = categories.copy(), np.zeros(len(categories), np.bool_)
    rows = np.flatnonzero(asked | (models & np.isin(births.size, np.unique(births.size[asked]))))
    kind = _number_pairs(_number_kinds(births, rows), births.size[rows])
    if by_line:
        kind = _number_pairs(kind, births.line[rows])
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


def find_retained_results(allocations: Allocations, births: AllocationContext) -> Mask:
    """Blocks of forward that outlive its last allocation, of an origin that leaves such in several layers.

    Tensors that only the last layer keeps are not retained: they are its temporaries. Where memory ran out, the rest of
    the pass is unknown.
    """
    forward = births.phase == FORWARD
    if not forward.any() or (allocations.phase == BACKWARD).any() or allocations.failed is not None:
        return np.zeros(len(births.row), np.bool_)
    last = np.full(int(births.visit.max()) + 1, -1, np.int64)
    np.maximum.at(last, births.visit[forward], births.born[forward])
    kept = np.flatnonzero(forward & (births.died > last[births.visit]))
    origin = _number_origins(allocations, births, kept)
    layers = np.unique(np.column_stack((origin, births.module[kept])), axis=0)
    several = np.bincount(layers[:, 0], minlength=1) > 1
    result = np.zeros(len(births.row), np.bool_)
    result[kept[several[origin]]] = True
    return result


def _number_origins(allocations: Allocations, births: AllocationContext, rows: Ints) -> Ints:
    """A number for each op, size, and module without the number of its layer."""
    places: dict[str, int] = {}
    used = np.unique(births.module[rows]).tolist()
    number_of = {
        module: places.setdefault(fold_layer_numbers(allocations.names[module]), len(places)) for module in used
    }
    place = np.asarray([number_of[module] for module in births.module[rows].tolist()], np.int64)
    table = np.column_stack((births.op[rows].astype(np.int64), births.size[rows], place))
    numbers: Ints = np.unique(table, axis=0, return_inverse=True)[1].ravel() if len(rows) else place
    return numbers


def find_recomputed_blocks(allocations: Allocations, births: AllocationContext) -> Mask:
    """Blocks made by an op of forward only, or within a module's forward, of a backward phase that has such ops.

    Bands of modules identify a module's forward pass; without bands, the module of a block with an unknown op does,
    since the module of a known op may be that of its forward op.
    """
    op = births.op
    forward = match_names(allocations.names, op, FORWARD_OP)
    bands = [band for band in allocations.bands if band.kind == "module"]
    within = _mask_within_bands(bands, allocations.time_ns[births.born]) if bands else (op == 0) & (births.module != 0)
    within &= ~match_names(allocations.names, op, BACKWARD_OP)
    # Wrappers mark modules around their hooks in backward too: without an op of forward it is no forward.
    sure = (births.phase == BACKWARD) & (forward | (within & (op == 0)))
    return (forward | within) & np.isin(births.visit, np.unique(births.visit[sure]))


def _mask_within_bands(bands: Sequence[TimeBand], times: Ints) -> Mask:
    """True where a time lies in one of the bands, which may nest."""
    order = sorted(bands, key=lambda band: band.start_ns)
    starts = np.array([band.start_ns for band in order], np.int64)
    ends = np.maximum.accumulate(np.array([band.end_ns for band in order], np.int64))
    before = np.searchsorted(starts, times, side="right") - 1
    return (before >= 0) & (times <= ends[np.maximum(before, 0)])


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
        (ACTIVATION, ((phase == FORWARD) & outlives) | _is_saved(allocations, births)),
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
    """`categories`, but blocks whose end is unknown are judged by their like.

    These are those of the phase with which the recording ends, and those freed by the exception of a failed request. If
    the recording ended normally, its last phase did too, and they are like blocks that outlived theirs.
    """
    ended = (births.died == len(allocations)) & (births.visit == births.visit.max(initial=NONE))
    cut = births.unwound | ended if allocations.failed is not None else births.unwound
    cut = cut & (births.phase != NONE)
    ended &= ~cut & (births.phase != NONE)
    result = categories
    if ended.any():
        result, _ = assign_majority_category(births, result, ended, ~ended & ~cut & births.outlives)
    return _classify_cut_short(allocations, births, result, cut, again) if cut.any() else result


def _classify_cut_short(
    allocations: Allocations, births: AllocationContext, categories: Categories, cut: Mask, again: Mask
) -> Categories:
    """`categories`, with the blocks of a phase that a failed request `cut` judged by their like: in phases that ended,
    else in the same.

    In forward, those alive at the failure count with their like: where most were freed before it, they are temporaries.
    In backward, gradients and temporaries cannot be distinguished unless the source marks gradients.
    """
    saved = cut & _is_saved(allocations, births)
    asked = cut & ~saved
    within = np.isin(births.visit, np.unique(births.visit[cut]))
    result, has_like = assign_majority_category(births, categories, asked, ~within)
    counted = within & (~asked | (births.phase == FORWARD))
    result, has_like_within = assign_majority_category(births, result, asked & ~has_like, counted, by_line=True)
    has_like |= has_like_within
    gradients_told = GRADIENT in {allocations.names[number] for number in np.unique(allocations.category).tolist()}
    alone = asked & ~has_like & (births.phase == BACKWARD)
    result[alone] = CATEGORIES.index(TEMPORARY if gradients_told else UNKNOWN)
    result[alone & again] = CATEGORIES.index(RECOMPUTED)
    return result


def _is_saved(allocations: Allocations, births: AllocationContext) -> Mask:
    """Mask blocks of forward that a node of autograd's graph freed: saved for backward, even if it never ran."""
    saved: Mask = (births.phase == FORWARD) & match_names(allocations.names, births.freed_op, AUTOGRAD_NODE)
    return saved
