"""Ops over lists of tensors: an optimizer's fused and foreach kernels. FLOPs per parameter element.

Fused AdamW, 14: decay (1), first moment (3), second moment (4), denominator (square root, division by the correction,
addition of epsilon: 3), step (divide, multiply, subtract: 3). Fused SGD, 2, and 2 more with momentum. Fused Adagrad, 6.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_tensor_list,
    infer_result_dtype,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.formulas.elementwise_ops import FLOPS_PER_ELEMENT

OPS = OpFamily(OpClass.OPTIMIZER)

_SOURCE = "optimizer"


def _count_elements(tensors: tuple[TensorArg, ...]) -> int:
    return sum(numel(operand) for operand in tensors)


def _get_dtype(tensors: tuple[TensorArg, ...]) -> str:
    return infer_result_dtype(tensors[:1])


def _make_fused(count: int, lists: int, written: tuple[int, ...]) -> Formula:
    """The first `lists` arguments are lists that are read; those at `written` are written, too."""

    def formula(args: Args) -> OpCost:
        parameters = get_tensor_list(args, 0)
        nbytes = count_read_bytes(*walk_tensors(args[:lists]))
        nbytes += sum(
            count_output_bytes(numel(operand), operand.dtype) for at in written for operand in get_tensor_list(args, at)
        )
        return make_vector_cost(count * _count_elements(parameters), nbytes, _get_dtype(parameters), _SOURCE)

    return formula


@OPS.formula("_fused_sgd_")
def _cost_sgd(args: Args) -> OpCost:
    """_fused_sgd_(params, grads, momentum_buffers, ...)."""
    count = 4 if get_tensor_list(args, 2) else 2
    return _make_fused(count, 3, (0, 2))(args)


def _make_foreach(count: int) -> Formula:
    """An element-wise op on every tensor of a list, combined with scalars, one tensor or lists of the same length."""

    def formula(args: Args) -> OpCost:
        tensors = get_tensor_list(args, 0)
        # In place or not, as much is written as the first list holds.
        nbytes = count_read_bytes(*walk_tensors(args)) + sum(
            count_output_bytes(numel(operand), operand.dtype) for operand in tensors
        )
        return make_vector_cost(count * _count_elements(tensors), nbytes, _get_dtype(tensors), "foreach")

    return formula


def _make_foreach_reduce(count: int) -> Formula:
    """_foreach_norm, _foreach_max: one number for each tensor."""

    def formula(args: Args) -> OpCost:
        tensors = get_tensor_list(args, 0)
        nbytes = count_read_bytes(*tensors) + sum(count_output_bytes(1, operand.dtype) for operand in tensors)
        return make_vector_cost(count * _count_elements(tensors), nbytes, _get_dtype(tensors), "foreach")

    return formula


@OPS.formula("_foreach_copy _foreach_copy_", flops=Flops.NONE)
def _cost_foreach_copy(args: Args) -> OpCost:
    """_foreach_copy_(self, src): the destination is not read."""
    destinations, sources = get_tensor_list(args, 0), get_tensor_list(args, 1)
    nbytes = count_read_bytes(*sources) + sum(
        count_output_bytes(numel(operand), operand.dtype) for operand in destinations
    )
    return make_vector_cost(0, nbytes, _get_dtype(destinations), "foreach")


@OPS.formula("_foreach_zero_", flops=Flops.NONE)
def _cost_foreach_zero(args: Args) -> OpCost:
    tensors = get_tensor_list(args, 0)
    return make_vector_cost(
        0, sum(count_output_bytes(numel(operand), operand.dtype) for operand in tensors), _get_dtype(tensors), "foreach"
    )


OPS.add("_foreach_norm", _make_foreach_reduce(2), op_class=OpClass.REDUCTION)
OPS.add("_foreach_powsum", _make_foreach_reduce(2))
OPS.add("_foreach_max", _make_foreach_reduce(1), op_class=OpClass.REDUCTION)
OPS.add("_foreach_clone", _make_foreach(0), flops=Flops.NONE)
OPS.add("_fused_adam_ _fused_adamw_", _make_fused(14, 6, (0, 2, 3, 4)))
OPS.add("_fused_adagrad_", _make_fused(6, 4, (0, 2)))
# _amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale): test and multiply
OPS.add("_amp_foreach_non_finite_check_and_unscale_", _make_foreach(2), op_class=OpClass.OTHER)

# Element-wise ops that exist for lists, each in place, too.
_FOREACH = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp"
    " lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan"
    " tanh trunc"
)
for _name in _FOREACH.split():
    OPS.add(f"_foreach_{_name} _foreach_{_name}_", _make_foreach(FLOPS_PER_ELEMENT[_name]))
