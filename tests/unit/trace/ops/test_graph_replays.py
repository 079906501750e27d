from pathlib import Path

from perfkit.trace.ops.call_counts import count_replayed_kernels
from perfkit.trace.ops.graph_replays import find_graph_replays
from perfkit.trace.ops.ops import Ops
from tests.fixtures.trace_events import event, kernel, launch, ops_of, range_


def two_steps(tmp_path: Path, *events: dict[str, object]) -> Ops:
    return ops_of(tmp_path, range_("ProfilerStep#1", 0, 100), range_("ProfilerStep#2", 100, 100), *events)


def test_kernels_of_graphs_within_steps(tmp_path: Path) -> None:
    ops = two_steps(
        tmp_path,
        launch(1, 10, "cudaGraphLaunch"),
        kernel("gemm", 20, 5, 1),
        kernel("gemm", 25, 5, 1),
        event("aten::add", 40, 5),
        launch(2, 41),
        kernel("add", 50, 5, 2),
        launch(3, 110, "hipGraphLaunch"),
        kernel("gemm", 120, 5, 3),
        launch(4, 300, "cudaGraphLaunch"),  # outside of the steps
        kernel("gemm", 310, 5, 4),
    )
    found = find_graph_replays(ops)
    assert (found.launches, found.lost, bool(found)) == (2, 0, True)
    assert count_replayed_kernels(ops, found) == {"gemm": 1.5}


def test_a_replay_without_kernels_is_lost(tmp_path: Path) -> None:
    found = find_graph_replays(
        two_steps(tmp_path, launch(1, 10, "cuGraphLaunch"), launch(2, 30), kernel("add", 50, 5, 2))
    )
    assert (found.launches, found.lost, found.kernels.tolist()) == (1, 1, [False])


def test_kernels_without_a_launch_are_of_graphs_where_there_are_some(tmp_path: Path) -> None:
    """As CUPTI leaves them that numbers the launches of graphs wrongly."""
    loose = kernel("gemm", 20, 5, 77)
    assert find_graph_replays(two_steps(tmp_path, launch(1, 10, "cudaGraphLaunch"), loose)).kernels.tolist() == [True]
    assert find_graph_replays(two_steps(tmp_path, launch(1, 10), loose)).kernels.tolist() == [False]


def test_phases_of_replayed_kernels_are_those_of_their_launch(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        range_("ProfilerStep#1", 0, 100),
        range_("perfkit::forward", 0, 50),
        range_("perfkit::backward", 50, 50),
        launch(1, 10, "cudaGraphLaunch"),
        kernel("forward", 60, 5, 1),
        launch(2, 60, "cudaGraphLaunch"),
        kernel("backward", 70, 5, 2),
        {**kernel("Memset (Device)", 76, 1, 2), "cat": "gpu_memset"},
    )
    assert count_replayed_kernels(ops, find_graph_replays(ops), "backward") == {"backward": 1.0}
