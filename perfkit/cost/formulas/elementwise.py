"""Element-wise ops: a stated number of FLOPs per output element; every input read once, the output written once.

One FLOP is an addition, subtraction, multiplication, division, comparison, maximum, rounding, square root or any
elementary function (exp, log, erf, tanh, ...): the count of operations as a formula is written, not of the instructions
a device needs for them. Moving, selecting and integer arithmetic cost none.
"""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    broadcast_shapes,
    count_output_bytes,
    count_read_bytes,
    get_tensor,
    infer_result_dtype,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpCost

_SOURCE = "element-wise"

# FLOPs per element. Most ops have an in-place twin with a trailing underscore and the same count.
COUNTS: dict[int, str] = {
    0: "where masked_fill logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not"
    " bitwise_xor bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ gcd lcm signbit isneginf isposinf"
    " conj_physical _conj_physical complex",
    1: "add sub rsub mul div floor_divide neg abs sign sgn exp exp2 expm1 log log2 log10 log1p sqrt reciprocal sin cos"
    " tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma pow maximum minimum fmax"
    " fmin clamp_min clamp_max relu threshold threshold_backward floor ceil round trunc frac remainder fmod hypot"
    " copysign nan_to_num isnan isinf angle deg2rad rad2deg heaviside nextafter i0 igamma igammac hardshrink"
    " hardshrink_backward softshrink_backward special_erfcx special_i0e special_i1 special_i1e special_ndtri"
    " special_log_ndtr",
    2: "clamp hardtanh rsqrt leaky_relu leaky_relu_backward hardtanh_backward polar ldexp softshrink _add_relu"
    " hardsigmoid_backward _prelu_kernel",
    3: "addcmul addcdiv lerp elu sigmoid_backward tanh_backward xlogy softplus hardsigmoid sinc special_entr"
    " special_xlog1py logit_backward",
    4: "sigmoid elu_backward logaddexp logaddexp2 logit softplus_backward hardswish celu",
    5: "silu gelu hardswish_backward",  # gelu: x/2 (1 + erf(x/sqrt 2)), and so the tanh form
    8: "mish",
    9: "silu_backward",  # g s (1 + x (1 - s)) with the sigmoid s recomputed
    11: "gelu_backward",  # g (cdf + x pdf): 4 for the cdf, 4 for the pdf, 3 to combine
    13: "mish_backward",  # g (t + x s (1 - t^2)): softplus 2, its tanh t 1, the sigmoid s 4, 6 to combine
}

# Ops that combine two or three tensors; a further one is that which an `out=` variant writes.
_TWO = (
    "add sub rsub mul div floor_divide logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor"
    " bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ gcd lcm atan2 pow maximum minimum fmax fmin"
    " clamp_min clamp_max threshold_backward remainder fmod hypot copysign heaviside nextafter igamma igammac"
    " hardshrink_backward softshrink_backward special_xlog1py xlogy leaky_relu_backward hardtanh_backward polar complex"
    " ldexp _add_relu hardsigmoid_backward _prelu_kernel sigmoid_backward tanh_backward logit_backward elu_backward"
    " logaddexp logaddexp2 softplus_backward hardswish_backward silu_backward gelu_backward mish_backward"
    " eq ne lt le gt ge"
)
_THREE = "where masked_fill clamp addcmul addcdiv lerp"
_TENSORS = {**dict.fromkeys(_TWO.split(), 2), **dict.fromkeys(_THREE.split(), 3)}

_WITHOUT_TWIN = (
    "where rsub maximum minimum fmax fmin isnan isinf isneginf isposinf polar complex softplus logaddexp logaddexp2"
    " angle signbit special_erfcx special_i0e special_i1 special_i1e special_ndtri special_log_ndtr softshrink"
    " hardshrink special_entr special_xlog1py _conj_physical _prelu_kernel"
)
_COMPARISONS = "eq ne lt le gt ge"  # 1 FLOP, written as bool
_TESTS = "isnan isinf isneginf isposinf signbit logical_and logical_or logical_not logical_xor"


def make_elementwise(
    count: int, out_dtype: str | None = None, tensors: int | None = None, widening: int = 1
) -> Formula:
    """Make a formula that combines up to `tensors` tensor arguments (all if None) elementwise into a new tensor.

    Its elements are `widening` times as large as the inputs' (two real numbers become a complex one).
    """

    def formula(args: Args) -> OpCost:
        inputs = tuple(walk_tensors(args))[:tensors]
        if not inputs:
            raise UnmodeledError("no tensor argument")
        elements = math.prod(broadcast_shapes(operand.shape for operand in inputs))
        dtype = infer_result_dtype(inputs)
        nbytes = count_read_bytes(*inputs) + widening * count_output_bytes(elements, out_dtype or dtype)
        return make_vector_cost(count * elements, nbytes, dtype, _SOURCE)

    return formula


def make_in_place(count: int) -> Formula:
    """The result replaces the first tensor."""

    def formula(args: Args) -> OpCost:
        first = get_tensor(args, 0)
        elements = numel(first)
        nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(elements, first.dtype)
        return make_vector_cost(count * elements, nbytes, first.dtype, _SOURCE)

    return formula


def _cost_dropout(args: Args) -> OpCost:
    """native_dropout(input, p, train): scale and mask; writes the output and a mask of bool."""
    x = get_tensor(args, 0)
    elements = numel(x)
    nbytes = count_read_bytes(x) + count_output_bytes(elements, x.dtype) + elements
    return make_vector_cost(2 * elements, nbytes, x.dtype, _SOURCE)


def _cost_dropout_backward(args: Args) -> OpCost:
    """native_dropout_backward(grad, mask, scale)."""
    grad, mask = get_tensor(args, 0), get_tensor(args, 1)
    elements = numel(grad)
    return make_vector_cost(
        2 * elements, count_read_bytes(grad, mask) + count_output_bytes(elements, grad.dtype), grad.dtype, _SOURCE
    )


def _cost_glu(args: Args) -> OpCost:
    """Cost glu(self, dim): one half times the sigmoid of the other."""
    x = get_tensor(args, 0)
    elements = numel(x) // 2
    return make_vector_cost(5 * elements, count_read_bytes(x) + count_output_bytes(elements, x.dtype), x.dtype, _SOURCE)


def _cost_glu_backward(args: Args) -> OpCost:
    """glu_backward(grad_output, self, dim): the sigmoid again (4), g s (1), g a s (1 - s) (4) for each output."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        9 * numel(grad), count_read_bytes(grad, x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


def _cost_prelu_backward(args: Args) -> OpCost:
    """_prelu_kernel_backward(grad_output, self, weight): both gradients in full; the weight's is summed afterwards."""
    grad, x, weight = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    nbytes = count_read_bytes(grad, x, weight) + 2 * count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(4 * numel(x), nbytes, x.dtype, _SOURCE)


def _cost_rrelu(args: Args) -> OpCost:
    """Cost rrelu_with_noise(self, noise, ...): draws the noise that scales negative values, and writes it."""
    x, noise = get_tensor(args, 0), get_tensor(args, 1)
    nbytes = count_read_bytes(x) + count_output_bytes(numel(noise), noise.dtype) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(2 * numel(x), nbytes, x.dtype, _SOURCE)


def _cost_log_sigmoid(args: Args) -> OpCost:
    """log_sigmoid_forward(self) -> output, buffer: the buffer is as large on a CPU and empty on a GPU, which is why
    it is not counted."""
    x = get_tensor(args, 0)
    return make_vector_cost(4 * numel(x), count_read_bytes(x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


def _cost_log_sigmoid_backward(args: Args) -> OpCost:
    """log_sigmoid_backward(grad_output, self, buffer): exp, add, divide, and two to combine."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        5 * numel(x), count_read_bytes(grad, x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


def _cost_fake_quantize(args: Args) -> OpCost:
    """fake_quantize(self, scale, zero_point, ...) -> output, mask: divide, round, shift, clamp (2), shift, multiply."""
    x = get_tensor(args, 0)
    others = count_read_bytes(*(operand for operand in walk_tensors(args[1:]) if len(operand.shape) < 2))
    nbytes = count_read_bytes(x) + others + count_output_bytes(numel(x), x.dtype) + numel(x)
    return make_vector_cost(7 * numel(x), nbytes, x.dtype, _SOURCE)


def _cost_quantize(args: Args) -> OpCost:
    """quantize_per_tensor(self, scale, zero_point, dtype), ..._per_channel: divide, round, shift, clamp (2); 8 bits."""
    x = get_tensor(args, 0)
    return make_vector_cost(5 * numel(x), count_read_bytes(*walk_tensors(args)) + numel(x), x.dtype, _SOURCE)


def _cost_dequantize(args: Args) -> OpCost:
    """dequantize(self) -> fp32: shift and multiply."""
    x = get_tensor(args, 0)
    return make_vector_cost(2 * numel(x), count_read_bytes(x) + 4 * numel(x), "fp32", _SOURCE)


def _build_table() -> dict[str, Formula]:
    formulas: dict[str, Formula] = {
        "aten::native_dropout": _cost_dropout,
        "aten::_fused_dropout": _cost_dropout,
        "aten::native_dropout_backward": _cost_dropout_backward,
        "aten::_masked_scale": _cost_dropout_backward,
        "aten::glu": _cost_glu,
        "aten::glu_backward": _cost_glu_backward,
        "aten::_prelu_kernel_backward": _cost_prelu_backward,
        "aten::rrelu_with_noise": _cost_rrelu,
        "aten::rrelu_with_noise_": _cost_rrelu,
        "aten::rrelu_with_noise_backward": make_elementwise(2),
        "aten::log_sigmoid_forward": _cost_log_sigmoid,
        "aten::log_sigmoid_backward": _cost_log_sigmoid_backward,
        "aten::_amp_update_scale_": make_in_place(1),
        "aten::fake_quantize_per_tensor_affine_cachemask": _cost_fake_quantize,
        "aten::fake_quantize_per_channel_affine_cachemask": _cost_fake_quantize,
        "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _cost_fake_quantize,
        "aten::quantize_per_tensor": _cost_quantize,
        "aten::quantize_per_channel": _cost_quantize,
        "aten::dequantize": _cost_dequantize,
    }
    for count, names in COUNTS.items():
        for name in names.split():
            out_dtype = "bool" if name in _TESTS.split() else None
            widening = 2 if name in ("polar", "complex") else 1
            formulas[f"aten::{name}"] = make_elementwise(count, out_dtype, _TENSORS.get(name, 1), widening)
            if not name.endswith("_backward") and name not in _WITHOUT_TWIN.split():
                formulas[f"aten::{name}_"] = make_in_place(count)
    for name in _COMPARISONS.split():
        formulas[f"aten::{name}"] = make_elementwise(1, "bool", 2)
        formulas[f"aten::{name}_"] = make_in_place(1)
    return formulas


FORMULAS = _build_table()
