"""Recorded inputs to arguments."""

import json

import pytest

from perfkit.cost.calls.op_call import TensorArg
from perfkit.trace.model import Signature
from perfkit.trace.ops.signatures import has_missing_strides, parse_arguments


def signature(dims: object, strides: object, types: object, concrete: object) -> Signature:
    return Signature(*(b"" if each is None else json.dumps(each).encode() for each in (dims, strides, types, concrete)))


def test_tensors_and_scalars() -> None:
    found = parse_arguments(
        signature(
            [[4, 8], [], [], [], [], []],
            [[1, 4], [], [], [], [], []],
            ["c10::BFloat16", "Scalar", "Scalar", "ScalarList", "", "float"],
            ["", "False", "1.5", "[2, 3]", "", ""],
        )
    )
    assert found == (TensorArg((4, 8), (1, 4), "bf16"), False, 1.5, (2, 3), None, TensorArg((), (), "fp32"))


@pytest.mark.parametrize(
    ("written", "dtype"),
    [("BFloat16", "bf16"), ("Half", "fp16"), ("Float", "fp32"), ("Long", "int64")],
)
def test_writers_other_than_torch_name_dtypes_as_torch_prints_them(written: str, dtype: str) -> None:
    assert parse_arguments(signature([[4, 8]], None, [written], None)) == (TensorArg((4, 8), (8, 1), dtype),)


def test_lists_of_tensors_have_no_dtype() -> None:
    found = parse_arguments(signature([[[4, 8], [2]], []], [[[8, 1], [1]], []], ["TensorList", "Scalar"], ["", "0"]))
    assert found == ((TensorArg((4, 8), (8, 1), ""), TensorArg((2,), (1,), "")), 0)


def test_strides_and_values_that_were_not_recorded() -> None:
    found = parse_arguments(signature([[4, 8], []], None, ["float", "Scalar"], None))
    assert found == (TensorArg((4, 8), (8, 1), "fp32"), None)


def test_tensors_without_strides() -> None:
    kinds = (["float", "float"], ["", ""])
    assert has_missing_strides(signature([[2708, 1433], [1433, 16]], [[], [16, 1]], *kinds))
    assert not has_missing_strides(signature([[], [1433, 16]], [[], [16, 1]], *kinds))  # a scalar has none


def test_literals() -> None:
    kinds = ["Scalar"] * 5
    values = ["inf", "-1", "9223372036854775807", "[]", "mean"]
    found = parse_arguments(signature([[]] * 5, [[]] * 5, kinds, values))
    assert found == (float("inf"), -1, 2**63 - 1, (), None)


def test_lists_that_do_not_fit_together() -> None:
    assert parse_arguments(signature([[4]], None, ["float", "float"], None)) is None
    assert parse_arguments(Signature(b"[[4]", b"", b'["float"]', b"")) is None
    assert parse_arguments(signature({"a": 1}, None, ["float"], None)) is None
    assert parse_arguments(signature(["x"], None, ["float"], None)) == (None,)


def test_sizes_of_a_list_that_an_older_version_did_not_record() -> None:
    assert parse_arguments(signature([[], []], None, ["TensorList", "Scalar"], None)) == (None, None)
    assert parse_arguments(signature([[]], [[]], ["TensorList"], [""])) == ((),)  # an empty list


def test_sizes_that_no_memory_holds_are_damage() -> None:
    dims = [[2**40, 2**40], [-2, 3], [2**70], [True, 2], [2, 3]]
    found = parse_arguments(signature(dims, [[1], [1], [1], [1], [2**70, 1]], ["float"] * 5, None))
    assert found == (None, None, None, None, TensorArg((2, 3), (3, 1), "fp32"))
    kinds, values = ["Scalar"] * 3, [str(2**63), "1" * 5000, str(2**62)]
    assert parse_arguments(signature([[]] * 3, None, kinds, values)) == (None, float("inf"), 2**62)


def test_shapes_that_ascend_writes_as_text() -> None:
    found = parse_arguments(Signature(b'"64,32;32,16;"', b"", b'"c10::Half;float;Scalar"', b""))
    assert found == (TensorArg((64, 32), (32, 1), "fp16"), TensorArg((32, 16), (16, 1), "fp32"), None)
