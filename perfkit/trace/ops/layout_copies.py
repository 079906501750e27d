"""Copies to another memory format that a convolution makes of its operands."""

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops

_CONVOLUTIONS = ("aten::_convolution", "aten::convolution_backward")


def find_layout_copies(ops: Ops) -> NDArray[np.bool_]:
    """Mark the clones of operands that are not in the memory format of the others: `contiguous` copies no others."""

    def mark(*names: str) -> NDArray[np.bool_]:
        return mark_named(ops.trace, ops.event, names.__contains__)

    made = mark("aten::contiguous") & _is_within(ops, mark(*_CONVOLUTIONS))
    return mark("aten::clone") & _is_within(ops, made)


def _is_within(ops: Ops, around: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True for ops that one of these calls itself."""
    within: NDArray[np.bool_] = (ops.parent != NONE) & around[ops.parent]
    return within
