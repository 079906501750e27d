"""Kernels, their launches and their ops, with the ids that traces really hold."""

from pathlib import Path

import pytest

from perfkit.trace.model import NONE
from perfkit.trace.ops.kernels import KernelLink
from perfkit.trace.ops.ops import Ops
from tests.fixtures.trace_events import Event, event, external, kernel, launch, ops_of, range_


def linked(ops: Ops) -> dict[str, tuple[str, KernelLink, bool]]:
    """By kernel: its op, how that is known, and whether its launch is."""
    kernels = ops.kernels
    return {
        ops.trace.names[ops.trace.name[each]]: (
            ops.name(row) if row != NONE else "",
            KernelLink(link),
            bool(begun != NONE),
        )
        for each, row, link, begun in zip(kernels.event, ops.kernel_op, kernels.link, kernels.launch, strict=True)
    }


def flow(number: int, ph: str, ts: float, tid: int, pid: int) -> Event:
    return {"ph": ph, "id": number, "cat": "ac2g", "name": "ac2g", "ts": ts, "tid": tid, "pid": pid}


def test_every_way_in_which_a_kernel_is_linked(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20, **external(4)),
        launch(11, 2),
        kernel("direct", 30, 6, 11),
        kernel("by id", 40, 3, 99, **external(4)),
        kernel("unknown", 50, 1, 98),
    )
    assert linked(ops) == {
        "direct": ("aten::mm", KernelLink.CORRELATION, True),
        "by id": ("aten::mm", KernelLink.EXTERNAL_ID, False),
        "unknown": ("", KernelLink.UNLINKED, False),
    }


def test_old_files_have_the_correlation_as_external_id(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20, **external(11)),
        event("aten::add", 30, 20, **external(12)),
        event("cudaLaunchKernel", 2, 1, "cuda_runtime", **external(12)),
        event("cudaLaunchKernel", 32, 1, "cuda_runtime", **external(11)),
        event("gemm", 60, 5, "kernel", tid=7, pid=0, **external(12)),
        event("sum", 70, 5, "kernel", tid=7, pid=0, **external(11)),
    )
    assert linked(ops)["gemm"][0] == "aten::mm"
    assert linked(ops)["sum"][0] == "aten::add"


def test_a_correlation_repeated_as_external_id_names_no_op(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20, **external(11)),
        kernel("before the profile", 30, 6, 11, **external(11)),
    )
    assert linked(ops)["before the profile"] == ("", KernelLink.UNLINKED, False)


def test_arrows_where_correlations_are_missing(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20),
        event("hipLaunchKernel", 2, 3, "cuda_runtime"),
        kernel("gemm", 30, 6),
        kernel("other", 40, 6),
        flow(5, "s", 2, 1, 1),
        flow(5, "f", 30, 7, 0),
    )
    assert linked(ops) == {"gemm": ("aten::mm", KernelLink.FLOW, True), "other": ("", KernelLink.UNLINKED, False)}


def test_a_counter_that_wrapped_means_the_last_launch_before(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 10),
        launch(3, 2),
        kernel("first", 5, 5, 3),
        event("aten::add", 100, 10),
        launch(3, 102),
        kernel("second", 105, 5, 3),
    )
    assert linked(ops)["first"][0] == "aten::mm"
    assert linked(ops)["second"][0] == "aten::add"


def test_processes_number_their_launches_independently(tmp_path: Path) -> None:
    """Two processes, one device each, with the same ids: the last launch before a kernel is not always its own."""
    events = []
    for process, delay in ((1, 0), (2, 8)):
        for number in range(4):
            start = 10 * number + delay
            after = 9 if number == 3 else 2
            events += [
                event(f"op of {process}", start, 5, pid=process, tid=process),
                launch(number, start, pid=process, tid=process),
                kernel(f"kernel of {process}", start + after, 1, number, device=process),
            ]
    ops = ops_of(tmp_path, *events)
    kernels = [ops.trace.names[ops.trace.name[each]] for each in ops.kernels.event]
    assert {(name, ops.name(row)) for name, row in zip(kernels, ops.kernel_op, strict=True)} == {
        ("kernel of 1", "op of 1"),
        ("kernel of 2", "op of 2"),
    }


def test_processes_whose_launches_fit_alike_are_told_apart_by_the_ids_of_ops(tmp_path: Path) -> None:
    events = []
    for process in (1, 2):
        op = {"External id": 70 + process}
        events += [
            event(f"op of {process}", process, 5, pid=process, tid=process),
            {**launch(4, process, pid=process, tid=process), "args": {"correlation": 4, **op}},
            kernel(f"kernel of {process}", 20 + process, 1, 4, device=process, **op),
        ]
    ops = ops_of(tmp_path, *events)
    assert [ops.name(row) for row in ops.kernel_op] == ["op of 1", "op of 2"]


def test_a_graph_launches_many_kernels(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        range_("replay", 0, 10),
        launch(8, 2, "cudaGraphLaunch"),
        kernel("a", 10, 2, 8),
        kernel("b", 12, 2, 8),
    )
    assert linked(ops) == {"a": ("", KernelLink.UNLINKED, True), "b": ("", KernelLink.UNLINKED, True)}
    assert len(set(ops.kernels.launch.tolist())) == 1


def test_a_launch_within_a_launch_belongs_to_the_op_around(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20),
        event("hipExtModuleLaunchKernel", 2, 8, "cuda_runtime", correlation=1),
        event("hipModuleLaunchKernel", 3, 2, "cuda_driver", correlation=2),
        kernel("gemm", 30, 6, 2),
    )
    assert linked(ops)["gemm"] == ("aten::mm", KernelLink.CORRELATION, True)


def test_a_kernel_that_starts_before_its_launch_tells_of_the_clocks(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mm", 0, 20),
        launch(1, 10),
        launch(2, 12),
        kernel("early", 7, 1, 1, device=3),
        kernel("late", 20, 1, 2, device=4),
    )
    assert ops.kernels.clock_skew_ns == {3: 3000}
    assert linked(ops)["early"][0] == "aten::mm"


def test_steps_phases_and_modules_of_kernels_come_from_their_launch(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        range_("ProfilerStep#1", 0, 20),
        range_("## forward ##", 0, 20),
        event("nn.Module: Block_0", 0, 20, "python_function"),
        launch(1, 5),
        range_("ProfilerStep#2", 20, 20),
        event("aten::relu", 25, 2),
        kernel("triton_poi_fused_add_0", 22, 3, 1),
        kernel("launched before", 30, 3, 77),
    )
    assert ops.kernel_step.tolist() == [0, 1]
    assert ops.kernel_phase.tolist() == [1, NONE]
    assert [ops.modules[each] if each != NONE else "" for each in ops.kernel_module] == ["Block_0", ""]


@pytest.mark.parametrize("count", [1, 40])
def test_only_devices_were_traced(tmp_path: Path, count: int) -> None:
    ops = ops_of(tmp_path, *(kernel("gemm", 10 * each, 5, each) for each in range(count)))
    assert len(ops) == 0
    assert (ops.kernel_op == NONE).all()
    assert len(ops.kernels) == count


def test_a_compiled_graph_seen_on_the_device_is_no_op(tmp_path: Path) -> None:
    name = "## Call CompiledFxGraph f1 ##"
    on_device = {**kernel(name, 10, 20), "cat": "gpu_user_annotation"}
    ops = ops_of(tmp_path, range_(name, 0, 9), launch(1, 2), on_device, kernel("triton_poi_fused_add_0", 11, 5, 1))
    assert [ops.name(row) for row in range(len(ops))] == [name]
    assert ops.kernel_op.tolist() == [0]
