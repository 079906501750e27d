"""Hand-written Triton kernels, with arguments as the profiler records them, against hand calculations."""

import math

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost | None:
    return cost_op(OpCall(name, args))  # type: ignore[arg-type]


def test_experts() -> None:
    """24 tokens to 4 of 16 experts, with weights of 8 bits."""
    a, b, c = t(24, 512, dtype="fp8_e4m3"), t(16, 320, 512, dtype="fp8_e4m3"), t(24, 4, 320)
    found = cost("fused_moe_kernel_3", a, b, c, t(24, 4, dtype="fp32"), t(600, dtype="int32"), 320, 512, 600, 96)
    assert found is not None
    assert (found.flops, found.most_flops) == (2 * 24 * 4 * 320 * 512, None)
    around = 24 * 512 + 2 * 24 * 4 * 320
    assert (found.bytes, found.most_bytes) == (around + 320 * 512, around + 16 * 320 * 512)
    assert cost("fused_moe_kernel_3", a, t(16, 320, 256, dtype="uint8"), c, 320, 512) is None


def test_symmetric_products_compute_at_least_one_triangle() -> None:
    found = cost("XXT_kernel_0", t(3, 40, 96), t(3, 40, 40), 40, 96, 3840, 96, 1)
    assert found is not None
    assert (found.flops, found.most_flops) == (3 * 40 * 41 * 96, 2 * 3 * 40 * 40 * 96)
    assert found.bytes == 2 * 3 * (40 * 96 + 40 * 40)
    assert cost("ba_plus_cAA_kernel_11", t(40, 40), t(40, 40), 40) is not None
    assert cost("other_kernel_0", t(40, 40), t(40, 40), 40) is None
