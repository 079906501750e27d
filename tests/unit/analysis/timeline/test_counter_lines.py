"""Sampled counters below the streams of their device."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.model.timeline import STREAM, CounterLine, StepTimeline
from perfkit.analysis.timeline import counter_lines
from perfkit.analysis.timeline.column_packing import sum_differences, unpack_column
from perfkit.analysis.timeline.counter_lines import build_counter_lines
from perfkit.trace.model import CounterSamples
from tests.fixtures.step_timelines import steps_of
from tests.fixtures.traces import Event, kernel, launch, mark, op


def sample(name: str, device: int, at: float, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": f"GPU {device} Counters", "ts": at, "args": {"": value}}


def list_times(line: CounterLine) -> list[int]:
    return sum_differences(unpack_column(line.time_ns)).tolist()


def make_step(folder: Path, *samples: Event) -> StepTimeline:
    other = kernel("k", 2, 60, 10)
    other["args"]["device"] = 1
    work = [op("aten::a", 0, 30), launch(1, 5), launch(2, 8), kernel("k", 1, 10, 10), other]
    return steps_of(folder, [mark("ProfilerStep#1", 0, 100), *work, *samples])[0]


def test_a_line_lies_below_the_last_stream_of_its_device(tmp_path: Path) -> None:
    clocks = [sample("Power (W)", device, at, 300 + at) for device in (0, 1) for at in (20, 40)]
    step = make_step(tmp_path, *clocks)
    streams = [place for place, lane in enumerate(step.lanes) if lane.kind == STREAM]
    assert [(line.name, line.unit, line.below) for line in step.counters] == [
        ("device 0, Power (W)", "W", streams[0]),
        ("device 1, Power (W)", "W", streams[1]),
    ]
    assert [list_times(line) for line in step.counters] == [[20_000, 40_000]] * 2
    assert step.counters[0].value == (320.0, 340.0)


def test_the_last_sample_before_the_step_holds_into_it_and_none_holds_through_a_pause(tmp_path: Path) -> None:
    step = make_step(tmp_path, *(sample("Cycles (Current Kernel)", 0, at, at) for at in (-25, -10, 5, 20, 90)))
    (line,) = step.counters
    assert list_times(line) == [-10_000, 5_000, 20_000, 90_000]
    assert (line.holds_ns, line.unit, line.samples) == (30_000, "", 4)


def test_a_counter_without_a_second_sample_has_no_line(tmp_path: Path) -> None:
    assert make_step(tmp_path, sample("Power (W)", 0, 20, 300)).counters == ()


def test_too_many_samples_become_means_of_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_lines, "_MOST", 4)
    time = np.arange(8) * 10
    samples = CounterSamples(("x",), np.zeros(8, np.int32), np.zeros(8, np.int64), time, np.arange(8.0))
    (line,) = build_counter_lines(samples, [], 0, 80)
    assert (list_times(line), line.value) == ([0, 20, 40, 60], (0.5, 2.5, 4.5, 6.5))
    assert (line.samples, line.below) == (8, -1)
