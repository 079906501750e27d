"""Ops over lists of tensors: an optimizer's fused and foreach kernels. FLOPs per parameter element.

Fused AdamW, 14: decay (1), first moment (3), second moment (4), denominator (square root, division by the correction,
addition of epsilon: 3), step (divide, multiply, subtract: 3). Fused SGD, 2, and 2 more with momentum. Fused Adagrad, 6.
"""

from perfkit.cost import elementwise
from perfkit.cost.args import (
    Args,
    Formula,
    all_tensors,
    numel,
    out_bytes,
    read_bytes,
    result_dtype,
    tensor_list,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_SOURCE = "optimizer"


# Element-wise ops that exist for lists, each in place, too.
_FOREACH = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp"
    " lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan"
    " tanh trunc"
)


def _elements(tensors: tuple[TensorArg, ...]) -> int:
    return sum(numel(operand) for operand in tensors)


def _dtype(tensors: tuple[TensorArg, ...]) -> str:
    return result_dtype(tensors[:1])


def _fused(count: int, lists: int, written: tuple[int, ...]) -> Formula:
    """The first `lists` arguments are lists that are read; those at `written` are written, too."""

    def formula(args: Args) -> OpCost:
        parameters = tensor_list(args, 0)
        nbytes = read_bytes(*all_tensors(args[:lists]))
        nbytes += sum(out_bytes(numel(operand), operand.dtype) for at in written for operand in tensor_list(args, at))
        return vector(count * _elements(parameters), nbytes, _dtype(parameters), _SOURCE)

    return formula


def _sgd(args: Args) -> OpCost:
    """_fused_sgd_(params, grads, momentum_buffers, ...)."""
    count = 4 if tensor_list(args, 2) else 2
    return _fused(count, 3, (0, 2))(args)


def _foreach(count: int) -> Formula:
    """An element-wise op on every tensor of a list, combined with scalars, one tensor or lists of the same length."""

    def formula(args: Args) -> OpCost:
        tensors = tensor_list(args, 0)
        # In place or not, as much is written as the first list holds.
        nbytes = read_bytes(*all_tensors(args)) + sum(out_bytes(numel(operand), operand.dtype) for operand in tensors)
        return vector(count * _elements(tensors), nbytes, _dtype(tensors), "foreach")

    return formula


def _foreach_reduce(count: int) -> Formula:
    """_foreach_norm, _foreach_max: one number for each tensor."""

    def formula(args: Args) -> OpCost:
        tensors = tensor_list(args, 0)
        nbytes = read_bytes(*tensors) + sum(out_bytes(1, operand.dtype) for operand in tensors)
        return vector(count * _elements(tensors), nbytes, _dtype(tensors), "foreach")

    return formula


def _foreach_copy(args: Args) -> OpCost:
    """_foreach_copy_(self, src): the destination is not read."""
    destinations, sources = tensor_list(args, 0), tensor_list(args, 1)
    nbytes = read_bytes(*sources) + sum(out_bytes(numel(operand), operand.dtype) for operand in destinations)
    return vector(0, nbytes, _dtype(destinations), "foreach")


def _foreach_zero(args: Args) -> OpCost:
    tensors = tensor_list(args, 0)
    return vector(0, sum(out_bytes(numel(operand), operand.dtype) for operand in tensors), _dtype(tensors), "foreach")


def _unscale(args: Args) -> OpCost:
    """_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale): test and multiply."""
    return _foreach(2)(args)


def _table() -> dict[str, Formula]:
    formulas: dict[str, Formula] = {}
    counts = {name: count for count, names in elementwise.COUNTS.items() for name in names.split()}
    for name in _FOREACH.split():
        formulas[f"aten::_foreach_{name}"] = formulas[f"aten::_foreach_{name}_"] = _foreach(counts[name])
    adam = _fused(14, 6, (0, 2, 3, 4))
    return {
        **formulas,
        "aten::_foreach_norm": _foreach_reduce(2),
        "aten::_foreach_powsum": _foreach_reduce(2),
        "aten::_foreach_max": _foreach_reduce(1),
        "aten::_foreach_clone": _foreach(0),
        "aten::_foreach_copy": _foreach_copy,
        "aten::_foreach_copy_": _foreach_copy,
        "aten::_foreach_zero_": _foreach_zero,
        "aten::_fused_adam_": adam,
        "aten::_fused_adamw_": adam,
        "aten::_fused_sgd_": _sgd,
        "aten::_fused_adagrad_": _fused(6, 4, (0, 2)),
        "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    }


FORMULAS = _table()
