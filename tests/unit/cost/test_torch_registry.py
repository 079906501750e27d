"""Our formulas against `torch.utils.flop_counter`'s, on the ops it knows, with outputs from torch's meta kernels."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import flop_registry

from perfkit.cost.calls.op_call import OpCall
from perfkit.cost.formula_table import OPS, cost_op
from perfkit.cost.live_flops import _record_arguments

aten = torch.ops.aten


def m(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


Q, K, V = m(2, 8, 16, 32), m(2, 8, 64, 32), m(2, 8, 64, 32)
LSE = m(2, 8, 16)
GRADS = (Q, Q, K, V)
X3 = (m(4, 6, 9, 9), m(8, 6, 3, 3))
CONV: tuple[Any, ...] = (m(4, 6, 15, 17), m(8, 6, 3, 5), m(8), (2, 1), (1, 2), (1, 2), False, (0, 0), 1)
TRANSPOSED: tuple[Any, ...] = (m(4, 6, 5, 7), m(6, 8, 3, 4), m(8), (2, 3), (1, 0), (1, 1), True, (1, 0), 1)
FP8 = torch.float8_e4m3fn

CASES: list[tuple[Any, tuple[Any, ...], Any]] = [
    (aten.mm.default, (m(3, 5), m(5, 7)), None),
    (aten.addmm.default, (m(7), m(3, 5), m(5, 7)), None),
    (aten.bmm.default, (m(4, 3, 5), m(4, 5, 7)), None),
    (aten.baddbmm.default, (m(4, 3, 7), m(4, 3, 5), m(4, 5, 7)), None),
    (aten._scaled_mm.default, (m(16, 32, dtype=FP8), m(32, 64, dtype=FP8), m(), m()), m(16, 64)),
    (aten.convolution.default, CONV, None),
    (aten.convolution.default, TRANSPOSED, None),
    (aten._convolution.default, (*CONV, False, False, True, True), None),
    (aten.cudnn_convolution.default, (*X3, (1, 1), (1, 1), (1, 1), 1, False, False, False), m(4, 8, 9, 9)),
    (aten._scaled_dot_product_flash_attention.default, (Q, K, V), m(2, 8, 16, 32)),
    (aten._scaled_dot_product_efficient_attention.default, (Q, K, V, None, True), m(2, 8, 16, 32)),
    (aten._scaled_dot_product_cudnn_attention.default, (Q, K, V, None, True), m(2, 8, 16, 32)),
    (aten._scaled_dot_product_flash_attention_backward.default, (*GRADS, Q, *[LSE] * 3, 1, 1, 0.0, True, LSE, LSE), Q),
    (aten._scaled_dot_product_efficient_attention_backward.default, (*GRADS, LSE, Q, *[LSE] * 3, 0.0, [True] * 4), Q),
    (aten._scaled_dot_product_cudnn_attention_backward.default, (*GRADS, Q, *[LSE] * 6, 16, 64, 0.0, True), Q),
]  # fmt: skip


@pytest.mark.parametrize(("func", "args", "out"), CASES, ids=[f"{case[0]}-{at}" for at, case in enumerate(CASES)])
def test_equal_to_torch(func: Any, args: tuple[Any, ...], out: Any) -> None:
    try:
        outputs = func(*args) if out is None else out
    except NotImplementedError as error:  # torch 2.9 has no meta kernel for aten::_convolution
        pytest.skip(f"this torch cannot tell the output's shape: {error}")
    expected = flop_registry[func._overloadpacket](*args, out_val=outputs)
    ours = cost_op(OpCall(func._schema.name, _record_arguments(func, args, {})))
    assert ours is not None
    # Torch counts what a mask forbids, too.
    assert (ours.unmasked_flops or ours.flops) == expected > 0


@pytest.mark.parametrize("forward", [CONV, TRANSPOSED], ids=["convolution", "transposed"])
@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, True], [False, False, True]])
def test_convolution_backward_equal_to_torch(forward: tuple[Any, ...], mask: list[bool]) -> None:
    x, weight, bias, *rest = forward
    grad = aten.convolution.default(*forward)
    args = (grad, x, weight, list(bias.shape), *rest, mask)
    func = aten.convolution_backward.default
    expected = flop_registry[aten.convolution_backward](*args, out_val=(x, weight, bias))
    ours = cost_op(OpCall("aten::convolution_backward", _record_arguments(func, args, {})))
    assert ours is not None
    assert ours.flops == expected


def test_no_op_that_torch_knows_is_missing_here() -> None:
    names = {packet._qualified_op_name for packet in flop_registry if isinstance(packet, torch._ops.OpOverloadPacket)}
    assert names <= OPS.keys()
