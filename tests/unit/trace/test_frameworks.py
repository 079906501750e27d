"""Which framework a trace is of, and which kind of device it names."""

from pathlib import Path

import pytest

from perfkit.trace.frameworks import JAX, MINDSPORE, PADDLE, TENSORFLOW, TORCH, UNKNOWN, XLA, find_framework
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.foreign_traces import (
    Event,
    ascend_events,
    composer_events,
    mindspore_events,
    write_events,
    xla_events,
    xpu_events,
)
from tests.fixtures.gpu_traces import training_events

CASES: dict[str, tuple[list[Event], str, str]] = {
    "torch": (training_events(), TORCH, ""),
    "torch on Ascend": (ascend_events(), TORCH, "npu"),
    "torch on an Intel GPU": (xpu_events(), TORCH, "xpu"),
    "JAX": (xla_events(host="PjitFunction(step)"), JAX, ""),
    "TensorFlow": (xla_events(host="EagerLocalExecute: MatMul"), TENSORFLOW, ""),
    "XLA's client alone": (xla_events(host="ThunkExecutor::Execute"), XLA, ""),
    "MindSpore": (mindspore_events(), MINDSPORE, ""),
    "Composer": (composer_events(), UNKNOWN, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_a_framework_by_what_only_it_writes(name: str, tmp_path: Path) -> None:
    events, framework, runtime = CASES[name]
    trace = read_trace(write_events(tmp_path / "t.json", events))
    assert (trace.framework, trace.runtime) == (framework, runtime)


def test_labels_of_tensorflow_1_and_of_torch_before_kineto() -> None:
    assert find_framework((), (), ("/job:localhost/replica:0/task:0/device:GPU:0 Compute",)) == TENSORFLOW
    assert find_framework((), ("conv2d",), ("CPU functions",)) == TORCH
    assert find_framework(("kernel",), ("gemm",), ()) == UNKNOWN
    assert find_framework(("Operator", "OperatorInner", "CudaRuntime"), ("matmul dygraph",), ()) == PADDLE
    assert find_framework(("Operator", "Runtime"), ("aten::mm",), ()) == TORCH
