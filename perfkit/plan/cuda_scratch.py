"""Scratch memory that CUDA's libraries take for an op, from torch's allocator, until the op ends.

Nothing of it shows on a CPU. The sizes are formulas of the libraries' own code where there are some, else bounds.
"""

import math
from collections.abc import Hashable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from perfkit.plan.op_scratch_probe import OpScratchProbe, ProbedOp

ATTENTION, CONVOLUTION = "attention in backward", "convolutions"

SOURCES = {
    ATTENTION: "fp32 gradients of the queries and a row sum for each query, of flash attention's backward "
    "(mha_bwd: dq_accum, softmax_d), and with fewer heads of keys than of queries gradients of keys and values for "
    "each of these (dk_expanded, dv_expanded); cuDNN's kernels take less",
    CONVOLUTION: (
        "at most a copy of each operand in another memory layout, by cuDNN; none where its kernels take them as they "
        "are"
    ),
}

_ATTENTION_BACKWARD = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
_CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")


class CudaScratch(OpScratchProbe):
    """The scratch memory of ops, and the `most` that one call of each library took.

    What a recurrent layer keeps for backward is told by the CPU's library, in place of cuDNN, which does not tell.
    """

    opened = frozenset()  # one kernel each

    def __init__(self, known: dict[Hashable, ProbedOp] | None = None) -> None:
        super().__init__(known)
        self.most: dict[str, int] = {}

    def scratch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> int:
        """Bytes that the op on a GPU would take beside its results and give back."""
        name: str = op._schema.name
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
    """What flash attention's backward works in, for queries and keys of shape (batch, heads, length, width).

    Kernels in 16 bits sum the gradients of the queries in fp32, with lengths in whole 128 and widths in whole 32; the
    memory-efficient ones in fp32 sum them in place. Where several heads of queries share one of keys and values, each
    makes gradients of these of its own, which are then summed.
    """
    batch, heads, length, width = query.shape
    if query.itemsize == 4:
        return 4 * batch * heads * length
    expanded = 0 if key.shape[1] == heads else 2 * query.itemsize * batch * heads * key.shape[2] * width
    return 4 * batch * heads * 128 * math.ceil(length / 128) * (32 * math.ceil(width / 32) + 1) + expanded
