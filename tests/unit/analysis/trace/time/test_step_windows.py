"""When steps ran; times in microseconds."""

from pathlib import Path

from perfkit.analysis.trace.time.host_times import find_backlog
from perfkit.analysis.trace.time.step_windows import StepWindows, find_step_windows
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def read(tmp_path: Path, events: list[Event]) -> Ops:
    return read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))


def microseconds(found: StepWindows) -> list[list[int]]:
    return ((found.spans - found.span[0]) // 1000).tolist()


def launched(number: int, at: float, start: float, duration: float) -> list[Event]:
    return [op("aten::mm", at, 4), launch(number, at + 1), kernel("gemm", number, start, duration)]


def test_on_a_cpu_a_step_is_its_range(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 40),
        op("aten::mm", 5, 5),
        mark("ProfilerStep#2", 60, 40),
        op("aten::mm", 65, 5),
    ]
    assert microseconds(find_step_windows(read(tmp_path, events))) == [[0, 40], [60, 100]]


def test_a_step_without_ops_is_none(tmp_path: Path) -> None:
    # torch.profiler leaves one open when it stops.
    events = [mark("ProfilerStep#1", 0, 40), op("aten::mm", 5, 5), mark("ProfilerStep#2", 41, 2)]
    assert find_step_windows(read(tmp_path, events)).number.tolist() == [1]


def test_a_device_that_lags_behind_ends_a_step_with_its_last_kernel(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 40),
        *launched(1, 5, 10, 50),
        mark("ProfilerStep#2", 40, 40),
        *launched(2, 45, 60, 70),
    ]
    assert microseconds(find_step_windows(read(tmp_path, events))) == [[0, 60], [60, 130]]


def test_a_device_that_waits_begins_a_step_with_the_host(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 40),
        *launched(1, 5, 10, 5),
        mark("ProfilerStep#2", 50, 40),
        *launched(2, 55, 60, 5),
    ]
    assert microseconds(find_step_windows(read(tmp_path, events))) == [[0, 50], [50, 90]]


def test_work_from_before_the_recording_is_no_part_of_the_first_step(tmp_path: Path) -> None:
    ops = read(tmp_path, [kernel("old", 9, 0, 20), mark("ProfilerStep#1", 5, 40), *launched(1, 10, 25, 30)])
    assert find_backlog(ops).tolist() == [True, False]
    assert microseconds(find_step_windows(ops)) == [[20, 55]]


def test_where_hardly_any_launch_was_recorded_nothing_is_taken_for_older(tmp_path: Path) -> None:
    events = [kernel("old", 9, 6, 60), mark("ProfilerStep#1", 0, 100), *launched(1, 10, 70, 10)]
    ops = read(tmp_path, events)
    assert not find_backlog(ops).any()
    assert microseconds(find_step_windows(ops)) == [[0, 100]]


def test_without_steps_the_whole_trace_is_one_window(tmp_path: Path) -> None:
    found = find_step_windows(read(tmp_path, [op("aten::mm", 10, 5), op("aten::add", 40, 5)]))
    assert (found.are_steps, microseconds(found)) == (False, [[0, 35]])
    assert len(find_step_windows(read(tmp_path, []))) == 0
