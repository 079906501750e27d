"""Steps unlike the others; times in microseconds."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from perfkit.analysis.model.step import OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
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
    ],
)
def test_what_takes_more_than_three_times_a_typical_step_is_unlike_it(lengths: list[float], far: list[bool]) -> None:
    assert find_outlier_steps(np.asarray([round(each * 1e6) for each in lengths], np.int64)).tolist() == far


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
    assert build_headline(analysis).startswith("Step 2.85 ms on")
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
