"""Bytes of ops against what torch really reads and writes: the formulas work out output shapes without torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from perfkit.cost.calls.op_call import OpCall, OpCost
from perfkit.cost.formula_table import cost_op
from perfkit.cost.live_flops import _describe_argument
from tests.fixtures.op_calls import Calls


def _x(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(shape).to(dtype)


# Ops that read every distinct element of their inputs once and write their outputs once.
PLAIN: dict[str, Callable[[], object]] = {
    "add": lambda: _x(4, 1, 3) + _x(5, 1),
    "add_": lambda: _x(4, 3).add_(_x(3)),
    "mul": lambda: _x(4, 3, dtype=torch.bfloat16) * 2.5,
    "eq": lambda: _x(4, 3) == _x(4, 3),
    "where": lambda: torch.where(_x(4, 3) > 0.5, _x(4, 3), _x(3)),
    "gelu": lambda: F.gelu(_x(6, 7)),
    "expanded": lambda: _x(1, 7).expand(6, 7) * _x(6, 7),
    "sum": lambda: _x(4, 3, 5).sum(1),
    "sum_in_fp32": lambda: _x(4, 3, dtype=torch.bfloat16).sum(dtype=torch.float32),
    "sum_of_an_axis_in_fp32": lambda: _x(4, 3, dtype=torch.bfloat16).sum(1, dtype=torch.float32),
    "mean_in_fp32": lambda: _x(4, 3, dtype=torch.bfloat16).mean(dtype=torch.float32),
    "prod_in_fp32": lambda: _x(4, 3, dtype=torch.bfloat16).prod(dtype=torch.float32),
    "prod_of_an_axis_in_fp64": lambda: _x(4, 3).prod(1, dtype=torch.float64),
    "sum_keepdim": lambda: _x(4, 3, 5).sum((0, -1), keepdim=True),
    "mean": lambda: _x(4, 3).mean(),
    "amax": lambda: _x(4, 3).amax(-1),
    "max_dim": lambda: _x(4, 3).max(1),
    "var_mean": lambda: torch.var_mean(_x(4, 3), 1),
    "argmax": lambda: _x(4, 3).argmax(0),
    "norm": lambda: torch.linalg.vector_norm(_x(4, 3), 2, 1),
    "cumsum": lambda: _x(4, 3).cumsum(0),
    "softmax": lambda: F.softmax(_x(4, 30), -1),
    "log_softmax": lambda: F.log_softmax(_x(4, 30, dtype=torch.bfloat16), -1, dtype=torch.float32),
    "layer_norm": lambda: F.layer_norm(_x(4, 3, 8), (8,), _x(8), _x(8)),
    "layer_norm_2d": lambda: F.layer_norm(_x(4, 3, 8), (3, 8)),
    "group_norm": lambda: F.group_norm(_x(4, 8, 5, 5), 4, _x(8), _x(8)),
    "convolution": lambda: F.conv2d(_x(2, 6, 15, 17), _x(8, 3, 3, 5), _x(8), (2, 1), (1, 2), (1, 2), 2),
    "conv_transpose": lambda: F.conv_transpose2d(_x(2, 6, 5, 7), _x(6, 4, 3, 4), _x(8), (2, 3), (1, 0), (1, 0), 2),
    "conv1d": lambda: F.conv1d(_x(2, 6, 15), _x(8, 6, 3), padding=1),
    "max_pool": lambda: F.max_pool2d_with_indices(_x(2, 3, 15, 18), 3, 2, 1),
    "max_pool_ceil": lambda: F.max_pool2d_with_indices(_x(2, 3, 14, 18), 3, 2, 1, ceil_mode=True),
    "avg_pool": lambda: F.avg_pool2d(_x(2, 3, 15, 18), 2, ceil_mode=True),
    "adaptive_pool": lambda: F.adaptive_avg_pool2d(_x(2, 3, 15, 18), (4, 5)),
    "mse": lambda: F.mse_loss(_x(4, 3), _x(4, 3)),
    "smooth_l1": lambda: F.smooth_l1_loss(_x(4, 3), _x(4, 3), reduction="none"),
    "cat": lambda: torch.cat([_x(4, 3), _x(2, 3)]),
    "stack": lambda: torch.stack([_x(4, 3), _x(4, 3)]),
    "clone": lambda: _x(4, 3).t().contiguous(),
    "to": lambda: _x(4, 3).to(torch.float16),
    "repeat": lambda: _x(4, 3).repeat(2, 3, 1),
    "pad": lambda: F.pad(_x(4, 3), (1, 2, 0, 3)),
    "topk": lambda: _x(4, 30).topk(5),
    "sort": lambda: _x(4, 30).sort(),
    "mm": lambda: _x(4, 3) @ _x(3, 5),
    "foreach": lambda: torch._foreach_mul([_x(4), _x(5)], 2.0),
    "foreach_norm": lambda: torch._foreach_norm([_x(4), _x(5)]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_bytes_of_inputs_and_outputs(name: str) -> None:
    with Calls() as calls:
        PLAIN[name]()
    for op, (cost, expected) in calls.seen.items():
        assert cost is not None, op
        if cost.source in ("no work",) or (op in ("aten::rand", "aten::_to_copy") and name != "to"):
            continue
        assert cost.bytes == expected, op


def test_flops_of_backward_ops_are_all_known() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(72, 10), torch.nn.LayerNorm(10), torch.nn.SiLU(), torch.nn.Softplus(), torch.nn.Tanh(),
    )  # fmt: skip
    with Calls() as calls:
        F.cross_entropy(model(_x(2, 3, 8, 8)), torch.tensor([1, 2])).backward()
    missing = [op for op, (cost, _) in calls.seen.items() if cost is None or cost.flops is None or cost.bytes is None]
    assert missing == []


def _cost(name: str, *args: Any) -> OpCost:
    result = cost_op(OpCall(name, tuple(_describe_argument(each) for each in args)))
    assert result is not None
    return result


def test_copy_does_not_read_its_destination() -> None:
    assert _cost("aten::copy_", _x(4, 3), _x(3).expand(4, 3), False).bytes == 4 * (3 + 12)
    assert _cost("aten::fill_", _x(4, 3), 1.0).bytes == 4 * 12
    assert _cost("aten::_foreach_copy_", [_x(4)], [_x(4, dtype=torch.bfloat16)], False).bytes == 4 * 2 + 4 * 4


def test_embedding_reads_only_the_selected_rows() -> None:
    table = _x(50000, 8)
    assert _cost("aten::embedding", table, torch.zeros(4, 16, dtype=torch.int64), -1, False, False).bytes == (
        64 * 8 + 64 * 8 * 4 + 64 * 8 * 4
    )
    small = _cost("aten::embedding", _x(10, 8), torch.zeros(4, 16, dtype=torch.int64), -1, False, False)
    assert small.bytes == 64 * 8 + 10 * 8 * 4 + 64 * 8 * 4  # no more rows than there are
    grad = _cost("aten::embedding_dense_backward", _x(4, 16, 8), torch.zeros(4, 16, dtype=torch.int64), 100, -1, False)
    assert grad.bytes == 64 * 8 * 4 + 64 * 8 + 100 * 8 * 4
    assert grad.flops == 64 * 8


def test_index_knows_its_result_live_and_not_from_a_trace() -> None:
    rows = torch.tensor([1, 2, 1])
    assert _cost("aten::index", _x(10, 8), [rows]).bytes == 3 * 8 + 2 * 3 * 8 * 4
    lost = cost_op(OpCall("aten::index", (_describe_argument(_x(10, 8)), None)))
    assert lost is not None
    assert lost.bytes is None
    assert lost.flops == 0
    assert _cost("aten::index", _x(10, 8), [_x(10, 8) > 0.5]).bytes is None


def test_scatter_in_place_touches_only_what_is_scattered() -> None:
    index = torch.zeros(3, 2, dtype=torch.int64)
    found = _cost("aten::scatter_add_", _x(1000, 2), 0, index, _x(3, 2))
    assert found.bytes == 6 * 8 + 6 * 4 + 2 * 6 * 4
    assert found.flops == 6
    assert _cost("aten::gather", _x(1000, 2), 0, index, False).bytes == 6 * 8 + 2 * 6 * 4


def test_nll_reads_one_element_a_row() -> None:
    target = torch.zeros(4, dtype=torch.int64)
    assert _cost("aten::nll_loss_forward", _x(4, 1000), target, None, 1, -100).bytes == 4 * 8 + 4 * 4 + 2 * 4
    backward = _cost("aten::nll_loss_backward", _x(), _x(4, 1000), target, None, 1, -100, _x())
    assert backward.bytes == 4 + 4 * 8 + 4000 * 4  # the gradient is written in full


def test_views_and_allocation_are_free() -> None:
    for name in ("aten::view", "aten::expand", "aten::empty", "aten::detach"):
        assert _cost(name, _x(4))[:2] == (0, 0)
    collective = _cost("_c10d_functional::all_reduce", _x(4), "sum", "0")
    assert collective.flops == 0
    assert collective.bytes is None


def test_compositions_have_no_cost_of_their_own() -> None:
    for name in ("aten::linear", "aten::conv2d", "aten::scaled_dot_product_attention", "AddmmBackward0", "step"):
        assert cost_op(OpCall(name, (_describe_argument(_x(4, 4)), _describe_argument(_x(4, 4))))) is None
