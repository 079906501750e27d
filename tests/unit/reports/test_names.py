import pytest

from perfkit_reports.names import shorten_kernel, shorten_middle, shorten_modules
from tests.fixtures.sample_trace_analysis import GELU, SOFTMAX


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (GELU, "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl…, …>"),
        (SOFTMAX, "softmax_warp_forward<float, float, float, …>"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
            "at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 3> >(int, float)",
            "vectorized_elementwise_kernel<4, BinaryFunctor<MulFunctor<float>, …>, …>",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>"
            "(cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4::Params)",
            "Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            "TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >(int)",
            "multi_tensor_apply_kernel<FusedAdamMathFunctor<4, …>, …>",
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
            "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >"
            "(at::TensorIteratorBase&, int)::{lambda(int)#1}>(int)",
            "elementwise_kernel<128, 4, BinaryFunctor<MulFunctor<float>, …>>",
        ),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("aten::mm", "aten::mm"),
        ("attn_fwd", "attn_fwd"),
        ("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0"),
        ("", ""),
    ],
)
def test_kernels_are_named_by_what_they_do(name: str, short: str) -> None:
    assert shorten_kernel(name, 80) == short


@pytest.mark.parametrize(
    "name", ["f<" * 3000, "<>", "((((", "a<b", "x" * 10**6, "f<" + "g<int>, " * 9999, ")>(", "void "]
)
def test_no_name_is_too_odd_or_too_long(name: str) -> None:
    assert len(shorten_kernel(name, 72)) <= 72


def test_long_names_keep_both_ends() -> None:
    assert shorten_middle("Cijk_Alik_Bljk_MT128x144x64_WG64_4_1", 20) == "Cijk_Alik_Blj…64_4_1"
    assert shorten_middle("short", 20) == "short"
    cut = shorten_middle("a" * 50 + "b" * 50, 21)
    assert len(cut) == 21
    assert cut == "a" * 13 + "…" + "b" * 7


def test_of_modules_as_the_profiler_has_them_the_last_two_are_kept() -> None:
    assert shorten_modules("aten::mm in GPT_0/Stack_0/Block_3/Linear_5") == "aten::mm in …/Block_3/Linear_5"
    assert shorten_modules("GPT_0/Block_3") == "GPT_0/Block_3"
    assert shorten_modules("blocks.0.mlp") == "blocks.0.mlp"
