"""Nesting, costing and linking ops of a written trace, where every time is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import NONE
from perfkit.trace.ops.call_counts import count_kernel_calls, count_op_calls
from perfkit.trace.ops.kernels import find_communication, is_compiled_graph, is_compiled_kernel
from perfkit.trace.ops.ops import OpRole, Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import work_ns


def tensor_inputs(*shapes: list[int], kind: str = "float") -> dict[str, Any]:
    return {"Input Dims": [*shapes], "Input type": [kind] * len(shapes)}


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def load(tmp_path: Path, *events: dict[str, Any]) -> Ops:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read_ops(read_trace(path))


STEP = [
    event("perfkit::step#4", 0, 100, "user_annotation"),
    event("perfkit::forward", 10, 40, "user_annotation"),
    event("aten::linear", 12, 20, **tensor_inputs([3, 5], [7, 5], [7])),
    event("aten::t", 13, 2, **tensor_inputs([7, 5])),
    event("aten::addmm", 16, 14, **tensor_inputs([7], [3, 5], [5, 7])),
    event("aten::copy_", 17, 3, **tensor_inputs([3, 7], [7])),
    event("my::op", 40, 5, **tensor_inputs([3, 5])),
    event("perfkit::backward", 50, 30, "user_annotation"),
    event("autograd::engine::evaluate_function: MmBackward0", 52, 20, tid=2),
    event("aten::mm", 55, 10, tid=2, **tensor_inputs([7, 3], [3, 5])),
    event("aten::mm", 120, 10, tid=2, **tensor_inputs([7, 3], [3, 5])),
]


def test_an_op_is_costed_at_the_outermost_level_with_a_formula(tmp_path: Path) -> None:
    ops = load(tmp_path, *STEP)
    names = [ops.name(row) for row in range(len(ops))]
    assert names == [
        "aten::linear", "aten::t", "aten::addmm", "aten::copy_", "my::op",
        "autograd::engine::evaluate_function: MmBackward0", "aten::mm", "aten::mm",
    ]  # fmt: skip
    assert ops.parent.tolist() == [NONE, 0, 0, 2, NONE, NONE, 5, NONE]
    assert ops.owner.tolist() == [NONE, NONE, 2, 2, 4, NONE, 6, 7]
    assert ops.role.tolist() == [
        OpRole.OVERHEAD, OpRole.OVERHEAD, OpRole.COSTED, OpRole.INSIDE, OpRole.COSTED, OpRole.OVERHEAD,
        OpRole.COSTED, OpRole.COSTED,
    ]  # fmt: skip
    assert np.isnan(ops.flops[4])  # another package's op: its recorded inputs are known, what it computes is not
    assert np.nansum(ops.flops) == 3 * (2 * 3 * 5 * 7)
    assert ops.bytes[2] == 4 * (7 + 15 + 35 + 21)
    assert ops.self_ns.tolist() == [4000, 2000, 11000, 3000, 5000, 10000, 10000, 10000]
    assert work_ns(ops).tolist() == [0, 0, 14000, 0, 5000, 0, 10000, 10000]
    assert len(ops.calls) == 3  # the two equal calls of mm are costed once


def test_steps_and_phases(tmp_path: Path) -> None:
    ops = load(tmp_path, *STEP)
    assert ops.steps.number.tolist() == [4]
    assert ops.step.tolist() == [0] * 7 + [NONE]
    forward, backward = PHASES.index("forward"), PHASES.index("backward")
    assert ops.phase.tolist() == [forward] * 5 + [backward] * 2 + [NONE]  # backward runs on another thread


def test_call_counts_per_step_and_phase(tmp_path: Path) -> None:
    ops = load(tmp_path, *STEP, event("perfkit::step#5", 200, 50, "user_annotation"))
    assert count_op_calls(ops)["aten::mm"] == 0.5  # one in two steps; the one outside is not counted
    assert count_op_calls(ops)["aten::linear"] == count_op_calls(ops)["aten::addmm"] == 0.5
    assert "aten::mm" not in count_op_calls(ops, "forward")
    assert count_op_calls(ops, "backward") == {"autograd::engine::evaluate_function: MmBackward0": 0.5, "aten::mm": 0.5}


def test_profiler_steps_where_we_marked_none(tmp_path: Path) -> None:
    ops = load(tmp_path, event("ProfilerStep#7", 0, 10, "user_annotation"), event("aten::add", 1, 2))
    assert ops.steps.number.tolist() == [7]
    assert ops.step.tolist() == [0]


def test_shapes_that_were_not_recorded_leave_time_unmodeled(tmp_path: Path) -> None:
    ops = load(tmp_path, event("aten::mm", 0, 10))
    assert ops.role.tolist() == [OpRole.UNMODELED]
    assert np.isnan(ops.flops).all()


def test_times_rounded_to_overlap_still_nest(tmp_path: Path) -> None:
    ops = load(tmp_path, event("outer", 0, 10), event("inner", 5, 5.001), event("next", 10.001, 1))
    assert ops.parent.tolist() == [NONE, 0, NONE]
    assert ops.self_ns.tolist() == [5000, 5001, 1000]


GPU = [
    event("ProfilerStep#1", 0, 100, "user_annotation"),
    event("aten::linear", 0, 20, **{"External id": 1}, **tensor_inputs([3, 5], [7, 5])),
    event("aten::mm", 2, 10, **{"External id": 2}, **tensor_inputs([3, 5], [5, 7])),
    event("cudaLaunchKernel", 4, 2, "cuda_runtime", correlation=90),
    event("cuLaunchKernel", 7, 2, "cuda_driver", correlation=91),
    event("gemm", 30, 8, "kernel", tid=7, correlation=90, stream=7, **{"External id": 2}),
    event("splitK", 38, 4, "kernel", tid=7, correlation=91, stream=7),
    event("before", 1, 5, "kernel", tid=7, correlation=12, stream=7, **{"External id": 12}),
    event("by_id", 45, 3, "kernel", tid=7, correlation=13, stream=7, **{"External id": 1}),
    event("ncclDevKernel_AllReduce", 50, 5, "kernel", tid=8, correlation=92, stream=8),
]


def test_kernels_are_linked_to_the_ops_that_launched_them(tmp_path: Path) -> None:
    ops = load(tmp_path, *GPU)
    trace = ops.trace
    launched = {
        trace.names[trace.name[event]]: ops.name(op) if op != NONE else None
        for event, op in zip(ops.kernels.event, ops.kernel_op, strict=True)
    }
    assert launched == {
        "before": None,  # launched before the trace began: kept, without an op
        "gemm": "aten::mm",
        "splitK": "aten::mm",
        "by_id": "aten::linear",  # no launch, but the profiler's id of an op
        "ncclDevKernel_AllReduce": None,
    }
    assert work_ns(ops).tolist() == [3000, 12000]
    assert count_kernel_calls(ops) == {"gemm": 1, "splitK": 1, "by_id": 1}
    assert [trace.names[trace.name[event]] for event in find_communication(trace)] == ["ncclDevKernel_AllReduce"]


def test_compiled_code(tmp_path: Path) -> None:
    graph = event("## Call CompiledFxGraph fabc ##", 0, 20, "user_annotation")
    mm = event("aten::mm", 2, 8, **tensor_inputs([3, 5], [5, 7]))
    ops = load(tmp_path, graph, mm)
    assert ops.role.tolist() == [OpRole.UNMODELED, OpRole.COSTED]
    assert work_ns(ops).tolist() == [12000, 8000]
    assert count_kernel_calls(ops) == {}
    profiled = load(tmp_path, graph, mm, event("graph_0_cpp_fused_gelu_1", 12, 5))
    assert profiled.role.tolist() == [OpRole.OVERHEAD, OpRole.COSTED, OpRole.UNMODELED]
    assert work_ns(profiled).tolist() == [0, 8000, 5000]
    assert count_kernel_calls(profiled) == {"graph_0_cpp_fused_gelu_1": 1}


@pytest.mark.parametrize("name", ["triton_poi_fused_add_0", "triton_red_fused_x", "cpp_fused_add_2"])
def test_names_of_compiled_kernels(name: str) -> None:
    assert is_compiled_kernel(name)
    assert not is_compiled_kernel("aten::" + name)
    assert not is_compiled_graph(name)


def test_dtypes_of_lists_come_from_evidence(tmp_path: Path) -> None:
    lists = {"Input Dims": [[[4, 6], [4, 6]], []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "0"]}
    alone = load(tmp_path, event("aten::cat", 0, 5, **lists))
    assert np.isnan(alone.bytes[0])
    around = load(
        tmp_path,
        event("SplitBackward0", 0, 9, **tensor_inputs([4, 6], [4, 6], kind="c10::BFloat16")),
        event("aten::cat", 1, 5, **lists),
    )
    assert around.bytes[1] == 2 * 2 * 48
    elsewhere = load(tmp_path, event("aten::cat", 0, 5, **lists), event("aten::relu", 10, 5, **tensor_inputs([4, 6])))
    assert elsewhere.bytes[0] == 4 * 2 * 48
    ambiguous = load(
        tmp_path,
        event("aten::cat", 0, 5, **lists),
        event("aten::relu", 10, 5, **tensor_inputs([4, 6])),
        event("aten::relu", 20, 5, **tensor_inputs([4, 6], kind="c10::Half")),
    )
    assert np.isnan(ambiguous.bytes[0])
    by_kernel = load(
        tmp_path,
        event("aten::cat", 0, 5, **lists),
        event("cudaLaunchKernel", 1, 1, "cuda_runtime", correlation=9),
        event("void CatArrayBatchedCopy<c10::Half, unsigned int, float>", 9, 2, "kernel", tid=7, correlation=9),
    )
    assert by_kernel.bytes[0] == 2 * 2 * 48


def test_a_kernel_on_some_devices_is_a_composition_on_others(tmp_path: Path) -> None:
    inputs = {"Input Dims": [[6, 10], [], [10], []], "Input type": ["float", "ScalarList", "float", ""]}
    fused = load(tmp_path, event("aten::_fused_rms_norm", 0, 9, **inputs), event("aten::empty", 1, 1))
    assert fused.flops[0] == 4 * 60
    split = load(
        tmp_path, event("aten::_fused_rms_norm", 0, 9, **inputs), event("aten::pow", 1, 2, **tensor_inputs([6, 10]))
    )
    assert np.isnan(split.flops[0])
    assert split.flops[1] == 60


def test_modules_from_python_stacks(tmp_path: Path) -> None:
    ops = load(
        tmp_path,
        event("nn.Module: Block_0", 0, 50, "python_function", tid=0),
        event("nn.Module: Linear_0", 10, 20, "python_function", tid=0),
        event("torch/nn/functional.py(1): linear", 11, 5, "python_function", tid=0),
        event("aten::relu", 5, 2),
        event("aten::mm", 12, 2),
        event("aten::add", 40, 2),
        event("aten::add", 60, 2),
    )
    names = [ops.get_module_name(row) for row in range(len(ops))]
    assert names == ["Block_0", "Block_0/Linear_0", "Block_0", ""]
