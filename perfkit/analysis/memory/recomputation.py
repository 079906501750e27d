"""Marks blocks of the backward pass made by a repeated forward pass (activation checkpointing)."""

from collections.abc import Sequence

import numpy as np

from perfkit.analysis.memory.allocation_context import BACKWARD, AllocationContext, Mask
from perfkit.analysis.memory.op_rules import BACKWARD_OP, FORWARD_OP, match_names
from perfkit.core.allocations import Allocations, Ints, TimeBand


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
