"""Models the scratch memory that CUDA libraries take from torch's allocator during an op.

It does not exist on a CPU. Sizes are formulas from the libraries' code if available, else bounds.
"""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import torch

from perfkit.cost.torch_dispatch import DispatchKey, tree_leaves
from perfkit.cost.torch_fakes import FakeTensor
from perfkit.plan.rehearsal.libraries.op_scratch_probe import (
    CROSS_ENTROPY_OF_LOGITS,
    UNPACKS_WEIGHT,
    OpScratchProbe,
    ProbedOp,
    count_cross_entropy_bytes,
)

ATTENTION, CONVOLUTION = "attention backward", "convolution"

SOURCES = {
    ATTENTION: "flash attention's backward: fp32 query gradients and a row sum per query "
    "(mha_bwd: dq_accum, softmax_d), and, with fewer key heads than query heads, key and value gradients per query "
    "head (dk_expanded, dv_expanded); cuDNN takes less",
    CONVOLUTION: (
        "cuDNN: at most a copy of each operand in another memory layout; none if its kernels accept the layout"
    ),
}

_ATTENTION_BACKWARD = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
_CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")


class CudaScratch(OpScratchProbe):
    """Scratch memory of ops, and the maximum (`most`) per library call.

    A recurrent layer's memory for backward is taken from the CPU library, since cuDNN does not report it.
    """

    # All others are one kernel each. bitsandbytes has one that unpacks nothing for few rows: 1,536 at most, and on most
    # GPUs 8 to 512.
    opened: Mapping[str, DispatchKey] = {UNPACKS_WEIGHT: DispatchKey.CompositeExplicitAutograd}

    def __init__(self, known: dict[Hashable, ProbedOp] | None = None) -> None:
        super().__init__(known)
        self.most: dict[str, int] = {}

    def scratch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> int:
        """Scratch bytes of the op on a GPU."""
        name: str = op._schema.name
        if name == CROSS_ENTROPY_OF_LOGITS:
            return count_cross_entropy_bytes(args, made)
        if name == _ATTENTION_BACKWARD:
            return self._record_scratch(ATTENTION, count_attention_backward_bytes(args[1], args[2]))
        if name in _CONVOLUTIONS:
            operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
            return self._record_scratch(CONVOLUTION, sum(operand.nbytes for operand in operands))
        return 0

    def _record_scratch(self, library: str, size: int) -> int:
        self.most[library] = max(size, self.most.get(library, 0))
        return size


def count_attention_backward_bytes(query: torch.Tensor, key: torch.Tensor) -> int:
    """Scratch bytes of flash attention's backward, for queries and keys of shape (batch, heads, length, width).

    Kernels in 16 bits sum the gradients of the queries in fp32, with lengths in whole 128 and widths in whole 32; the
    memory-efficient ones in fp32 sum them in place. Where several heads of queries share one of keys and values, each
    makes gradients of these of its own, which are then summed.
    """
    batch, heads, length, width = query.shape
    if query.itemsize == 4:
        return 4 * batch * heads * length
    expanded = 0 if key.shape[1] == heads else 2 * query.itemsize * batch * heads * key.shape[2] * width
    return 4 * batch * heads * 128 * math.ceil(length / 128) * (32 * math.ceil(width / 32) + 1) + expanded
