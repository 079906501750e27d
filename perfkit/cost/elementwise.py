"""Element-wise ops: a stated number of FLOPs per output element; every input read once, the output written once.

One FLOP is an addition, subtraction, multiplication, division, comparison, maximum, rounding, square root or any
elementary function (exp, log, erf, tanh, ...): the count of operations as a formula is written, not of the instructions
a device needs for them. Moving, selecting and integer arithmetic cost none.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    all_tensors,
    broadcast,
    numel,
    out_bytes,
    read_bytes,
    result_dtype,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost

_SOURCE = "element-wise"

# FLOPs per element. Most ops have an in-place twin with a trailing underscore and the same count.
COUNTS: dict[int, str] = {
    0: "where masked_fill logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not"
    " bitwise_xor",
    1: "add sub rsub mul div floor_divide neg abs sign sgn exp exp2 expm1 log log2 log10 log1p sqrt reciprocal sin cos"
    " tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma pow maximum minimum fmax"
    " fmin clamp_min clamp_max relu threshold threshold_backward floor ceil round trunc frac remainder fmod hypot"
    " copysign nan_to_num isnan isinf",
    2: "clamp hardtanh rsqrt leaky_relu leaky_relu_backward hardtanh_backward polar",
    3: "addcmul addcdiv lerp elu sigmoid_backward tanh_backward xlogy softplus hardsigmoid",
    4: "sigmoid elu_backward logaddexp logit softplus_backward hardswish log_sigmoid_forward",
    5: "silu gelu hardswish_backward",  # gelu: x/2 (1 + erf(x/sqrt 2)); the tanh form is counted the same
    8: "mish",
    9: "silu_backward",  # g s (1 + x (1 - s)) with the sigmoid s recomputed
    11: "gelu_backward",  # g (cdf + x pdf): 4 for the cdf, 4 for the pdf, 3 to combine
}

_WITHOUT_TWIN = (
    "where rsub maximum minimum fmax fmin isnan isinf polar softplus logaddexp log_sigmoid_forward"  # not in place
)
_COMPARISONS = "eq ne lt le gt ge"  # 1 FLOP, written as bool
_TESTS = "isnan isinf logical_and logical_or logical_not logical_xor"


def elementwise(count: int, out_dtype: str | None = None) -> Formula:
    """All tensor arguments are combined element by element into a new tensor."""

    def formula(args: Args) -> OpCost:
        inputs = tuple(all_tensors(args))
        if not inputs:
            raise UnmodelledError("no tensor argument")
        elements = math.prod(broadcast(each.shape for each in inputs))
        dtype = result_dtype(inputs)
        nbytes = read_bytes(*inputs) + out_bytes(elements, out_dtype or dtype)
        return vector(count * elements, nbytes, dtype, _SOURCE)

    return formula


def in_place(count: int) -> Formula:
    """The result replaces the first tensor."""

    def formula(args: Args) -> OpCost:
        first = tensor(args, 0)
        elements = numel(first)
        nbytes = read_bytes(*all_tensors(args)) + out_bytes(elements, first.dtype)
        return vector(count * elements, nbytes, first.dtype, _SOURCE)

    return formula


def _dropout(args: Args) -> OpCost:
    """native_dropout(input, p, train): scale and mask; writes the output and a mask of bool."""
    x = tensor(args, 0)
    elements = numel(x)
    nbytes = read_bytes(x) + out_bytes(elements, x.dtype) + elements
    return vector(2 * elements, nbytes, x.dtype, _SOURCE)


def _dropout_backward(args: Args) -> OpCost:
    """native_dropout_backward(grad, mask, scale)."""
    grad, mask = tensor(args, 0), tensor(args, 1)
    elements = numel(grad)
    return vector(2 * elements, read_bytes(grad, mask) + out_bytes(elements, grad.dtype), grad.dtype, _SOURCE)


def _glu(args: Args) -> OpCost:
    """glu(self, dim): one half times the sigmoid of the other."""
    x = tensor(args, 0)
    elements = numel(x) // 2
    return vector(5 * elements, read_bytes(x) + out_bytes(elements, x.dtype), x.dtype, _SOURCE)


def _table() -> dict[str, Formula]:
    formulas: dict[str, Formula] = {
        "aten::native_dropout": _dropout,
        "aten::_fused_dropout": _dropout,
        "aten::native_dropout_backward": _dropout_backward,
        "aten::glu": _glu,
    }
    for count, names in COUNTS.items():
        for name in names.split():
            formulas[f"aten::{name}"] = elementwise(count, "bool" if name in _TESTS.split() else None)
            if not name.endswith("_backward") and name not in _WITHOUT_TWIN.split():
                formulas[f"aten::{name}_"] = in_place(count)
    for name in _COMPARISONS.split():
        formulas[f"aten::{name}"] = elementwise(1, "bool")
        formulas[f"aten::{name}_"] = in_place(1)
    return formulas


FORMULAS = _table()
