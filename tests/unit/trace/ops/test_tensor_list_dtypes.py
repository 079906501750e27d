"""Dtypes of lists, from evidence."""

from perfkit.cost.calls.op_call import TensorArg
from perfkit.trace.ops import tensor_list_dtypes

A, B = TensorArg((4, 8), (8, 1), ""), TensorArg((8,), (1,), "")


def test_shapes_without_a_dtype() -> None:
    assert tensor_list_dtypes.find_unknown_shapes(((A, B), TensorArg((2,), (1,), "fp32"), 3)) == {(4, 8), (8,)}
    assert tensor_list_dtypes.find_unknown_shapes((TensorArg((2,), (1,), "fp32"),)) == frozenset()


def test_one_dtype_must_fit_all_shapes() -> None:
    # A weight was seen in fp32 and, cast, in bf16; another tensor of the same list in fp32 only.
    evidence = {(4, 8): {"fp32", "bf16"}, (8,): {"fp32"}}
    assert tensor_list_dtypes.infer_from_shapes(evidence, [(4, 8), (8,)]) == "fp32"
    assert tensor_list_dtypes.infer_from_shapes(evidence, [(4, 8)]) == ""
    assert tensor_list_dtypes.infer_from_shapes(evidence, [(3,)]) == ""
    assert tensor_list_dtypes.infer_from_shapes({(4, 8): {"bf16"}, (8,): {"fp32"}}, [(4, 8), (8,)]) == ""


def test_kernels_name_types() -> None:
    foreach = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<{}, 2>>"
    assert tensor_list_dtypes.infer_from_kernels([foreach.format("float")]) == "fp32"
    assert tensor_list_dtypes.infer_from_kernels([foreach.format("c10::BFloat16"), "kernel<float>"]) == "bf16"
    assert tensor_list_dtypes.infer_from_kernels(["kernel<double>", "kernel<c10::Half>"]) == ""


def test_filling_in() -> None:
    assert tensor_list_dtypes.fill_dtype(((A,), 3, B), "bf16") == (
        (A._replace(dtype="bf16"),),
        3,
        B._replace(dtype="bf16"),
    )


def test_a_kernel_that_only_moves_tells_the_size() -> None:
    cat = "void CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(...)"
    assert tensor_list_dtypes.adjust_to_kernels("", [cat]) == "2-byte"
    assert tensor_list_dtypes.adjust_to_kernels("bf16", [cat]) == "bf16"
    assert (
        tensor_list_dtypes.adjust_to_kernels("fp32", [cat]) == "2-byte"
    )  # seen elsewhere in such shapes, but not here
    assert tensor_list_dtypes.adjust_to_kernels("fp32", [cat, "copy<OpaqueType<4u>>"]) == "fp32"
    assert tensor_list_dtypes.adjust_to_kernels("", ["relu<float>"]) == ""
