"""Generated kernels: arguments as the profiler records them, costs by hand."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.cost.kernels.compiled_kernels import is_triton_kernel, parse_fused_ops


def t(*shape: int, dtype: str = "fp32", stride: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(shape, stride or tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_recorded_pointwise_kernel() -> None:
    # HolisticTraceAnalysis's A100 trace: three 10 x 10 tensors of fp32 and xnumel = 100.
    found = cost("triton_poi_fused_add_cos_sin_0", t(10, 10), t(10, 10), t(10, 10), 100)
    assert found.bytes == 3 * 100 * 4
    assert found.flops == 3 * 100  # an addition, a cosine, a sine
    assert found.unit is ComputeUnit.VECTOR


def test_a_table_counts_only_what_the_points_can_read() -> None:
    # A decoding step: one token's row of a table with 151936 rows, with an RMS norm; xnumel 1, r0_numel 2048.
    row, name = t(1, 2048, dtype="bf16"), "triton_red_fused__to_copy__unsafe_view_add_embedding_mean_mul_pow_rsqrt_10"
    found = cost(name, row, t(1, 1, dtype="int64"), t(151936, 2048, dtype="bf16"), row, row, row, row, 1, 2048)
    assert found.bytes == 6 * 2048 * 2 + 8
    assert found.flops == 2048 * (1 + 1 + 1 + 1 + 2)  # add, mean, mul, pow, rsqrt
    assert found.dtype == "bf16"


def test_a_slice_is_bounded_by_the_points_and_a_repeated_dimension_is_read_once() -> None:
    found = cost("triton_poi_fused_add_3", t(3, 1000), t(1000, 1000, stride=(0, 1)), t(1000), 1000)
    assert found.bytes == 4 * 3 * 1000


def test_two_axes_and_dynamic_sizes() -> None:
    # ynumel and xnumel; with dynamic shapes a symbolic size (8) stands before them.
    for sizes in ((64, 128), (8, 64, 128)):
        found = cost("triton_poi_fused_clone_5", t(64, 128, dtype="fp16"), t(128, 64, dtype="fp16"), *sizes)
        assert found.bytes == 2 * 64 * 128 * 2
        assert found.flops == 0


def test_halves_of_a_tensor_are_both_read() -> None:
    # SwiGLU: gate and up projection in one tensor, twice as large as the space.
    assert cost("triton_poi_fused_mul_silu_split_1", t(4, 256), t(4, 128), 512).bytes == 4 * (1024 + 512)


def test_the_only_tensor_is_read_and_written_unless_it_is_filled() -> None:
    assert cost("triton_poi_fused_relu_0", t(100), 100).bytes == 2 * 400
    assert cost("triton_poi_fused_zeros_0", t(100), 100).bytes == 400


@pytest.mark.parametrize(
    ("name", "tensors", "moved"),
    [
        ("triton_poi_fused_mul_silu_4", (t(64, 128), t(64, 128)), 3),  # a gate: both are read
        ("triton_poi_fused_mul_silu_4", (t(64, 128), t(64, 128), t(64, 128)), 3),
        ("triton_poi_fused_addmm_gelu_1", (t(64, 128), t(128)), 2 + 128 / 8192),
        ("triton_poi_fused_convolution_relu_2", (t(64, 128), t(64, 1)), 2 + 64 / 8192),
        ("triton_poi_fused_threshold_backward_7", (t(64, 128), t(64, 128)), 3),
        ("triton_poi_fused_relu_0", (t(64, 128), t(64, 128)), 2),
    ],
)
def test_a_kernel_whose_full_size_tensors_are_its_inputs_writes_one(
    name: str, tensors: tuple[TensorArg, ...], moved: float
) -> None:
    found = cost(name, *tensors, 8192)
    assert found.bytes == 4 * 8192 * moved
    assert found.most_bytes is None


def test_a_name_that_only_allows_to_work_in_place_leaves_bounds() -> None:
    found = cost("triton_poi_fused_add_3", t(64, 128), t(64, 128), 8192)  # a += b, or b = a + 1
    assert (found.bytes, found.most_bytes) == (2 * 4 * 8192, 3 * 4 * 8192)
    # A row and a column fill a matrix, or it is added to.
    found = cost("triton_poi_fused_add_mul_3", t(64, 128), t(64, 1), t(1, 128), 8192)
    assert (found.bytes, found.most_bytes) == (4 * (8192 + 192), 4 * (2 * 8192 + 192))


def test_a_reduction_reads_its_space() -> None:
    found = cost("triton_per_fused__softmax_2", t(32, 64), t(32, 64), 32, 64)
    assert found.bytes == 2 * 32 * 64 * 4
    assert found.flops == 5 * 32 * 64


def test_a_template_is_a_product_of_its_operands() -> None:
    found = cost("triton_tem_fused_addmm_relu_4", t(7), t(3, 5), t(5, 7), t(3, 7), 1)
    assert (found.flops, found.bytes, found.unit) == (2 * 3 * 5 * 7, 4 * (7 + 15 + 35 + 21), ComputeUnit.MATRIX)
    batched = cost("triton_tem_fused_bmm_0", t(2, 3, 5), t(2, 5, 7), t(2, 3, 7))
    assert batched.flops == 2 * 2 * 3 * 5 * 7
    attention = cost("triton_tem_fused_flex_attention_0", *[t(1, 2, 64, 16)] * 4)
    assert attention.flops is None  # which blocks a mask leaves out is data
    assert attention.bytes == 4 * 4 * 2 * 64 * 16


def test_unknown_ops_leave_flops_unknown() -> None:
    found = cost("triton_poi_fused_add_frobnicate_0", t(10), t(10), 10)
    assert found.flops is None
    assert found.bytes == 80
    assert cost_op(OpCall("triton_poi_fused_add_0", ())) is None


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("triton_poi_fused_add_cos_sin_0", ("add", "cos", "sin")),
        ("triton_poi_fused__to_copy_native_dropout_12", ("_to_copy", "native_dropout")),
        ("triton_per_fused__softmax_backward_data_mul_3", ("_softmax_backward_data", "mul")),
        ("triton_red_fused_native_layer_norm_1", ("native_layer_norm",)),
        ("triton_poi_fused_add__to_copy__unsafe_view_1", ("add", "_to_copy", "_unsafe_view")),
        ("triton_poi_fused_7", ()),
        ("triton_poi_fused_whatever_7", None),
    ],
)
def test_names(name: str, ops: tuple[str, ...] | None) -> None:
    assert is_triton_kernel(name)
    assert parse_fused_ops(name) == ops


def test_other_names_are_no_generated_kernels() -> None:
    assert not is_triton_kernel("triton_flash_attention")
    assert not is_triton_kernel("aten::add")


def test_products_and_collectives_beside_a_kernel_are_no_part_of_it() -> None:
    found = cost("triton_poi_fused__scaled_mm__to_copy_clone_div_lift_fresh_permute_0", t(64, 96), t(64, 96), 64, 96)
    assert found.flops == 64 * 96  # a division
    name = "triton_red_fused__log_softmax_div_mul_prepare_softmax_online_sigmoid_view_40"
    assert cost(name, t(64, 96), t(64, 1), t(64, 1), 64, 96).flops == 64 * 96 * (5 + 1 + 1 + 4)
    assert parse_fused_ops("triton_poi_fused_add_moe_forward_unified_attention_with_output_2") is not None
