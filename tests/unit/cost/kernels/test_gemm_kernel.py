"""Names of matrix kernels as libraries write them, one of each family."""

import pytest

from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.kernels.gemm_kernel import (
    classify_matrix_unit,
    infer_operand_dtypes,
    is_gemm,
    is_helper_kernel,
    is_matrix_kernel,
)

MATRIX, VECTOR = ComputeUnit.MATRIX, ComputeUnit.VECTOR


@pytest.mark.parametrize(
    ("name", "unit", "dtype"),
    [
        # cuBLAS and cuDNN
        ("ampere_sgemm_128x64_tn", VECTOR, "fp32"),
        ("volta_sgemm_32x128_nn", VECTOR, "fp32"),
        ("volta_sgemm_fp16_128x64_nn", VECTOR, "fp32"),
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>", VECTOR, "fp32"),
        ("sgemm_largek_lds64<true, true, 6, 3, 4, 5, 2, 66>", VECTOR, "fp32"),
        ("volta_dgemm_64x64_nn", VECTOR, "fp64"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", MATRIX, "fp16"),
        ("volta_h884gemm_64x64_ldg8_nn", MATRIX, "fp16"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", MATRIX, "fp16"),
        ("turing_h1688gemm_128x64_ldg8_stages_32x1_nn", MATRIX, "fp16"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn", MATRIX, "fp16"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn", MATRIX, "bf16"),
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_relu_f2f_stages_32x1_tn", MATRIX, "bf16"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", MATRIX, "tf32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8", VECTOR, "fp32"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", MATRIX, "tf32"),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", MATRIX, "fp16"),
        ("sm80_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x64x16", MATRIX, "fp64"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", MATRIX, "bf16"),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cgasize1x2x1_stage4_gmmastage2", MATRIX, "fp8"),
        ("sm80_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize128x64x64", MATRIX, "int8"),
        # Experts with Triton: layouts, then output, activations and weights
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu", MATRIX, "bf16"),
        ("_p_matmul_ogs_NNT_fp8e5xfp8e5xmxfp4_16x256x128x1", MATRIX, "fp8"),
        ("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT", MATRIX, "bf16"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", MATRIX, "fp16"),
        ("nvjet_sm100_tst_64x32_64x16_2x1_2cta_v_bz_TNN", MATRIX, "bf16"),
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", MATRIX, "fp8"),
        ("nvjet_sm100_sss_128x64_32x8_2x1_v_bz_TNN", MATRIX, "tf32"),
        ("cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1", VECTOR, "fp32"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu", VECTOR, "fp32"),
        ("sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32", MATRIX, "tf32"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64", MATRIX, "tf32"),
        ("sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", MATRIX, "bf16"),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x16x8_g1_ffma", VECTOR, "fp32"),
        ("sm70_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw", VECTOR, "fp32"),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_medium_nhwc_tn_v1", MATRIX, "fp16"),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int)", VECTOR, "fp32"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)", VECTOR, "fp32"),
        (
            "void cudnn::cnn::conv2d_grouped_direct_kernel<float, float, float, float, float, float, true, false, 0>",
            VECTOR,
            "fp32",
        ),
        ("void at::native::conv_depthwise2d_forward_kernel<5, float, int>(at::native::Params)", VECTOR, "fp32"),
        ("void at::native::conv_depthwise2d_forward_kernel_generic<float, int>", VECTOR, "fp32"),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>", VECTOR, "fp32"),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16>", VECTOR, "bf16"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half>", VECTOR, "fp16"),
        ("void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>", VECTOR, "fp32"),
        # CUTLASS
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)", MATRIX, "tf32"),
        ("void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128>", MATRIX, "tf32"),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_64x64_16x10_nhwc_align4>",
            MATRIX,
            "tf32",
        ),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>",
            MATRIX,
            "bf16",
        ),
        ("_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS_10tfloat32_t", MATRIX, "tf32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)", VECTOR, "fp32"),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>", MATRIX, "bf16"),
        ("void cutlass::Kernel2<cutlass_75_tensorop_f16_s1688gemm_f16_256x128_32x2_nn_align8>", MATRIX, "fp16"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1>", MATRIX, "fp64"),
        ("void cutlass::Kernel<cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16>", MATRIX, "int8"),
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::float_e4m3_t>>", MATRIX, "fp8"),
        # Attention
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::bfloat16_t>>", MATRIX, "bf16"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, cutlass::half_t>>", MATRIX, "fp16"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(Params)", MATRIX, "bf16"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(Params)", MATRIX, "fp16"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)", MATRIX, "3xtf32"),
        ("fmha_cutlassB_f32_aligned_64x64_k64_dropout_sm80(Params)", MATRIX, "3xtf32"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm75(Params)", VECTOR, "fp32"),
        ("fmha_cutlassB_f32_notaligned_64x64_k64_sm70(Params)", VECTOR, "fp32"),
        ("aiter::fmha_bwd_hd64_bf16_causal_a16_rtz_recompile", MATRIX, "bf16"),
        # AMD
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0_AFC1", MATRIX, "fp32"),
        ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN_LDSB0", MATRIX, "bf16"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN", MATRIX, "bf16"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0_APM1", MATRIX, "fp16"),
        ("Cijk_Ailk_Bjlk_DB_MT64x64x16_MI16x16x4x1_SN_1LDSB0", MATRIX, "fp64"),
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256x256x128_MI16x16x1", MATRIX, "fp8"),
        ("Cijk_Alik_Bljk_I8II_BH_MT128x128x64_MI32x32x1_SN", MATRIX, "int8"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1", VECTOR, "fp32"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT4x16x64_SE_1LDSB0", VECTOR, "fp16"),
        ("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt256x128x32_wt32x32x8_ws2x1_wr2x2", MATRIX, "fp16"),
        ("igemm_fwd_gtcx35_nhwc_fp32_bx0_ex0_bt128x128x16", MATRIX, "fp32"),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", VECTOR, "fp32"),
    ],
)  # fmt: skip
def test_families(name: str, unit: ComputeUnit, dtype: str) -> None:
    assert classify_matrix_unit(name) == (unit, dtype)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, true>",
        "void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<half_t>>",
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>",
        "void fbgemm_gpu::_compute_FP8_quantize_cuda_kernel<float>",
        "void split_embedding_codegen_forward_unweighted_kernel<c10::Half, c10::Half, float>(fbgemm_gpu::Accessor)",
        "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float, float>(WinogradFilterParams<float, float>)",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*)",
        "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*, void const*, float, int, int)",
        "attn_fwd",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "",
    ],
)
def test_names_that_tell_nothing(name: str) -> None:
    assert classify_matrix_unit(name) is None


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", {"fp16"}),
        ("nvjet_sm100_tst_64x32_64x16_2x1_2cta_v_bz_TNN", {"bf16"}),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>", {"bf16"}),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)", {"fp32"}),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0_APM1", {"fp16"}),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN", {"bf16"}),
        (
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
            "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>>, 128, cutlass::bfloat16_t, float>>>>",
            {"bf16"},
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0",
            {"bf16", "fp16"},
        ),
        # What is multiplied is not said.
        ("triton_tem_fused_addmm_t_view_3", set()),
        ("triton_tem_fused_mm_0", set()),
        ("attn_fwd.kd", set()),
        (
            "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor0000o1",
            set(),
        ),
    ],
)
def test_operands_of_kernels_that_multiply(name: str, dtypes: set[str]) -> None:
    assert is_matrix_kernel(name)
    assert infer_operand_dtypes(name) == dtypes


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused__scaled_dot_product_flash_attention_clone_convolution_view_4",
        "triton_per_fused_addmm_native_layer_norm_bf16_2",
        "triton_red_fused__to_copy_mm_sum_11",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, true>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    ],
)
def test_generated_and_other_kernels_multiply_nothing(name: str) -> None:
    assert not is_matrix_kernel(name)
    assert infer_operand_dtypes(name) == frozenset()


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("fused_moe_kernel", True),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_32x256x128x1_swiglu", True),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512_s7_et64x8_m64x8x32_cga1x1x4_rM_TN_swiGlu_dynB_sm100f", True),
        ("kernel_unified_attention_2d", False),
        ("paged_attention_v1_kernel<half>", False),
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP32VarSeqQ8Kv128PersistentSwapsAbForGen", False),
    ],
)
def test_kernels_of_serving_engines_multiply(name: str, product: bool) -> None:
    assert is_matrix_kernel(name)
    assert is_gemm(name) is product


@pytest.mark.parametrize(
    ("name", "helps"),
    [
        ("void splitKreduce_kernel<float, float, float, float, true, false, false>", True),
        ("void epilogue::impl::globalKernel<float, float, float, true, true>(int)", True),
        ("Memset (Device)", True),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", False),
        ("ampere_sgemm_32x128_nn", False),
        ("kernel_0d1d2d3de", False),
    ],
)
def test_what_only_helps_a_product(name: str, helps: bool) -> None:
    assert is_helper_kernel(name) is helps
