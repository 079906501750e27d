"""Classifies the unit and precision of a matrix kernel by its name.

The operands do not tell: fp32 products may run on tensor cores as TF32, and odd shapes on vector units. The names of
cuBLAS, cuDNN, CUTLASS, hipBLASLt, rocBLAS, MIOpen, Composable Kernel and FlashAttention do. A name that tells a library
but no precision (`attn_fwd`) gives nothing. Precision is that of the multiplication, not of the sum.
"""

import re
from functools import lru_cache

from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.devices.ceilings.peak import THREE_TF32

_MATRIX, _VECTOR = ComputeUnit.MATRIX, ComputeUnit.VECTOR

# Only such names are matrix kernels; a copy, a sum of partial products or a conversion has types in its name, too.
_IS_MATRIX = re.compile(
    r"(?<!fb)gemm|gemv|Cijk_|nvjet|xmma|cudnn|cutlass|flash|fmha|attn|attention|fused_moe_kernel|moe_gemm|(?<!\w)bmm_|wgmma|ck::|ck_tile|conv|matmul|miopenSp3",
    re.IGNORECASE,
)
_IS_NOT = re.compile(
    r"splitK_?reduce|ReduceSplitK|elementwise_kernel|im2col|col2im|nchwToNhwc|nhwcToNchw|::bn_|quantize|_to_float|convert|"
    r"epilogue::impl::|dot_do_o|combine_kernel|cudnn_generated\w*sdpa",  # cuDNN's attention says f16 for bf16, too
    re.IGNORECASE,
)

# Tensile's names (hipBLASLt, rocBLAS): types of the operands, output and sum after the layout, as in HHS or F8BS; a
# matrix instruction is told by MI and its shape.
_TENSILE = r"Cijk_A\w{3}_B\w{3}_"
_INSTRUCTION = r"\w*_MI\d+x\d+"

_TABLE = tuple(
    (re.compile(pattern), unit, dtype)
    for pattern, unit, dtype in (
        (_TENSILE + r"(?:F8|B8)", _MATRIX, "fp8"),
        (_TENSILE + r"I8" + _INSTRUCTION, _MATRIX, "int8"),
        (_TENSILE + r"S_MX" + _INSTRUCTION, _MATRIX, "tf32"),
        (_TENSILE + r"B" + _INSTRUCTION, _MATRIX, "bf16"),
        (_TENSILE + r"H" + _INSTRUCTION, _MATRIX, "fp16"),
        (_TENSILE + r"S" + _INSTRUCTION, _MATRIX, "fp32"),
        (_TENSILE + r"D" + _INSTRUCTION, _MATRIX, "fp64"),
        (_TENSILE + r"B", _VECTOR, "bf16"),
        (_TENSILE + r"H", _VECTOR, "fp16"),
        (_TENSILE + r"S", _VECTOR, "fp32"),
        (_TENSILE + r"D", _VECTOR, "fp64"),
        # MIOpen: gtcx is a matrix instruction; its assembly kernels (Winograd) use vector units.
        (r"igemm_\w*gtcx\w*bf16", _MATRIX, "bf16"),
        (r"igemm_\w*gtcx\w*fp16", _MATRIX, "fp16"),
        (r"igemm_\w*gtcx\w*fp32", _MATRIX, "fp32"),
        (r"igemm_\w*gtc_\w*fp32", _VECTOR, "fp32"),
        (r"miopenSp3AsmConv\w*(?:fp16|f16)", _VECTOR, "fp16"),
        (r"miopenSp3AsmConv", _VECTOR, "fp32"),
        # cuBLAS: letters for the operands, the sum and the output (q fp8, t bf16, h fp16, s fp32). These kernels use
        # tensor cores only, where fp32 runs as tf32.
        (r"nvjet(?:_sm\d+)?_qq", _MATRIX, "fp8"),
        (r"nvjet(?:_sm\d+)?_t", _MATRIX, "bf16"),
        (r"nvjet(?:_sm\d+)?_h", _MATRIX, "fp16"),
        (r"nvjet(?:_sm\d+)?_s", _MATRIX, "tf32"),
        # Precision named outright.
        (r"e4m3|e5m2|fp8", _MATRIX, "fp8"),
        (r"tfloat32|tf32", _MATRIX, "tf32"),
        (r"imma|i8816|i16832|_i8i8|gemm_s8", _MATRIX, "int8"),
        (r"(?:fprop|dgrad|wgrad|gemm|gemv)\w*(?:_f32f32){2}|(?:_f32f32){2}_f32", _VECTOR, "fp32"),
        # A matrix-vector product runs on vector units, whatever its type.
        (r"gemv\w*(?:::\w+)?<.*(?:bfloat16|BFloat16)|gemv_?\w*bf16", _VECTOR, "bf16"),
        (r"gemv\w*(?:::\w+)?<.*(?:__half|Half)", _VECTOR, "fp16"),
        (r"gemv\w*(?:::\w+)?<.*double", _VECTOR, "fp64"),
        (r"gemv\w*(?:::\w+)?<.*float|gemmk1_kernel<float|gemmSN_\w*<float", _VECTOR, "fp32"),
        # CUTLASS's SIMT kernels, and the same by cuBLAS's and cuDNN's names.
        (r"simt_h|(?:maxwell|pascal)_(?:fp16_)?hgemm", _VECTOR, "fp16"),
        (r"simt_d|(?:maxwell|volta|turing|ampere)_dgemm|(?<!\w)dgemm", _VECTOR, "fp64"),
        (r"simt_s|(?:maxwell|pascal|volta|turing|ampere)_(?:fp16_)?sgemm|(?<!\w)sgemm", _VECTOR, "fp32"),
        (r"scudnn|convolve_sgemm", _VECTOR, "fp32"),
        # cuDNN's engines without tensor cores, and torch's own depthwise convolutions.
        (r"(?:dgrad|wgrad_alg\d)_engine<float|grouped_direct_kernel<(?!.*(?:bfloat16|half)).*float", _VECTOR, "fp32"),
        (r"conv_depthwise\dd_\w+_kernel(?:_generic)?<[^<>]*float", _VECTOR, "fp32"),
        # Instructions: s16816 is a 16 x 8 x 16 product summed in fp32, h16816 one summed in fp16, d884 in fp64.
        (r"d884|d1684|dmma|(?:_f64f64){2}", _MATRIX, "fp64"),
        (r"bf16|bfloat16|BFloat16|bhalf_t", _MATRIX, "bf16"),
        (r"fp?16|half|Half|h884|s884|h1688|16816|h161616|s161616|hmma|_Float16", _MATRIX, "fp16"),
        (r"s1688|s688", _MATRIX, "tf32"),
        (r"fmha_cutlass[FB]_f32\w*_sm[89]", _MATRIX, THREE_TF32),  # see perfkit.cost.kernels.fp32_products
        (r"fmha_cutlass[FB]_f32", _VECTOR, "fp32"),
    )
)  # fmt: skip


@lru_cache(maxsize=16384)
def classify_matrix_unit(kernel_name: str) -> tuple[ComputeUnit, str] | None:
    """Unit and dtype of a matrix kernel, in ceiling names (`tf32`, `bf16`); None where its name does not show them."""
    if not _IS_MATRIX.search(kernel_name) or _IS_NOT.search(kernel_name):
        return None
    return next(((unit, dtype) for pattern, unit, dtype in _TABLE if pattern.search(kernel_name)), None)


# Kernels that torch.compile generates carry the names of the ops fused into them; only its templates multiply.
_GENERATED = re.compile(r"triton_(?:(tem|mm|bmm)|poi|red|per|for|unk|mix|spl)_")
_GEMM = re.compile(
    r"(?<!fb)gemm|gemv|Cijk_|nvjet|matmul|(?:(?<!\w)|triton_)bmm_|triton_(?:tem|mm)_|moe_kernel", re.IGNORECASE
)
_CUDNN_ATTENTION = re.compile(r"cudnn_generated\w*sdpa")
_CUDNN_16_BIT = re.compile(r"cudnn_generated\w*sdpa\w*_f16")


def is_gemm(kernel_name: str) -> bool:
    """True if a kernel is a GEMM by its name, neither attention nor convolution."""
    return _GEMM.search(kernel_name) is not None and is_matrix_kernel(kernel_name)


@lru_cache(maxsize=16384)
def is_matrix_kernel(kernel_name: str) -> bool:
    """True if a kernel multiplies matrices, even where its name shows no precision."""
    generated = _GENERATED.match(kernel_name)
    if generated is not None:
        return generated[1] is not None
    if _CUDNN_ATTENTION.search(kernel_name):
        return True
    return _IS_MATRIX.search(kernel_name) is not None and _IS_NOT.search(kernel_name) is None


@lru_cache(maxsize=16384)
def is_helper_kernel(kernel_name: str) -> bool:
    """True if a kernel, copy or fill of a GEMM op is known not to multiply: it packs, converts or sums."""
    if _CUDNN_ATTENTION.search(kernel_name):
        return False
    return kernel_name.startswith(("Memset", "Memcpy")) or _IS_NOT.search(kernel_name) is not None


@lru_cache(maxsize=16384)
def infer_operand_dtypes(kernel_name: str) -> frozenset[str]:
    """The possible operand dtypes of a matrix kernel; empty where its name shows none, or for other kernels.

    cuDNN's attention calls both types of 16 bits f16.
    """
    if not is_matrix_kernel(kernel_name) or _GENERATED.match(kernel_name):
        return frozenset()
    if _CUDNN_16_BIT.search(kernel_name):
        return frozenset({"bf16", "fp16"})
    named = classify_matrix_unit(kernel_name)
    return frozenset() if named is None else frozenset({"fp32" if named[1] == "tf32" else named[1]})
