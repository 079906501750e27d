"""FLOPs of resampling, spectral, linear-algebra, recurrent, indexing and quantised ops against counts by hand."""

import math

import pytest

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "fp32", stride: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(shape, stride or tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    result = cost_op(OpCall(name if "::" in name else f"aten::{name}", args))  # type: ignore[arg-type]
    assert result is not None
    return result


X = t(2, 3, 4, 6)  # an image batch: 144 elements
IDS = t(4, 5, dtype="int64")
BAGS = (t(20, dtype="int64"), t(4, dtype="int64"), False, 0, False)  # 20 indices in 4 bags
A = t(2, 6, 6)  # two matrices


@pytest.mark.parametrize(
    ("name", "args", "flops"),
    [
        ("upsample_nearest2d", (X, (8, 12), 2.0, 2.0), 0),
        ("upsample_bilinear2d", (X, (8, 12), False, None, None), 7 * 6 * 96),  # 4 products, 3 sums
        ("upsample_bilinear2d", (X, None, False, (2.0, 2.0)), 7 * 6 * 96),
        ("upsample_bicubic2d", (X, (8, 12), False, None, None), 31 * 6 * 96),
        ("upsample_bilinear2d_backward", (t(2, 3, 8, 12), (8, 12), (2, 3, 4, 6), False, None, None), 8 * 6 * 96),
        ("upsample_nearest2d_backward", (t(2, 3, 8, 12), (8, 12), (2, 3, 4, 6), None, None), 6 * 96),
        ("grid_sampler_2d", (X, t(2, 5, 7, 2), 0, 0, False), 7 * 2 * 35 * 3),
        ("grid_sampler_2d", (X, t(2, 5, 7, 2), 1, 0, False), 0),
        ("grid_sampler_2d_backward", (t(2, 3, 5, 7), X, t(2, 5, 7, 2), 0, 0, False, (True, True)), 16 * 210),
        ("affine_grid_generator", (t(2, 2, 3), (2, 3, 4, 5), False), 2 * 6 * 2 * 20),
        ("col2im", (t(2, 18, 16), (8, 6), (3, 2), (1, 1), (1, 1), (2, 2)), 2 * 18 * 16),
        ("reflection_pad2d_backward", (t(2, 3, 6, 8), X, (1, 1, 1, 1)), 2 * 3 * 48),
        ("_fft_c2c", (t(3, 8, dtype="complex64"), (1,), 0, True), 3 * 5 * 8 * 3),
        ("_fft_r2c", (t(3, 8), (1,), 0, True), 3 * 2.5 * 8 * 3),
        ("_fft_c2r", (t(3, 5, dtype="complex64"), (1,), 0, 8), 3 * 2.5 * 8 * 3),
        ("linalg_cholesky_ex", (A, False, False), 2 * 6**3 / 3),
        ("linalg_inv_ex", (A, False), 2 * 2 * 6**3),
        ("linalg_lu_factor_ex", (A, True, False), pytest.approx(2 * 2 / 3 * 6**3)),
        ("_linalg_solve_ex", (A, t(2, 6, 4), True, False), pytest.approx(2 * (2 / 3 * 6**3 + 2 * 36 * 4))),
        ("linalg_solve_triangular", (A, t(2, 6, 4), True, True, False), 2 * 36 * 4),
        ("linalg_qr", (t(8, 4), "reduced"), pytest.approx(2 * (2 * 8 * 16 - 2 / 3 * 64))),
        ("_linalg_svd", (t(8, 4), False, True), 6 * 8 * 16 + 20 * 64),
        ("_linalg_eigh", (A, None, True), 2 * 9 * 6**3),
        ("_cdist_forward", (t(2, 4, 3), t(2, 5, 3), 2.0, None), 3 * 2 * 20 * 3),
        ("_embedding_bag", (t(100, 8), *BAGS, None, False, -1), 160),
        ("_embedding_bag", (t(100, 8), *BAGS, t(20), False, -1), 320),
        ("_embedding_bag_dense_backward",
         (t(4, 8), t(20, dtype="int64"), t(20, dtype="int64"), t(4, dtype="int64"), t(0, dtype="int64"), 100), 160),
        ("index_fill_", (t(4, 5), 1, t(2, dtype="int64"), 0.0), 0),
        ("scatter_reduce_", (t(4, 5), 0, IDS, t(4, 5), "amax", True), 20),
        ("_thnn_fused_lstm_cell", (t(4, 32), t(4, 32), t(4, 8), None, None), 22 * 32),
        ("_thnn_fused_gru_cell", (t(4, 24), t(4, 24), t(4, 8), t(24), t(24)), 22 * 32),
        ("_thnn_fused_lstm_cell_backward_impl",
         (t(4, 8), None, t(4, 8), t(4, 8), t(4, 32), True), 23 * 32),
        ("_weight_int8pack_mm",
         (t(3, 64, dtype="bf16"), t(32, 64, dtype="int8"), t(32, dtype="bf16")), 2 * 3 * 64 * 32),
        ("_weight_int4pack_mm",
         (t(3, 64, dtype="bf16"), t(4, 1, 32, 4, dtype="int32"), 32, t(2, 32, 2, dtype="bf16")), 2 * 3 * 64 * 32),
        ("_scaled_mm_v2", (t(3, 64, dtype="fp8_e4m3"), t(64, 32, dtype="fp8_e4m3"), (t(),), (0,), (), (t(),), (0,), (),
                           None, 15, (), False), 2 * 3 * 64 * 32),
        ("_foreach_mm", ((t(3, 5), t(2, 2)), (t(5, 7), t(2, 4))), 2 * (105 + 16)),
        ("addr", (t(4, 3), t(4), t(3), 1, 1), 24),
        ("batch_norm_stats", (X, 1e-5), 4 * 144),
        ("batch_norm_elemt", (X, t(3), t(3), t(3), t(3), 1e-5), 4 * 144),
        ("batch_norm_backward_reduce", (X, X, t(3), t(3), t(3), True, True, True), 4 * 144),
        ("batch_norm_backward_elemt", (X, X, t(3), t(3), t(3), t(3), t(3), t(1)), 7 * 144),
        ("_weight_norm_interface", (t(8, 6), t(8, 1), 0), 3 * 48),
        ("_weight_norm_interface_backward", (t(8, 6), t(8, 6), t(8, 1), t(8, 1), 0), 5 * 48),
        ("_ctc_loss", (t(50, 4, 20), t(4, 10, dtype="int64"), (), (), 0, False), 12 * 50 * 4 * 21),
        ("glu_backward", (t(4, 3), t(4, 6), 1), 9 * 12),
        ("log_sigmoid_backward", (t(4, 3), t(4, 3), t(0)), 5 * 12),
        ("rrelu_with_noise", (t(4, 3), t(4, 3), 0.1, 0.3, True, None), 2 * 12),
        ("quantize_per_tensor", (t(4, 3), 0.1, 0, 13), 5 * 12),
        ("adaptive_max_pool2d_backward", (t(2, 3, 2, 2), X, t(2, 3, 2, 2, dtype="int64")), 24),
        ("cudnn_convolution_backward",
         (X, t(2, 5, 4, 6), t(5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1, False, False, True, (False, True)),
         2 * 2 * 24 * 5 * 27),
        ("miopen_convolution_transpose",
         (X, t(3, 5, 2, 2), None, (0, 0), (0, 0), (2, 2), (1, 1), 1), 2 * 2 * 24 * 3 * 5 * 4),
        ("torchvision::roi_align", (X, t(10, 5), 0.25, 7, 7, 2, False), 8 * 4 * 10 * 3 * 49),
        ("fbgemm::FloatToFP8RowwiseQuantized", (t(6, 256), True), 4 * 6 * 256),
        ("_C::silu_and_mul", (t(4, 8, dtype="bf16"), t(4, 16, dtype="bf16")), 6 * 32),
    ],
)  # fmt: skip
def test_flops(name: str, args: tuple[object, ...], flops: float) -> None:
    assert cost(name, *args).flops == flops


@pytest.mark.parametrize(
    ("name", "args", "nbytes"),
    [
        # A gather reads what is selected, and no more than there is.
        ("_embedding_bag", (t(9999, 8), *BAGS, None, False, -1),
         4 * 160 + 8 * 24 + 4 * 32 + 8 * 24),
        ("upsample_nearest2d", (t(1, 1, 64, 64), (2, 2), None, None), 4 * (4 + 4)),
        ("index_fill_", (t(4, 5), 1, t(2, dtype="int64"), 0.0), 2 * 8 + 4 * 8),
        ("masked_select", (t(4, 5), t(4, 5, dtype="bool")), 20),
        ("nonzero", (t(4, 5),), 80),
        ("trace", (t(4, 5),), 4 * 5),
        ("diagonal_scatter", (t(4, 4), t(4), 0, 0, 1), 4 * (4 + 12 + 16)),
        ("_local_scalar_dense", (t(4, 5),), 4),
        # Overlapping windows (a framed signal: 63 frames of 64, 16 apart) share what they read.
        ("_fft_r2c", (t(1, 63, 64, stride=(1056, 16, 1)), (2,), 0, True), 4 * 1056 + 8 * 63 * 33),
        ("dequantize", (t(4, 5, dtype="int8"),), 20 + 80),
        ("_weight_int8pack_mm", (t(3, 64, dtype="bf16"), t(32, 64, dtype="int8"), t(32, dtype="bf16")),
         2 * 192 + 2048 + 64 + 2 * 96),
        ("batch_norm_elemt", (X, t(3), t(3), t(3), t(3), 1e-5), 4 * (144 + 12 + 144)),
        ("fbgemm::FP8RowwiseQuantizedToFloat", (t(6, 264, dtype="uint8"), True), 6 * 264 + 4 * 6 * 256),
        ("_C::fused_add_rms_norm", (t(4, 8), t(4, 8), t(8), 1e-6), 4 * (64 + 8 + 64)),
        ("_C_cache_ops::reshape_and_cache_flash", (t(4, 2, 8), t(4, 2, 8), t(99, 16, 2, 8)), 4 * 4 * 64),
        # A list whose dtype a trace lost takes that of the input.
        ("_cudnn_rnn", (t(10, 4, 16), (t(32, 16, dtype=""), t(32, 8, dtype="")), 2, None, t(1, 4, 8), t(1, 4, 8), 2, 8,
                        0, 1, False, 0.0, True, False, (), None),
         4 * (640 + 512 + 256 + 10 * 4 * 8 + 2 * 2 * 32)),
    ],
)  # fmt: skip
def test_bytes(name: str, args: tuple[object, ...], nbytes: float) -> None:
    assert cost(name, *args).bytes == nbytes


def test_an_out_variant_does_not_read_its_output() -> None:
    assert cost("add", t(4), t(4), 1, t(4)).bytes == 3 * 16
    assert cost("exp", t(4), t(4)).bytes == 2 * 16


def test_lists_that_a_trace_lost_are_not_empty() -> None:
    assert cost_op(OpCall("aten::cat", (None, 0))) is None
    assert cost_op(OpCall("aten::cat", ((), 0))) is None


def test_samples_of_a_region_that_depend_on_its_size_leave_flops_unknown() -> None:
    found = cost("torchvision::roi_align", X, t(10, 5), 0.25, 7, 7, 0, False)
    assert found.flops is None
    assert found.bytes == 4 * (144 + 50 + 10 * 3 * 49)


def test_a_lookup_in_tables_reads_rows_of_average_width() -> None:
    tables, indices, offsets = 2, t(100, dtype="int64"), t(2 * 8 + 1, dtype="int64")
    args = (t(0), t(9_000_000, dtype="fp16"), t(0), t(0, 0), t(2, dtype="int32"), t(2, dtype="int64"),
            t(3, dtype="int32"), 96, 64, t(3, dtype="int64"), 20, indices, offsets)  # fmt: skip
    found = cost("fbgemm::split_embedding_codegen_lookup_sgd_function", *args)
    assert found.flops == 100 * 96 / tables
    assert found.bytes == 100 * 48 * 2 + 100 * 8 + 17 * 8 + 4 * 8 * 96
    weighted = cost_op(OpCall("fbgemm::split_embedding_codegen_lookup_sgd_function", (*args, 0, t(100))))
    assert weighted is not None
    assert (weighted.flops, weighted.bytes) == (2 * found.flops, found.bytes + 400)


@pytest.mark.parametrize(("state", "flops"), [(9_000_000 // 48, 100 * 48), (9_000_000 // 47, None)])
def test_rows_of_one_width_are_told_by_a_state_with_an_element_a_row(state: int, flops: int | None) -> None:
    args = (t(0), t(9_000_000, dtype="fp16"), t(0), t(0, 0), t(2, dtype="int32"), t(2, dtype="int64"),
            t(3, dtype="int32"), None, None, t(3, dtype="int64"), None, t(100, dtype="int64"), t(17, dtype="int64"),
            *[None] * 7, t(state))  # fmt: skip
    found = cost_op(OpCall("fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function", args))
    assert (found and found.flops) == flops


@pytest.mark.parametrize(
    ("mask", "flops", "nbytes"),
    [
        (None, 14, 3 * 800 + 2 * 40 + 3 * 80),
        ((True, True, True), 14, 3 * 800 + 2 * 40 + 3 * 80),
        ((True, False, False), 11, 3 * 800 + 2 * 40 + 80),
        ((False, True, True), 5, 2 * 800 + 2 * 40 + 2 * 80),
        ((False, False, True), 5, 2 * 800 + 2 * 40 + 80),
    ],
)
def test_norms_compute_the_gradients_that_are_asked_for(
    mask: tuple[bool, ...] | None, flops: int, nbytes: float
) -> None:
    grad, row, scale = t(10, 20), t(10, 1), t(20)
    found = cost("aten::native_layer_norm_backward", grad, grad, (20,), row, row, scale, scale, mask)
    assert (found.flops, found.bytes) == (flops * 200, nbytes)


def test_batch_norm_and_rms_norm_honour_the_mask_too() -> None:
    x, scale = t(4, 8, 5), t(8)
    args = (x, x, scale, scale, scale, scale, scale, True, 1e-5)
    whole = cost("aten::native_batch_norm_backward", *args, (True, True, True))
    part = cost("aten::native_batch_norm_backward", *args, (True, False, False))
    assert (whole.flops, part.flops) == (14 * 160, 11 * 160)
    assert whole.bytes is not None
    assert part.bytes == whole.bytes - 2 * 32
    rms = cost("aten::_fused_rms_norm_backward", t(10, 20), t(10, 20), (20,), t(10, 1), t(20), (False, True))
    assert (rms.flops, rms.bytes) == (3 * 200, 2 * 800 + 40 + 80)
