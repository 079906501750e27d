"""FLOPs of ops that are no matrix products, against counts by hand of the formulas in docs/costing.md."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    result = cost_op(OpCall(f"aten::{name}", args))  # type: ignore[arg-type]
    assert result is not None
    return result


X = t(6, 10)  # 60 elements
V = t(10)
I = t(6, dtype="int64")  # noqa: E741


@pytest.mark.parametrize(
    ("name", "args", "flops"),
    [
        ("add", (X, V, 1), 60),
        ("add_", (X, V, 1), 60),
        ("sigmoid", (X,), 4 * 60),
        ("gelu", (X, None), 5 * 60),
        ("gelu_backward", (X, X, None), 11 * 60),
        ("silu_backward", (X, X), 9 * 60),
        ("addcmul", (X, X, X, 1), 3 * 60),
        ("clamp", (X, 0, 1), 2 * 60),
        ("masked_fill", (X, t(6, 10, dtype="bool"), 0), 0),
        ("glu", (X, -1), 5 * 30),
        ("native_dropout", (X, 0.1, True), 2 * 60),
        ("native_dropout_backward", (X, t(6, 10, dtype="bool"), 1.1), 2 * 60),
        ("sum", (X, (0,), False, None), 60),
        ("max", (X, V), 60),
        ("max", (X, 1, False), 60),
        ("var", (X, (1,), 1, False), 4 * 60),
        ("linalg_vector_norm", (X, 2, None, False, None), 2 * 60),
        ("logsumexp", (X, (1,), False), 4 * 60),
        ("_softmax", (X, -1, False), 5 * 60),
        ("_log_softmax", (X, -1, False), 5 * 60),
        ("_softmax_backward_data", (X, X, -1, 6), 4 * 60),
        ("nll_loss_forward", (X, I, None, 1, -100), 2 * 6),
        ("mse_loss", (X, X, 1), 3 * 60),
        ("mse_loss", (X, X, 0), 2 * 60),
        ("mse_loss_backward", (t(), X, X, 1), 3 * 60),
        ("native_layer_norm", (X, (10,), V, V, 1e-5), 8 * 60),
        ("native_layer_norm_backward", (X, X, (10,), t(6, 1), t(6, 1), V, V, (True,) * 3), 14 * 60),
        ("_fused_rms_norm", (X, (10,), V, 1e-6), 4 * 60),
        ("_fused_rms_norm_backward", (X, X, (10,), t(6, 1), V, (True, True)), 9 * 60),
        ("native_batch_norm", (X, V, V, V, V, True, 0.1, 1e-5), 8 * 60),
        ("cudnn_batch_norm", (X, V, V, V, V, False, 0.1, 1e-5), 4 * 60),
        ("native_batch_norm_backward", (X, X, V, V, V, V, V, True, 1e-5, (True,) * 3), 14 * 60),
        ("cudnn_batch_norm_backward", (X, X, V, V, V, V, V, 1e-5, t(0)), 14 * 60),
        ("native_group_norm", (t(2, 6, 5), None, None, 2, 6, 5, 3, 1e-5), 8 * 60),
        ("native_group_norm_backward", (*[t(2, 6, 5)] * 2, *[t(2, 3)] * 2, None, 2, 6, 5, 3, (True,) * 3), 14 * 60),
        # 2 x 2 windows with stride 2 on 4 x 6: 6 windows of 4
        ("max_pool2d_with_indices", (t(1, 1, 4, 6), (2, 2), (2, 2), (0, 0), (1, 1), False), 6 * 4),
        ("avg_pool2d", (t(1, 1, 4, 6), (2,), (), (0,), False, True, None), 6 * 5),
        ("_adaptive_avg_pool2d", (t(1, 1, 4, 6), (1, 1)), 25),
        ("_fused_adamw_", ((X, V), (X, V), (X, V), (X, V), (), (t(), t()), 1e-3), 14 * 70),
        ("_fused_sgd_", ((X, V), (X, V), ()), 2 * 70),
        ("_fused_sgd_", ((X, V), (X, V), (X, V)), 4 * 70),
        ("_foreach_add_", ((X, V), (X, V), 1), 70),
        ("_foreach_addcdiv_", ((X, V), (X, V), (X, V), 1), 3 * 70),
        ("_foreach_norm", ((X, V), 2, None), 2 * 70),
        ("_foreach_zero_", ((X, V),), 0),
        ("_amp_foreach_non_finite_check_and_unscale_", ((X, V), t(), t()), 2 * 70),
        ("copy_", (X, X, False), 0),
        ("index_add_", (X, 0, I, X, 1), 60),
    ],
)  # fmt: skip
def test_flops(name: str, args: tuple[object, ...], flops: int) -> None:
    found = cost(name, *args)
    assert found.flops == flops
    assert found.unit is ComputeUnit.VECTOR


def test_fused_optimizer_bytes() -> None:
    # AdamW reads parameter, gradient and two moments, writes parameter and moments: 28 bytes a parameter in fp32.
    args = ((X, V), (X, V), (X, V), (X, V), (), (t(), t()), 1e-3)
    assert cost("_fused_adamw_", *args).bytes == 28 * 70 + 2 * 4
    assert cost("_fused_sgd_", (X,), (X,), ()).bytes == 12 * 60
    assert cost("_foreach_mul_", (X, V), 0.5).bytes == 8 * 70


def test_comparisons_write_bool_and_cost_one_flop() -> None:
    found = cost("gt", X, V)
    assert found.flops == 60
    assert found.bytes == 240 + 40 + 60


def test_integer_ops_are_no_flops() -> None:
    assert cost("add", I, 1, 1).flops == 0
    assert cost("cumsum", I, 0, None).flops == 0


def test_lists_without_a_dtype_have_flops_but_no_bytes() -> None:
    unknown = (t(4, 5, dtype=""), t(5, dtype=""))
    found = cost("_foreach_mul_", unknown, 0.5)
    assert found.flops == 25
    assert found.bytes is None
