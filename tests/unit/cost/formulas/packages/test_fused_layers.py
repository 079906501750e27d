"""Layers of Liger Kernel and Apex against hand calculations."""

import math

import pytest

from perfkit.cost.calls.op_call import OpCall, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


@pytest.mark.parametrize(
    ("name", "args", "flops", "moved"),
    [
        ("LigerRMSNormFunction", (t(8, 64), t(64), 1e-6), 4 * 512, 2 * (2 * 512 + 64)),
        ("FusedLayerNormAffineFunction", (t(8, 64), t(64), t(64), None, 1e-5), 8 * 512, 2 * (2 * 512 + 128)),
        ("LigerSiLUMulFunction", (t(8, 64), t(8, 64)), 6 * 512, 2 * 3 * 512),
        ("LigerRopeFunction", (t(2, 4, 8, 16), t(2, 1, 8, 16), t(1, 8, 16), t(1, 8, 16)), 3 * 1280, 2 * (2560 + 256)),
        ("LigerCrossEntropyFunction", (t(8, 100), t(8, dtype="int64")), 7 * 800, 2 * 1600 + 64),
    ],
)
def test_layers(name: str, args: tuple[object, ...], flops: int, moved: float) -> None:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)
