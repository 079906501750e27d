"""Probes the scratch memory of CPU libraries by running each op once per shape.

oneDNN's blocked formats for convolutions and 16-bit products, its workspaces, a recurrent layer's memory for backward,
and copies of a Fourier transform depend on the machine, and cannot be queried without running the op.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from perfkit.cost.torch_dispatch import DispatchKey, disable_modes, tree_flatten, tree_leaves, tree_map_only
from perfkit.cost.torch_fakes import FakeTensor
from perfkit.cost.workspaces import TAKES_WORKSPACE
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.ranks.fake_ranks import COPIED_BY_GLOO, count_gloo_copy_bytes

_RECURRENT = torch.ops.aten.mkldnn_rnn_layer.default
_RECURRENT_BACKWARD = torch.ops.aten.mkldnn_rnn_layer_backward.default

CROSS_ENTROPY_OF_LOGITS = "aten::binary_cross_entropy_with_logits"
# A product with a weight in 4 bits, which is unpacked before it.
UNPACKS_WEIGHT = "bitsandbytes::gemm_4bit"

# Those that copy operands whatever their type (ATen/native/mkl/SpectralOps.cpp), and those that do in 16 bits: the sum
# of a mean is in fp32 (`mean_cpu_out`, ATen/native/ReduceOps.cpp).
_COPIES_OPERANDS = re.compile(r"^aten::(\w*convolution\w*|\w*rnn\w*|_fft_\w+)$")
_COPIES_16_BITS = "aten::mean"

# Maximum bytes of operands and results of a probed op: a plan must not need the memory it plans.
_MOST_BYTES = 1 << 30


class ProbedOp(NamedTuple):
    """Scratch bytes of an op, and the bytes of its results."""

    scratch: int
    results: tuple[int, ...]


class OpScratchProbe:
    """Ops that were run alone, by their shapes; those `known` are not run again. `untried` are those whose operands and
    results are too large.

    `opened` are ops of libraries that are made of other ops, with memory in between that no fake kernel tells: the key
    of that kernel by op.
    """

    opened: Mapping[str, DispatchKey] = {
        "bitsandbytes::optimizer_update_8bit_blockwise": DispatchKey.CPU,
        UNPACKS_WEIGHT: DispatchKey.CompositeExplicitAutograd,
    }

    def __init__(self, known: dict[Hashable, ProbedOp] | None = None) -> None:
        self._known = {} if known is None else known
        self.untried: set[str] = set()

    def scratch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> int:
        """Bytes that an op on fake tensors would take beside its results, `made`, and give back; 0 where not known."""
        name: str = op._schema.name
        if name == CROSS_ENTROPY_OF_LOGITS:
            return count_cross_entropy_bytes(args, made)
        if name in COPIED_BY_GLOO:
            return count_gloo_copy_bytes(name, args)
        if not _COPIES_OPERANDS.match(name) and not (
            (TAKES_WORKSPACE.match(name) or name == _COPIES_16_BITS) and _has_16_bit_tensors((args, kwargs))
        ):
            return 0
        tried = self.try_op(op, args, kwargs, made)
        return 0 if tried is None else tried.scratch

    def try_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> ProbedOp | None:
        """Scratch bytes of an op on tensors of these shapes; None if they and its results `made` are too large."""
        leaves, _ = tree_flatten((args, kwargs))
        key = (op, torch.get_num_threads(), *(_describe_leaf(leaf) for leaf in leaves))
        if key not in self._known:
            tensors = [leaf for leaf in (*leaves, *tree_leaves(made)) if isinstance(leaf, FakeTensor)]
            if sum(math.prod(tensor.shape) * tensor.itemsize for tensor in tensors) > _MOST_BYTES:
                self.untried.add(op._schema.name)
                return None
            self._known[key] = _run_op(op, _make_real(args), _make_real(kwargs))
        return self._known[key]


def count_cross_entropy_bytes(args: Sequence[Any], made: torch.Tensor) -> int:
    """Temporary bytes of a cross-entropy of logits on any device (ATen/native/Loss.cpp).

    At its peak there are the loss of each element, its logarithm of the sigmoid, and its weight if positive ones have
    weights. The former is the result if that is not reduced.
    """
    logits: torch.Tensor = args[0]
    tensors = 2 if len(args) < 4 or args[3] is None else 3
    return (tensors - (made.shape == logits.shape)) * math.prod(logits.shape) * logits.itemsize


def _has_16_bit_tensors(tree: Any) -> bool:
    tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, FakeTensor))
    return any(tensor.is_floating_point() and tensor.itemsize == 2 for tensor in tensors)


def _describe_leaf(leaf: Any) -> Hashable:
    return (leaf.dtype, tuple(leaf.shape), leaf.stride()) if isinstance(leaf, FakeTensor) else (type(leaf), str(leaf))


def _make_real(tree: Any) -> Any:
    with disable_modes():
        return tree_map_only(
            FakeTensor, lambda fake: torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype).zero_(), tree
        )


def _run_op(op: Any, args: Any, kwargs: Any) -> ProbedOp:
    # Gradients are on: without, a recurrent layer keeps nothing for backward.
    with disable_modes(), torch.enable_grad():
        if op is _RECURRENT_BACKWARD:
            args = _make_backward_arguments(*args)
        with AllocationProfiler(ops=False) as profiler:
            made = op(*args, **kwargs)
        totals = [0, *accumulate(event.size for event in profiler.recorded.allocations)]
        results = tuple(leaf.nbytes for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor))
    return ProbedOp(max(totals) - totals[-1], results)


def _make_backward_arguments(
    x: Any, w0: Any, w1: Any, w2: Any, w3: Any, hx: Any, cx: Any, _output: Any, _hy: Any, _cy: Any, *rest: Any
) -> tuple[Any, ...]:
    """The arguments of a recurrent layer's backward with what its forward left: it crashes on any other workspace."""
    _, _, _, reverse, mode, hidden, layers, biases, train, both, sizes, batch_first, _workspace = rest
    layer = (x, w0, w1, w2, w3, hx, cx)
    options = (reverse, sizes, mode, hidden, layers, biases, both, batch_first, train)
    *states, workspace = (made.detach() for made in _RECURRENT(*layer, *options))
    return (*layer, *states, *rest[:-1], workspace)
