"""Which ops of a trace get a cost: generated kernels, other packages' ops, hand-written kernels, wrappers."""

from pathlib import Path

import numpy as np

from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import OpRole, Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import work_ns
from tests.fixtures.traces import Event, call, kernel, launch, op, write_trace


def load(tmp_path: Path, *events: Event) -> Ops:
    return read_ops(read_trace(write_trace(tmp_path / "trace.json.gz", events)))


def bytes_of(ops: Ops, name: str) -> list[float]:
    return [float(ops.bytes[row]) for row in range(len(ops)) if ops.name(row) == name and ops.call[row] != NONE]


def test_a_generated_kernel(tmp_path: Path) -> None:
    generated = op("triton_poi_fused_add_0", 0, 10, [[8, 4], [8, 4], [8, 4]])
    generated["args"] = {
        "Input Dims": [[8, 4]] * 3 + [[]],
        "Input Strides": [[4, 1]] * 3 + [[]],
        "Input type": ["float"] * 3 + ["Scalar"],
        "Concrete Inputs": ["", "", "", "32"],
        "kernel_backend": "triton",
    }
    ops = load(tmp_path, generated, launch(1, 5), kernel("triton_poi_fused_add_0", 1, 20, 7))
    assert bytes_of(ops, "triton_poi_fused_add_0") == [3 * 32 * 4]
    assert ops.role.tolist() == [OpRole.COSTED]
    assert ops.flops.tolist() == [32]


def test_another_packages_op_with_kernels_of_its_own(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("mine::blend", 0, 10, [[8, 4]]),
        op("aten::empty", 1, 1),
        launch(1, 5),
        kernel("blend_kernel", 1, 20, 7),
        op("mine::bookkeeping", 30, 5, [[8, 4]]),  # launches nothing: no work on the device
    )
    assert bytes_of(ops, "mine::blend") == [128]
    assert np.isnan(ops.flops[0])
    assert work_ns(ops)[0] == 7000
    assert bytes_of(ops, "mine::bookkeeping") == []


def test_what_lies_beneath_tells_more(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("mine::layer", 0, 20, [[3, 5], [5, 7]]),
        op("aten::mm", 1, 10, [[3, 5], [5, 7]]),
        launch(1, 5),
        kernel("gemm", 1, 30, 7),
    )
    assert bytes_of(ops, "mine::layer") == []
    assert bytes_of(ops, "aten::mm") == [4 * (15 + 35 + 21)]


def test_an_inner_op_tells_of_its_output_and_goes_before_its_wrapper(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("serving::rmsnorm", 0, 30, [[64, 32], [32]]),
        op("kernels::rmsnorm", 1, 20, [[64, 32], [64, 32], [32]]),  # is given the tensor to write
        launch(1, 5),
        kernel("rmsnorm_kernel", 1, 40, 7),
    )
    assert bytes_of(ops, "serving::rmsnorm") == []
    assert bytes_of(ops, "kernels::rmsnorm") == [4 * (2 * 64 * 32 + 32)]
    assert work_ns(ops).tolist() == [0, 7000]


def test_a_wrapper_whose_inner_op_recorded_nothing_is_asked_itself(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("serving::rmsnorm", 0, 30, [[64, 32], [32]]),
        op("kernels::rmsnorm", 1, 20),
        launch(1, 5),
        kernel("rmsnorm_kernel", 1, 40, 7),
    )
    assert bytes_of(ops, "serving::rmsnorm") == [4 * (64 * 32 + 32)]
    assert work_ns(ops).tolist() == [7000, 0]


def test_an_op_that_launches_beside_others(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("mine::layer", 0, 20, [[3, 5]]),
        op("aten::mm", 1, 5, [[3, 5], [5, 7]]),
        launch(1, 3),
        launch(2, 10),
        kernel("gemm", 1, 30, 7),
        kernel("mine_kernel", 2, 40, 9),
    )
    assert bytes_of(ops, "mine::layer") == [60]
    assert work_ns(ops).tolist() == [9000, 7000]  # each kernel with the op that launched it


def test_a_hand_written_kernel_under_its_own_name(tmp_path: Path) -> None:
    ops = load(tmp_path, op("rms_norm_kernel", 0, 10, [[8, 4], [4]]), launch(1, 5), kernel("rms_norm_kernel", 1, 20, 7))
    assert bytes_of(ops, "rms_norm_kernel") == [128 + 16]


def test_without_a_device_an_op_of_another_package_counts_too(tmp_path: Path) -> None:
    ops = load(tmp_path, op("mine::blend", 0, 10, [[8, 4]]))
    assert bytes_of(ops, "mine::blend") == [128]


def test_what_autocast_wraps_is_costed_beneath(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("aten::bmm", 0, 30, [[2, 3, 5], [2, 5, 7]]),
        op("aten::to", 1, 4, [[2, 3, 5]]),
        op("aten::bmm", 10, 10, [[2, 3, 5], [2, 5, 7]], dtype="c10::BFloat16"),
    )
    assert ops.call.tolist()[:2] == [NONE, NONE]
    assert ops.calls[ops.call[2]].cost.dtype == "bf16"


def test_a_concatenation_of_lost_lists_has_no_flops(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        op("aten::cat", 0, 9),
        launch(1, 2),
        kernel("CatArrayBatchedCopy", 1, 20, 7),
        op("aten::repeat", 30, 9, [[8, 4]]),  # how often was not recorded, but the copy beneath tells
        op("aten::copy_", 31, 5, [[16, 4], [8, 4]]),
        launch(2, 32),
        kernel("copy", 2, 50, 7),
    )
    assert ops.role[:2].tolist() == [OpRole.COSTED, OpRole.OVERHEAD]
    assert (ops.flops[0], np.isnan(ops.bytes[0])) == (0.0, True)
    assert bytes_of(ops, "aten::copy_") == [4 * (64 + 32)]
    assert bytes_of(ops, "aten::repeat") == []


def test_views_and_allocation_alone_are_no_work(tmp_path: Path) -> None:
    ops = load(tmp_path, op("aten::empty", 0, 9), op("aten::view", 20, 9, [[8, 4]]))
    assert ops.role.tolist() == [OpRole.OVERHEAD] * 2


def test_ops_without_namespaces_work(tmp_path: Path) -> None:
    assert load(tmp_path, op("fusion.3", 0, 9)).role.tolist() == [OpRole.UNMODELED]


def test_a_concatenation_of_which_only_the_kernel_tells_the_size_of_an_element(tmp_path: Path) -> None:
    cat = op("aten::cat", 0, 9)
    cat["args"] = {
        "Input Dims": [[[8, 4], [8, 4]], []],
        "Input Strides": [[[4, 1], [4, 1]], []],
        "Input type": ["TensorList", "Scalar"],
        "Concrete Inputs": ["", "0"],
    }
    name = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2, 64, 64>"
    ops = load(tmp_path, cat, launch(1, 5), kernel(name, 1, 20, 7))
    assert bytes_of(ops, "aten::cat") == [2 * 2 * 64]
    assert ops.flops.tolist() == [0]


def test_the_gradient_of_a_lookup_is_told_by_the_lookups_of_the_trace(tmp_path: Path) -> None:
    tables, rows, width, indices, batch = 3, 50, 8, 100, 32
    absent, number = None, 0
    lookup = call(
        "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
        *(0, 9, ((0,), "float"), ((rows * width,), "c10::Half"), ((0,), "c10::Half"), ((0, 0), "c10::Half")),
        *(
            ((tables,), "int"),
            ((tables,), "long"),
            ((tables + 1,), "int"),
            tables * width,
            width,
            ((tables + 1,), "long"),
        ),
        *(number, ((indices,), "long"), ((tables * batch + 1,), "long"), number, absent, absent, ((0,), "int")),
        *(number, number, number, ((rows,), "float")),
    )
    node = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
    backward = call(node, 20, 9, ((batch, tables * width), "float"))
    ops = load(tmp_path, lookup, launch(1, 5), kernel("f", 1, 40, 7), backward, launch(2, 25), kernel("b", 2, 60, 7))
    assert ops.flops.tolist() == [indices * width, indices * width + 4 * width]
    assert ops.calls[-1].cost.most_flops == indices * width + 4 * rows * width


def test_experts_are_costed_by_the_op_within_that_is_given_their_weights(tmp_path: Path) -> None:
    bf16 = "c10::BFloat16"
    experts = (((8, 512, 512), bf16), ((8, 512, 256), bf16), ((64, 2), "float"), ((64, 2), "int"))
    ops = load(
        tmp_path,
        call("vllm::moe_forward", 0, 30, ((64, 512), bf16), ((64, 8), bf16), None),
        call("vllm::inplace_fused_experts", 1, 20, ((64, 512), bf16), *experts, None, False),
        launch(1, 5),
        kernel("fused_moe_kernel", 1, 40, 7),
    )
    assert np.isnan(ops.flops[0])
    assert ops.flops[1] == 64 * 2 * (2 * 512 * 512 + 2 * 512 * 256)
    assert work_ns(ops).tolist() == [0, 7000]


def test_the_gradient_of_a_fused_layer_has_the_sizes_of_its_forward_call(tmp_path: Path) -> None:
    bf16 = "c10::BFloat16"
    ops = load(
        tmp_path,
        call("LigerRMSNormFunction", 0, 9, ((24, 48), bf16), ((48,), bf16), 1e-6),
        launch(1, 5),
        kernel("_rms_norm_forward_kernel", 1, 40, 7),
        call("LigerRMSNormFunctionBackward", 20, 9, ((24, 48), bf16)),
        launch(2, 25),
        kernel("_rms_norm_backward_kernel", 2, 60, 9),
    )
    assert ops.flops.tolist() == [4 * 24 * 48, 9 * 24 * 48]
    assert ops.bytes[1] == 2 * (3 * 24 * 48 + 2 * 48) + 4 * 24
