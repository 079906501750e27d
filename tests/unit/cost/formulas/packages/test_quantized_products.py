"""Products of quantized operands against hand calculations, with the arguments in the order of their sources."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def fp8(*shape: int) -> TensorArg:
    return t(*shape, dtype="fp8_e4m3")


def scales(*shape: int) -> TensorArg:
    return t(*shape, dtype="fp32")


def packed(*shape: int, dtype: str = "int32") -> TensorArg:
    return t(*shape, dtype=dtype)


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    return found


M, K, N = 24, 512, 320
FLOPS, OUT = 2 * M * K * N, 2 * M * N


@pytest.mark.parametrize(
    ("name", "args", "nbytes", "dtype"),
    [
        ("_C::cutlass_scaled_mm", (t(M, N), fp8(M, K), fp8(K, N), scales(M, 1), scales(N)), 4 * (M + N), "fp8"),
        ("sgl_kernel::fp8_scaled_mm", (fp8(M, K), fp8(K, N), scales(M), scales(N), 15, None), 4 * (M + N), "fp8"),
        (
            "vllm::w8a8_triton_block_scaled_mm_func",
            (fp8(M, K), fp8(N, K), scales(M, 4), scales(3, 4), (128, 128), 15),
            4 * (4 * M + 12),
            "fp8",
        ),
        (
            "sglang::deep_gemm_fp8_fp8_bf16_nt",
            (fp8(M, K), scales(M, 4), fp8(N, K), scales(3, 4), t(M, N)),
            4 * (4 * M + 12),
            "fp8",
        ),
    ],
)
def test_operands_of_8_bits(name: str, args: tuple[object, ...], nbytes: float, dtype: str) -> None:
    found = cost(name, *args)
    assert (found.flops, found.bytes) == (FLOPS, M * K + K * N + nbytes + OUT)
    assert (found.unit, found.dtype) == (ComputeUnit.MATRIX, dtype)


def test_operands_of_4_bits_are_packed_in_pairs() -> None:
    pairs = packed(M, K // 2, dtype="uint8"), packed(N, K // 2, dtype="uint8")
    block = fp8(M, K // 16), fp8(N, K // 16)
    found = cost("_C::cutlass_scaled_fp4_mm", t(M, N), *pairs, *block, scales(1))
    assert found.flops == FLOPS
    assert found.bytes == (M + N) * (K // 2 + K // 16) + 4 + OUT
    assert found.dtype == "fp4"


def test_batches() -> None:
    found = cost("sgl_kernel::bmm_fp8", fp8(3, M, K), fp8(3, K, N), t(3, M, N), scales(1), scales(1))
    assert (found.flops, found.bytes) == (3 * FLOPS, 3 * (M * K + K * N + OUT))


@pytest.mark.parametrize(
    ("name", "args", "nbytes"),
    [
        ("_C::awq_gemm", (t(M, K), packed(K, N // 8), t(4, N), packed(4, N // 8), 8), K * N / 2 + 8 * N + 2 * N),
        ("_C::gptq_gemm", (t(M, K), packed(K // 8, N), packed(4, N // 8), t(4, N)), K * N / 2 + 2 * N + 8 * N),
        ("_C::machete_mm", (t(M, K), packed(K // 8, N), 7, None, t(4, N)), K * N / 2 + 8 * N),
        ("_C::ggml_mul_mat_a8", (packed(N, 288, dtype="uint8"), t(M, K), 12, N), 288 * N),
    ],
)
def test_weights_of_few_bits(name: str, args: tuple[object, ...], nbytes: float) -> None:
    found = cost(name, *args)
    assert (found.flops, found.bytes) == (FLOPS, 2 * M * K + nbytes + OUT)
    assert found.dtype == "bf16"


def test_marlins_sizes_are_found_in_each_version() -> None:
    weight, scale, locks = packed(K // 16, 2 * N), t(4, N), packed(528)
    sizes = (4503599628420097, M, N, K, True, False, True, False)
    newer = cost("_C::marlin_gemm", t(M, K), None, weight, None, scale, None, None, None, None, None, locks, *sizes)
    older = cost("_C::gptq_marlin_gemm", t(M, K), None, weight, scale, None, None, None, None, locks, *sizes)
    assert newer == older
    assert (newer.flops, newer.bytes) == (FLOPS, 2 * M * K + K * N / 2 + 8 * N + OUT)
    assert cost_op(OpCall("_C::marlin_gemm", (t(M, K), None, weight, scale, locks, 7, M + 1, N, K))) is None
