"""Classifies every block by the best available evidence."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_context import BACKWARD, AllocationContext, Mask, build_allocation_context
from perfkit.analysis.memory.allocation_lifetimes import Lifetimes
from perfkit.analysis.memory.lifetime_rules import classify_by_lifetime
from perfkit.analysis.memory.op_rules import (
    BY_LINE,
    BY_OP,
    COPY,
    DDP,
    OBTAINING_OP,
    REDUCTION,
    classify_names,
    match_names,
)
from perfkit.core.allocations import (
    BUFFER,
    CATEGORIES,
    COMMUNICATION_BUFFER,
    GRADIENT,
    NONE,
    UNKNOWN,
    WORKSPACE,
    Allocations,
)
from perfkit.cost.workspaces import CUBLAS_BYTES, CUBLAS_HOPPER_BYTES, TAKES_WORKSPACE
from perfkit.devices.accelerator import is_cuda

Categories = NDArray[np.int8]

_NUMBER = {category: number for number, category in enumerate(CATEGORIES)}


def classify_blocks(allocations: Allocations, lives: Lifetimes) -> Categories:
    """The category of each block, as an index into `CATEGORIES`.

    In order of evidence: the training state (`known`), the source's category (`Allocations.category`), names of ops and
    lines, and the phases of the block's lifetime. Blocks without evidence are unknown.
    """
    result = np.full(len(lives), _NUMBER[UNKNOWN], np.int8)
    of_known = np.array([_NUMBER.get(block.category, _NUMBER[UNKNOWN]) for block in allocations.known], np.int8)
    from_known = lives.known != NONE
    result[from_known] = of_known[lives.known[from_known]]
    births = build_allocation_context(allocations, lives)
    result[births.row] = _classify_allocations(allocations, births)
    return result


def _classify_allocations(allocations: Allocations, births: AllocationContext) -> Categories:
    lifetime = classify_by_lifetime(allocations, births)
    source, name = _classify_by_source(allocations, births), _classify_by_name(allocations, births, lifetime)
    return np.where(source != NONE, source, np.where(name != NONE, name, lifetime)).astype(np.int8)


def _classify_by_source(allocations: Allocations, births: AllocationContext) -> Categories:
    """The category that the source recorded; NONE without one, for "unknown", or for a foreign category."""
    of_name = np.array([NONE if name == UNKNOWN else _NUMBER.get(name, NONE) for name in allocations.names], np.int8)
    return of_name[allocations.category[births.born]]


def _classify_by_name(allocations: Allocations, births: AllocationContext, lifetime: Categories) -> Categories:
    """The category by names of ops and lines, NONE without a match."""
    names = allocations.names
    by_name = classify_names(names, births.op, BY_OP)
    by_name = np.where(by_name != NONE, by_name, classify_names(names, births.line, BY_LINE))
    # What gradients are reduced into lives on as the gradient, until the update; what lives through more updates than
    # that is the collective's own.
    updates = np.where(births.freed_phase == BACKWARD, 0, 1)
    reduced = births.outlives & (births.updates - births.update <= updates) & match_names(names, births.op, REDUCTION)
    reduced &= (by_name == _NUMBER[COMMUNICATION_BUFFER]) & (lifetime == _NUMBER[GRADIENT])
    by_name = np.where(reduced, _NUMBER[GRADIENT], by_name)
    communication = _mask_collective_copies(names, births) | _mask_ddp_buckets(names, births)
    by_name = np.where((by_name == NONE) & communication, _NUMBER[COMMUNICATION_BUFFER], by_name)
    if is_cuda(allocations.device):
        by_name = np.where(
            (by_name == NONE) & _mask_library_workspaces(names, births, lifetime), _NUMBER[WORKSPACE], by_name
        )
    return by_name.astype(np.int8)


def _mask_library_workspaces(names: tuple[str, ...], births: AllocationContext, lifetime: Categories) -> Mask:
    """Mask workspaces: blocks that a GEMM or convolution allocates and frees, and cuBLAS' own, which it keeps."""
    kept = (births.size == CUBLAS_BYTES) | ((births.size == CUBLAS_HOPPER_BYTES) & (lifetime == _NUMBER[BUFFER]))
    library: Mask = match_names(names, births.op, TAKES_WORKSPACE)
    library &= births.within_op | kept
    return library


def _mask_ddp_buckets(names: tuple[str, ...], births: AllocationContext) -> Mask:
    """Mask the buffers that DistributedDataParallel allocates and keeps."""
    result: Mask = (
        births.outlives & match_names(names, births.module, DDP) & match_names(names, births.op, OBTAINING_OP)
    )
    return result


def _mask_collective_copies(names: tuple[str, ...], births: AllocationContext) -> Mask:
    """Mask copies that a collective makes on its own thread (gloo), where FSDP reduces gradients."""
    copies = (births.phase == BACKWARD) & match_names(names, births.op, COPY)
    reducing = match_names(names, births.op, REDUCTION)
    reduced = match_names(names, births.freed_op, REDUCTION)
    result: Mask = copies & reducing.any() & (births.outlives | reduced)
    return result
