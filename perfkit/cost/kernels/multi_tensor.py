"""Multi-tensor kernels outside of any op: optimizers of apex, DeepSpeed and torch.

A name tells the functor, how many lists it has (its depth) and their dtype; the grid has a block for each chunk of
65,536 elements. Only the last chunk of a tensor is not full, and a launch takes so many tensors at most, so that blocks
bound the elements. Chunks and tables: aten/src/ATen/native/cuda/MultiTensorApply.cuh (with CUDA 13 the larger
one), csrc/multi_tensor_apply.cuh of apex, csrc/adam/multi_tensor_apply.cuh of DeepSpeed; FLOPs as of the fused ops.
"""

import re
from typing import NamedTuple

from perfkit.cost.calls.args import get_element_size, make_vector_cost
from perfkit.cost.calls.dtypes import BY_TRACE_NAME
from perfkit.cost.calls.op_call import OpCost

CHUNK = 65536
_MOST_TENSORS = (110, 64, 48, 36, 30)  # by depth
_MOST_TENSORS_OF_TORCH = (770, 448, 336, 252, 210)
_MOST_BLOCKS = 2240
NAME_AND_GRID = "kernel over lists: name and grid"
SIZED = "kernel over lists: name, and the gradients' shapes"

_KERNEL = re.compile(
    r"multi_tensor_apply_kernel<.*?TensorList(ScalarList)?Metadata<([\w: ]+,\s*)?(?P<depth>[1-5])>\s*,\s*(?P<rest>.*)"
)
_FUNCTOR = re.compile(r"(?P<name>\w+Functor)\w*<(?P<dtype>[\w: ]+)(?P<more>[^<>]*)")
# torch's elementwise functors: T, depth, number of lists read, index of the list written.
_FOREACH = re.compile(r"(?P<kind>Unary|Binary|Pointwise|Ternary)Op\w*Functor")
_READ = re.compile(r"\s*,\s*[1-5]\s*,\s*([1-5])\s*,\s*[0-4]\s*$")
_FOREACH_FLOPS = {"Unary": 1, "Binary": 1, "Pointwise": 3, "Ternary": 3}


class _FunctorCost(NamedTuple):
    """FLOPs per element, and the numbers of lists read and written, by depth."""

    flops: int
    moved: dict[int, tuple[int, int]]


_FUNCTORS = {
    "FusedAdamMathFunctor": _FunctorCost(14, {4: (4, 3), 5: (5, 4)}),  # parameter, gradient, moments
    "AdamFunctor": _FunctorCost(14, {4: (4, 3)}),
    "FusedSgdMathFunctor": _FunctorCost(4, {3: (3, 2)}),
    "SGDFunctor": _FunctorCost(4, {3: (3, 2), 4: (3, 3)}),  # of four the last is a copy in 16 bits
    "FusedAdagradMathFunctor": _FunctorCost(6, {3: (3, 2)}),
    "L2NormFunctor": _FunctorCost(2, {1: (1, 0)}),
    "LpNormFunctor": _FunctorCost(2, {1: (1, 0)}),
    "ScaleFunctor": _FunctorCost(1, {2: (1, 1)}),
}


def cost_multi_tensor_kernel(name: str, blocks: int, elements: float | None = None) -> OpCost | None:
    """The cost of a kernel over lists with this many blocks: of `elements` where known, else from the possible minimum
    to the maximum; None for other kernels."""
    kernel = _KERNEL.search(name)
    functor = None if kernel is None else _FUNCTOR.search(kernel["rest"])
    if kernel is None or functor is None or not 0 < blocks <= _MOST_BLOCKS:
        return None
    depth, dtype = int(kernel["depth"]), BY_TRACE_NAME.get(functor["dtype"].strip())
    known = _FUNCTORS.get(functor["name"]) or _parse_foreach_functor(functor["name"], functor["more"], depth)
    if known is None or dtype is None or depth not in known.moved:
        return None
    element = sum(known.moved[depth]) * get_element_size(dtype.name)
    if elements is not None:
        return make_vector_cost(known.flops * elements, element * elements, dtype.name, SIZED)
    tensors = min((_MOST_TENSORS_OF_TORCH if "at::native" in name else _MOST_TENSORS)[depth - 1], blocks)
    most = blocks * CHUNK
    least = (blocks - tensors) * CHUNK + tensors
    cost = make_vector_cost(known.flops * least, element * least, dtype.name, NAME_AND_GRID)
    return cost._replace(most_flops=float(known.flops * most), most_bytes=element * most)


def _parse_foreach_functor(name: str, more: str, depth: int) -> _FunctorCost | None:
    kind, read = _FOREACH.match(name), _READ.match(more)
    if kind is None or read is None or kind["kind"] not in _FOREACH_FLOPS:
        return None
    return _FunctorCost(_FOREACH_FLOPS[kind["kind"]], {depth: (int(read[1]), 1)})
