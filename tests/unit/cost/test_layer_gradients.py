"""Gradients of Liger's and Apex's layers against hand calculations, with the forward calls of a trace."""

import math

import pytest

from perfkit.cost.calls.op_call import OpCall, TensorArg
from perfkit.cost.layer_gradients import cost_layer_gradient


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


GRAD = t(8, 64)


@pytest.mark.parametrize(
    ("layer", "grads", "args", "flops", "moved"),
    [
        ("LigerRMSNorm", (GRAD,), (GRAD, t(64), 1e-6), 9 * 512, 2 * (3 * 512 + 2 * 64) + 4 * 8),
        ("LigerLayerNorm", (GRAD,), (GRAD, t(64), t(64), 1e-6), 14 * 512, 2 * (3 * 512 + 4 * 64) + 4 * 16),
        ("FusedLayerNorm", (GRAD,), (GRAD, (64,), 1e-5), 11 * 512, 2 * 3 * 512 + 4 * 16),
        ("FusedRMSNormAffine", (GRAD,), (GRAD, t(64, dtype="fp32")), 9 * 512, 2 * 3 * 512 + 8 * 64 + 4 * 8),
        ("LigerSiLUMul", (GRAD,), (GRAD, GRAD), 12 * 512, 2 * 5 * 512),
        ("LigerGELUMul", (GRAD,), (GRAD, GRAD), 14 * 512, 2 * 5 * 512),
        (
            "LigerRope",
            (t(2, 4, 8, 16), t(2, 1, 8, 16)),
            (t(2, 4, 8, 16), t(2, 1, 8, 16), t(1, 8, 16), t(1, 8, 16)),
            3 * 1280,
            2 * (2560 + 256),
        ),
        ("LigerCrossEntropy", (t(),), (t(8, 100), t(8, dtype="int64")), 800, 2 * 1600),
    ],
)
def test_gradients(
    layer: str, grads: tuple[TensorArg, ...], args: tuple[object, ...], flops: int, moved: float
) -> None:
    forward = OpCall(f"{layer}Function", args)  # type: ignore[arg-type]
    found = cost_layer_gradient(OpCall(f"{layer}FunctionBackward", grads), [forward, forward])
    assert found is not None
    assert (found.flops, found.bytes, found.most_flops, found.most_bytes) == (flops, moved, None, None)


def test_layers_that_differ_bound_the_gradient_and_those_of_other_shapes_do_not_count() -> None:
    node = OpCall("LigerRMSNormFunctionBackward", (GRAD,))
    name = "LigerRMSNormFunction"
    layers = [OpCall(name, (GRAD, t(64))), OpCall(name, (GRAD, t(64, dtype="fp32"))), OpCall(name, (t(9, 64), t(64)))]
    found = cost_layer_gradient(node, layers)
    assert found is not None
    assert (found.bytes, found.most_bytes) == (2 * (3 * 512 + 128) + 32, 2 * 3 * 512 + 4 * 128 + 32)
    assert cost_layer_gradient(node, layers[2:]) is None
    assert cost_layer_gradient(OpCall("LigerRMSNormFunctionBackward", ()), layers) is None
    assert cost_layer_gradient(OpCall("MyNormFunctionBackward", (GRAD,)), layers) is None
