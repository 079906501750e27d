"""What is in a block, by the op that allocated it and its size."""

import pytest

from perfkit.cost.calls.op_call import Arg, OpCall, TensorArg
from perfkit.cost.outputs import BlockOutput, OpOutput, infer_block_output


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    return TensorArg(shape, tuple(1 for _ in shape), dtype)


@pytest.mark.parametrize(
    ("name", "args", "size", "shape", "dtype"),
    [
        ("empty", ((8, 4), 15, None, None, None, None), 64, (8, 4), "bf16"),
        ("empty", ((8, 4), None, None, None, None, None), 128, (8, 4), ""),
        ("empty_strided", ((8, 4), (4, 1), 6, None, None, None), 128, (8, 4), "fp32"),
        ("new_empty", (t(2, dtype="bf16"), (8, 4), None, None, None, None), 64, (8, 4), "bf16"),
        ("resize_", (t(0), (8, 4), None), 128, (8, 4), "fp32"),
        ("_to_copy", (t(8, 4), 15, None, None, None, False, None), 64, (8, 4), "bf16"),
        ("addmm", (t(4), t(8, 3), t(3, 4)), 128, (8, 4), "fp32"),
        ("bmm", (t(2, 8, 3), t(2, 3, 4)), 256, (2, 8, 4), "fp32"),
        ("add", (t(8, 1), t(4), 1), 128, (8, 4), "fp32"),
        ("gt", (t(8, 4), 0.0), 32, (8, 4), "bool"),
        ("signbit", (t(8, 4),), 32, (8, 4), "bool"),
        ("isneginf", (t(6, 2, dtype="bf16"),), 12, (6, 2), "bool"),
        ("isposinf", (t(8, 4),), 32, (8, 4), "bool"),
        ("logical_xor", (t(8, 1), t(4)), 32, (8, 4), "bool"),
        ("native_dropout", (t(8, 4), 0.1, True), 32, (8, 4), "bool"),
        ("native_layer_norm_backward", (t(8, 4), t(8, 4), (4,), t(8, 1), t(8, 1), t(4), t(4)), 16, (4,), "fp32"),
        ("cudnn_convolution", (t(2, 3, 8, 8), t(5, 3, 3, 3), (1, 1), (2, 2), (1, 1), 1), 640, (2, 5, 4, 4), "fp32"),
        ("convolution_backward", (t(2, 5, 8, 8), t(2, 3, 8, 8), t(5, 3, 3, 3)), 540, (5, 3, 3, 3), "fp32"),
        ("index_select", (t(9, 4), 0, t(8, dtype="int64")), 128, (8, 4), "fp32"),
        ("sum", (t(8, 4), (0,), True, None), 16, (1, 4), "fp32"),
        ("sum", (t(8, 4), (-1,), False, 7), 64, (8,), "fp64"),
        ("mean", (t(8, 4), None), 4, (), "fp32"),
        ("cat", ((t(3, 4), t(5, 4), t(0)), 0), 128, (8, 4), "fp32"),
    ],
)  # fmt: skip
def test_the_outputs_of_ops(name: str, args: tuple[Arg, ...], size: int, shape: tuple[int, ...], dtype: str) -> None:
    found = infer_block_output(OpCall(f"aten::{name}", args), size, False)
    assert found is not None
    assert (found.output, found.exact) == (OpOutput(shape, dtype), True)


def test_a_size_that_does_not_fit_tells_nothing() -> None:
    assert infer_block_output(OpCall("aten::addmm", (t(4), t(8, 3), t(3, 4))), 132, False) is None
    assert infer_block_output(OpCall("aten::empty", ((8, 4), None)), 96, False) is None


def test_sizes_of_gpus_are_rounded_up() -> None:
    call = OpCall("aten::mm", (t(8, 3), t(3, 4)))
    assert infer_block_output(call, 512, True) == BlockOutput(OpOutput((8, 4), "fp32"), exact=True, made=1)
    assert infer_block_output(call, 512, False) is None
    assert infer_block_output(call, 1024, True) is None


def test_blocks_of_gpus_keep_what_is_not_split_off() -> None:
    request, mib = 3 << 19, 1 << 20  # 1.5 MiB
    call = OpCall("aten::mm", (t(512, 8), t(8, 768)))
    whole = OpOutput((512, 768), "fp32")
    assert infer_block_output(call, request, True) == BlockOutput(whole, exact=True, made=1)
    assert infer_block_output(call, request + 512, True) == BlockOutput(whole, exact=False, made=1)
    assert infer_block_output(call, request + mib, True) == BlockOutput(whole, exact=False, made=1)
    assert infer_block_output(call, request + mib + 512, True) is None, "more than 1 MiB is split off"
    assert infer_block_output(call, request - 512, True) is None
    assert infer_block_output(call, request + 512, False) is None, "a CPU's blocks are what was asked for"
    small = OpCall("aten::mm", (t(512, 8), t(8, 512)))
    assert infer_block_output(small, mib + 512, True) is None, "of the small pool all that is left is split off"


def test_of_several_outputs_the_one_of_the_blocks_size_counts() -> None:
    call = OpCall("aten::_scaled_dot_product_flash_attention_backward", (t(1), t(512, 768), t(512, 768), t(512, 800)))
    assert infer_block_output(call, 1600 << 10, True) == BlockOutput(OpOutput((512, 800), "fp32"), exact=True, made=1)
    assert infer_block_output(call, 3 << 19, True) == BlockOutput(OpOutput((512, 768), "fp32"), exact=True, made=2)
    assert infer_block_output(call, 1700 << 10, True) is None, "either may have been asked for"


def test_lists_of_tensors_have_no_dtype_but_a_size() -> None:
    parts = (t(3, 4, dtype=""), t(5, 4, dtype=""))
    assert infer_block_output(OpCall("aten::cat", (parts, 0)), 512, True) == BlockOutput(
        OpOutput((8, 4), ""), exact=True, made=1
    )
    assert infer_block_output(OpCall("aten::cat", (parts, 0)), 128, False) == BlockOutput(
        OpOutput((8, 4), ""), exact=True, made=1
    )
    assert infer_block_output(OpCall("aten::cat", (parts, 0)), 96, False) is None


def test_two_outputs_of_one_size_are_in_doubt() -> None:
    """Gradients of an input and of a weight of as many elements."""
    call = OpCall("aten::convolution_backward", (t(1, 5, 8, 8), t(1, 5, 3, 3), t(5, 1, 3, 3)))
    assert infer_block_output(call, 180, False) is None


def test_unknown_ops_and_arguments_that_do_not_fit() -> None:
    assert infer_block_output(OpCall("my::op", (t(8, 4),)), 128, False) is None
    assert infer_block_output(OpCall("aten::mm", (t(8, 4),)), 128, False) is None
    assert infer_block_output(OpCall("aten::add", (t(3), t(4))), 16, False) is None
