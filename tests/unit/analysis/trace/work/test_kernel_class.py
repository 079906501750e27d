"""Classes of kernels that no op is known for."""

import pytest

from perfkit.analysis.trace.work.kernel_class import classify_kernel
from perfkit.cost.calls.op_call import OpClass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NNT", OpClass.MATMUL),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_64x128x128x1", OpClass.MATMUL),
        ("fused_moe_kernel", OpClass.MATMUL),
        ("ampere_sgemm_64x64_nt", OpClass.MATMUL),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32", OpClass.CONVOLUTION),
        ("kernel_unified_attention_2d", OpClass.ATTENTION),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90>", OpClass.ATTENTION),
        ("triton_poi_fused_add_mul_3", OpClass.COMPILED),
        ("my_kernel", OpClass.OTHER),
    ],
)
def test_a_kernel_is_classified_by_its_name(name: str, expected: OpClass) -> None:
    assert classify_kernel(name) == expected
