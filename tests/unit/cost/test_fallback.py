"""Ops of other packages: bytes of what was recorded, and nothing that is not."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, TensorArg
from perfkit.cost.fallback import estimate_fallback_cost, is_custom
from perfkit.cost.formula_table import MOVES


def t(*shape: int, dtype: str = "fp32", stride: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(shape, stride or tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def test_each_recorded_tensor_moves_once() -> None:
    found = estimate_fallback_cost(
        OpCall("mine::blend", (t(4, 5), t(4, 5, stride=(0, 1)), (t(3, dtype="bf16"),), 3, None))
    )
    assert found is not None
    assert found.flops is None
    assert found.bytes == 80 + 20 + 6
    assert found.source.startswith("estimate")


POOL = t(10**6, 16, 8)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fb::fast_gather", (t(10**9), t(50, dtype="int32"))),
        ("sglang_profiler::set_kv_buffer", (POOL, POOL, t(64, 8), t(64, 8))),
        ("sglang_profiler::mha_batch_prefill", (t(64, 8), POOL, POOL)),
        ("mine::blend_rows", (t(64, 8), POOL, t(64, dtype="int64"))),
        ("vllm::outplace_fused_experts_of_mine", (t(4, 8), t(8, 16, 8), t(4, 2, dtype="int32"))),
    ],
)
def test_what_is_given_positions_or_a_pool_has_no_known_bytes(name: str, args: tuple[object, ...]) -> None:
    found = estimate_fallback_cost(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    assert (found.flops, found.bytes, "data" in found.source) == (None, None, True)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("vllm::moe_forward", "top_k"),
        ("vllm::unified_attention", "cache"),
        ("sglang::unified_attention_with_output", "cache"),
    ],
)
def test_what_an_op_finds_by_the_name_of_its_layer_is_named(name: str, missing: str) -> None:
    found = estimate_fallback_cost(OpCall(name, (t(64, 512), t(64, 8), None)))
    assert found is not None
    assert (found.flops, found.bytes, found.unit) == (None, None, ComputeUnit.MATRIX)
    assert missing in found.source


def test_gradients_of_a_lookup_and_a_single_number_are_no_positions() -> None:
    backward = estimate_fallback_cost(OpCall("torch::autograd::CppNode<SplitLookupFunction>", (t(4, 8),)))
    seeded = estimate_fallback_cost(OpCall("mine::dropout", (t(4, 8), t(1, dtype="int64"))))
    assert backward is not None
    assert seeded is not None
    assert (backward.bytes, seeded.bytes) == (128, 136)


def test_without_recorded_tensors_nothing_is_known() -> None:
    assert estimate_fallback_cost(OpCall("mine::blend", ())) is None
    assert estimate_fallback_cost(OpCall("mine::blend", (t(0), 3))) is None
    assert estimate_fallback_cost(OpCall("mine::blend", ((t(4, dtype=""),),))) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torchvision::nms", True),
        ("vllm::unified_attention", True),
        ("mine::op.overload", True),
        ("aten::add", False),
        ("prim::device", False),
        ("c10d::allreduce_", False),
        ("nccl:all_reduce", False),
        ("AddmmBackward0", False),
        ("autograd::engine::evaluate_function: MmBackward0", False),
        ("perfkit::forward", False),
        ("detach", False),
    ],
)
def test_names_of_other_packages(name: str, expected: bool) -> None:
    assert is_custom(name) is expected


@pytest.mark.parametrize("name", ["aten::cat", "aten::copy_", "aten::fill_", "aten::index_select", "aten::embedding"])
def test_what_only_moves_data_has_no_flops_whatever_its_size(name: str) -> None:
    assert name in MOVES
    found = estimate_fallback_cost(OpCall(name, ()))
    assert found is not None
    assert (found.flops, found.bytes, "data" in found.source) == (0.0, None, True)


@pytest.mark.parametrize("name", ["aten::index_put_", "aten::scatter_add", "aten::mm", "aten::add", "aten::cumsum"])
def test_what_may_add_is_not_said_to_only_move(name: str) -> None:
    assert name not in MOVES
