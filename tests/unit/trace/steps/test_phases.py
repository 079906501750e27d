"""Phases of traces without perfkit's marks."""

from pathlib import Path

import pytest

from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.annotations import is_autograd_node, match_phase
from perfkit.trace.model import NONE
from tests.fixtures.trace_events import Event, event, ops_of, range_, sequence


def phases(tmp_path: Path, *events: Event) -> list[str]:
    return ["" if each == NONE else PHASES[each] for each in ops_of(tmp_path, *events).phase.tolist()]


def recording(name: str, ts: float, number: int) -> Event:
    return event(name, ts, 2, **sequence(number))


def node(name: str, ts: float, dur: float, tid: int = 2) -> Event:
    return event(f"autograd::engine::evaluate_function: {name}", ts, dur, tid=tid)


def test_a_training_step(tmp_path: Path) -> None:
    assert phases(
        tmp_path,
        range_("ProfilerStep#1", 0, 100),
        range_("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 5), event("aten::stack", 2, 1),
        event("aten::copy_", 8, 1),
        recording("aten::mm", 10, 1), event("aten::detach", 13, 1),
        node("MmBackward0", 20, 10), event("aten::mm", 21, 5, tid=2),
        event("reducer::finish", 32, 2, tid=2),
        range_("Optimizer.step#Adam.step", 40, 10), event("aten::add_", 41, 2),
        event("aten::_foreach_norm", 60, 2),
        event("aten::item", 70, 2),
    ) == ["data", "", *["forward"] * 2, *["backward"] * 3, *["optimizer"] * 2, ""]  # fmt: skip


def test_what_a_closure_evaluates_is_no_update(tmp_path: Path) -> None:
    evaluation = [
        event("aten::detach", 12, 1), recording("aten::mm", 14, 1), event("aten::add", 17, 1),
        node("MmBackward0", 20, 10, tid=1), event("aten::mm", 21, 5),
        event("aten::dot", 32, 2),
        recording("aten::mm", 40, 2), node("MmBackward0", 50, 10), event("aten::mm", 51, 5, tid=2),
        event("aten::mul", 70, 2),
    ]  # fmt: skip
    assert phases(tmp_path, range_("Optimizer.step#LBFGS.step", 10, 80), *evaluation) == [
        "optimizer", "forward", "forward", *["backward"] * 2, "optimizer", "forward", *["backward"] * 2, "optimizer",
    ]  # fmt: skip


def test_an_update_that_records_gradients_is_an_update(tmp_path: Path) -> None:
    assert phases(
        tmp_path,
        recording("aten::mm", 0, 1), node("MmBackward0", 20, 10),
        range_("Optimizer.step#SGD.step", 40, 10), recording("aten::add_", 41, 2),
        recording("aten::mm", 60, 3), node("MmBackward0", 80, 10),
    ) == ["forward", "backward", "optimizer", "forward", "backward"]  # fmt: skip


def test_an_optimizer_that_runs_within_backward(tmp_path: Path) -> None:
    assert phases(
        tmp_path,
        recording("aten::mm", 0, 1), node("torch::autograd::AccumulateGrad", 20, 20),
        {**range_("Optimizer.step#SGD.step", 25, 10), "tid": 2}, event("aten::add_", 26, 2, tid=2),
        event("aten::detach", 37, 1, tid=2),
    ) == ["forward", "backward", "optimizer", "backward"]  # fmt: skip


def test_what_runs_again_within_backward_is_backward(tmp_path: Path) -> None:
    assert phases(
        tmp_path,
        range_("## forward ##", 0, 5), event("aten::mm", 1, 1),
        node("CheckpointFunctionBackward", 20, 20, tid=1), range_("## forward ##", 21, 5), event("aten::mm", 22, 1),
    )[:2] == ["forward", "backward"]  # fmt: skip


def test_inference_is_forward(tmp_path: Path) -> None:
    inside = range_("ProfilerStep#1", 0, 10)
    assert phases(tmp_path, inside, event("aten::mm", 1, 2), event("aten::mm", 20, 2)) == ["forward", ""]
    assert phases(tmp_path, event("aten::mm", 1, 2)) == ["forward"]


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("## forward ##", "forward"),
        ("DistributedDataParallel.forward", "forward"),
        ("[pl][profile][Strategy]SingleDeviceStrategy.training_step", "forward"),
        ("## backward ##", "backward"),
        ("DeepSpeedEngine.backward", "backward"),
        ("Optimizer.zero_grad#AdamW.zero_grad", "optimizer"),
        ("## sdd_input_dist ##", "data"),
        ("## copy_batch_to_gpu ##", "data"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data"),
        ("forward_hook_of_mine", None),
        ("aten::mm", None),
    ],
)
def test_names_of_ranges(name: str, phase: str | None) -> None:
    assert match_phase(name) == (None if phase is None else PHASES.index(phase))


@pytest.mark.parametrize(
    ("name", "is_node"),
    [
        ("autograd::engine::evaluate_function: AddmmBackward0", True),
        ("AddmmBackward0", True),
        ("CheckpointFunctionBackward", True),
        ("torch::autograd::AccumulateGrad", True),
        ("torch::jit::(anonymous namespace)::DifferentiableGraphBackward", True),
        ("aten::gelu_backward", False),
        ("aten::mm", False),
        ("CheckpointFunction", False),
    ],
)
def test_names_of_autograd_nodes(name: str, is_node: bool) -> None:
    assert is_autograd_node(name) == is_node
