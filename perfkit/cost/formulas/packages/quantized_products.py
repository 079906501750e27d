"""Products of quantized operands: vLLM, SGLang, FlashInfer and DeepGEMM.

2 m n k FLOPs; scales, zero points and bias are free. Operands of 4 bits are packed in pairs into bytes, weights of few
bits into integers of 32. Where the op writes into its first argument, that tells m and n.

Signatures: csrc/torch_bindings.cpp, csrc/libtorch_stable/torch_bindings.cpp, csrc/rocm/torch_bindings.cpp,
vllm/utils/flashinfer.py and vllm/model_executor/layers/quantization/utils/fp8_utils.py of vLLM,
sgl-kernel/csrc/common_extension.cc and python/sglang/srt/layers/quantization/fp8_kernel.py of SGLang.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.MATMUL)

_SOURCE = "product of quantized operands"
_BYTE_PAIRS = "uint8"  # two numbers of 4 bits


def get_inner_size(a: TensorArg) -> int:
    """k of the left operand (..., k), which is twice as long as recorded where its numbers are packed in pairs."""
    return a.shape[-1] * (2 if a.dtype == _BYTE_PAIRS else 1)


def make_product_cost(flops: float, nbytes: float, a: TensorArg, source: str) -> OpCost:
    """The cost of a product whose left operand is `a`, with the peak of its numbers."""
    cost = make_matrix_cost(flops, nbytes, a.dtype, source)
    return cost._replace(dtype="fp4") if a.dtype == _BYTE_PAIRS else cost


def find_size_arguments(args: Args, a: TensorArg) -> int:
    """The place of size_m in `..., b_type_id, size_m, size_n, size_k, ...` of Marlin's ops, whose versions differ."""
    rows, k = numel(a) // max(a.shape[-1], 1), a.shape[-1]
    for index in range(1, len(args) - 2):
        sizes = args[index - 1 : index + 3]
        if all(isinstance(size, int) and not isinstance(size, bool) for size in sizes) and sizes[1::2] == (rows, k):
            return index
    raise UnmodeledError("sizes are not among the arguments")


@OPS.formula(
    "_C::cutlass_scaled_mm _C::cutlass_scaled_mm_azp _C::cutlass_scaled_fp4_mm sgl_kernel::cutlass_scaled_fp4_mm"
    " _C::dsv3_fused_a_gemm sgl_kernel::dsv3_fused_a_gemm _C::dsv3_router_gemm _moe_C::dsv3_router_gemm"
    " sgl_kernel::dsv3_router_gemm _C::fp32_router_gemm"
)
def _cost_into_first(args: Args) -> OpCost:
    """cutlass_scaled_mm(out (m, n), a (m, k), b, scales ...)."""
    out, a = get_tensor(args, 0, 2), get_tensor(args, 1, 2)
    nbytes = count_read_bytes(*walk_tensors(args[1:])) + count_output_bytes(numel(out), out.dtype)
    return make_product_cost(2.0 * numel(out) * get_inner_size(a), nbytes, a, _SOURCE)


@OPS.formula("sglang::deep_gemm_fp8_fp8_bf16_nt")
def _cost_into_last(args: Args) -> OpCost:
    """deep_gemm_fp8_fp8_bf16_nt(a (m, k), a_scale, b (n, k), b_scale, out (m, n))."""
    a, out = get_tensor(args, 0, 2), get_tensor(args, 4, 2)
    nbytes = count_read_bytes(*walk_tensors(args[:4])) + count_output_bytes(numel(out), out.dtype)
    return make_matrix_cost(2.0 * numel(out) * a.shape[1], nbytes, a.dtype, _SOURCE)


def _make_new(dtype_at: int | None, *, transposed: bool = False) -> Formula:
    """op(a (..., m, k), b (..., k, n), scales ...) -> (..., m, n) of the dtype at `dtype_at`, else of a's; b is (n, k)
    where it is `transposed`."""

    def formula(args: Args) -> OpCost:
        a, b = get_tensor(args, 0), get_tensor(args, 1)
        k, n = (b.shape[-1], b.shape[-2]) if transposed else (b.shape[-2], b.shape[-1])
        if a.shape[-1] != k:
            raise UnmodeledError("inner dimensions differ")
        outputs = numel(a) // max(k, 1) * n
        dtype = (None if dtype_at is None else get_dtype_argument(args, dtype_at)) or a.dtype
        nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(outputs, dtype)
        return make_product_cost(2.0 * outputs * get_inner_size(a), nbytes, a, _SOURCE)

    return formula


@OPS.formula("sgl_kernel::bmm_fp8")
def _cost_batches_into_third(args: Args) -> OpCost:
    """bmm_fp8(a (batch, m, k), b (batch, k, n), out (batch, m, n), a_scale, b_scale, ...)."""
    a, b, out = get_tensor(args, 0, 3), get_tensor(args, 1, 3), get_tensor(args, 2, 3)
    nbytes = count_read_bytes(a, b) + count_output_bytes(numel(out), out.dtype)
    return make_matrix_cost(2.0 * numel(out) * a.shape[2], nbytes, a.dtype, _SOURCE)


def _cost_few_bits(args: Args, outputs: int) -> OpCost:
    """(..., k) times a packed weight with this many columns, all of which is read with its scales."""
    a = get_tensor(args, 0)
    rows = numel(a) // max(a.shape[-1], 1)
    nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(rows * outputs, a.dtype)
    return make_matrix_cost(2.0 * rows * outputs * a.shape[-1], nbytes, a.dtype, _SOURCE)


@OPS.formula("_C::awq_gemm")
def _cost_awq(args: Args) -> OpCost:
    """awq_gemm(a (m, k), weight (k, n / 8) int32, scales, zeros, split_k)."""
    return _cost_few_bits(args, 8 * get_tensor(args, 1, 2).shape[1])


@OPS.formula("_C::gptq_gemm sgl_kernel::gptq_gemm _C::machete_mm _C::cutlass_w4a8_mm")
def _cost_packed_rows(args: Args) -> OpCost:
    """gptq_gemm(a (m, k), weight (k x bits / 32, n) int32, ...): packed along k."""
    return _cost_few_bits(args, get_tensor(args, 1, 2).shape[1])


@OPS.formula("_C::allspark_w8a16_gemm")
def _cost_allspark(args: Args) -> OpCost:
    """allspark_w8a16_gemm(a (m, k), weight, scales, zeros, n, ...): the weight is rearranged."""
    return _cost_few_bits(args, get_integer(args, 4))


@OPS.formula("_C::marlin_gemm _C::gptq_marlin_gemm sgl_kernel::gptq_marlin_gemm")
def _cost_marlin(args: Args) -> OpCost:
    """marlin_gemm(a (m, k), out, weight, ..., workspace, b_type_id, size_m, size_n, size_k, ...): the workspace is the
    last tensor, of locks."""
    a, at = get_tensor(args, 0), find_size_arguments(args, get_tensor(args, 0))
    outputs = numel(a) // max(a.shape[-1], 1) * get_integer(args, at + 1)
    operands = list(walk_tensors(args[2:]))[:-1]
    nbytes = count_read_bytes(a, *operands) + count_output_bytes(outputs, a.dtype)
    return make_matrix_cost(2.0 * outputs * a.shape[-1], nbytes, a.dtype, _SOURCE)


@OPS.formula("_C::ggml_mul_mat_a8 _C::ggml_mul_mat_vec_a8")
def _cost_ggml(args: Args) -> OpCost:
    """ggml_mul_mat_a8(weight, x (m, k), type, n)."""
    weight, x = get_tensor(args, 0), get_tensor(args, 1, 2)
    outputs = x.shape[0] * get_integer(args, 3)
    nbytes = count_read_bytes(weight, x) + count_output_bytes(outputs, x.dtype)
    return make_matrix_cost(2.0 * outputs * x.shape[1], nbytes, x.dtype, _SOURCE)


@OPS.formula("_rocm_C::LLMM1 _rocm_C::wvSplitK")
def _cost_skinny(args: Args) -> OpCost:
    """wvSplitK(weight (n, k), x (m, k), ...) -> (m, n)."""
    weight, x = get_tensor(args, 0, 2), get_tensor(args, 1, 2)
    outputs = weight.shape[0] * x.shape[0]
    bias = get_optional_tensor(args, 2)
    nbytes = count_read_bytes(weight, x, bias) + count_output_bytes(outputs, x.dtype)
    return make_matrix_cost(2.0 * outputs * x.shape[1], nbytes, x.dtype, _SOURCE)


OPS.add("sgl_kernel::fp8_scaled_mm sgl_kernel::int8_scaled_mm sgl_kernel::fp8_blockwise_scaled_mm", _make_new(4))
OPS.add("vllm::w8a8_triton_block_scaled_mm_func", _make_new(5, transposed=True))
OPS.add("vllm::flashinfer_mm_fp4", _make_new(5))
OPS.add("vllm::bmm_fp8", _make_new(4))
