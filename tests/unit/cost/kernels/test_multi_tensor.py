"""Kernels over lists, by names as torch, apex and DeepSpeed write them."""

import pytest

from perfkit.cost.kernels.multi_tensor import SIZED, cost_multi_tensor_kernel

APEX_ADAM = (
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float, float, float>"
    "(int, int volatile*, TensorListMetadata<4>, AdamFunctor<float, float, int>)"
)
TORCH_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false>, float const*>"
)


def test_an_optimizer_of_apex() -> None:
    # 320 chunks of 65,536 elements, of which at most 36 (one of each tensor) are not full.
    found = cost_multi_tensor_kernel(APEX_ADAM, 320)
    assert found is not None
    least, most = 284 * 65536 + 36, 320 * 65536
    assert (found.flops, found.most_flops) == (14 * least, 14 * most)
    assert (found.bytes, found.most_bytes) == (28 * least, 28 * most)  # reads four lists of fp32, writes three
    assert (found.dtype, "grid" in found.source) == ("fp32", True)


def test_torchs_own_takes_more_tensors_at_once() -> None:
    found = cost_multi_tensor_kernel(TORCH_ADAM, 320)
    assert found is not None
    assert found.flops == 14 * (68 * 65536 + 252)


def test_element_wise_functors_say_how_many_lists_they_read() -> None:
    place = "at::native::(anonymous namespace)::"
    name = (
        f"void {place}multi_tensor_apply_kernel<{place}TensorListMetadata<2>, "
        f"{place}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>({place}TensorListMetadata<2>, ...)"
    )
    found = cost_multi_tensor_kernel(name, 65)
    assert found is not None
    assert (found.most_flops, found.most_bytes) == (65 * 65536, 12 * 65 * 65536)
    assert (found.flops, found.bytes) == (65, 12 * 65)  # 65 tensors of one element each, for all that is recorded


@pytest.mark.parametrize(
    ("functor", "lists", "flops", "element"),
    [
        ("UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float>", "<2>", 1, 8),
        ("BinaryOpScalarListFunctor<float, 1, 1, 0>, std::divides<float>", "ScalarList<float, 1>", 1, 8),
        ("PointwiseOpScalarListFunctor<float, 3, 3, 0>, std::divides<float>", "ScalarList<float, 3>", 3, 16),
    ],
)  # fmt: skip
def test_adamw_of_torch_in_foreach_ops(functor: str, lists: str, flops: int, element: int) -> None:
    """Names as torch 2.11 writes them on an H200."""
    place = "at::native::(anonymous namespace)::"
    kind, depth = lists.split("<")
    lists = f"{place}TensorList{kind}Metadata<{depth}"
    name = f"void {place}multi_tensor_apply_kernel<{lists}, {place}{functor}, float>({lists}, {place}...)"
    found = cost_multi_tensor_kernel(name, 320)
    assert found is not None
    assert (found.most_flops, found.most_bytes) == (flops * 320 * 65536, element * 320 * 65536)


def test_known_elements_leave_nothing_open() -> None:
    found = cost_multi_tensor_kernel(TORCH_ADAM, 320, 20_000_000)
    assert found is not None
    assert (found.flops, found.bytes) == (14 * 20_000_000, 28 * 20_000_000)
    assert (found.most_flops, found.most_bytes, found.source) == (None, None, SIZED)


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("void vectorized_elementwise_kernel<4>", 320), (APEX_ADAM.replace("AdamFunctor", "LAMBStage1Functor"), 320),
     (APEX_ADAM, 5000), (APEX_ADAM, 0)],
)  # fmt: skip
def test_what_is_not_known(name: str, blocks: int) -> None:
    assert cost_multi_tensor_kernel(name, blocks) is None
