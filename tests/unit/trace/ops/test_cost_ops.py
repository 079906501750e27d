"""Which ops are work, where no formula knows them."""

from pathlib import Path

from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.trace.ops.cost_ops import SPARSE_OPERANDS
from perfkit.trace.ops.ops import OpRole
from tests.fixtures.trace_events import Event, event, inputs, kernel, launch, ops_of, work_ns


def test_what_launches_kernels_itself_is_work(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("flash_attn::_flash_attn_forward", 0, 20),
        event("aten::empty", 2, 1),
        launch(1, 5),
        event("FusedNormBackward", 30, 20),
        event("aten::empty", 32, 1),
        launch(2, 35),
        event("vllm::glue", 60, 20),
        event("aten::mm", 62, 8, **inputs([3, 5], [5, 7])),
        launch(3, 65),
        kernel("flash", 40, 5, 1),
        kernel("norm", 50, 5, 2),
        kernel("gemm", 80, 5, 3),
    )
    assert ops.role.tolist() == [
        OpRole.UNMODELED, OpRole.OVERHEAD, OpRole.UNMODELED, OpRole.OVERHEAD, OpRole.OVERHEAD, OpRole.COSTED,
    ]  # fmt: skip
    assert [ops.name(row) for row in ops.kernel_owner] == [
        "flash_attn::_flash_attn_forward", "FusedNormBackward", "aten::mm",
    ]  # fmt: skip


def test_on_a_cpu_an_op_without_a_cost_is_work_though_it_allocates_its_output(tmp_path: Path) -> None:
    """Traces that lack concrete inputs (strides, padding) have no cost for a convolution, but its time."""
    ops = ops_of(
        tmp_path,
        event("aten::conv2d", 0, 100, **inputs([1, 3, 8, 8], [4, 3, 3, 3])),
        event("aten::mkldnn_convolution", 10, 80, **inputs([1, 3, 8, 8], [4, 3, 3, 3])),
        event("aten::empty", 12, 3),
        event("aten::as_strided_", 16, 2),
        event("aten::reshape", 200, 10, **inputs([8, 8])),
        event("aten::view", 202, 5, **inputs([8, 8])),
        event("aten::linear", 300, 30, **inputs([3, 5], [7, 5])),
        event("aten::addmm", 305, 20, **inputs([7], [3, 5], [5, 7])),
        event("aten::expand", 306, 3, **inputs([7])),
    )
    assert ops.role.tolist() == [
        OpRole.OVERHEAD, OpRole.UNMODELED, OpRole.OVERHEAD, OpRole.OVERHEAD, OpRole.OVERHEAD, OpRole.OVERHEAD,
        OpRole.OVERHEAD, OpRole.COSTED, OpRole.INSIDE,
    ]  # fmt: skip
    assert work_ns(ops)[1] == 75_000


def test_a_product_of_a_sparse_tensor_is_work_of_unknown_cost_with_all_that_it_calls(tmp_path: Path) -> None:
    operands: Event = {
        "Input Dims": [[2708, 1433], [1433, 16]],
        "Input Strides": [[], [16, 1]],
        "Input type": ["float", "float"],
        "Concrete Inputs": ["", ""],
    }
    ops = ops_of(tmp_path, event("aten::mm", 0, 100, **operands), event("aten::zero_", 2, 10, **inputs([2708, 16])))
    assert ops.role.tolist() == [OpRole.COSTED, OpRole.INSIDE]
    assert work_ns(ops)[0] == 100_000
    (costed,) = ops.calls
    assert (costed.cost.flops, costed.cost.bytes, costed.cost.source) == (None, None, SPARSE_OPERANDS)
    assert costed.cost.unit is ComputeUnit.VECTOR


def test_tensors_in_the_layout_of_onednn_are_dense(tmp_path: Path) -> None:
    """As torch 2.13 records a frozen convolution: the packed weight has sizes but no strides."""
    operands: Event = {
        "Input Dims": [[1, 8, 6, 6], [8, 8, 3, 3], [8], [], [], [], [], [], [], []],
        "Input Strides": [[288, 36, 6, 1], [], [1], [], [], [], [], [], [], []],
        "Input type": ["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar", "", "", ""],
        "Concrete Inputs": ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]", "1", "none", "", ""],
    }
    ops = ops_of(tmp_path, event("mkldnn::_convolution_pointwise", 0, 100, **operands))
    assert [costed.cost.flops for costed in ops.calls] == [2 * 8 * 8 * 3 * 3 * 4 * 4]


def test_equal_lists_in_other_surroundings_have_another_dtype(tmp_path: Path) -> None:
    lists: Event = {
        "Input Dims": [[[4, 6], [4, 6]], []],
        "Input type": ["TensorList", "Scalar"],
        "Concrete Inputs": ["", "0"],
    }
    events = []
    for number, kind in enumerate(("c10::BFloat16", "float", "c10::BFloat16", "float")):
        start = 10 * number
        events += [event("Node", start, 9, **inputs([4, 6], kind=kind)), event("aten::cat", start + 1, 5, **lists)]
    ops = ops_of(tmp_path, *events)
    assert ops.bytes[1::2].tolist() == [2 * 2 * 48, 4 * 2 * 48, 2 * 2 * 48, 4 * 2 * 48]
    assert len(ops.calls) == 2


def test_ops_deeper_than_any_program_nests_them_have_no_cost(tmp_path: Path) -> None:
    """A level is a pass: as many levels as events would take a time in proportion to the square of their number."""
    nest = [event("wrapper::of_wrappers", place, 10_000 - 2 * place) for place in range(1_500)]
    sized = inputs([3, 5], [5, 7])
    ops = ops_of(tmp_path, event("aten::mm", -20, 8, **sized), *nest, event("aten::mm", 4_000, 8, **sized))
    assert ops.role[[0, -1]].tolist() == [OpRole.COSTED, OpRole.UNMODELED]
