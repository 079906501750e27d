"""Resolves the compute dtype of products with fp32 operands: torch decides it by kind of op, and the peak follows.

A matrix product follows the setting of matrix products, a convolution and a recurrent layer those of cuDNN, which takes
TF32 unless it is told otherwise. Memory-efficient attention follows none: from compute capability 8.0 on its kernels
multiply fp32 as three products in TF32 (aten/src/ATen/native/transformers/cuda/mem_eff_attention/gemm_kernel_utils.h,
`DefaultGemmType`: `OpMultiplyAddFastF32` for float where `kMinComputeCapability >= 80`, SIMT before).
"""

from collections.abc import Mapping

from perfkit.cost.formulas import recurrent
from perfkit.devices.ceilings.peak import TF32, THREE_TF32, Fp32Settings

FP32 = "fp32"
MATMUL = "aten::mm"

_CONVOLUTIONS = frozenset(
    f"aten::{name}"
    for name in (
        "convolution", "_convolution", "convolution_backward",
        "cudnn_convolution", "cudnn_convolution_transpose", "cudnn_convolution_relu", "cudnn_convolution_add_relu",
        "cudnn_convolution_backward", "cudnn_convolution_transpose_backward",
    )
)  # fmt: skip
_RECURRENT = frozenset(name for name in recurrent.OPS if "cudnn_rnn" in name)
_EFFICIENT_ATTENTION = (
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_efficient_attention_",
    "xformers::efficient_attention_",
)


def resolve_compute_dtype(op: str, dtype: str, settings: Fp32Settings | None) -> str:
    """The compute dtype of the op's products with operands of `dtype`: `tf32` or `3xtf32` for some of `fp32`, else
    `dtype`.

    `settings` are those of a GPU; None where fp32 is fp32, as on a CPU.
    """
    if dtype != FP32 or settings is None:
        return dtype
    if op.startswith(_EFFICIENT_ATTENTION):
        return THREE_TF32 if settings.has_tf32 else dtype
    setting = settings.conv if op in _CONVOLUTIONS else settings.rnn if op in _RECURRENT else settings.matmul
    return TF32 if setting == TF32 else dtype


def group_by_compute_dtype(flops: Mapping[tuple[str, str], float], settings: Fp32Settings | None) -> dict[str, float]:
    """Group FLOPs by (op, operand dtype) into compute dtypes."""
    by_computed: dict[str, float] = {}
    for (op, dtype), amount in flops.items():
        computed = resolve_compute_dtype(op, dtype, settings)
        by_computed[computed] = by_computed.get(computed, 0.0) + amount
    return by_computed
