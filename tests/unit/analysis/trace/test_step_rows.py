"""The length of steps on the device, beside that of their marks; times in microseconds."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from perfkit_reports.subjects.trace.tiles import build_tiles
from tests.fixtures import sample_trace_analysis
from tests.fixtures.figures import list_figures
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def analyze(tmp_path: Path, events: list[Event]) -> RankTrace:
    return analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", events)), None)


def list_step_figures(trace: RankTrace) -> list[str]:
    analysis = msgspec.structs.replace(sample_trace_analysis.alone(), traces=(trace,))
    return list_figures(next(iter(build_tiles(analysis))).cell.detail or "")


def test_the_mark_is_shown_where_the_device_bounds_the_step_otherwise(tmp_path: Path) -> None:
    older = kernel("old", 9, 0, 20)  # launched before the recording
    events = [older, mark("ProfilerStep#1", 5, 80), op("aten::mm", 10, 4), launch(1, 11), kernel("gemm", 1, 25, 40)]
    trace = analyze(tmp_path, events)
    assert (trace.step_s, trace.marked_step_s) == (pytest.approx(65e-6), pytest.approx(80e-6))
    assert list_step_figures(trace) == ["80.0 us"]
    assert list_step_figures(analyze(tmp_path, events[1:])) == []


def test_on_a_cpu_steps_are_their_marks(tmp_path: Path) -> None:
    trace = analyze(tmp_path, [mark("ProfilerStep#1", 5, 80), op("aten::mm", 10, 40)])
    assert (trace.step_s, trace.marked_step_s) == (pytest.approx(80e-6), None)
