"""Steps unlike the others; times in microseconds."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from perfkit.analysis.model.step import OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.analysis.trace.time.outlier_steps import find_outlier_steps
from perfkit.trace.readers.trace_reader import read_trace
from perfkit_reports.subjects.trace.tiles import build_tiles
from perfkit_reports.subjects.trace.trace_headline import build_headline
from tests.fixtures import sample_trace_analysis
from tests.fixtures.figures import list_figures
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


@pytest.mark.parametrize(
    ("lengths", "far"),
    [
        ([1174, 3.3, 2.4], [True, False, False]),
        ([10, 10, 35, 10, 10, 10], [False, False, True, False, False, False]),
        ([30, 10], [False, False]),  # three times is not yet far
        ([31, 10], [True, False]),
        ([10, 31], [False, False]),  # of two steps only the first can be the odd one
        ([5000], [False]),
        ([], []),
        ([90, 10, 90, 10, 90], [False] * 5),  # two kinds of steps
        ([90, 90, 10, 10, 10, 10], [True, True, False, False, False, False]),
        ([10, 10, 10, 70, 10, 10, 10, 70, 10, 10, 10, 70], [False] * 12),  # recurs
        ([400, 10, 10, 70, 10, 10, 10, 70, 10, 10], [True] + [False] * 9),  # the first is no such step
        ([70, 10, 10, 10, 70, 10, 10, 10, 70, 10], [False] * 10),  # the first is
    ],
)
def test_first_steps_and_a_single_accident_are_outliers(tmp_path: Path, lengths: list[float], far: list[bool]) -> None:
    trace = read_trace(write_trace(tmp_path / "t.json.gz", []))
    ends = np.cumsum(np.asarray([round(each * 1e6) for each in lengths], np.int64))
    spans = np.column_stack((ends - np.diff(ends, prepend=0), ends))
    assert find_outlier_steps(spans, trace).tolist() == far


def test_steps_that_compile_are_outliers_however_many(tmp_path: Path) -> None:
    ends = np.cumsum([10, 10, 60, 10, 55, 10, 10]) * 1_000_000
    spans = np.column_stack((ends - np.diff(ends, prepend=0), ends))
    recompiles = [mark("_compile.compile_inner (dynamo_timed)", at * 1000, 45_000) for at in (21, 91)]
    trace = read_trace(write_trace(tmp_path / "t.json.gz", [mark("ProfilerStep#0", 0, 10_000), *recompiles]))
    assert find_outlier_steps(spans, trace).tolist() == [False, False, True, False, True, False, False]


def steps(*lengths: float, compiling: float = 0.0) -> list[Event]:
    """Steps each with a product of 100 us at its end; the first compiles for so long."""
    events: list[Event] = [mark("entire_frame_compile (dynamo_timed)", 10, compiling)] if compiling else []
    at = 0.0
    for number, length in enumerate(lengths, start=1):
        start = at + length - 120
        events += [
            mark(f"ProfilerStep#{number}", at, length),
            op("aten::mm", start, 20, [(64, 64), (64, 64)]),
            launch(number, start + 5),
            kernel("gemm", number, start + 20, 100),
        ]
        at += length
    return events


def analysed(tmp_path: Path, events: list[Event]) -> RankTrace:
    return analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", events)), None)


def test_figures_per_step_are_of_like_steps(tmp_path: Path) -> None:
    result = analysed(tmp_path, steps(1_174_000, 3300, 2400, compiling=900_000))
    assert [step.number for step in result.steps] == [2, 3]
    assert result.step_s == pytest.approx(2850e-6)
    (first,) = result.outlier_steps
    assert (first.number, first.seconds) == (1, pytest.approx(1.174))
    assert first.compiling_s == pytest.approx(0.9)
    assert sum(part.seconds for part in first.time_split) == pytest.approx(first.seconds)
    assert sum(part.seconds for part in result.time_split) == pytest.approx(result.step_s)
    assert {row.phase: row.calls for row in result.ops} == {
        "forward": 1.0,
        OUTSIDE: 0.5,
    }  # the first step's stays in sight
    assert result.outside_steps_s == pytest.approx(1.174, rel=1e-3)


def test_the_headline_has_the_typical_step_and_the_outlier_is_told_as_one(tmp_path: Path) -> None:
    result = analysed(tmp_path, steps(1_174_000, 3300, 2400, compiling=900_000))
    analysis = msgspec.structs.replace(sample_trace_analysis.alone(), traces=(result,))
    assert list_figures(build_headline(analysis))[-1] == "2.85 ms"
    detail = next(iter(build_tiles(analysis))).cell.detail or ""
    assert list_figures(detail) == ["2", "2.40 ms", "3.30 ms", "1", "1.17 s"]
    (finding,) = [each for each in collect_trace_findings((result,), None, None) if each.id == "limit.outlier_steps"]
    assert finding.figures == {
        "steps": 1, "longest_s": pytest.approx(1.174), "ratio": pytest.approx(1.174 / 2850e-6),
    }  # fmt: skip
    assert "900 ms" in finding.evidence
    assert "schedule(" in finding.action


def test_an_outlier_in_the_middle_is_something_to_look_at(tmp_path: Path) -> None:
    result = analysed(tmp_path, steps(1000, 1000, 9000, 1000))
    (finding,) = [each for each in collect_trace_findings((result,), None, None) if each.id == "limit.outlier_steps"]
    assert finding.figures == {"steps": 1, "longest_s": pytest.approx(0.009), "ratio": pytest.approx(9)}
    assert "Step 3" in finding.title
    assert "schedule(" not in finding.action


def test_stalls_that_recur_are_in_the_mean_the_headline_and_the_gain(tmp_path: Path) -> None:
    events: list[Event] = []
    at = 0.0
    for number in range(12):
        wait = 9_000.0 if number % 3 == 1 else 60.0
        events += [
            mark(f"ProfilerStep#{number}", at, wait + 1_500),
            mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at + 5, wait),
            op("aten::mm", at + wait + 10, 20, [(64, 64), (64, 64)]),
            launch(number + 1, at + wait + 15),
            kernel("gemm", number + 1, at + wait + 25, 1_400),
        ]
        at += wait + 1_500
    result = analysed(tmp_path, events)
    mean = (4 * 10_500 + 8 * 1_560) / 12 * 1e-6
    assert (len(result.steps), result.outlier_steps) == (12, ())
    assert (result.step_s, result.median_step_s) == (pytest.approx(mean, rel=0.01), pytest.approx(1_560e-6, rel=0.02))
    assert TraceView(result, step_s=result.step_s).pace == 1.0  # all parts sum to the mean
    waiting = {part.category: part.seconds for part in result.time_split}["waiting for data"]
    assert waiting == pytest.approx((4 * 9_000 + 8 * 60) / 12 * 1e-6, rel=0.02)
    analysis = msgspec.structs.replace(sample_trace_analysis.alone(), traces=(result,))
    assert list_figures(build_headline(analysis))[-2:] == ["4.54 ms", "1.56 ms"]
    (finding,) = [each for each in collect_trace_findings((result,), None, None) if each.id == "data.starved"]
    assert finding.figures["wait_s"] == pytest.approx(waiting, rel=0.01)


def test_a_wait_that_began_in_an_outlier_counts_only_within_the_other_steps(tmp_path: Path) -> None:
    events = [*steps(20_000, 1_000, 1_000, 1_000)]
    # The device still runs the first step when the host fetches: from 19.9 to 20.6 ms, of which 600 us are idle.
    events.append(mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 19_900, 700))
    result = analysed(tmp_path, events)
    (row,) = [row for row in result.host_calls if row.kind == "data"]
    assert [step.number for step in result.outlier_steps] == [1]
    assert row.idle_s == pytest.approx(600e-6 / 3)
    waiting = {part.category: part.seconds for part in result.time_split}["waiting for data"]
    assert waiting == pytest.approx(row.idle_s)


def test_the_data_wait_of_an_outlier_is_told(tmp_path: Path) -> None:
    fetch = mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 1_000, 15_000)
    result = analysed(tmp_path, [*steps(1_000, 20_000, 1_000, 1_000), fetch])
    (step,) = result.outlier_steps
    assert {part.category: part.seconds for part in step.time_split}["waiting for data"] == pytest.approx(0.015)
