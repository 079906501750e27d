"""Infers shapes and dtypes of allocated outputs from the inputs, without torch.

These are candidates: an op allocates buffers of its own too, so that a block's size has to confirm what it is.
"""

import math
from typing import NamedTuple

from perfkit.core.allocations import can_cuda_serve, round_cuda_size
from perfkit.cost.calls.args import UnmodeledError
from perfkit.cost.calls.dtypes import BY_NAME
from perfkit.cost.calls.op_call import OpCall
from perfkit.cost.calls.output_rules import OpOutput, OutputRule
from perfkit.cost.formula_table import OPS
from perfkit.cost.formulas.free_ops import ALLOCATIONS


class BlockOutput(NamedTuple):
    """The contents of a block. Where the block is not `exact` (of equal size), it may be a buffer of nearly that size;
    the op made `made` such outputs."""

    output: OpOutput
    exact: bool
    made: int


# Errors from damaged or foreign arguments.
_MISFITS = (UnmodeledError, IndexError, ValueError, ZeroDivisionError)

_WIDTHS = (1, 2, 4, 8, 16)  # bytes of an element


def infer_block_output(call: OpCall, size: int, cached: bool) -> BlockOutput | None:
    """Infer what an op stored in a block of `size` bytes that it allocated; None where no output fits, or several do.

    `cached` tells that the allocator is CUDA's, which rounds sizes up and does not split every block. An output of the
    block's very size goes before one that the block is larger than.
    """
    rule = find_output_rule(call.name)
    if rule is None:
        return None
    try:
        outputs = rule(call.args)
        exact = {
            candidate
            for candidate in outputs
            if any(_is_size(size, bytes_, cached) for bytes_ in _list_sizes(candidate))
        }
        near = {
            candidate
            for candidate in outputs
            if cached and any(can_cuda_serve(size, bytes_) for bytes_ in _list_sizes(candidate))
        }
    except _MISFITS:
        return None
    fitting = exact or near
    if len(fitting) != 1:
        return None
    (output,) = fitting
    return BlockOutput(output, bool(exact), outputs.count(output))


def find_output_rule(name: str) -> OutputRule | None:
    """The rule of an op that allocates its outputs; None where there is none."""
    declared = OPS.get(name)
    return ALLOCATIONS.get(name) if declared is None else declared.outputs


def _list_sizes(output: OpOutput) -> list[int]:
    """The bytes of an output, for each possible element size."""
    widths = (BY_NAME[output.dtype].size,) if output.dtype in BY_NAME else _WIDTHS
    return [math.prod(output.shape) * width for width in widths]


def _is_size(size: int, bytes_: int, cached: bool) -> bool:
    return size == bytes_ or (cached and size == round_cuda_size(bytes_))
