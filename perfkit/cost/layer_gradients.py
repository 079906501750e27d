"""Costs the gradients of fused layers that are autograd functions: Liger Kernel and Apex.

Their backward nodes are given only gradients. The calls of the layer in the trace show what else these read: those with
an output of the gradient's shape, with bounds where several such calls differ.

FLOPs as in the families of torch's own ops (`normalization`, `elementwise_ops`).

Signatures: src/liger_kernel/ops/ of Liger Kernel (rms_norm.py, layer_norm.py, swiglu.py, geglu.py, rope.py,
cross_entropy.py), apex/normalization/fused_layer_norm.py of Apex.
"""

from collections.abc import Callable, Iterable
from functools import partial

from perfkit.cost.calls.args import (
    Args,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg

_NORMALIZATION, _ELEMENTWISE, _SOFTMAX = "normalisation", "element-wise", "softmax"
_BACKWARD = "Backward"

_GradientCost = Callable[
    [TensorArg, Args, Args], OpCost | None
]  # of a gradient, all of them, and the layer's arguments


def _cost_norm(count: int, statistics: int, grad: TensorArg, _: Args, layer: Args) -> OpCost | None:
    """Reads the gradient, the input, `statistics` numbers of each row in fp32 and the parameters; writes the gradients
    of the input and of the parameters."""
    x = get_tensor(layer, 0)
    if x.shape != grad.shape:
        return None
    parameters = [value for value in (get_optional_tensor(layer, index) for index in (1, 2)) if value is not None]
    rows = numel(x) // max(x.shape[-1], 1)
    nbytes = count_read_bytes(grad, x) + count_output_bytes(statistics * rows, "fp32")
    nbytes += count_output_bytes(numel(x), x.dtype) + 2 * count_read_bytes(*parameters)
    return make_vector_cost(count * numel(x), nbytes, x.dtype, _NORMALIZATION)


def _cost_gated_unit(count: int, grad: TensorArg, _: Args, layer: Args) -> OpCost | None:
    """Reads the gradient and both halves, writes the gradients of both."""
    a, b = get_tensor(layer, 0), get_tensor(layer, 1)
    if a.shape != grad.shape:
        return None
    written = count_output_bytes(numel(a), a.dtype) + count_output_bytes(numel(b), b.dtype)
    return make_vector_cost(count * numel(a), count_read_bytes(grad, a, b) + written, a.dtype, _ELEMENTWISE)


def _cost_rotation(grad: TensorArg, grads: Args, layer: Args) -> OpCost | None:
    """The rotation in the other direction of the gradients of queries and keys, in place."""
    other = get_tensor(grads, 1)
    if (grad.shape, other.shape) != (get_tensor(layer, 0).shape, get_tensor(layer, 1).shape):
        return None
    elements = numel(grad) + numel(other)
    nbytes = count_read_bytes(grad, other, get_tensor(layer, 2), get_tensor(layer, 3))
    return make_vector_cost(3 * elements, nbytes + count_output_bytes(elements, grad.dtype), grad.dtype, _ELEMENTWISE)


def _cost_cross_entropy(grad: TensorArg, _: Args, layer: Args) -> OpCost | None:
    """The forward pass stored the gradient in place of the logits: a product with the loss's own, in place."""
    logits = get_tensor(layer, 0, 2)
    if numel(grad) != 1:
        return None
    nbytes = count_read_bytes(logits) + count_output_bytes(numel(logits), logits.dtype)
    return make_vector_cost(numel(logits), nbytes, logits.dtype, _SOFTMAX)


_LAYERS: dict[str, _GradientCost] = {
    "LigerRMSNormFunction": partial(_cost_norm, 9, 1),
    "LigerLayerNormFunction": partial(_cost_norm, 14, 2),
    "FusedLayerNormFunction": partial(_cost_norm, 11, 2),
    "FusedLayerNormAffineFunction": partial(_cost_norm, 14, 2),
    "FusedRMSNormFunction": partial(_cost_norm, 7, 1),
    "FusedRMSNormAffineFunction": partial(_cost_norm, 9, 1),
    # silu_backward (9) or gelu_backward (11) of the product of gradient and b, the activation of a, and its product
    "LigerSiLUMulFunction": partial(_cost_gated_unit, 12),
    "LigerGELUMulFunction": partial(_cost_gated_unit, 14),
    "LigerRopeFunction": _cost_rotation,
    "LigerCrossEntropyFunction": _cost_cross_entropy,
}


def find_layer(node: str) -> str | None:
    """The layer whose gradient the node computes; None for other nodes."""
    layer = node.removesuffix(_BACKWARD)
    return layer if node != layer and layer in _LAYERS else None


def cost_layer_gradient(call: OpCall, layers: Iterable[OpCall]) -> OpCost | None:
    """The cost of a node from all calls of its layer in the trace; None where none has such an output."""
    layer = find_layer(call.name)
    grad = get_optional_tensor(call.args, 0)
    if layer is None or grad is None:
        return None
    try:
        costs = {_LAYERS[layer](grad, call.args, forward.args) for forward in layers}
    except UnmodeledError:
        return None
    known = sorted((cost for cost in costs if cost is not None), key=_get_bytes)
    if not known or any(cost.bytes is None for cost in known):
        return None
    least, most = known[0], known[-1]
    return least if len(known) == 1 else least._replace(most_flops=most.flops, most_bytes=most.bytes)


def _get_bytes(cost: OpCost) -> float:
    return cost.bytes or 0.0
