"""State-space layers against hand calculations."""

import math

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def test_selective_scan() -> None:
    """2 sequences of 30 positions with 48 channels of 16 states."""
    u, a, b = t(2, 48, 30), t(48, 16, dtype="fp32"), t(2, 1, 16, 30)
    plain = cost_op(OpCall("_C::selective_scan_fwd", (u, u, a, b, b, None, None, None, False)))
    assert plain is not None
    assert (plain.flops, plain.unit) == (8 * 16 * 2880, ComputeUnit.VECTOR)
    assert plain.bytes == 2 * 3 * 2880 + 4 * 768 + 2 * 2 * 960
    gated = cost_op(OpCall("SelectiveScanFn", (u, u, a, b, b, t(48), u, t(48), True)))
    assert gated is not None
    assert gated.flops == (8 * 16 + 2 + 6 + 3 + 1) * 2880


def test_causal_convolution() -> None:
    x, weight = t(2, 48, 30), t(48, 4)
    found = cost_op(OpCall("DaoAILab::_causal_conv1d_fwd_cpp", (x, weight, t(48), None, None, x, None, True)))
    assert found is not None
    assert (found.flops, found.bytes) == ((2 * 4 + 5) * 2880, 2 * (2 * 2880 + 192 + 48))
