"""Fused layers that are autograd functions: Liger Kernel and Apex. The profiler records them with their tensors.

FLOPs as in the families of torch's own ops. Their backward nodes are costed by `perfkit.cost.layer_gradients`.

Signatures: src/liger_kernel/ops/ of Liger Kernel (rms_norm.py, swiglu.py, geglu.py, rope.py, cross_entropy.py),
apex/normalization/fused_layer_norm.py of Apex.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import Flops, OpDeclaration, OpFamily

OPS = OpFamily(OpClass.NORM)


def _declare(name: str, formula: Formula, op_class: OpClass) -> None:
    """Declare a function by its class's name, which has no namespace."""
    OPS[name] = OpDeclaration(formula, Flops.COUNTED, op_class, None)


def _make_norm(count: int) -> Formula:
    """Function(x, weight, bias, ...): writes the output."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        parameters = [value for value in (get_optional_tensor(args, index) for index in (1, 2)) if value is not None]
        nbytes = count_read_bytes(x, *parameters) + count_output_bytes(numel(x), x.dtype)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, "normalisation")

    return formula


def _cost_gated_unit(args: Args) -> OpCost:
    """LigerSiLUMulFunction(a, b): the activation of a (5) times b."""
    a, b = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        6 * numel(a), count_read_bytes(a, b) + count_output_bytes(numel(a), a.dtype), a.dtype, "element-wise"
    )


def _cost_rotation(args: Args) -> OpCost:
    """LigerRopeFunction(q, k, cos, sin, ...): two products and an addition for each element, in place."""
    query, key, cos, sin = (get_tensor(args, index) for index in range(4))
    elements = numel(query) + numel(key)
    nbytes = count_read_bytes(query, key, cos, sin) + count_output_bytes(elements, query.dtype)
    return make_vector_cost(3 * elements, nbytes, query.dtype, "element-wise")


def _cost_cross_entropy(args: Args) -> OpCost:
    """LigerCrossEntropyFunction(logits (rows, classes), target, ...): a softmax (5), and its gradient (2: subtract,
    scale) in place of the logits (arXiv:2410.10989, section 3.2)."""
    logits, target = get_tensor(args, 0, 2), get_tensor(args, 1)
    nbytes = count_read_bytes(logits, target) + count_output_bytes(numel(logits), logits.dtype)
    return make_vector_cost(7 * numel(logits), nbytes, logits.dtype, "softmax")


_declare("LigerRMSNormFunction", _make_norm(4), OpClass.NORM)
_declare("LigerLayerNormFunction", _make_norm(8), OpClass.NORM)
_declare("FusedLayerNormFunction", _make_norm(8), OpClass.NORM)
_declare("FusedLayerNormAffineFunction", _make_norm(8), OpClass.NORM)
_declare("FusedRMSNormFunction", _make_norm(4), OpClass.NORM)
_declare("FusedRMSNormAffineFunction", _make_norm(4), OpClass.NORM)
_declare("LigerSiLUMulFunction", _cost_gated_unit, OpClass.POINTWISE)
_declare("LigerGELUMulFunction", _cost_gated_unit, OpClass.POINTWISE)
_declare("LigerRopeFunction", _cost_rotation, OpClass.INDEX)
_declare("LigerCrossEntropyFunction", _cost_cross_entropy, OpClass.LOSS)
