"""Launches without a kernel, with times in microseconds."""

import json
from pathlib import Path

import pytest

from perfkit.analysis.model.step import LostKernels
from perfkit.analysis.trace.time.lost_kernels import count_lost_kernels
from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.analysis.trace.time.unrecorded_time import find_unrecorded_time
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

SYNC = "cudaDeviceSynchronize"


def call(name: str, start: float, correlation: int = 0, *, thread: int = 1, duration: float = 1) -> Event:
    return {**launch(correlation, start, duration), "name": name, "tid": thread}


def pair(number: int, at: float, *, stream: int = 7) -> list[Event]:
    return [launch(number, at), kernel("gemm", number, at + 3, 5.5, stream=stream)]


def found(folder: Path, events: list[Event], **members: object) -> LostKernels | None:
    path = folder / "t.json"
    path.write_text(json.dumps({"traceEvents": [op("aten::mm", 0, 1), *events], **members}))
    ops = read_ops(read_trace(path))
    return count_lost_kernels(ops, find_step_windows(ops))


def lost(folder: Path, events: list[Event]) -> tuple[int, int]:
    """How many were launched, and lost."""
    told = found(folder, events)
    assert told is not None
    return told.launched, told.lost


BEFORE, AFTER = pair(1, 10), pair(9, 90)


def test_nothing_is_lost(tmp_path: Path) -> None:
    assert lost(tmp_path, [*BEFORE, *AFTER]) == (2, 0)


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel",
     "cudaLaunchKernel_v7000", "hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel",
     "cudaGraphLaunch"],
)  # fmt: skip
def test_a_launch_that_has_to_leave_a_record(name: str, tmp_path: Path) -> None:
    assert lost(tmp_path, [*BEFORE, call(name, 50, 5), *AFTER]) == (3, 1)


@pytest.mark.parametrize(
    "name",
    ["cudaMemsetAsync", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamSynchronize", "cudaStreamIsCapturing",
     "cudaFuncGetAttributes", "cudaLaunchHostFunc", "hipGraphLaunch", "cudaGraphInstantiate"],
)  # fmt: skip
def test_a_call_that_may_leave_none(name: str, tmp_path: Path) -> None:
    assert lost(tmp_path, [*BEFORE, call(name, 50, 5), *AFTER]) == (2, 0)


@pytest.mark.parametrize("ts", [55.25, 0])
def test_a_record_without_a_time_stretches_nothing(ts: float, tmp_path: Path) -> None:
    late = [{**each, "ts": each["ts"] + 1e6} for each in [*BEFORE, launch(5, 50), *AFTER]]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [op("aten::mm", 1e6, 1), *late, kernel("gemm", 5, ts, 0)]}))
    trace = read_trace(path)
    ops = read_ops(trace)
    spans = find_step_windows(ops)
    told = count_lost_kernels(ops, spans)
    assert (trace.untimed.correlation.tolist(), len(ops.kernels)) == ([5], 2)
    assert spans.span == (1_000_000_000, 1_000_098_500)
    assert told is not None
    assert (told.launched, told.lost, told.without_time) == (3, 1, 1)
    assert ("reading.untimed", {"count": 1}) in [(note.id, note.figures) for note in trace.notes]


def test_whole_microseconds_may_be_rounded_to_none(tmp_path: Path) -> None:
    events = [launch(1, 10), kernel("gemm", 1, 13, 5), launch(2, 50), kernel("tiny", 2, 53, 0), launch(3, 60)]
    assert lost(tmp_path, [*events, kernel("gemm", 3, 63, 5)]) == (3, 0)


def test_outside_of_the_steps_nothing_counts(tmp_path: Path) -> None:
    steps = [
        mark("ProfilerStep#1", 40, 30),
        op("aten::mm", 41, 20),
        mark("ProfilerStep#2", 70, 40),
        op("aten::mm", 71, 9),
    ]
    events = [*BEFORE, launch(2, 20), launch(5, 50), *pair(6, 58), *AFTER]
    assert lost(tmp_path, [*steps, *events]) == (3, 1)


def test_steps_of_which_most_is_lost_are_excluded_as_a_whole(tmp_path: Path) -> None:
    steps = [
        each
        for number in (1, 2)
        for each in (mark(f"ProfilerStep#{number}", 40 * number, 40), op("aten::mm", 40 * number, 20))
    ]
    assert lost(tmp_path, [*steps, *BEFORE, launch(5, 50), launch(6, 52), *pair(7, 54), *AFTER]) == (1, 0)


class TestTheEnd:
    """What was launched last may not have run when the recording ended."""

    LATE = [launch(10, 100), launch(11, 101)]

    def test_cut(self, tmp_path: Path) -> None:
        assert lost(tmp_path, [*BEFORE, *AFTER, *self.LATE]) == (2, 0)

    def test_waited_for(self, tmp_path: Path) -> None:
        assert lost(tmp_path, [*BEFORE, *AFTER, *self.LATE, call(SYNC, 110)]) == (4, 2)

    def test_another_stream_ran_ahead(self, tmp_path: Path) -> None:
        assert lost(tmp_path, [*BEFORE, *AFTER, *self.LATE, *pair(12, 102, stream=20)]) == (3, 0)


class TestCaptures:
    def test_what_is_captured_does_not_run(self, tmp_path: Path) -> None:
        begin, end = call("cudaStreamBeginCapture", 40), call("cudaStreamEndCapture", 60)
        other = {**launch(6, 55), "tid": 2}  # the backward pass of what is captured
        assert lost(tmp_path, [*BEFORE, begin, launch(5, 50), other, end, launch(7, 70), *AFTER]) == (3, 1)

    def test_what_hip_captures_does_not_run_either(self, tmp_path: Path) -> None:
        inside = [call("hipStreamBeginCapture", 40), call("hipLaunchKernel", 45, 5), call("hipStreamEndCapture", 60)]
        assert lost(tmp_path, [*BEFORE, *inside, *AFTER]) == (2, 0)

    def test_a_capture_that_began_before_the_recording(self, tmp_path: Path) -> None:
        assert lost(tmp_path, [launch(5, 5), call("cudaStreamEndCapture", 8), *BEFORE, *AFTER]) == (2, 0)


class TestGraphs:
    @staticmethod
    def graph(number: int, at: float, kernels: int) -> list[Event]:
        return [
            call("cudaGraphLaunch", at, number),
            *(kernel("gemm", number, at + 2 + 2 * each, 1.5) for each in range(kernels)),
        ]

    def test_a_launch_without_kernels_is_as_many_as_the_others_have(self, tmp_path: Path) -> None:
        events = [*self.graph(1, 10, 3), *self.graph(2, 30, 0), *self.graph(3, 50, 3)]
        assert lost(tmp_path, events) == (9, 3)

    def test_ids_that_are_mixed_up_are_no_loss(self, tmp_path: Path) -> None:
        events = [*self.graph(1, 30, 0), *(kernel("gemm", 900 + each, 40 + 3 * each, 2.5) for each in range(3))]
        told = found(tmp_path, [*BEFORE, *events, *AFTER], cupti_version=130000)
        assert told is not None
        assert (told.lost, told.mixed_up_graphs, told.profiler, told.known_fault) == (0, 1, "CUPTI 13.0", True)


def test_a_drivers_call_within_the_runtimes_is_part_of_it(tmp_path: Path) -> None:
    nested = [call("cudaLaunchKernel", 50, 5, duration=8), call("cuLaunchKernel", 52, 6), kernel("gemm", 6, 60, 2.5)]
    assert lost(tmp_path, [*BEFORE, *nested, *AFTER]) == (3, 0)


def test_a_process_of_which_nothing_was_recorded(tmp_path: Path) -> None:
    other = [{**launch(5, 50), "pid": 2}, {**launch(6, 60), "pid": 2}]
    assert lost(tmp_path, [*BEFORE, *other, *AFTER]) == (2, 0)


def test_without_ids_nothing_tells(tmp_path: Path) -> None:
    bare = [{**each, "args": {"device": 0, "stream": 7}} for each in [*BEFORE, *AFTER]]
    assert found(tmp_path, bare) is None
    assert found(tmp_path, [launch(1, 10), launch(2, 20)]) is None


@pytest.mark.parametrize("duration", [0, -7])
def test_a_kernel_without_a_duration_is_told_by_its_like(duration: float, tmp_path: Path) -> None:
    # All times are whole microseconds; the kernel takes 40 elsewhere, so that nothing was rounded to none.
    events = [
        op("aten::mm", 0, 500),
        launch(1, 10), kernel("gemm", 1, 20, 40),
        launch(2, 70), kernel("gemm", 2, 80, duration),
        launch(3, 300), kernel("gemm", 3, 310, 40),
    ]  # fmt: skip
    trace = read_trace(write_trace(tmp_path / "t.json.gz", events))
    ops = read_ops(trace)
    told = count_lost_kernels(ops, find_step_windows(ops))
    assert told is not None
    assert (told.launched, told.without_time) == (3, 1)
    # It may have run as long as its like do; what comes after is idle time.
    hidden = (find_unrecorded_time(ops) - int(trace.start_ns.min())) // 1000
    assert hidden.tolist() == [[0, 20], [80, 120]]


def hidden_us(folder: Path, events: list[Event]) -> list[list[int]]:
    ops = read_ops(read_trace(write_trace(folder / "t.json", [op("aten::mm", 0, 1), *events])))
    return ((find_unrecorded_time(ops) - int(ops.trace.start_ns.min())) // 1000).tolist()


def test_what_a_device_did_after_many_lost_launches_is_not_known(tmp_path: Path) -> None:
    events = [*pair(1, 12), call("cudaLaunchKernel", 40, 5), call("cudaLaunchKernel", 61, 6), *pair(9, 90)]
    # Until a kernel begins that was launched later: 3 us after its launch.
    assert hidden_us(tmp_path, events) == [[0, 15], [40, 93]]


def test_the_wait_for_the_device_ends_what_is_not_known(tmp_path: Path) -> None:
    events = [*pair(1, 12), call("cuLaunchKernel", 40, 5), call(SYNC, 50, duration=7), *pair(9, 90)]
    assert hidden_us(tmp_path, events) == [[0, 15], [40, 57]]


@pytest.mark.parametrize(("launches", "hidden"), [(40, [[0, 13], [105, 113]]), (1100, [[0, 13]])])
def test_one_lost_launch_hides_little_or_is_too_few(launches: int, hidden: list[list[int]], tmp_path: Path) -> None:
    events = [event for number in range(1, launches + 1) for event in pair(number, 10 * number)]
    assert hidden_us(tmp_path, [*events, call("cudaLaunchKernel", 105, 7777)]) == hidden
