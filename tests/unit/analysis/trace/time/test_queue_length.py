"""The queue length of streams; times in microseconds, one step of 240."""

from pathlib import Path

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def analyzed(tmp_path: Path, events: list[Event]) -> RankTrace:
    path = write_trace(tmp_path / "t.json.gz", [mark("ProfilerStep#1", 0, 240), op("aten::mm", 0, 230), *events])
    return analyze_trace(read_trace(path), None)


def test_work_is_queued_from_its_launch_to_its_end(tmp_path: Path) -> None:
    events = [
        *(launch(1, 20), kernel("gemm", 1, 40, 60)),  # 20 to 100
        *(launch(2, 30), kernel("gemm", 2, 100, 20)),  # 30 to 120
        *(launch(3, 150), kernel("gemm", 3, 160, 80)),  # 150 to 240, the end
        *(launch(4, 60), kernel("copy", 4, 70, 110, stream=9)),  # 60 to 180
    ]
    trace = analyzed(tmp_path, events)
    first, second = trace.queues
    assert (first.stream, first.launched, first.without_launch) == ("7", 3, 0)
    assert first.mean == pytest.approx((80 + 90 + 90) / 240)
    assert (first.median, first.most) == (1, 2)
    assert first.empty_share == pytest.approx(50 / 240)  # 0 to 20, 120 to 150
    assert (second.stream, second.mean, second.most) == ("9", pytest.approx(0.5), 1)
    series = trace.queue_series
    assert series is not None
    assert (series.begin_s, series.interval_s, len(series.mean)) == (0.0, pytest.approx(1e-6), 240)
    assert (series.mean[10], series.mean[25], series.mean[65], series.mean[110]) == (0, 1, 3, 2)
    assert sum(series.mean) / 240 == pytest.approx(first.mean + second.mean)
    assert (max(series.most), series.most[19], series.most[20]) == (3, 0, 1)


def test_what_had_no_launch_recorded_is_left_out(tmp_path: Path) -> None:
    events = [
        launch(1, 20),
        kernel("gemm", 1, 40, 60),
        kernel("gemm", 2, 100, 20),
        launch(3, 130),
        kernel("gemm", 3, 140, 100),
    ]
    (queue,) = analyzed(tmp_path, events).queues
    assert (queue.launched, queue.without_launch) == (2, 1)
    assert queue.mean == pytest.approx((80 + 110) / 240)


def test_without_launches_nothing_is_known(tmp_path: Path) -> None:
    trace = analyzed(tmp_path, [kernel("gemm", 1, 40, 60)])
    assert (trace.queues, trace.queue_series) == ((), None)
