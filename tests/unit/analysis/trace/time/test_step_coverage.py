"""Marked steps without records of the device; times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.trace.time.step_windows import StepWindows, find_step_windows
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

LAUNCHES = 4


def build_steps(count: int, host: float, device: float, *, recorded: set[int]) -> list[Event]:
    """Steps that take so long on the host and on the device, whose kernels are recorded in some."""
    events: list[Event] = []
    free = 0.0
    for step in range(count):
        at = step * host
        events.append(mark(f"ProfilerStep#{step}", at, host))
        for index in range(LAUNCHES):
            number, begin = step * LAUNCHES + index + 1, at + 1 + index * 5
            events += [op("aten::mm", begin, 4), launch(number, begin + 1)]
            start = max(free, begin + 8)
            free = start + device / LAUNCHES
            if step in recorded:
                events.append(kernel("gemm", number, start, device / LAUNCHES))
    return events


def windows(tmp_path: Path, events: list[Event]) -> StepWindows:
    return find_step_windows(read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events))))


def lengths(found: StepWindows) -> list[int]:
    return ((found.spans[:, 1] - found.spans[:, 0]) // 1000).tolist()


def test_a_step_behind_unrecorded_ones_does_not_have_their_time(tmp_path: Path) -> None:
    # The host is far ahead: steps of 100 us on the host, of 1000 on the device.
    found = windows(tmp_path, build_steps(12, 100, 1000, recorded={0, 1, 2, 7, 8, 10, 11}))
    assert found.unrecorded_number.tolist() == [3, 4, 5, 6, 9]
    assert found.number.tolist() == [0, 1, 2, 7, 8, 10, 11]
    assert lengths(found) == pytest.approx([1000] * 7, abs=10)


def test_a_device_that_waits_begins_the_step_with_the_host(tmp_path: Path) -> None:
    found = windows(tmp_path, build_steps(6, 500, 80, recorded={0, 1, 4, 5}))
    assert (found.unrecorded_number.tolist(), found.number.tolist()) == ([2, 3], [0, 1, 4, 5])
    assert lengths(found) == [500] * 4


def test_figures_are_of_the_recorded_steps_alone(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json.gz", build_steps(32, 120, 900, recorded={30, 31}))
    result = analyze_traces([path])
    (trace,) = result.traces
    assert (len(trace.steps), len(trace.unrecorded_steps), trace.outlier_steps) == (2, 30, ())
    assert trace.step_s == pytest.approx(900e-6, rel=0.02)
    assert trace.kernels_per_step == LAUNCHES
    assert trace.lost_kernels is not None
    assert trace.lost_kernels.lost == 0
    assert trace.gains is None or not trace.gains.by_finding
    (finding,) = [each for each in result.findings if each.id == "limit.unrecorded_steps"]
    assert finding.figures == {"steps": 30, "marked": 32}


def test_a_step_that_launches_nothing_is_one(tmp_path: Path) -> None:
    events = build_steps(2, 200, 50, recorded={0, 1})
    found = windows(tmp_path, [*events, mark("ProfilerStep#2", 400, 100), op("aten::cpu_only", 410, 50)])
    assert (found.number.tolist(), found.unrecorded_number.tolist()) == ([0, 1, 2], [])


def test_without_launches_a_step_without_kernels_is_unrecorded(tmp_path: Path) -> None:
    events: list[Event] = []
    for each in build_steps(5, 300, 60, recorded={0, 1, 2, 4}):
        if each["cat"] == "cpu_op":
            number = sum(other["cat"] == "cpu_op" for other in events) + 1
            events.append({**each, "args": {**each["args"], "External id": number}})
        elif each["cat"] == "kernel":
            number = each["args"]["correlation"]
            events.append({**each, "args": {**each["args"], "External id": number, "correlation": 1000 + number}})
        elif each["cat"] != "cuda_runtime":
            events.append(each)
    found = windows(tmp_path, events)
    assert (found.number.tolist(), found.unrecorded_number.tolist()) == ([0, 1, 2, 4], [3])


def test_a_step_of_launches_without_ops_is_marked(tmp_path: Path) -> None:
    events = build_steps(4, 300, 60, recorded={0, 1})
    late = [each for each in events if not (each["cat"] == "cpu_op" and each["ts"] >= 600)]
    found = windows(tmp_path, late)
    assert (found.number.tolist(), found.unrecorded_number.tolist()) == ([0, 1], [2, 3])
