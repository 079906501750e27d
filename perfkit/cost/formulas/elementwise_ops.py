"""Table of the element-wise ops: one row each, with its FLOPs per output element.

One FLOP is an addition, subtraction, multiplication, division, comparison, maximum, rounding, square root or any
elementary function (exp, log, erf, tanh, ...): the count of operations as a formula is written, not of the instructions
a device needs for them. Moving, selecting and integer arithmetic cost none.
"""

from typing import NamedTuple

from perfkit.cost.calls.output_rules import OutputRule, make_combined


class Elementwise(NamedTuple):
    """An op of `aten` that combines `tensors` tensors; a further one is that which an `out=` variant writes.

    With `in_place` it has a twin with a trailing underscore, unless it is a backward. Its output has the inputs' dtype
    or `dtype`, with elements `widening` times as large (two real numbers become a complex one). `outputs` infers new
    tensors where the default does not.
    """

    name: str
    flops: int
    tensors: int = 1
    in_place: bool = True
    dtype: str | None = None
    widening: int = 1
    outputs: OutputRule | None = None


ROWS = (
    Elementwise("where", 0, 3, in_place=False),
    Elementwise("masked_fill", 0, 3),
    Elementwise("logical_and", 0, 2, dtype="bool"),
    Elementwise("logical_or", 0, 2, dtype="bool"),
    Elementwise("logical_not", 0, dtype="bool"),
    Elementwise("logical_xor", 0, 2, dtype="bool", outputs=make_combined()),
    Elementwise("bitwise_and", 0, 2),
    Elementwise("bitwise_or", 0, 2),
    Elementwise("bitwise_not", 0),
    Elementwise("bitwise_xor", 0, 2),
    Elementwise("bitwise_left_shift", 0, 2),
    Elementwise("bitwise_right_shift", 0, 2),
    Elementwise("add", 1, 2),
    Elementwise("sub", 1, 2),
    Elementwise("rsub", 1, 2, in_place=False),
    Elementwise("mul", 1, 2),
    Elementwise("div", 1, 2),
    Elementwise("neg", 1),
    Elementwise("abs", 1),
    Elementwise("sign", 1),
    Elementwise("exp", 1),
    Elementwise("expm1", 1),
    Elementwise("log", 1),
    Elementwise("log1p", 1),
    Elementwise("sqrt", 1),
    Elementwise("reciprocal", 1),
    Elementwise("sin", 1),
    Elementwise("cos", 1),
    Elementwise("tanh", 1),
    Elementwise("erf", 1),
    Elementwise("pow", 1, 2),
    Elementwise("maximum", 1, 2, in_place=False),
    Elementwise("minimum", 1, 2, in_place=False),
    Elementwise("clamp_min", 1, 2),
    Elementwise("clamp_max", 1, 2),
    Elementwise("relu", 1),
    Elementwise("threshold", 1),
    Elementwise("threshold_backward", 1, 2),
    Elementwise("floor", 1),
    Elementwise("ceil", 1),
    Elementwise("round", 1),
    Elementwise("trunc", 1),
    Elementwise("frac", 1),
    Elementwise("eq", 1, 2, dtype="bool"),
    Elementwise("ne", 1, 2, dtype="bool"),
    Elementwise("lt", 1, 2, dtype="bool"),
    Elementwise("le", 1, 2, dtype="bool"),
    Elementwise("gt", 1, 2, dtype="bool"),
    Elementwise("ge", 1, 2, dtype="bool"),
    Elementwise("clamp", 2, 3),
    Elementwise("hardtanh", 2),
    Elementwise("rsqrt", 2),
    Elementwise("leaky_relu", 2),
    Elementwise("leaky_relu_backward", 2, 2),
    Elementwise("hardtanh_backward", 2, 2),
    Elementwise("addcmul", 3, 3),
    Elementwise("addcdiv", 3, 3),
    Elementwise("lerp", 3, 3),
    Elementwise("elu", 3),
    Elementwise("sigmoid_backward", 3, 2),
    Elementwise("tanh_backward", 3, 2),
    Elementwise("softplus", 3, in_place=False),
    Elementwise("hardsigmoid", 3),
    Elementwise("sigmoid", 4),
    Elementwise("elu_backward", 4, 2),
    Elementwise("softplus_backward", 4, 2),
    Elementwise("hardswish", 4),
    Elementwise("silu", 5),
    Elementwise("gelu", 5),  # x/2 (1 + erf(x/sqrt 2)), and so the tanh form
    Elementwise("hardswish_backward", 5, 2),
    Elementwise("mish", 8),
    Elementwise("silu_backward", 9, 2),  # g s (1 + x (1 - s)) with the sigmoid s recomputed
    Elementwise("gelu_backward", 11, 2),  # g (cdf + x pdf): 4 for the cdf, 4 for the pdf, 3 to combine
    # g (t + x s (1 - t^2)): softplus 2, its tanh t 1, the sigmoid s 4, 6 to combine
    Elementwise("mish_backward", 13, 2),
)

# Ops that findings and efficiencies count as `other`.
UNCLASSED_ROWS = (
    Elementwise("__lshift__", 0, 2),
    Elementwise("__rshift__", 0, 2),
    Elementwise("gcd", 0, 2),
    Elementwise("lcm", 0, 2),
    Elementwise("signbit", 0, in_place=False, dtype="bool", outputs=make_combined()),
    Elementwise("isneginf", 0, in_place=False, dtype="bool", outputs=make_combined()),
    Elementwise("isposinf", 0, in_place=False, dtype="bool", outputs=make_combined()),
    Elementwise("conj_physical", 0),
    Elementwise("_conj_physical", 0, in_place=False),
    Elementwise("complex", 0, 2, in_place=False, widening=2),
    Elementwise("floor_divide", 1, 2),
    Elementwise("sgn", 1),
    Elementwise("exp2", 1),
    Elementwise("log2", 1),
    Elementwise("log10", 1),
    Elementwise("tan", 1),
    Elementwise("asin", 1),
    Elementwise("acos", 1),
    Elementwise("atan", 1),
    Elementwise("atan2", 1, 2),
    Elementwise("sinh", 1),
    Elementwise("cosh", 1),
    Elementwise("asinh", 1),
    Elementwise("acosh", 1),
    Elementwise("atanh", 1),
    Elementwise("erfc", 1),
    Elementwise("erfinv", 1),
    Elementwise("lgamma", 1),
    Elementwise("digamma", 1),
    Elementwise("fmax", 1, 2, in_place=False),
    Elementwise("fmin", 1, 2, in_place=False),
    Elementwise("remainder", 1, 2),
    Elementwise("fmod", 1, 2),
    Elementwise("hypot", 1, 2),
    Elementwise("copysign", 1, 2),
    Elementwise("nan_to_num", 1),
    Elementwise("isnan", 1, in_place=False, dtype="bool"),
    Elementwise("isinf", 1, in_place=False, dtype="bool"),
    Elementwise("angle", 1, in_place=False),
    Elementwise("deg2rad", 1),
    Elementwise("rad2deg", 1),
    Elementwise("heaviside", 1, 2),
    Elementwise("nextafter", 1, 2),
    Elementwise("i0", 1),
    Elementwise("igamma", 1, 2),
    Elementwise("igammac", 1, 2),
    Elementwise("hardshrink", 1, in_place=False),
    Elementwise("hardshrink_backward", 1, 2),
    Elementwise("softshrink_backward", 1, 2),
    Elementwise("special_erfcx", 1, in_place=False),
    Elementwise("special_i0e", 1, in_place=False),
    Elementwise("special_i1", 1, in_place=False),
    Elementwise("special_i1e", 1, in_place=False),
    Elementwise("special_ndtri", 1, in_place=False),
    Elementwise("special_log_ndtr", 1, in_place=False),
    Elementwise("polar", 2, 2, in_place=False, widening=2),
    Elementwise("ldexp", 2, 2),
    Elementwise("softshrink", 2, in_place=False),
    Elementwise("_add_relu", 2, 2),
    Elementwise("hardsigmoid_backward", 2, 2),
    Elementwise("_prelu_kernel", 2, 2, in_place=False),
    Elementwise("xlogy", 3, 2),
    Elementwise("sinc", 3),
    Elementwise("special_entr", 3, in_place=False),
    Elementwise("special_xlog1py", 3, 2, in_place=False),
    Elementwise("logit_backward", 3, 2),
    Elementwise("logaddexp", 4, 2, in_place=False),
    Elementwise("logaddexp2", 4, 2, in_place=False),
    Elementwise("logit", 4),
    Elementwise("celu", 4),
)

FLOPS_PER_ELEMENT = {row.name: row.flops for row in (*ROWS, *UNCLASSED_ROWS)}
