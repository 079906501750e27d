"""Kernels as libraries name them, and the ops that they stand for where no op was called."""

import pytest

from perfkit.analysis.trace.replayed_ops import count_replayed_calls, is_recognized

SDPA = "aten::_scaled_dot_product_"
FA3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttn{}Sm90<flash::Collective<bfloat16_t>>>>"


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>", f"{SDPA}flash_attention"),
        ("void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", f"{SDPA}flash_attention"),
        (FA3.format("Fwd"), f"{SDPA}flash_attention"),
        (
            "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor0000o1",
            f"{SDPA}flash_attention",
        ),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)", f"{SDPA}efficient_attention"),
        ("cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16", f"{SDPA}cudnn_attention"),
        ("attn_fwd.kd", f"{SDPA}*attention"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "c10d::allreduce_*"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float", "c10d::*reduce_scatter*"),
        ("ncclDevKernel_AllGather_RING_LL", "c10d::_allgather_base_,c10d::allgather_*"),
    ],
)
def test_kernels_that_stand_for_calls(kernel, pattern):
    found = count_replayed_calls({kernel: 2.0, "nvjet_tst_64x8_64x16_4x1_v_bz_TNT": 5.0}, pattern.split(","))
    assert found == (2.0, 0.0, ())


@pytest.mark.parametrize(
    "kernel",
    [
        "void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128>>",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128>>",
        FA3.format("Bwd"),
        "fmha_cutlassB_bf16_aligned_128x128_k128_seqaligned_sm80(Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x1x1_kernel0_0",
        "triton_tem_fused_flex_attention_backward_split_transpose_3",
        "triton_poi_fused__scaled_dot_product_efficient_attention_clone_1",
        "triton_per_fused__safe_softmax_2",
        "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>",
        "void at_cuda_detail::cub::DeviceReduceKernel<Policy>",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "ncclDevKernel_SendRecv",
    ],
)
def test_kernels_that_are_something_else(kernel):
    assert is_recognized(kernel)
    assert count_replayed_calls({kernel: 3.0}, [f"{SDPA}flash_attention"]) == (0.0, 0.0, ())


def test_ops_that_the_table_does_not_know_may_be_any_kernel():
    found = count_replayed_calls({"nvjet_tst_64x8_64x16_4x1_v_bz_TNT": 5.0}, ["mine::attention"])
    assert found == (0.0, 5.0, ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT",))


def test_an_op_of_the_host_launches_nothing():
    assert count_replayed_calls({"sgemm": 5.0}, [f"{SDPA}flash_attention_for_cpu"]) == (0.0, 0.0, ())
