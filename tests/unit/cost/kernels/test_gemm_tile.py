"""Tiles by the names of kernels, one of each family as libraries write them."""

import pytest

from perfkit.cost.kernels.gemm_tile import GemmTile, TileAxis, has_grid_of_threads, has_whole_tiles, parse_tile

M, N, UNKNOWN = TileAxis.M, TileAxis.N, TileAxis.UNKNOWN
XMMA = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
TENSILE = "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x144x64_MI16x16x1_SN_LDSB1_AFC1"


@pytest.mark.parametrize(
    ("name", "sizes", "depth", "along"),
    [
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>"
            "(cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2::Params)",
            (256, 128), 64, N,
        ),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8", (64, 64), 64, N),
        ("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8", (32, 32), 128, N),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", (128, 32), 8, N),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn", (128, 64), 32, N),
        ("volta_fp16_s884gemm_fp16_128x256_ldg8_f2f_nn", (128, 256), None, N),
        ("ampere_sgemm_32x128_nn", (32, 128), None, N),
        (XMMA.format("128x128x64"), (128, 128), 64, UNKNOWN),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", (128, 256), 64, UNKNOWN),
        ("nvjet_sm100_tst_256x96_64x5_2x1_2cta_v_badd_NNT", (256, 96), 64, UNKNOWN),
        (
            "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_ttt_align8_warpspecialized",
            (128, 128), 64, UNKNOWN,
        ),
        (TENSILE, (128, 144), 64, N),
        ("_gemm_a8w8_kernel_BLOCK_SIZE_M_64_BLOCK_SIZE_N_128_BLOCK_SIZE_K_256_GROUP_SIZE_M_4", (64, 128), 256, M),
    ],
)  # fmt: skip
def test_tiles_by_name(name: str, sizes: tuple[int, int], depth: int | None, along: TileAxis) -> None:
    assert parse_tile(name) == GemmTile(*sizes, depth, along)


@pytest.mark.parametrize(
    "name",
    [
        "triton_tem_fused_addmm_relu_3",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
        "",
    ],
)
def test_what_a_name_does_not_tell_stays_unknown(name: str) -> None:
    assert parse_tile(name) is None


def test_how_tiles_are_shared_and_grids_are_counted() -> None:
    assert has_whole_tiles(XMMA.format("128x128x64"))
    assert not has_whole_tiles("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT")
    assert has_grid_of_threads(TENSILE)
    assert not has_grid_of_threads("attn_fwd")


def test_a_tile_is_shown_as_its_sizes() -> None:
    assert [str(parse_tile(name)) for name in (TENSILE, "ampere_sgemm_32x128_nn")] == ["128x144x64", "32x128"]
