"""Whatever a trace holds, its ops and kernels are all there once, and every index leads somewhere."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import DEVICE_CATEGORIES, NONE
from perfkit.trace.ops.ops import OpRole
from tests.fixtures.trace_events import Event, ops_of

_NAMES = st.sampled_from(
    [
        "aten::mm", "aten::cat", "aten::linear", "aten::_foreach_add_", "my::op", "AddmmBackward0", "cudaLaunchKernel",
        "autograd::engine::evaluate_function: AddmmBackward0", "CheckpointFunctionBackward", "ProfilerStep#1",
        "ProfilerStep#2", "Optimizer.step#Adam.step", "## forward ##", "nn.Module: Linear_0", "nn.Module: Net_0",
        "triton_poi_fused_add_0", "nccl:all_reduce", "train_step", "layers.1",
    ]
)  # fmt: skip
_CATEGORIES = st.sampled_from(
    ["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_user_annotation", "python_function"]
)
_INPUTS = st.sampled_from(
    [
        {},
        {"Input Dims": [[3, 5], [5, 7]], "Input type": ["float", "float"]},
        {"Input Dims": [[[3, 5], [3, 5]], []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "0"]},
    ]
)
_ID = st.integers(-1, 4)


@st.composite
def events(draw: st.DrawFn) -> Event:
    names = ("External id", "correlation", "Sequence number", "device")
    args = {name: draw(_ID) for name in draw(st.sets(st.sampled_from(names)))} | draw(_INPUTS)
    return {
        "ph": "X", "name": draw(_NAMES), "cat": draw(_CATEGORIES), "pid": draw(st.integers(0, 1)),
        "tid": draw(st.integers(0, 2)), "ts": draw(st.integers(0, 40)), "dur": draw(st.integers(-1, 15)), "args": args,
    }  # fmt: skip


@st.composite
def arrows(draw: st.DrawFn) -> Event:
    return {
        "ph": draw(st.sampled_from("sf")), "cat": draw(st.sampled_from(["ac2g", "fwdbwd"])), "id": draw(_ID),
        "pid": draw(st.integers(0, 1)), "tid": draw(st.integers(0, 2)), "ts": draw(st.integers(0, 40)), "name": "x",
    }  # fmt: skip


@given(st.lists(st.one_of(events(), events(), arrows()), min_size=1, max_size=40))
def test_everything_is_there_once(given: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ops = ops_of(Path(folder), *given)
    trace, rows = ops.trace, np.arange(len(ops))
    on_device = np.flatnonzero(np.isin(trace.category, [int(each) for each in DEVICE_CATEGORIES]))
    assert np.array_equal(ops.kernels.event, on_device)
    assert (ops.parent < rows).all()
    for column, size in (
        (ops.parent, len(ops)), (ops.owner, len(ops)), (ops.forward, len(ops)), (ops.call, len(ops.calls)),
        (ops.step, len(ops.steps)), (ops.kernel_step, len(ops.steps)), (ops.phase, len(PHASES)),
        (ops.kernel_phase, len(PHASES)), (ops.module, len(ops.modules)), (ops.kernel_op, len(ops)),
        (ops.kernel_owner, len(ops)), (ops.kernels.launch, len(trace)),
    ):  # fmt: skip
        assert ((column >= NONE) & (column < size)).all()
    costed = np.isin(ops.role, [int(OpRole.COSTED), int(OpRole.COMMUNICATION)])
    assert np.array_equal(costed, ops.owner == rows)
    assert np.array_equal(costed, ops.call != NONE)
    assert np.array_equal(ops.role == OpRole.INSIDE, (ops.owner != NONE) & (ops.owner != rows))
    assert (ops.steps.start_ns[1:] >= ops.steps.end_ns[:-1]).all()
    assert (ops.self_ns >= 0).all()
