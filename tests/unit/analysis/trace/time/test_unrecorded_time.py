"""When nothing tells whether a device was idle; times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.model.time_split import IDLE_QUEUED, NO_ESTIMATE, WAITING_FOR_CPU
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def call(name: str, start: float, duration: float, correlation: int = 0) -> Event:
    return {**launch(correlation, start, duration), "name": name}


def analysed(tmp_path: Path, events: list[Event]) -> RankTrace:
    return analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", events)), None)


def parts(result: RankTrace) -> dict[str, float]:
    """Microseconds of the parts that are there."""
    return {part.category: round(part.seconds * 1e6, 3) for part in result.time_split if part.seconds}


STEP = [mark("ProfilerStep#1", 0, 200), op("aten::mm", 0, 195)]


def test_before_the_first_recorded_kernel_the_device_may_have_worked(tmp_path: Path) -> None:
    result = analysed(
        tmp_path, [*STEP, launch(1, 10), kernel("gemm", 1, 80, 20), launch(2, 105), kernel("gemm", 2, 110, 90)]
    )
    assert parts(result) == {
        "not recorded": 80, NO_ESTIMATE: 110, WAITING_FOR_CPU: 6, IDLE_QUEUED: 4,
    }  # fmt: skip
    assert result.launches is not None
    assert result.launches.idle_s == pytest.approx(10e-6)


def test_once_the_host_has_waited_for_the_device_what_follows_is_idle_time(tmp_path: Path) -> None:
    events = [*STEP, call("cudaDeviceSynchronize", 10, 20), launch(1, 60), kernel("gemm", 1, 80, 120)]
    assert parts(analysed(tmp_path, events)) == {
        "not recorded": 30, NO_ESTIMATE: 120,
        WAITING_FOR_CPU: 31, IDLE_QUEUED: 19,
    }  # fmt: skip


def pieces_of_graphs(*, wait: float = 0) -> list[Event]:
    """As a server of language models replays a model in pieces: attention is recorded, the graphs between are not."""
    return [
        mark("execute_context_0(0)_generation_4(4)", 0, 200),
        op("vllm::unified_attention", 0, 5),
        launch(1, 1),
        kernel("kernel_unified_attention_2d", 1, 5, 10),
        call("hipGraphLaunch", 8, 2, 2),  # runs from 15 to 90, unseen
        launch(3, 12),
        kernel("kernel_unified_attention_2d", 3, 90, 10),
        call("hipGraphLaunch", 14, 2, 4),  # runs from 100 on, unseen
        call("hipEventSynchronize", 20, 150),
        *([call("hipDeviceSynchronize", 175, wait)] if wait else []),
        launch(5, 195),
        kernel("sampled", 5, 199, 1),
    ]


def test_while_a_graph_without_recorded_kernels_may_run_nothing_is_known(tmp_path: Path) -> None:
    result = analysed(tmp_path, pieces_of_graphs())
    assert parts(result) == {"not recorded": 5 + 75 + 99, NO_ESTIMATE: 21}
    assert result.launches is not None
    assert (result.launches.idle_s, result.launches.short_gap_s) == (0, 0)
    assert [row.idle_s for row in result.host_calls] == [0]


def test_a_graph_is_over_once_the_host_has_waited_for_the_whole_device(tmp_path: Path) -> None:
    found = parts(analysed(tmp_path, pieces_of_graphs(wait=5)))
    assert (found["not recorded"], found[WAITING_FOR_CPU]) == (5 + 75 + 80, 16)


def test_a_graph_with_kernels_and_one_that_the_driver_starts_for_the_runtime_hide_nothing(tmp_path: Path) -> None:
    events = [
        *STEP,
        launch(1, 1),
        kernel("gemm", 1, 5, 10),
        call("cudaGraphLaunch", 20, 5, 2),
        call("cuGraphLaunch", 21, 3, 3),
        kernel("gemm", 2, 40, 160),
    ]
    assert parts(analysed(tmp_path, events)) == {
        "not recorded": 5, NO_ESTIMATE: 170, WAITING_FOR_CPU: 10, IDLE_QUEUED: 15,
    }  # fmt: skip


def test_graphs_whose_kernels_are_there_under_another_id_hide_nothing(tmp_path: Path) -> None:
    events = [
        *STEP,
        launch(1, 1),
        kernel("gemm", 1, 5, 10),
        call("cudaGraphLaunch", 20, 5, 2),
        kernel("gemm", 77, 40, 160),
    ]
    assert parts(analysed(tmp_path, events))["not recorded"] == 5
